"""The line: a fair queue of our processes in front of the ledger's lock.

Only the lock itself excludes other processes; the line decides whose turn it is to try. So any
failure of the line (its file deleted, a member stopped, a system without such locks) costs only
fairness, and other programs need not know about it.

A process that finds the lock free takes it, unless a member of the line has waited long: then
newcomers queue too. Members are served in the order in which they came.

The file has a counter, for the places. A member holds the byte of its place and, once it has waited
long, shares byte 0 with the others that have. The kernel releases them when a process dies. These
are locks of an open file (`F_OFD_SETLK`), so they keep apart threads as well as processes. Where
they do not exist, such as on macOS, every process may always try.
"""

from __future__ import annotations

import os
import struct

from holdfast.proof.proof_folder import KEEP
from holdfast.store.sqlite.write_gate import (
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
#: Larger than any real count; whatever the file contains, the next place is valid.
_PLACES = 1 << 60
#: How often to try for the counter, which is held for a few system calls.
_COUNTER_TRIES = 200

_open: set[int] = set()


class Line:
    """One member's view of the line. Not for use by several threads at once."""

    __slots__ = ("_descriptor", "_path", "_pid", "_place")

    def __init__(self, path: str) -> None:
        self._path: Final = path
        self._descriptor = -1
        self._pid = 0
        self._place = 0

    def may_pass(self) -> bool:
        """Whether a newcomer may pass: no member has waited long."""
        file = self._file()
        return file < 0 or self._is_free(file, _ELDERS, 1)

    def join(self) -> None:
        """Take the last place in the line."""
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
        # A process was stopped while it took a place. Without a place, it is always our turn.

    def is_my_turn(self) -> bool:
        """Whether no earlier member is in the line."""
        return self._place <= 1 or self._is_free(self._file(), 1, self._place - 1)

    def stop_overtaking(self) -> None:
        """Let no newcomer pass any more."""
        if self._place:
            self._hold(self._file(), fcntl.F_RDLCK, _ELDERS)

    def leave(self) -> None:
        """Leave the line."""
        if self._place:
            self._place = 0
            fcntl.fcntl(self._file(), _SET, _lock(fcntl.F_UNLCK, 0, 0))

    def close(self) -> None:
        """Close the file."""
        if self._descriptor in _open and self._pid == os.getpid():
            _open.discard(self._descriptor)
            os.close(self._descriptor)
        self._descriptor = -1

    def _file(self) -> int:
        """The line's open file, or -1 if we cannot use one."""
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
