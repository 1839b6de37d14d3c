"""LockManager and the services around it: text to keys, processes to holders, refusals to errors.

    manager            LockManager, the public interface
    ledger             the store of a repository, and its files
    ledger_location    where the ledger of a place is
    grants             what the manager hands out
    all_grants         every grant, page by page
    keeper             `with manager.hold(…)`: a grant that renews itself
    transactions       what services do beyond single grants
    request_limits     limits of leases, waits and reasons
    plain_data         values as plain data, for `--json` and the page
    files              paths, checkouts, and files as they were before work began
    owners             which process a lock lives by, and whether it is alive
    helper_process     a small process beside ours, and how it gets its orders
    fork_check         whether a call still runs in the process that made it
    clock              the only source of time
    ids                the only source of chance

The room imports the stores and the core.
"""
