"""The only source of chance: ids that are unique, and sort by the time they were made."""

from __future__ import annotations

import os
import time
from _random import Random

_dice = Random()
_dice_of = 0


def _fresh_dice() -> None:
    """A forked child must not throw what its parent throws."""
    global _dice_of
    if _dice_of != os.getpid():
        _dice_of = os.getpid()
        _dice.seed(int.from_bytes(os.urandom(32), "big"))


def about(length: int) -> int:
    """A length of time between half and one and a half of this one."""
    _fresh_dice()
    return length // 2 + int(length * _dice.random())


def new_id() -> str:
    """A UUID of version 7: 48 bits of milliseconds, then chance."""
    if _dice_of != os.getpid():
        _fresh_dice()
    milliseconds = time.time_ns() // 1_000_000
    # version 7 in the upper half, the variant in the lower, chance everywhere else
    upper = milliseconds << 16 | 0x7000 | _dice.getrandbits(12)
    lower = 1 << 63 | _dice.getrandbits(62)
    text = f"{upper << 64 | lower:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
