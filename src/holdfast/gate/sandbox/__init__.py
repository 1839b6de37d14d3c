"""The sandbox: a command that can write only what it was granted.

The kernel enforces it (Landlock, Linux 6.2 and later): without any privilege, for the command and
for everything that it starts, from the first instruction until they end. Only operations that
change files are restricted; reading and executing are not. These are open:

- the files of the grant: their content, not their names,
- a scratch folder, which is created for the command, is its TMPDIR, and is removed afterwards,
- the files and folders that the user lists in the settings: caches, logs,
- devices that store nothing: /dev/null, terminals,
- `.git`, if requested.

    box               all of it together, around one command
    landlock          the system calls, what this kernel can do, and a ruleset
    open_places       the files and folders to open: found, checked, and created where missing
    scratch_folder    the scratch folder, and cleaning up after a killed runner
    ledger_socket     the ledger for processes inside: a socket of the runner, which is outside
    runner_folders    both, for a runner that starts one command after the other
    restricted_start  fork, restrict, execute
    signal_relay      signals between a runner and its command
    fork_server       a small process that starts the commands of a runner that has many
    fork_client       the runner's side of it
    runner_client     the client of the runner's socket; small, because hooks import it
    gap_records       records of the writes that a process inside wanted and may not do

For runners that attend to a command all the time, refused writes can be detected:

    seccomp        the system calls: a filter that reports some calls, and its listener
    denied_writes  which of those calls Landlock refused, and which path is the gap
    temp_names     names of new files with which a tool is about to replace another file

For a command below a broker (`holdfast.gate.broker`), which is restricted the other way round:

    complement     the files and folders to open so that only some folders stay closed

What this does not promise: Landlock does not handle modes, owners, times and attributes, so
`chmod` and `touch` work on any file where the system permits them. Descriptors that were open
before stay open. Programs outside that write on request (a daemon, a container engine) are not
covered.

May import manager and below, never cli.
"""

from __future__ import annotations

from holdfast.core.errors import HoldfastError

#: Where processes inside find the runner's socket.
SOCKET_VARIABLE = "HOLDFAST_SOCKET"


class SandboxError(HoldfastError):
    """The sandbox cannot be set up, or not as requested."""

    code = "E_SANDBOX"
