"""What a file's time of change says, and how far it may be behind the clock.

A file that changes twice within one tick has the same time after both. Most file systems go by the
ticks of the kernel's clock; some know whole seconds only (ext3, ext4 with small inodes, HFS+), or
every second one (FAT). Theirs is a time without a fraction. So is one of a thousand million others,
which is then only taken for less sure than it is.

Only what the system writes itself says that: `st_ctime_ns`, and the `st_mtime_ns` of a folder.
"""

from __future__ import annotations

#: A few ticks of the slowest kernel clock.
TICK_NS = 50_000_000
#: Where times have whole seconds, or every second of them.
COARSE_TICK_NS = 2_100_000_000
_SECOND_NS = 1_000_000_000


def tick(changed: int) -> int:
    """How far such a time may be behind the moment at which it was written."""
    return TICK_NS if changed % _SECOND_NS else COARSE_TICK_NS


def is_settled(changed: int, now: int) -> bool:
    """Whether what changed last at a time has another one if it changes from now on."""
    return changed + tick(changed) < now
