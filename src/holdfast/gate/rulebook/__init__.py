"""The gate's rulebook: one pure decision for each event of an agent.

What is known beforehand comes in (who asks, which files, what they look like on the disk), the
ledger is read through a view, and out comes one decision: everything that the event changes, in one
transaction, and the outcome. Nothing here reads a clock, a file or a process.

    event_decisions   one function for each event
    agent_life        an agent in the middle of a decision
    contention        it is refused, waits, retries once, is blocked
    handover          a file goes from one agent to another
    agent_stop        it has nothing more to do
    sessions          sessions begin, continue in another process, and end
    unblocking        whether the file that blocks an agent is free
    lease_limits      leases of agents whose life cannot be judged from here
    file_states       the life of an agent towards a file, as a table
    agent_records     what is remembered of agents, typed and versioned
    display_names     what agents are called
    agent_family      which agent started which
    outcomes          what an event leads to
    agent_messages    what agents and people are told

May import the core, and nothing else.
"""
