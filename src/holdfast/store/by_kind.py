"""What else depends on where a ledger is, besides how it is opened: whether there is one, what a
check of it finds, and how it moves. No hook needs any of it."""

from __future__ import annotations

from holdfast.core.root_errors import BadKeyError
from holdfast.store import need_driver
from holdfast.store.store_url import is_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.store.check_finding import Finding
    from holdfast.store.contract import Mover, Store


def has_ledger(url: str, *, end: float) -> bool:
    """Whether a store on disk or on a server has a ledger. Creates nothing."""
    if not is_server(url):
        from os.path import isfile

        return isfile(url.removeprefix("sqlite://"))
    need_driver()
    from holdfast.store.postgres.server_check import has_repository

    return has_repository(url, end=end)


def checked(url: str, opened: Callable[[], Store], *, end: float) -> Iterator[Finding]:
    """What a check of a store on disk or on a server finds. Creates nothing: `opened`, which opens
    the store, is called only where there is one."""
    if is_server(url):
        need_driver()
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
