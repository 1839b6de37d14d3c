"""The command tables, one module for each family; each is imported when its first word is typed.

A table names the module of `holdfast.cli` with a command's function: `spec lock` runs the function
`lock` there, `tree lock acquire` runs `lock_acquire`.

    store    where a ledger is kept
    spec     who works on which spec
    proof    events, and claims on the nodes of a proof
    tree     worktrees and snapshots
"""
