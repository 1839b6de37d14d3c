"""The broker: leases every file that a command writes, at the moment of the write.

`holdfast run --lease -- COMMAND` runs any program, with nothing declared. Landlock closes the
repository to it, and the kernel reports every call that would open something for writing, or change
a name, a mode, an owner or a time, to the broker (seccomp). For each call the broker

1. copies the path out of the caller's memory, and resolves it as the caller sees it,
2. takes the lease, or finds that another holder has it,
3. performs the call itself, on its own copy of the path, and passes the descriptor to the caller.

There is no window between the check and the call, and Landlock refuses a caller that deceives the
broker.

    command_start    what is closed to the command, and how it is started
    runner           the process that was called, and its connection to the broker
    broker_loop      the loop that receives calls and answers them
    assembly         all parts put together
    heard_calls      the system calls: which the broker hears, refuses, or makes itself
    calling_thread   the waiting thread: its memory, its descriptors, and whether it still has the
                     identity that the command had at its start
    left_running     processes that the command left running, and the files that they have open

    calls            performing the calls
    places           what a path names, and whether it needs a lease
    leasing          taking and releasing the leases
    control          control files: written as a copy, checked, and published

Three processes: the runner, which waits as for any command; the broker, its child, which takes no
signal but SIGKILL; and the command, the broker's child, in the runner's process group. So the
broker is an ancestor of every process that it has to read, and the runner can end while some of
them are still running.

What this does not promise: see `docs/leases-at-the-write.md`. Descriptors that were open before,
or that are sent to a process outside, are not covered, nor are writes that a process outside does
on request.

Linux on x86_64 only. May import manager and below, and the sandbox; never cli.
"""
