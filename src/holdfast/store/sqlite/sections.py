"""Snapshots for reading the embedded ledger, and fenced sections."""

from __future__ import annotations

from holdfast.core.rules import verify
from holdfast.store.mutexes import forked
from holdfast.store.sqlite.lock_bytes import fcntl
from holdfast.store.sqlite.schema import translated
from holdfast.store.sqlite.sqlite_driver import driver
from holdfast.store.sqlite.write_gate import LOCK_UN, flock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.view import View
    from holdfast.store.mutexes import Mutex
    from holdfast.store.sqlite.session import Session
    from holdfast.store.sqlite.sqlite_store import SqliteStore


class Snapshot:
    """A consistent view of the ledger. Other processes may write meanwhile."""

    __slots__ = ("_deadline", "_even_moved", "_mutex", "_session", "_store")

    def __init__(self, store: SqliteStore, deadline: float, *, even_moved: bool = False) -> None:
        self._store = store
        self._deadline = deadline
        self._even_moved = even_moved
        self._mutex: Mutex | None = None
        self._session: Session | None = None

    def __enter__(self) -> View:
        store, session, mutex = self._store, None, None
        try:
            mutex = store.lock(self._deadline)
            store.reopen_if_gone(self._deadline)
            session = self._session = store.session
            session.engine.acquire()
            store.ask("begin")
            view = store.look()
            if store.moved is not None and not self._even_moved:
                store.refuse_moved()
            # SQLite loses its own lock on the log when another thread closes any descriptor of the
            # index, and a writer could then restart the log under this reader.
            session.locks.begin_reading(self._deadline)
            self._mutex = mutex
            return view
        except BaseException as error:
            if mutex is not None and mutex is not store.mutex:
                raise forked(error) from error
            try:
                if session is not None and session.engine._is_owned():
                    self._end(session)
            finally:
                if mutex is not None:
                    mutex.release()
            if isinstance(error, driver.Error):
                raise translated(error, store.path) from error
            raise

    def _end(self, session: Session) -> None:
        try:
            if session.connection.in_transaction:
                session.cursor.execute("rollback")
        finally:
            if session.locks.end_reading is not None:
                fcntl(*session.locks.end_reading)
            session.engine.release()

    def __exit__(self, kind: type[BaseException] | None, error: object, _: object) -> None:
        # Only C calls: an interrupt may come at the start of any Python function.
        store, mutex, session = self._store, self._mutex, self._session
        if mutex is None or session is None or mutex is not store.mutex:  # a forked child
            if isinstance(error, Exception):
                raise forked(error) from error
            return
        try:
            try:
                store.ask("rollback")
            finally:
                try:
                    if session.locks.end_reading is not None:
                        fcntl(*session.locks.end_reading)
                finally:
                    session.engine.release()
        finally:
            mutex.release()
        if isinstance(error, driver.Error):
            raise translated(error, store.path) from error


class Fence:
    """The gate, held by a caller with a current token. No lock changes hands meanwhile."""

    __slots__ = ("_deadline", "_grant_id", "_mutex", "_store", "_token")

    def __init__(self, store: SqliteStore, grant_id: str, token: int, deadline: float) -> None:
        self._store = store
        self._grant_id = grant_id
        self._token = token
        self._deadline = deadline
        self._mutex: Mutex | None = None

    def __enter__(self) -> None:
        store, mutex = self._store, None
        try:
            mutex = store.enter(self._deadline)
            while not store.still_there():
                entered, mutex = mutex, None
                store.leave(entered)
                locked = store.lock(self._deadline)
                try:
                    store.reopen_if_gone(self._deadline)
                finally:
                    if locked is store.mutex:
                        locked.release()
                mutex = store.enter(self._deadline)
            with store.engine:
                store.ask("begin")
                view = store.look()
                store.refuse_moved()
                verdict = verify(view, self._grant_id, None, self._token)
                store.ask("rollback")
            if not verdict:
                from holdfast.core.sentences import raise_verdict

                raise_verdict(verdict)
            self._mutex = mutex
            store.in_fence = True
        except BaseException as error:
            if mutex is not None and mutex is not store.mutex:
                raise forked(error) from error
            try:
                if mutex is not None and store.connection.in_transaction:
                    store.ask("rollback")
            finally:
                if mutex is not None:
                    store.leave(mutex)
            if isinstance(error, driver.Error):
                raise translated(error, store.path) from error
            raise

    def __exit__(self, *_: object) -> None:
        store, mutex = self._store, self._mutex
        if store.in_fence and mutex is store.mutex:  # else a forked child, whose parent is inside
            store.in_fence = False
            try:  # inlined, because an interrupt may come at the start of any function
                flock(store.gate.fd, LOCK_UN)
            finally:
                mutex.release()
