"""Growing, random pauses between attempts that failed because another process appended first, so
that the same processes do not collide again."""

from __future__ import annotations

import random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_SECONDS = 0.002
LONGEST_SECONDS = 0.5


def pauses(count: int, *, longest: float = LONGEST_SECONDS) -> Iterator[float]:
    """A number of pauses, each about twice as long as the one before, up to the longest."""
    pause = FIRST_SECONDS
    for _ in range(count):
        yield random.uniform(0.75, 1) * pause
        pause = min(pause * 2, longest)
