"""One process's open ledger: the gate, the connection, and the locks that keep its log in place.

A session is created completely or not at all, inside the gate, and is never repaired: when the
ledger was replaced, or the process is a forked child, the store opens a new session and only then
ends this one. Until that succeeds, the store keeps this one.

How a session ends:

    close     the last process to leave writes the log back and removes it, inside the gate
    give_up   there is now another ledger at the path: nothing at that path is touched
    bequeath  in a forked child, which must not use it: the parent continues with it
"""

from __future__ import annotations

import atexit
import os
from _thread import allocate_lock, start_new_thread
from _weakref import ref
from os import getpid
from time import monotonic, sleep

from holdfast.core.root_errors import StoreBusyError, StoreError
from holdfast.store import file_descriptors
from holdfast.store.file_descriptors import identity
from holdfast.store.sqlite.lock_bytes import LockBytes
from holdfast.store.sqlite.schema import connect, make_folder, refuse_network_file_system, trouble
from holdfast.store.sqlite.write_gate import Gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from sqlite3 import Connection

    from holdfast.store.file_descriptors import Identity
    from holdfast.store.mutexes import Mutex

#: A clean close waits this long for the gate, and then leaves the log to the next process.
CLOSE_SECONDS = 10.0
#: A connection that a forked child cannot close within this time can never be closed there.
BEQUEATH_SECONDS = 5.0
_PAUSE_SECONDS = 0.002

_open: list[ref[Session]] = []
#: Ledgers whose descriptors SQLite lost in this process, and still remembers by number.
_lost: set[Identity] = set()
_leaked: list[Connection] = []


class Session:
    """The files of a ledger, opened by one process."""

    __slots__ = (
        "__weakref__", "connection", "cursor", "engine", "files", "gate", "locks", "path", "pid",
    )  # fmt: skip

    def __init__(
        self, path: str, gate: Gate, connection: Connection, locks: LockBytes, engine: Mutex
    ) -> None:
        self.path = path
        self.gate = gate
        self.connection = connection
        # One cursor is enough: no statement begins while the rows of another are being read.
        self.cursor = connection.cursor()
        self.locks = locks
        #: Held by the thread that uses the connection. A fork waits for it.
        self.engine = engine
        self.pid = getpid()
        #: The files at the path, as long as this is its ledger.
        self.files = (locks.database, identity(path + "-wal"), locks.index)
        _open.append(ref(self, _open.remove))

    @property
    def has_ended(self) -> bool:
        """Whether all of it is closed."""
        return self.gate.fd < 0

    def is_at_its_path(self) -> bool:
        """Whether our files are those that other processes open."""
        try:
            return identity(self.gate.path) == self.gate.inode and self.files == (
                identity(self.path), identity(self.path + "-wal"), identity(self.path + "-shm")
            )  # fmt: skip
        except OSError:
            return False

    def close(self) -> None:
        """Close it normally: the last process to leave writes the log back into the file."""
        if self.has_ended or self.pid != getpid():
            return
        try:
            self._close()
        except Exception:
            # In a child forked meanwhile there is nothing left to close; the parent closes it.
            if self.pid == getpid():
                raise

    def _close(self) -> None:
        if not self.gate.is_ours():
            self._lose()
            return
        try:
            self.gate.enter(monotonic() + CLOSE_SECONDS)
        except StoreBusyError:
            self.give_up()
            return
        try:
            if self.is_at_its_path():
                self.locks.let_go()
            self._close_connection()
            self.gate.note = _note(self.gate, self.path)
        finally:
            self.gate.leave()
            self._release()

    def give_up(self) -> None:
        """Close it without touching the files that are at its path now.

        While the locks are held, SQLite does not consider the connection the last one, and removes
        nothing: a log of that name may belong to another ledger.
        """
        if self.has_ended:
            return
        if self.pid != getpid():
            self.bequeath(beside_threads=True)
        elif self.gate.is_ours():
            self._close_connection()
            self._release()
        else:
            self._lose()

    def bequeath(self, *, beside_threads: bool) -> None:
        """In a forked child: forget the session, without any effect on the parent.

        The child closes its copy of the connection, because all connections of a process share
        SQLite's memory about a file, descriptor numbers included. Another thread of the parent may
        have been inside SQLite for a database of its own, with a mutex that will never be released
        in the child: then the child continues without this ledger.
        """
        if not self.gate.is_ours() or not _can_be_taken(self.engine):
            self._lose()
        elif not beside_threads:
            self._close_copy()
            self._release()
        elif _done_within(BEQUEATH_SECONDS, self._close_copy):
            self._release()
        else:
            self._lose()

    def has_lost(self) -> bool:
        """Whether other code has closed the descriptors of this session."""
        return self.pid == getpid() and not self.has_ended and not self.gate.is_ours()

    def lose(self) -> StoreError:
        """Abandon a session whose descriptors the program has closed. Their numbers may belong to
        other files now, so SQLite must never use them again in this process."""
        self._lose()
        return _lost_error(self.path)

    def _close_connection(self) -> None:
        with self.engine:
            self._close_copy()

    def _close_copy(self) -> None:
        self.cursor.close()
        self.connection.close()

    def _release(self) -> None:
        self.locks.close()
        self.gate.close()

    def _lose(self) -> None:
        if self.has_ended:  # by a fork a moment ago, in this child
            return
        _lost.add(self.files[0])
        _leak(self.connection)
        if self.pid == getpid():
            file_descriptors.forget(False)
        self._release()

    def __del__(self) -> None:
        try:
            if self.pid == getpid():
                self.give_up()
        except Exception:  # while the interpreter shuts down, anything may be gone already
            pass


