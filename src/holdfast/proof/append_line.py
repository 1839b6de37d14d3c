"""The line: a fair order among ours in front of the ledger's lock.

Only the lock itself keeps anybody out; the line says whose turn it is to try. So whatever goes
wrong with it (its file deleted, a member stopped, a system without such locks) costs fairness and
nothing else, and other programs need not know of it.

Whoever finds the lock free takes it, unless somebody in the line has waited for long: then
newcomers stand in line too. Those in the line are served in the order in which they came.

The file has a counter, for the places. A member holds the byte of its place, and byte 0 together
with all others who have waited for long. The kernel lets go of them when a process dies. These
are locks of an open file (`F_OFD_SETLK`), so threads count as well as processes. Where there are
none, such as on macOS, everybody may always try.
"""

from __future__ import annotations

import os
import struct

from holdfast.proof.proof_folder import KEEP
from holdfast.store.write_gate import (
    LOCK_EX,
    LOCK_NB,
    LOCK_UN,
    flock,
    pread,
    pwrite,
)

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_SET: int = getattr(fcntl, "F_OFD_SETLK", 0)
_ASK: int = getattr(fcntl, "F_OFD_GETLK", 0)
_FLOCK = "hhqqi"
_ELDERS = 0
#: More than anybody counts to; whatever stands in the file, the next place is a place.
_PLACES = 1 << 60
#: How often to try for the counter: it is held for a few system calls.
_COUNTER_TRIES = 200

_open: set[int] = set()


class Line:
    """One member's view of the line. Not for several threads at once."""

    __slots__ = ("_descriptor", "_path", "_pid", "_place")

    def __init__(self, path: str) -> None:
        self._path: Final = path
        self._descriptor = -1
        self._pid = 0
        self._place = 0

    def may_pass(self) -> bool:
        """Whether nobody in the line has waited for long."""
        file = self._file()
        return file < 0 or self._is_free(file, _ELDERS, 1)

    def join(self) -> None:
        """Take the last place."""
        file = self._file()
        if file < 0:
            return
        for _ in range(_COUNTER_TRIES):
            try:
                flock(file, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                os.sched_yield()
                continue
            try:
                place = int.from_bytes(pread(file, 8, 0), "little") % _PLACES + 1
                pwrite(file, place.to_bytes(8, "little"), 0)
                self._hold(file, fcntl.F_WRLCK, place)
                self._place = place
            finally:
                flock(file, LOCK_UN)
            return
        # Somebody was stopped while it took a place. Without one, everybody's turn is ours.

    def is_my_turn(self) -> bool:
        """Whether nobody is in the line who came before."""
        return self._place <= 1 or self._is_free(self._file(), 1, self._place - 1)

    def come_of_age(self) -> None:
        """Let nobody pass any more."""
        if self._place:
            self._hold(self._file(), fcntl.F_RDLCK, _ELDERS)

    def leave(self) -> None:
        """Give the place back."""
        if self._place:
            self._place = 0
            fcntl.fcntl(self._file(), _SET, _lock(fcntl.F_UNLCK, 0, 0))

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor in _open and self._pid == os.getpid():
            _open.discard(self._descriptor)
            os.close(self._descriptor)
        self._descriptor = -1

    def _file(self) -> int:
        """The line's file, or -1 where there is none for us."""
        if self._pid != os.getpid():
            self._pid, self._place, self._descriptor = os.getpid(), 0, -1
        if self._descriptor < 0 and _SET:
            try:
                self._descriptor = os.open(self._path, KEEP, 0o666)
            except OSError:
                return -1
            _open.add(self._descriptor)
        return self._descriptor

    @staticmethod
    def _hold(file: int, type: int, place: int) -> None:
        fcntl.fcntl(file, _SET, _lock(type, place, 1))

    @staticmethod
    def _is_free(file: int, first: int, count: int) -> bool:
        answer = fcntl.fcntl(file, _ASK, _lock(fcntl.F_WRLCK, first, count))
        return bool(struct.unpack_from("h", answer)[0] == fcntl.F_UNLCK)


def _lock(type: int, first: int, count: int) -> bytes:
    return struct.pack(_FLOCK, type, os.SEEK_SET, first, count, 0)


def _close_in_child() -> None:
    # These locks belong to the open file, which a fork shares: a child that kept it open would
    # keep its dead parent's place.
    for descriptor in _open:
        try:
            os.close(descriptor)
        except OSError:
            pass
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
