"""Snapshots for reading a ledger on a server, and fenced sections."""

from __future__ import annotations

from time import monotonic

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
        store, mutex = self._store, None
        try:
            mutex = store.lock(self._deadline)
            view = store.begin_reading(self._deadline)
            self._mutex = mutex
            return view
        except BaseException as error:
            if mutex is not None:
                if mutex is not store.mutex:
                    raise forked(error) from error
                _leave(store, mutex)
            raise

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        store, mutex = self._store, self._mutex
        if mutex is None or mutex is not store.mutex:  # a forked child
            if isinstance(error, Exception):
                raise forked(error) from error
            return
        # An interrupt may come at the start of any function of ours.
        try:
            store.end_reading(error)
        finally:
            try:
                if store.session is not None and store.session.in_transaction:
                    store.session.connection.pgconn.finish()
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
        store, mutex = self._store, None
        try:
            mutex = store.lock(self._deadline)
            self._begin(store)
            self._mutex = mutex
            store.in_fence = True
        except BaseException as error:
            if mutex is not None:
                if mutex is not store.mutex:
                    raise forked(error) from error
                _leave(store, mutex)
            if isinstance(error, SessionLostError):
                raise store.away(error) from error
            raise

    def _begin(self, store: PostgresStore) -> None:
        """Take the right to decide, and verify the token; again if the connection is lost."""
        while True:
            try:
                view = store.begin_deciding(self._deadline, FENCE_SECONDS)
                return raise_verdict(verify(view, self._grant_id, None, self._token))
            except SessionLostError:
                if monotonic() >= self._deadline:
                    raise

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        store, mutex = self._store, self._mutex
        if mutex is None or mutex is not store.mutex or not store.in_fence:
            return  # a forked child, whose parent is inside
        try:
            store.in_fence = False
            store.end_fence(error)
        finally:
            try:
                if store.session is not None and store.session.in_transaction:
                    store.session.connection.pgconn.finish()
            finally:
                mutex.release()


def _leave(store: PostgresStore, mutex: Mutex) -> None:
    """After an error on the way in."""
    try:
        store.end_reading(None)
    finally:
        mutex.release()