def bequeath_all(*, beside_threads: bool) -> None:
    """In a forked child: forget every session of the parent."""
    for known in list(_open):
        session = known()
        if session is not None and not session.has_ended:
            session.bequeath(beside_threads=beside_threads)


def open_session(path: str, deadline: float, engine: Mutex) -> Session:
    """Open a ledger, which is created if missing."""
    folder = os.path.dirname(path)
    while True:
        gate: Gate | None = None
        try:
            make_folder(folder)
            refuse_network_file_system(folder)
            gate = Gate(f"{folder}/gate")
            gate.enter(deadline)
            try:
                return _connect(path, gate, deadline, engine)
            finally:
                gate.leave()
        except (OSError, StoreError) as error:
            if gate is not None:
                gate.close()
            # Retry if the folder or the ledger was replaced while we opened it. Retry also if the
            # database was locked: a process without time left to enter the gate closes its
            # connection outside it, and may be stopped in the middle of that.
            again = isinstance(error, StoreBusyError) or _was_replaced(error, gate)
            if monotonic() >= deadline or not again:
                raise trouble(error, path) if isinstance(error, OSError) else error from None
        except BaseException:
            if gate is not None:
                gate.close()
            raise
        sleep(_PAUSE_SECONDS)


class _ReplacedError(StoreError):
    """The ledger was replaced while it was being opened."""


def _was_replaced(error: Exception, gate: Gate | None) -> bool:
    if isinstance(error, (_ReplacedError, FileNotFoundError)):
        return True
    if gate is None:
        return False
    try:
        return identity(gate.path) != gate.inode
    except OSError:
        return True


def _connect(path: str, gate: Gate, deadline: float, engine: Mutex) -> Session:
    """Inside the gate."""
    _drop_foreign_log(path, gate)
    connection: Connection | None = None
    locks = LockBytes(path)
    with engine:
        try:
            _refuse_lost(path, locks.database)
            connection = connect(path)
            locks.hold(deadline)
            if identity(path) != locks.database:
                raise _ReplacedError(
                    f"{path} was replaced while it was being opened", hint="try again"
                )
            session = Session(path, gate, connection, locks, engine)
            gate.note = _note(gate, path)
        except BaseException:
            if connection is not None:
                connection.close()
            locks.close()
            raise
    return session


# Which log belongs to which ledger


def _note(gate: Gate, path: str) -> str:
    """The note in the gate's file: which gate, database and log belong together."""
    database, log = _number(path), _number(path + "-wal")
    return f"{gate.inode[1]} {database} {log}"


def _number(path: str) -> str:
    try:
        device, number = identity(path)
        return f"{device}:{number}"
    except OSError:
        return "-"


def _drop_foreign_log(path: str, gate: Gate) -> None:
    """Remove a log that belongs to a replaced ledger: SQLite would apply it to the new one, such as
    a restored backup.

    A log that the gate's file does not know came with the new ledger. If the gate itself is
    a different file, the whole folder was copied, and its log is the right one.
    """
    said = gate.note.split(" ", 2)
    if len(said) < 3 or said[0] != str(gate.inode[1]):
        return
    database, log = _number(path), _number(path + "-wal")
    known, known_log = said[1], said[2]
    if known.startswith("("):  # as older versions wrote it, with the database only
        known = known[1:].rstrip(",") + ":" + known_log.rstrip(")")
        known_log = log
    if database == "-" or (database == known and log in (known_log, "-")):
        return
    # SQLite rebuilds an index from its log. The index of another log must not be trusted, and
    # SQLite does not notice it while other processes still have it open.
    _remove(path + "-shm")
    if database != known and log == known_log:
        _remove(path + "-wal")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


# When the program has closed our descriptors


def _refuse_lost(path: str, database: Identity) -> None:
    for known in list(_open):
        session = known()
        if session is not None and session.files[0] == database and session.has_lost():
            session._lose()
    if database in _lost:
        raise _lost_error(path)


def _lost_error(path: str) -> StoreError:
    return StoreError(
        f"this process has closed descriptors of {path} that it was still using",
        hint="close descriptors before the ledger is opened, or right after a fork; "
        "start the process again",
        path=path,
    )


def _leak(connection: Connection) -> None:
    """Keep a connection from ever being closed, even at the interpreter's exit."""
    _leaked.append(connection)
    try:
        from ctypes import py_object, pythonapi

        pythonapi.Py_IncRef(py_object(connection))
    except (ImportError, AttributeError):
        pass


def _can_be_taken(engine: Mutex) -> bool:
    """Whether no other thread was inside SQLite; that thread does not exist in the child."""
    if engine.acquire(blocking=False):
        engine.release()
        return True
    return False


def _done_within(seconds: float, do: Callable[[], None]) -> bool:
    done = allocate_lock()
    done.acquire()

    def run() -> None:
        do()
        done.release()

    start_new_thread(run, ())
    return done.acquire(timeout=seconds)


@atexit.register
def _at_exit() -> None:
    """Abandon sessions that have lost their descriptors: otherwise the interpreter would close
    their connections at exit."""
    for known in list(_open):
        session = known()
        if session is not None and session.has_lost():
            session._lose()
