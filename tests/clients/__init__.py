"""The real Claude Code and Codex, driven without an account; not part of the main test run.

    pytest tests/clients            installs the clients if need be, and runs these tests

`install.py` gets the programs, `servers.py` stands in for the models, `drive.py` runs the clients
in an empty home, `recording_hook.py` is a hook that tells what it was told. `samples/` has what the
real clients sent to it, one file for each event.
"""
