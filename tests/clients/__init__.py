"""The real Claude Code, Codex, Gemini CLI and opencode, driven without an account; they run only
on request.

    ./check clients            installs the clients if need be, and runs these tests

They need node, and at the first run the network for several hundred megabytes.

`install.py` installs the programs, `servers.py` takes the place of the models, `drive.py` runs the
clients in an empty home, and `recording_hook.py` is a hook that records its input. `gemini.py` and
`opencode.py` have everything specific to these two. `gated.py` is a repository with the gate in it,
`crew.py` the agents that work there, `hosts.py` clones whose ledger is on a server. `samples/` has
the input that the real clients sent, one file for each event. `leased.py` has all four clients
without a hook, and every way in which each can write. `mcp.py` gives a client the tools of MCP
servers, of which `notes_server.py` is one.
"""
