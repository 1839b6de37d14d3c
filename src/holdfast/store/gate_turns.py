"""A place in line at the gate, so that each process knows how many are ahead of it.

A process that polls the gate without knowing the crowd has no good pause: short ones eat the
processor of hundreds, and pauses that grow with each failure starve the process that has waited
longest, because each newcomer polls more often. Here the pause follows the number of processes
ahead, so a crowd polls about as often as a few processes would, and the first in line most often.

A place is a locked byte of the gate's file, far behind its end. The kernel unlocks it when its
process dies. It decides only how often a process tries, never whether it may enter: a process that
was stopped in line keeps the others from nothing.

Only Linux has locks that belong to one open file. Elsewhere each process believes that it is alone.
"""

from __future__ import annotations

import sys

from holdfast.store.lock_bytes import HAS_LOCKS, fcntl, flock_of

try:
    from fcntl import F_OFD_GETLK, F_OFD_SETLK
    from os import pread, pwrite
except ImportError:  # not Linux
    F_OFD_GETLK = F_OFD_SETLK = 0  # type: ignore[misc]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: Where the gate's file says which number is given out next, and where the numbers are locked.
NEXT_AT, NEXT_BYTES = 272, 8
_PLACES_AT = 1 << 40
_NUMBER_MAX = 1 << 60

#: So many processes ahead are counted one by one; how many more there are is told by the numbers.
COUNTED_MAX = 4
#: A newcomer that finds so many numbers taken goes without a place.
_TRIES_MAX = 4096

_WRITE, _UNLOCK = 1, 2  # F_WRLCK, F_UNLCK


class Turn:
    """One number, from the moment it is drawn until `give_back`."""

    __slots__ = ("_fd", "_number")

    def __init__(self, fd: int) -> None:
        self._fd: Final = fd
        self._number = _draw(fd) if HAS_LOCKS else -1

    def ahead(self) -> int:
        """About how many processes are ahead in line."""
        if self._number < 0:
            return 0
        return _count(self._fd, _PLACES_AT + self._number)

    def give_back(self) -> None:
        """Leave the line."""
        if self._number >= 0:
            number, self._number = self._number, -1
            fcntl(self._fd, F_OFD_SETLK, flock_of(_UNLOCK, _PLACES_AT + number, 1))


def is_crowded(fd: int) -> bool:
    """Whether the line is so long that it is not worth trying without a number."""
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
    """Two that read the same number at once do not both get it, and one that writes late only lets
    the next one in line a little too far ahead."""
    number = int.from_bytes(pread(fd, NEXT_BYTES, NEXT_AT), "little") % _NUMBER_MAX
    for mine in range(number, number + _TRIES_MAX):
        try:
            fcntl(fd, F_OFD_SETLK, flock_of(_WRITE, _PLACES_AT + mine, 1))
        except OSError:  # another process has it
            continue
        pwrite(fd, (mine + 1).to_bytes(NEXT_BYTES, "little"), NEXT_AT)
        return mine
    return -1
