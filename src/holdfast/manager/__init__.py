"""The one way to take and give back: text to keys, processes to holders, rules to exceptions.

    manager    LockManager, which everybody uses
    ledger     what it stands on, and all that a service needs of it
    grants     what it hands out
    listing    all that is held, page by page
    data       values as plain data, for `--json` and the page
    asking     what may be asked for
    opening    where the ledger of a place is
    keeper     `with manager.hold(...)`: a grant that renews itself
    paths      text to key
    realpath   where a path really leads
    controls   files that control us or a client: the one table of them
    liveness   who is proven to be dead
    keepsakes  the files that a grant may write, as they were before its work began
    settling   an owner whose files are kept does not count as dead
    forks      whether a call still runs in the process that made it
    processes  the tree of processes above a command
    orders     a small process beside ours, and how it is told what to do
    identity   whose lock it is when somebody types a command
    variables  our environment variables, and which of them end above an agent
    clock      the only source of time
    ids        the only source of chance

Imports stores and the core.
"""
