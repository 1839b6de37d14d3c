"""Locks of our own on the bytes that SQLite locks, which no other code in the process can drop.

SQLite's locks are POSIX record locks, which belong to the process and the file. When *any* code in
the process closes *any* descriptor of that file (a backup, a walk over the tree), the kernel drops
all of them; and a forked child has none, although SQLite's memory says that it has. The next
process that closes the ledger then believes that it is the last one, and removes a log in use.

The locks here are open-file-description locks. They belong to one open file that no other code
knows, and last until its last descriptor is closed. Read locks on the same bytes are enough: they
keep every other connection from the write locks that it needs to remove the log, reset the index,
or overwrite a frame that a reader still needs.

They do not replace SQLite's own locks and never conflict with them, except that our own connection
does not believe that it is the last one while they are held. Only Linux has them; elsewhere this
class does nothing, and a program must not open the ledger's files itself.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

from holdfast.core.root_errors import StoreBusyError
from holdfast.store.file_descriptors import close, identity_of

__all__ = ["HAS_LOCKS", "LockBytes", "fcntl", "flock_of"]

try:
    from fcntl import F_OFD_SETLK, fcntl
except ImportError:  # not Linux
    F_OFD_SETLK = 0  # type: ignore[misc]

    def fcntl(*_: object) -> None:  # type: ignore[no-redef]
        """Do nothing: there are no such locks here."""


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from holdfast.store.file_descriptors import Identity

#: On other systems `struct flock` has another layout than the one below.
HAS_LOCKS = F_OFD_SETLK != 0 and sys.platform == "linux" and sys.maxsize > 2**32

#: The bytes of the database that an open connection in WAL mode holds a shared lock on.
_SHARED_AT, _SHARED_BYTES = 0x40000002, 510
#: In the index: the marks of readers, one number each; one lock byte for each mark; and the lock
#: byte that shows that the index is in use.
_MARKS_AT, _MARK_BYTES, _UNUSED_MARK = 100, 4, b"\xff\xff\xff\xff"
_READERS_AT, _READERS = 123, 5
_IN_USE_AT = 128

_READ, _UNLOCK = 0, 2  # F_RDLCK, F_UNLCK
_PAUSE_SECONDS = 0.0001


def flock_of(kind: int, start: int, length: int) -> bytes:
    """A `struct flock` of 64-bit Linux."""
    order = sys.byteorder
    return (
        kind.to_bytes(2, order)
        + bytes(6)
        + start.to_bytes(8, order)
        + length.to_bytes(8, order)
        + bytes(8)
    )


_DATABASE = flock_of(_READ, _SHARED_AT, _SHARED_BYTES)
_INDEX = flock_of(_READ, _IN_USE_AT, 1)
_NOTHING = flock_of(_UNLOCK, 0, 0)
_BEGIN_READING = [flock_of(_READ, _READERS_AT, count) for count in range(_READERS + 1)]
_END_READING = flock_of(_UNLOCK, _READERS_AT, _READERS)


class LockBytes:
    """Two descriptors of one ledger: of the database, opened before SQLite opens it, and of the
    index, opened afterwards. Close the connection first: closing these drops SQLite's own locks."""

    __slots__ = ("_database", "_index", "database", "end_reading", "index", "path")

    def __init__(self, path: str) -> None:
        self.path: Final = path
        self._index = -1
        self._database = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        #: The identities of the two files.
        self.database: Identity = identity_of(self._database)
        self.index: Identity = (0, 0)
        #: `fcntl(*end_reading)` ends a reader: a single C call, safe from interrupts.
        self.end_reading: tuple[int, int, bytes] | None = None

    def hold(self, deadline: float) -> None:
        """Take the locks, next to a connection that is open and has read."""
        self._index = os.open(self.path + "-shm", os.O_RDONLY | os.O_CLOEXEC)
        self.index = identity_of(self._index)
        if HAS_LOCKS:
            self.end_reading = (self._index, F_OFD_SETLK, _END_READING)
        self._lock(self._database, _DATABASE, deadline)
        self._lock(self._index, _INDEX, deadline)

    def begin_reading(self, deadline: float) -> None:
        """Preserve the log for a reader, whose snapshot must have begun.

        Only SQLite knows which of the set marks the reader uses. Unset marks stay unlocked, because
        a process that cannot set a mark cannot read at all.
        """
        if HAS_LOCKS:
            marks = os.pread(self._index, _READERS * _MARK_BYTES, _MARKS_AT)
            used = _READERS
            while used > 1 and marks[(used - 1) * _MARK_BYTES :].startswith(_UNUSED_MARK):
                used -= 1
            self._lock(self._index, _BEGIN_READING[used], deadline)

    def let_go(self) -> None:
        """Unlock, so that SQLite can tell whether its connection, closed next, is the last one."""
        if HAS_LOCKS and self._index >= 0:
            for number in (self._database, self._index):
                fcntl(number, F_OFD_SETLK, _NOTHING)

    def close(self) -> None:
        """Close the descriptors. The connection must already be closed."""
        close(self._database, self.database)
        close(self._index, self.index)
        self._database = self._index = -1

    def _lock(self, number: int, what: bytes, deadline: float) -> None:
        if not HAS_LOCKS:
            return
        while True:
            try:
                fcntl(number, F_OFD_SETLK, what)
                return
            except (BlockingIOError, PermissionError):
                # Another connection has a write lock there: only briefly, if it is one of ours.
                if monotonic() >= deadline:
                    raise _busy(self.path) from None
            sleep(_PAUSE_SECONDS)


def _busy(path: str) -> StoreBusyError:
    return StoreBusyError(
        f"another program keeps {path} locked",
        hint="close the program that has the file open (a database browser?) and try again",
        path=path,
    )
