"""The gate's rulebook: one pure decision for each event of an agent.

A rule takes the facts (the agent, the files, their stamps on disk), reads the ledger through a
view, and returns one decision: all changes of the event, in one transaction, and the outcome. No
rule reads a clock, a file or a process.

    event_decisions   one function for each event
    agent_life        an agent in the middle of a decision
    contention        an agent is refused, waits, retries once, is blocked
    handover          a file passes from one agent to another
    agent_stop        an agent has nothing more to do
    sessions          sessions begin, continue in another process, and end
    unblocking        whether the file that blocks an agent is free
    lease_limits      leases of agents whose life cannot be judged from here
    file_states       the states of an agent towards a file, as a table
    agent_records     the records of agents, typed and versioned
    display_names     the names of agents
    agent_family      which agent started which
    outcomes          the outcomes of an event
    agent_messages    the messages to agents and people

May import the core, and nothing else.
"""
