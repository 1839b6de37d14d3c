"""The broker: a command that leases what it writes, at the very write.

`holdfast run --lease -- COMMAND` runs any program, with nothing declared. The repository is closed
to it by Landlock, and the kernel tells the broker of every call that would open something to
write, change a name, a mode, an owner or a time (seccomp). For each call the broker

1. copies the path out of the caller's memory, and finds what it names, as the caller sees it,
2. takes the lease, or finds that another holder has it,
3. performs the call itself, on its own copy of the path, and hands the descriptor in.

Nothing lies between looking and doing, and whatever deceives the broker meets Landlock.

    system       the system calls: which are heard, which are refused, which the broker makes
    caller       the thread that waits: its memory, its descriptors, and whether it is still what
                 the command began as
    finding      what a path of the caller names: an open descriptor, and where that lies
    performing   what the calls share: the lease of a file, and how a call is answered
    opening      the calls that open a file to write, make it, or shorten it
    naming       the calls that make a name, give a file another one, or take one away
    folders      the rename of a folder, with all that is in it
    marking      modes, owners, times and attributes
    leases       what the command holds, what others hold, and what is old
    ahead        leases before the write, many at once, for a git that changes a tree
    waiting      calls that stand in line, with --wait
    agent_leases the same for a command of an agent, by the rules of the gate
    task_leases  the same for a task, which keeps them until it ends and can be undone
    where        where a path lies: outside, the ledger's, git's, or a file of a checkout
    kinds        which of those files git ignores
    controlling  control files: written aside, judged, and published as a copy
    gitsettings  which settings of git make it execute something
    including    files of a work tree that those include
    committed    which leased files a commit has made clean
    leftover     what the command left running, and which files that has open
    outside      the first calls, before the ledger is open
    serving      the loop that hears and answers
    assembly     all of these put together
    mounts       other ways to the same folder
    starting     what is closed to the command, and how it is started
    runner       the process that was called, and its line to the broker

Three processes: the runner, which waits as for any command; the broker, its child, which takes no
signal but the kernel's last one; and the command, the broker's child, in the runner's process
group. So the broker is an ancestor of all that it has to read, and the runner can end while
something is still running.

What this does not promise: see `docs/leases-at-the-write.md`. Descriptors that were open before,
or that are sent to a process outside, are not covered, nor is anything that a process outside is
asked to write.

Linux on x86_64 only. May import manager and below, and the sandbox; never cli.
"""
