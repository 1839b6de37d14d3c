"""The source of ids, which are unique and sort by creation time."""

from __future__ import annotations

from os import urandom
from time import time_ns


def new_id() -> str:
    """A UUID of version 7: 48 bits of milliseconds, then random bits.

    The random bits always come fresh from the system, so that a forked child never repeats the ids
    of its parent.
    """
    time = "%012x" % (time_ns() // 1_000_000)
    chance = urandom(9).hex()
    return f"{time[:8]}-{time[8:]}-7{chance[:3]}-8{chance[3:6]}-{chance[6:]}"
