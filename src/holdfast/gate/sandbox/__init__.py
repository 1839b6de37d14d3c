"""The sandbox: a command that can write only what it was granted.

The kernel enforces it (Landlock, Linux 6.2 and later): without any privilege, for the command and
for everything that it starts, from the first instruction until they end. Only operations that
change files are restricted; reading and executing are not. These are open:

- the files of the grant: their content, not their names,
- a scratch folder, which is created for the command, is its TMPDIR, and is removed afterwards,
- the files and folders that the user lists in the settings: caches, logs,
- devices that store nothing: /dev/null, terminals,
- `.git`, if requested.

    box             all of it together, around one command
    runner_client   the client of the runner's socket; small, because hooks import it

    kernel          the restrictions that the kernel enforces, and what they leave open
    starting        starting a restricted command, and its signals
    runner          the runner's side: the scratch folder, and the ledger's socket
    gaps            refused writes: detected, and recorded

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
