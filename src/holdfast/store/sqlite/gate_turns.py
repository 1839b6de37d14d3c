"""A place in the queue at the gate, so that each process knows how many are ahead of it.

A process that polls the gate without knowing the size of the crowd has no good pause. Short pauses
of hundreds of processes waste the processor; pauses that grow with each failure starve the process
that has waited longest, because newcomers poll more often. Here the pause follows the number of
processes ahead, so a crowd polls about as often as a few processes would, and the first in the
queue polls most often.

A place is a locked byte of the gate's file, far beyond its end. The kernel unlocks it when its
process dies. It determines only how often a process tries, never whether it may enter, so a process
that is stopped in the queue does not block the others.

Only Linux has locks that belong to one open file. Elsewhere each process assumes that it is alone.
"""

from __future__ import annotations

import sys

from holdfast.store.sqlite.lock_bytes import HAS_LOCKS, fcntl, flock_of

try:
    from fcntl import F_OFD_GETLK, F_OFD_SETLK
    from os import pread, pwrite
except ImportError:  # not Linux
    F_OFD_GETLK = F_OFD_SETLK = 0  # type: ignore[misc]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: Where the gate's file has the next number, and where the numbers are locked.
NEXT_AT, NEXT_BYTES = 272, 8
_PLACES_AT = 1 << 40
_NUMBER_MAX = 1 << 60

#: This many processes ahead are counted one by one; beyond that, the numbers give an estimate.
COUNTED_MAX = 4
#: A newcomer that finds this many numbers taken does without a place.
_TRIES_MAX = 4096

_WRITE, _UNLOCK = 1, 2  # F_WRLCK, F_UNLCK


class Turn:
    """One number, from its creation until `give_back`."""

    __slots__ = ("_fd", "_number")

    def __init__(self, fd: int) -> None:
        self._fd: Final = fd
        self._number = _draw(fd) if HAS_LOCKS else -1

    def ahead(self) -> int:
        """About how many processes are ahead in the queue."""
        if self._number < 0:
            return 0
        return _count(self._fd, _PLACES_AT + self._number)

    def give_back(self) -> None:
        """Leave the queue."""
        if self._number >= 0:
            number, self._number = self._number, -1
            fcntl(self._fd, F_OFD_SETLK, flock_of(_UNLOCK, _PLACES_AT + number, 1))


def is_crowded(fd: int) -> bool:
    """Whether the queue is too long to try without a number."""
    return HAS_LOCKS and _count(fd, _PLACES_AT + _NUMBER_MAX) >= COUNTED_MAX


def _count(fd: int, end: int) -> int:
    lowest = _PLACES_AT
    for count in range(COUNTED_MAX):
        if lowest >= end:
            return count
        found = fcntl(fd, F_OFD_GETLK, flock_of(_WRITE, lowest, end - lowest))
        if int.from_bytes(found[:2], sys.byteorder) == _UNLOCK:
            return count
        lowest = int.from_bytes(found[8:16], sys.byteorder) + 1
    return COUNTED_MAX + end - lowest


def _draw(fd: int) -> int:
    """Draw a number. Two processes that read the same one do not both get it, and a late write only
    moves the next process in the queue slightly too far ahead."""
    number = int.from_bytes(pread(fd, NEXT_BYTES, NEXT_AT), "little") % _NUMBER_MAX
    for mine in range(number, number + _TRIES_MAX):
        try:
            fcntl(fd, F_OFD_SETLK, flock_of(_WRITE, _PLACES_AT + mine, 1))
        except OSError:  # another process has it
            continue
        pwrite(fd, (mine + 1).to_bytes(NEXT_BYTES, "little"), NEXT_AT)
        return mine
    return -1
