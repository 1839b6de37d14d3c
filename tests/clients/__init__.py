"""The real Claude Code, Codex, Gemini CLI and opencode, driven without an account; they run only
when asked for.

    ./check clients            installs the clients if need be, and runs these tests

They need node, and once the network for several hundred megabytes.

`install.py` gets the programs, `servers.py` stands in for the models, `drive.py` runs the clients
in an empty home, `recording_hook.py` is a hook that tells what it was told. `gemini.py` and
`opencode.py` have all that concerns these two. `gated.py` is a repository with the gate in it,
`crew.py` the agents at work there. `samples/` has what the real clients sent to it, one file for
each event. `leased.py` has all four clients without a hook, and every way in which each can write.
`mcp.py` gives a client the tools of MCP servers, of which `notes_server.py` is one.
"""
