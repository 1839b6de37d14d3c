"""Stores of the ledger. A store executes the decisions of the core; none has rules of its own.

    contract          what every store promises
    memory            one table and one mutex, for one process
    sqlite            the embedded default, for any number of processes on one machine
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
    from collections.abc import Callable, Iterator

    from holdfast.core.ledger_time import Clock
    from holdfast.store.check_finding import Finding
    from holdfast.store.contract import IsDead, Mover, Store

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


def has_ledger(url: str, *, end: float) -> bool:
    """Whether a store on disk or on a server has a ledger. Creates nothing."""
    if not is_server(url):
        from os.path import isfile

        return isfile(url.removeprefix("sqlite://"))
    _need_driver()
    from holdfast.store.postgres.server_check import has_repository

    return has_repository(url, end=end)


def checked(url: str, opened: Callable[[], Store], *, end: float) -> Iterator[Finding]:
    """What a check of a store on disk or on a server finds. Creates nothing: `opened`, which opens
    the store, is called only where there is one."""
    if is_server(url):
        _need_driver()
        from holdfast.store.postgres import server_check

        return server_check.check(url, end=end)
    from holdfast.store.sqlite import file_check

    return file_check.check(url.removeprefix("sqlite://"), opened)


def mover(store: Store) -> Mover:
    """The same store, to move its ledger. Raises BadKeyError for a ledger in memory."""
    if store.url.startswith("sqlite:"):
        from holdfast.store.sqlite.sqlite_mover import SqliteMover
        from holdfast.store.sqlite.sqlite_store import SqliteStore

        assert isinstance(store, SqliteStore)
        return SqliteMover(store)
    if is_server(store.url):
        from holdfast.store.postgres.server_mover import ServerMover
        from holdfast.store.postgres.server_store import PostgresStore

        assert isinstance(store, PostgresStore)
        return ServerMover(store)
    raise BadKeyError(
        "a ledger in memory ends with its process, so it cannot be moved",
        hint="name a ledger on disk or on a server",
        url=store.url,
    )


def _open_on_server(url: str, is_dead: IsDead, end: float) -> Store:
    _need_driver()
    from holdfast.store.postgres.server_store import PostgresStore

    return PostgresStore(url, is_dead=is_dead, end=end)


def _need_driver() -> None:
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
