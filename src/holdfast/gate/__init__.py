"""The gate: no edit without a lease, for agents that call no lock commands.

A client's hook reports an event; an adapter in `clients` turns that into an `Intent`. The gate
takes or refuses the lease and answers; the adapter prints the answer in the form that the client
obeys. A failure inside is a refusal with a reason, never an unchecked write.

The gate sees only the events that a client reports. Other writes of a program are found afterwards,
or prevented by a broker or a sandbox; the guide has a table.

    door              a client's hook process, from its input to the answer
    hook              the program that a client starts for it
    clients           one module for each agent's client: its input, and the replies it obeys
    intent            the event of an agent, and the gate's answer
    agents            agents as holders
    rulebook          one pure decision for each event of an agent
    lease_gate        takes or refuses the lease before an edit
    held_stops        a stop that is held open while its agent waits
    pending_writes    which writes were allowed and have not happened yet
    checked_write     `safe_write`: the last check before a file changes
    replacement       replaces a file of the repository in two steps, following no link
    file_stamps       how a change of a file is noticed without reading it
    locked_specs      specs that other holders have locked
    other_checkouts   the same file in other worktrees of the repository
    shell             what a command line plainly writes
    guard             before and after a shell command that is only watched
    commands          shell commands that run below a broker
    broker            leases every file that a command writes, at the write
    sandbox           a command that can write only what was granted
    git               hooks of git: what a commit may contain, and what it releases
    people            status, notices, blocked agents
    config            settings, and the off switch
    install           `holdfast init`
    doctor            `holdfast doctor`
    side_process      a small process that outlives the hook which started it
    client_keeper     keeps the leases of a client that other processes cannot judge

May import manager and below; nothing below knows of it.
"""
