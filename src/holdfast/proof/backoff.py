"""Pauses between attempts that another's event made vain: growing, and never quite the same, so
that those who collided do not collide again."""

from __future__ import annotations

import random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_SECONDS = 0.002
LONGEST_SECONDS = 0.5


def pauses(count: int, *, longest: float = LONGEST_SECONDS) -> Iterator[float]:
    """So many pauses, each about twice as long as the one before, up to the longest."""
    pause = FIRST_SECONDS
    for _ in range(count):
        yield random.uniform(0.75, 1) * pause
        pause = min(pause * 2, longest)
