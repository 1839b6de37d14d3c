"""LockManager and the services around it: text to keys, processes to holders, refusals to errors.

    manager            LockManager, the public interface
    ledger             the store of a repository, and its files
    ledger_location    where the ledger of a path is
    server_location    the same for a ledger on a server: its URL, and the name of the repository
    ledger_move        a ledger moves to another store
    store_check        whether a store can be used, and how good it is
    grants             the grants that the manager returns
    all_grants         every grant, page by page
    heartbeat          a thread that renews leases on a ledger that hosts share
    keeper             `with manager.hold(…)`: a grant that a thread renews
    transactions       what services do beyond single grants
    request_limits     limits of leases, waits and reasons
    plain_data         values as plain data, for `--json` and the page
    files              paths, checkouts, and copies of files from before work began
    owners             the process that a lock depends on, and whether it is alive
    helper_process     a small helper process, and its orders
    fork_check         whether a call still runs in the process that made it
    clock              the source of time
    ids                the source of unique ids

The room imports the stores and the core.
"""
