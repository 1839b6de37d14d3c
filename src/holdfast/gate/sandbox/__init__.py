"""The sandbox: a command that can write only what it was given.

The kernel keeps it (Landlock, Linux 6.2 and later): without any privilege, for the command and
for everything that it starts, from the first instruction on and for ever. Only what changes files
is handled; reading and executing stay free. Open are

- the files of the grant: their content, not their names,
- a scratch folder, which is made for the command, is its TMPDIR, and is removed afterwards,
- what the user lists in the settings: caches, logs,
- devices that keep nothing: /dev/null, terminals,
- `.git`, if that is asked for.

    landlock     the system calls, what this kernel can do, and a ruleset
    places       what is to be opened: found, checked, and made where it is missing
    scratch      the scratch folder, and what a killed runner left behind
    service      the ledger for those inside: a socket of the runner, which is outside
    quarters     both, for a runner that has one command after the other
    box          all of it together, around one command
    starting     fork, restrict, execute
    signals      signals between a runner and its command
    nursery      a small process that does this for a runner with many commands
    spawning     the runner's side of it
    asking       the other end of that socket; small, because hooks use it
    gaps         what those inside wanted to write and may not, for the record

What is refused can be noticed, for those who attend to a command all the time:

    seccomp      the system calls of it: a filter that tells of some calls, and its listener
    noticing     which of them Landlock will have refused, and what the gap is
    standing_in  new files that stand in for the one which a tool is about to replace

The other way round, for a command below a broker (`holdfast.gate.broker`):

    closing      the complement: what has to be opened so that only some folders stay closed

What this does not promise: Landlock knows nothing of modes, owners, times and attributes, so
`chmod` and `touch` of a file work everywhere where the system lets them. Descriptors that were
open before stay open. And whoever can be asked to write (a daemon, a container engine) is outside.

May import manager and below, never cli.
"""

from __future__ import annotations

from holdfast.core.errors import HoldfastError

#: Where those inside find the runner's socket.
SOCKET_VARIABLE = "HOLDFAST_SOCKET"


class SandboxError(HoldfastError):
    """The sandbox cannot be made, or cannot be what was asked for."""

    code = "E_SANDBOX"
