"""The gate's rulebook: one pure decision for each event of an agent.

What is known beforehand comes in (who asks, which files, what they look like on the disk), the
ledger is read through a view, and out comes one decision: everything that the event changes, in one
transaction, and the outcome. Nothing here reads a clock, a file or a process.

    decisions   one function for each event
    life        an agent in the middle of a decision
    contention  it is refused, waits, tries once more, is blocked
    handing     files go over, down and up from one agent to another
    stopping    it has nothing more to do
    sessions    beginnings and ends of sessions
    limits      leases of those whom nobody here can judge
    states      the life of an agent towards a file, as a table
    records     what is remembered of agents, typed and versioned
    naming      what agents are called
    family      who is whose child
    outcomes    what comes of an event
    telling     what agents and people are told

May import the core, and nothing else.
"""
