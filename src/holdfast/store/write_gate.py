"""The gate: one process at a time changes the ledger.

An advisory `flock` on a file of its own, held for the length of one transaction. It keeps two
connections from writing or checkpointing at once (which old SQLite versions do not survive),
and it is what a fenced section stands on. The kernel opens it when its holder dies.

A plain blocking `flock` has no deadline, and a process that was stopped inside it would stop
everybody else for ever; so this one tries again and again, with jittered pauses that follow the
length of the line (see `turns`).
"""

from __future__ import annotations

import os
from _weakref import ref
from time import monotonic, sleep

from holdfast.core.root_errors import StoreBusyError
from holdfast.store.file_descriptors import close, identity_of, is_ours
from holdfast.store.gate_turns import Turn, is_crowded

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
except ImportError:  # Windows: one process at a time is left to SQLite's own lock
    LOCK_EX = LOCK_NB = LOCK_UN = 0  # type: ignore[misc]

    def flock(fd: int, operation: int, /) -> None:  # type: ignore[misc]
        """Everybody may go in."""


try:
    from os import pread, pwrite
except ImportError:  # Windows

    def pread(fd: int, length: int, offset: int, /) -> bytes:
        """Read at a place."""
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, length)

    def pwrite(fd: int, data: bytes, offset: int, /) -> int:  # type: ignore[misc]
        """Write at a place."""
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

#: What stands in the gate's file: a note on the ledger it belongs to, and the mark of the one who
#: wrote last, or was about to.
NOTE_BYTES = MARK_AT = 256
MARK_BYTES = 16

PAUSE_SECONDS_MIN = 0.00003
#: A transaction takes a tenth of a millisecond: for so many pauses the next may be the one.
SHORT_PAUSES = 40
#: Then a process draws a number. The first in line pauses so long, the others longer for each
#: process ahead: about as long as its turn takes when all of them open the ledger.
PAUSE_SECONDS_FIRST = 0.0001
PAUSE_SECONDS_EACH = 0.001
PAUSE_SECONDS_MAX = 0.1

_open: list[ref[Gate]] = []


class Gate:
    """Open for one process at a time. Threads of one process need a mutex in front of it."""

    __slots__ = ("__weakref__", "fd", "inode", "path")

    def __init__(self, path: str) -> None:
        self.path: Final = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self.inode: Final = identity_of(self.fd)
        _open.append(ref(self, _open.remove))

    def is_ours(self) -> bool:
        """Whether the descriptor is still open on the gate, and its number on no other file."""
        return is_ours(self.fd, self.inode)

    def try_enter(self) -> bool:
        """Go in, if nobody is inside."""
        try:
            flock(self.fd, _TRY)
        except BlockingIOError:
            return False
        return True

    def enter(self, deadline: float) -> None:
        """Go in, or raise StoreBusyError at the deadline."""
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
                # The clock's low digits are as good as dice for keeping two processes out of step.
                sleep(min(left, pause * (0.5 + monotonic() * 1e6 % 1)))
        finally:
            if turn is not None:
                turn.give_back()

    def leave(self) -> None:
        """Go out."""
        if self.fd >= 0:
            flock(self.fd, LOCK_UN)

    @property
    def note(self) -> str:
        """What the last one who opened the ledger wrote down here."""
        return pread(self.fd, NOTE_BYTES, 0).rstrip(b"\0").decode("ascii", "replace")

    @note.setter
    def note(self, text: str) -> None:
        if text != self.note:
            pwrite(self.fd, text.encode("ascii").ljust(NOTE_BYTES, b"\0"), 0)

    def close(self) -> None:
        """Let go of the file. In a forked child this leaves the gate as it is: the lock belongs to
        the open file, which the parent still has."""
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
    """The process that holds a lock on an inode, where the system tells."""
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
    """In a forked child. A lock belongs to the open file, which a fork shares: if the parent died
    inside, a child that kept the descriptor would keep the gate shut."""
    for known in list(_open):
        gate = known()
        if gate is not None:
            gate.close()
