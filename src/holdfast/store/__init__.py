"""Stores of the ledger. A store executes the decisions of the core; none has rules of its own.

    contract          what every store promises
    memory            one table and one mutex, for one process
    sqlite            the embedded default, for any number of processes on one machine
    schema            its file, and the errors of that file
    sql_view          its state, for reading
    rows              its tables, for writing
    transaction       a writing transaction, which is repeated if a fork interrupts it
    sections          snapshots for reading, and fenced sections
    write_gate        a lock around every write, with a reliable deadline
    session           one process's open ledger: gate, connection and locks
    lock_bytes        locks that no other code in the process can drop
    file_descriptors  whether descriptor numbers still refer to the files that we opened
    gate_turns        how many processes are ahead at the gate
    fork_handlers     what a forked child must not inherit
    sqlite_driver     the SQLite module in use
    wake_ups          how a waiting process is woken

The room imports the core only. A further store is one module here and one line in `open_store`.
"""

from __future__ import annotations

from holdfast.core.root_errors import BadKeyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.ledger_time import Clock
    from holdfast.store.contract import IsDead, Store

#: Modules that are imported on first use and that a forked child may need. If a thread of the
#: parent were importing one of them at the moment of the fork, the child would wait for that import
#: forever; so they are imported before a fork.
NEEDED_IN_CHILDREN = ["_socket", "encodings.ascii", "errno", "holdfast.store.sections"]


def open_store(url: str, *, clock: Clock, is_dead: IsDead, end: float = float("inf")) -> Store:
    """Open the store of a URL: `memory:` or `sqlite:///absolute/path/to/ledger.db`. Raises if that
    takes beyond `end`, a time of `time.monotonic()`."""
    if url in ("memory:", "memory://"):
        from holdfast.store.memory import MemoryStore

        return MemoryStore(clock=clock, is_dead=is_dead)
    if url.startswith("sqlite:///"):
        from holdfast.store.sqlite import SqliteStore

        return SqliteStore(url[len("sqlite://") :], clock=clock, is_dead=is_dead, end=end)
    raise BadKeyError(
        f"{url!r} does not name a store",
        hint="use memory: or sqlite:///absolute/path/to/ledger.db",
        url=url,
    )
