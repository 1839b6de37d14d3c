"""Snapshots for reading a ledger on a server, and fenced sections."""

from __future__ import annotations

from holdfast.core.rules import verify
from holdfast.core.sentences import raise_verdict
from holdfast.store.mutexes import forked
from holdfast.store.postgres.server_session import SessionLostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.view import View
    from holdfast.store.mutexes import Mutex
    from holdfast.store.postgres.server_store import PostgresStore

#: The server ends a fenced section after so long, for its process may have been stopped inside.
FENCE_SECONDS = 10.0


class ServerSnapshot:
    """A consistent view of the ledger. Other processes may write meanwhile."""

    __slots__ = ("_deadline", "_mutex", "_store")

    def __init__(self, store: PostgresStore, deadline: float) -> None:
        self._store = store
        self._deadline = deadline
        self._mutex: Mutex | None = None

    def __enter__(self) -> View:
        store = self._store
        mutex = store.lock(self._deadline)
        try:
            view = store.begin_reading(self._deadline)
            self._mutex = mutex
            return view
        except BaseException as error:
            if mutex is not store.mutex:
                raise forked(error) from error
            try:
                store.end_reading(error)
            finally:
                mutex.release()
            raise

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        store, mutex = self._store, self._mutex
        if mutex is None or mutex is not store.mutex:  # a forked child
            if isinstance(error, Exception):
                raise forked(error) from error
            return
        try:
            store.end_reading(error)
        finally:
            mutex.release()


class ServerFence:
    """The right to decide, held by a caller with a current token. No lock changes hands."""

    __slots__ = ("_deadline", "_grant_id", "_mutex", "_store", "_token")

    def __init__(self, store: PostgresStore, grant_id: str, token: int, deadline: float) -> None:
        self._store = store
        self._grant_id = grant_id
        self._token = token
        self._deadline = deadline
        self._mutex: Mutex | None = None

    def __enter__(self) -> None:
        store = self._store
        mutex = store.lock(self._deadline)
        try:
            view = store.begin_deciding(self._deadline, FENCE_SECONDS)
            raise_verdict(verify(view, self._grant_id, None, self._token))
            store.in_fence = True
            self._mutex = mutex
        except BaseException as error:
            if mutex is not store.mutex:
                raise forked(error) from error
            try:
                store.end_reading(error)
            finally:
                mutex.release()
            raise

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        store, mutex = self._store, self._mutex
        if mutex is None or mutex is not store.mutex or not store.in_fence:
            return  # a forked child, whose parent is inside
        store.in_fence = False
        try:
            store.end_fence()
        except SessionLostError as lost:
            if error is None:
                raise store.fence_broke(lost) from lost
        finally:
            mutex.release()
