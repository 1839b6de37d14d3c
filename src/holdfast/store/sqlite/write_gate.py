"""The gate: one process at a time changes the ledger.

It is an advisory `flock` on a separate file, held for the length of one transaction. It keeps two
connections from writing or checkpointing concurrently (which old SQLite versions do not survive),
and a fenced section is built on it. The kernel releases it when its process dies.

A blocking `flock` has no deadline, so a process that was stopped inside the gate would block all
others forever. This one polls instead, with jittered pauses that follow the length of the queue
(see `gate_turns`).
"""

from __future__ import annotations

import os
from _weakref import ref
from time import monotonic, sleep

from holdfast.core.root_errors import StoreBusyError
from holdfast.store.file_descriptors import close, identity_of, is_ours
from holdfast.store.sqlite.gate_turns import Turn, is_crowded

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
except ImportError:  # Windows: only SQLite's own lock keeps writers apart
    LOCK_EX = LOCK_NB = LOCK_UN = 0  # type: ignore[misc]

    def flock(fd: int, operation: int, /) -> None:  # type: ignore[misc]
        """Let every process in."""


try:
    from os import pread, pwrite
except ImportError:  # Windows

    def pread(fd: int, length: int, offset: int, /) -> bytes:
        """Read at an offset."""
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, length)

    def pwrite(fd: int, data: bytes, offset: int, /) -> int:  # type: ignore[misc]
        """Write at an offset."""
        os.lseek(fd, offset, os.SEEK_SET)
        return os.write(fd, data)


_TRY = LOCK_EX | LOCK_NB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = [
    "LOCK_EX", "LOCK_NB", "LOCK_UN", "MARK_AT", "MARK_BYTES", "Gate", "flock", "pread", "pwrite",
    "whose_lock",
]  # fmt: skip

#: The contents of the gate's file: a note on the ledger that it belongs to, and the mark of the
#: store that wrote last, or was about to.
NOTE_BYTES = MARK_AT = 256
MARK_BYTES = 16

PAUSE_SECONDS_MIN = 0.00003
#: A transaction takes a tenth of a millisecond, so this many short pauses come first.
SHORT_PAUSES = 40
#: Then a process draws a number. The first in the queue pauses for this long, the others longer for
#: each process ahead: about as long as one turn takes when all of them open the ledger.
PAUSE_SECONDS_FIRST = 0.0001
PAUSE_SECONDS_EACH = 0.001
PAUSE_SECONDS_MAX = 0.1

_open: list[ref[Gate]] = []


class Gate:
    """A lock for one process at a time. Threads of one process need a mutex in front of it."""

    __slots__ = ("__weakref__", "fd", "inode", "path")

    def __init__(self, path: str) -> None:
        self.path: Final = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self.inode: Final = identity_of(self.fd)
        _open.append(ref(self, _open.remove))

    def is_ours(self) -> bool:
        """Whether the descriptor still refers to the gate's file."""
        return is_ours(self.fd, self.inode)

    def try_enter(self) -> bool:
        """Enter, if no other process is inside."""
        try:
            flock(self.fd, _TRY)
        except BlockingIOError:
            return False
        return True

    def enter(self, deadline: float) -> None:
        """Enter, or raise StoreBusyError at the deadline."""
        pauses, turn = 0, None
        try:
            while not self.try_enter():
                left = deadline - monotonic()
                if left <= 0:
                    raise self._busy()
                if pauses < SHORT_PAUSES and (pauses or not is_crowded(self.fd)):
                    pauses += 1
                    pause = PAUSE_SECONDS_MIN
                else:
                    pauses = SHORT_PAUSES
                    turn = turn or Turn(self.fd)
                    pause = PAUSE_SECONDS_FIRST + turn.ahead() * PAUSE_SECONDS_EACH
                    pause = min(pause, PAUSE_SECONDS_MAX)
                # The clock's low digits are random enough to keep two processes out of step.
                sleep(min(left, pause * (0.5 + monotonic() * 1e6 % 1)))
        finally:
            if turn is not None:
                turn.give_back()

    def leave(self) -> None:
        """Leave the gate."""
        if self.fd >= 0:
            flock(self.fd, LOCK_UN)

    @property
    def note(self) -> str:
        """The note by the last session that was opened or closed."""
        return pread(self.fd, NOTE_BYTES, 0).rstrip(b"\0").decode("ascii", "replace")

    @note.setter
    def note(self, text: str) -> None:
        if text != self.note:
            pwrite(self.fd, text.encode("ascii").ljust(NOTE_BYTES, b"\0"), 0)

    def close(self) -> None:
        """Close the file. In a forked child this does not release the lock, which belongs to the
        open file, and the parent still has that."""
        number, self.fd = self.fd, -1
        close(number, self.inode)

    def _busy(self) -> StoreBusyError:
        inside = whose_lock(self.inode[1])
        who = f"process {inside}" if inside else "another process"
        return StoreBusyError(
            f"the ledger is busy: {who} has held {self.path} for too long",
            hint=f"let it finish (kill -CONT {inside}) or end it" if inside else "try again",
            pid=inside,
        )


def whose_lock(inode: int) -> int | None:
    """The process that holds a lock on an inode, where the system reports that."""
    try:
        with open("/proc/locks", encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if fields[1] == "FLOCK" and fields[5].rsplit(":", 1)[-1] == str(inode):
                    return int(fields[4]) or None
    except (OSError, IndexError, ValueError):
        pass
    return None


def close_all() -> None:
    """In a forked child: close all gates. A lock belongs to the open file, which a fork shares. If
    the parent died inside, a child that kept the descriptor would keep the gate locked."""
    for known in list(_open):
        gate = known()
        if gate is not None:
            gate.close()
