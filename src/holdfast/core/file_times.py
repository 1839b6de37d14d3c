"""How exact a file's time of change is, and how far it may lag behind the clock.

A file that changes twice within one tick has the same time after both changes. Most file systems
use the ticks of the kernel's clock; some store whole seconds only (ext3, ext4 with small inodes,
HFS+), or even seconds (FAT), so their times have no fraction. By chance, one in a thousand million
other times has none either; it is then merely trusted a little later than necessary.

This applies only to times that the system sets: `st_ctime_ns`, and the `st_mtime_ns` of a folder.
"""

from __future__ import annotations

#: A few ticks of the slowest kernel clock.
TICK_NS = 50_000_000
#: For times in whole or in even seconds.
COARSE_TICK_NS = 2_100_000_000
_SECOND_NS = 1_000_000_000


def tick(changed: int) -> int:
    """How far such a time may lag behind the moment of the change."""
    return TICK_NS if changed % _SECOND_NS else COARSE_TICK_NS


def is_settled(changed: int, now: int) -> bool:
    """Whether a further change from now on is certain to get a different time."""
    return changed + tick(changed) < now
