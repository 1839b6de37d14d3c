"""Where state lives. A store executes what the core decided; none has rules of its own.

    contract   what every store promises
    memory     one table and one mutex, for one process
    sqlite     the embedded default, for any number of processes on one machine
    schema     its file, and everything that can be wrong with it
    sqlview    its state, to read
    rows       its tables, to write
    transaction   a transaction that writes, done again if a fork tears it
    sections   two ways into it: to read it as it is, and to keep it as it is
    gate       a lock around every write, with a deadline that holds
    session    one process's open ledger: gate, connection and locks
    lockbytes  locks that no other code in the process can drop
    descriptors   numbers of open files, and whether they still mean what we opened
    turns      how many processes are ahead at the gate
    forking    what a forked child must not inherit
    driver     SQLite for Python
    wake       how a process that waits is woken

Imports the core only. A further store is one file here and one line in `open_store`.
"""

from __future__ import annotations

from holdfast.core.root_errors import BadKeyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.ledger_time import Clock
    from holdfast.store.contract import IsDead, Store

#: Modules that are imported when they are first used, and that a forked child may need. A thread of
#: the parent may be importing one of them at the moment of the fork, and the child would wait for
#: that import for ever: so they are imported before.
NEEDED_IN_CHILDREN = ["_socket", "encodings.ascii", "errno", "holdfast.store.sections"]


def open_store(url: str, *, clock: Clock, is_dead: IsDead, end: float = float("inf")) -> Store:
    """The store that a URL names: `memory:` or `sqlite:///absolute/path/to/ledger.db`. It is opened
    by `end`, as a moment of `time.monotonic()`, or cannot be."""
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
