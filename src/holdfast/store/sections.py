"""Two ways into the embedded ledger: to read it as it is, and to keep it as it is."""

from __future__ import annotations

from holdfast.core.rules import verify
from holdfast.core.words import raise_verdict
from holdfast.store.driver import driver
from holdfast.store.gate import LOCK_UN, flock
from holdfast.store.schema import translated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.view import View
    from holdfast.store.sqlite import SqliteStore


class Snapshot:
    """A consistent reading of the ledger. Nobody is kept from writing meanwhile."""

    __slots__ = ("_deadline", "_store")

    def __init__(self, store: SqliteStore, deadline: float) -> None:
        self._store = store
        self._deadline = deadline

    def __enter__(self) -> View:
        store, inside = self._store, False
        try:
            inside = store.lock(self._deadline)
            store.reopen_if_gone(self._deadline)
            try:
                store.ask("begin")
                return store.look()
            except BaseException:
                if store.connection.in_transaction:
                    store.ask("rollback")
                raise
        except BaseException as error:
            if inside:
                store.unlock()
            if isinstance(error, driver.Error):
                raise translated(error, store.path) from error
            raise

    def __exit__(self, kind: type[BaseException] | None, error: object, _: object) -> None:
        store = self._store
        try:
            store.ask("rollback")
        finally:
            store.mutex.release()
        if isinstance(error, driver.Error):
            raise translated(error, store.path) from error


class Fence:
    """The gate, held by somebody whose token is current. Nothing changes hands meanwhile."""

    __slots__ = ("_deadline", "_grant_id", "_store", "_token")

    def __init__(self, store: SqliteStore, grant_id: str, token: int, deadline: float) -> None:
        self._store = store
        self._grant_id = grant_id
        self._token = token
        self._deadline = deadline

    def __enter__(self) -> None:
        store, inside = self._store, False
        try:
            inside = store.enter(self._deadline)
            while not store.still_there():
                inside = False
                store.leave()
                store.lock(self._deadline)
                try:
                    store.reopen_if_gone(self._deadline)
                finally:
                    store.unlock()
                inside = store.enter(self._deadline)
            try:
                store.ask("begin")
                verdict = verify(store.look(), self._grant_id, None, self._token)
            finally:
                if store.connection.in_transaction:
                    store.ask("rollback")
            raise_verdict(verdict)
            store.in_fence = True
        except BaseException as error:
            if inside:
                store.leave()
            if isinstance(error, driver.Error):
                raise translated(error, store.path) from error
            raise

    def __exit__(self, *_: object) -> None:
        store = self._store
        if store.in_fence:  # not in a forked child: its parent is inside, not it
            store.in_fence = False
            try:  # written out, as an interrupt may come where any function begins
                flock(store.gate.fd, LOCK_UN)
            finally:
                store.mutex.release()
