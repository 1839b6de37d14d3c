"""Many agents in parallel, each sent out only when all it needs is free.

    manifest    what there is to do: screens, each with its controller and what it reads
    layout      where a screen's files are and what is run in each phase: `[work]` of the settings
    phases      the phases themselves, and what agents are asked where no prompt is set
    templates   texts with gaps
    naming      the singular of a controller's name
    plan        the dependency graph: groups, read sets, shared files, widest parallelism
    findings    what an analysis must say, and what is wrong with one that does not
    checking    how manifest and findings are read, and all that is wrong with them is told
    items       work items and what they need; how a queue is ordered
    desk        the items in the ledger: queued, claimed with their locks in one transaction, ended
    waiting     which items are worth another try after something came free
    scheduler   the queue, the slots, the loop; it wakes on change and never polls
    slots       a slot's launcher as seen from the scheduler
    launcher    the process of a slot: starts agents in a sandbox and outlives none of them
    states      the states of a workflow, and which may follow which
    pipeline    two phases: analyse every screen, then merge controller by controller

Everything that must survive a crash is in the ledger. A dispatcher that is killed has lost
nothing, and several may serve one repository: an item is claimed by one live worker.
"""
