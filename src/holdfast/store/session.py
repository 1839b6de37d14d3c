"""One process's open ledger: the gate, the connection, and the locks that keep its log in place.

A session is made whole or not at all, inside the gate, and is never repaired: when the ledger was
replaced, or the process is a forked child, the store opens another one and only then lets go of
this one. Until that has worked, the store keeps what it has.

How a session ends:

    close     the last process out writes the log back and removes it, inside the gate
    give_up   the ledger at its path is another one by now: nothing at that path is touched
    bequeath  in a forked child, which has no right to any of it: the parent goes on with it
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
from holdfast.store.lock_bytes import LockBytes
from holdfast.store.schema import connect, make_folder, refuse_network_file_system, trouble
from holdfast.store.write_gate import Gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from sqlite3 import Connection

    from holdfast.store.file_descriptors import Identity
    from holdfast.store.fork_handlers import Mutex

#: A clean end waits so long for the gate, and then leaves the log to the next process.
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
        # One cursor for everything: no statement begins while another one is being read.
        self.cursor = connection.cursor()
        self.locks = locks
        #: Held by the thread that uses the connection. A fork waits for it.
        self.engine = engine
        self.pid = getpid()
        #: What every process finds there as long as this is the ledger of its path.
        self.files = (locks.database, identity(path + "-wal"), locks.index)
        _open.append(ref(self, _open.remove))

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it is open any more."""
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
        """End it in peace: the last process out writes the log back into the file."""
        if self.has_ended or self.pid != getpid():
            return
        try:
            self._close()
        except Exception:
            # A child that was forked meanwhile has nothing to close any more: its parent does.
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
        """End it without touching what is at its path now.

        As long as the locks are held SQLite does not take the connection for the last one, and
        removes nothing: a log of that name may belong to another ledger.
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
        """In a forked child: forget all of it, without a change that the parent could notice.

        The child closes its copy of the connection, because all connections of a process share
        what SQLite keeps in memory about a file, descriptor numbers included. Another thread of
        the parent may have been inside SQLite for a database of its own, with a mutex that will
        never be released in the child: then the child goes on without this ledger.
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
        """Whether descriptors of a session that was not ended were closed by other code."""
        return self.pid == getpid() and not self.has_ended and not self.gate.is_ours()

    def lose(self) -> StoreError:
        """The program closed descriptors that SQLite uses, and their numbers may mean other files
        by now: SQLite must never use them again in this process."""
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
        if self.has_ended:  # by a fork a moment ago: this child has nothing of it any more
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
        except Exception:  # at the end of the interpreter anything may be gone already
            pass


def bequeath_all(*, beside_threads: bool) -> None:
    """In a forked child: forget every session of the parent."""
    for known in list(_open):
        session = known()
        if session is not None and not session.has_ended:
            session.bequeath(beside_threads=beside_threads)


def open_session(path: str, deadline: float, engine: Mutex) -> Session:
    """Open a ledger, which is made if it is missing."""
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
            # If the folder or the ledger was replaced while we opened it: once more. So too if the
            # database was locked: a process that had no time left to enter the gate closes its
            # connection outside, and may be kept from going on in the middle of that.
            again = isinstance(error, StoreBusyError) or _was_replaced(error, gate)
            if monotonic() >= deadline or not again:
                raise trouble(error, path) if isinstance(error, OSError) else error from None
        except BaseException:
            if gate is not None:
                gate.close()
            raise
        sleep(_PAUSE_SECONDS)


class _ReplacedError(StoreError):
    """Another file took the place of the ledger while it was being opened."""


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
    """What the gate's file says of the ledger: which gate, database and log belong together."""
    database, log = _number(path), _number(path + "-wal")
    return f"{gate.inode[1]} {database} {log}"


def _number(path: str) -> str:
    try:
        device, number = identity(path)
        return f"{device}:{number}"
    except OSError:
        return "-"


def _drop_foreign_log(path: str, gate: Gate) -> None:
    """Remove a log that belongs to a ledger which is no longer there: it would be mixed into the
    one that took its place, such as a backup.

    A log that the gate's file does not know came with the new ledger. If the gate itself is
    another one, the whole folder was copied, and its log is the right one.
    """
    said = gate.note.split(" ", 2)
    if len(said) < 3 or said[0] != str(gate.inode[1]):
        return
    database, log = _number(path), _number(path + "-wal")
    known, known_log = said[1], said[2]
    if known.startswith("("):  # as older versions wrote it, who knew only the database
        known = known[1:].rstrip(",") + ":" + known_log.rstrip(")")
        known_log = log
    if database == "-" or (database == known and log in (known_log, "-")):
        return
    # The index of a log is rebuilt from the log; one of another log must not be believed, and
    # processes that still have it open keep SQLite from noticing.
    _remove(path + "-shm")
    if database != known and log == known_log:
        _remove(path + "-wal")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


# When descriptors were closed that were ours


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
    """Keep a connection from ever being closed, at the end of the interpreter too."""
    _leaked.append(connection)
    try:
        from ctypes import py_object, pythonapi

        pythonapi.Py_IncRef(py_object(connection))
    except (ImportError, AttributeError):
        pass


def _can_be_taken(engine: Mutex) -> bool:
    """Whether no other thread, which does not exist in a child, was inside SQLite."""
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
    """Sessions that were never closed end with their process. The interpreter closes connections
    by itself then, which must not happen to one that has lost its descriptors."""
    for known in list(_open):
        session = known()
        if session is not None and session.has_lost():
            session._lose()
