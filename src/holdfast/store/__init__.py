"""Stores of the ledger. A store executes the decisions of the core; none has rules of its own.

    contract          what every store promises
    memory            one table and one mutex, for one process
    sqlite            the embedded default, for any number of processes on one machine
    by_kind           what else depends on where a ledger is: its check, and its move
    postgres          a PostgreSQL server, for any number of hosts
    check_finding     what a check of a store has found
    move_marks        what a ledger says about its move to another store
    records           events as rows, and the keys of a grant, for every store on disk
    mutexes           the lock that a store holds during a call
    store_url         the URL of a store on a server, as text
    file_descriptors  whether descriptor numbers still refer to the files that we opened

The room imports the core only. A further store is one room here and one line in `open_store`.
"""

from __future__ import annotations

from holdfast.core.root_errors import BadKeyError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.ledger_time import Clock
    from holdfast.store.contract import IsDead, Store

#: Modules that are imported on first use and that a forked child may need. If a thread of the
#: parent were importing one of them at the moment of the fork, the child would wait for that import
#: forever; so they are imported before a fork.
NEEDED_IN_CHILDREN = ["_socket", "encodings.ascii", "errno", "holdfast.store.sqlite.sections"]


def import_for_children() -> None:
    """Before a fork: import what a child may need."""
    for name in NEEDED_IN_CHILDREN:
        try:
            __import__(name)
        except ImportError:
            pass


def open_store(url: str, *, clock: Clock, is_dead: IsDead, end: float = float("inf")) -> Store:
    """Open the store of a URL: `memory:`, `sqlite:///absolute/path/to/ledger.db`, or
    `postgresql://host/database#repository`, which has the server's clock. Raises if that takes
    beyond `end`, a time of `time.monotonic()`."""
    if url in ("memory:", "memory://"):
        from holdfast.store.memory import MemoryStore

        return MemoryStore(clock=clock, is_dead=is_dead)
    if url.startswith("sqlite:///"):
        from holdfast.store.sqlite.sqlite_store import SqliteStore

        return SqliteStore(url[len("sqlite://") :], clock=clock, is_dead=is_dead, end=end)
    from holdfast.store.store_url import is_server, without_password

    if is_server(url):
        return _open_on_server(url, is_dead, end)
    raise BadKeyError(
        f"{without_password(url)!r} does not name a store",
        hint="use sqlite:///absolute/path/to/ledger.db, postgresql://host/database, or memory:",
        url=without_password(url),
    )


def _open_on_server(url: str, is_dead: IsDead, end: float) -> Store:
    need_driver()
    from holdfast.store.postgres.server_store import PostgresStore

    return PostgresStore(url, is_dead=is_dead, end=end)


def need_driver() -> None:
    """Raise if the package for servers is missing."""
    try:
        _find_packages()
        import holdfast.store.postgres.server_session  # noqa: F401
    except ImportError as error:
        raise StoreError(
            f"a ledger on a server needs the package psycopg: {error}",
            hint="install it: pip install 'holdfast[postgres]'",
        ) from error


def _find_packages() -> None:
    """Hooks, keepers and other programs of ours start with `-S`, which is quicker, and so find only
    the packages beside this one. Elsewhere, as with an editable installation, look for the driver
    in the interpreter's own folders."""
    import sys

    if sys.flags.no_site and "site" not in sys.modules:
        from importlib.util import find_spec

        if find_spec("psycopg") is None:
            import site

            site.main()
