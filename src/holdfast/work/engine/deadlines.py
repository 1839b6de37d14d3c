"""Moments at which something is due for an item, by the ledger's clock.

That clock is asked only when one of them may have come: to read it is a look into the ledger. In
between ours goes on, which may stand still or go otherwise, and so it is trusted for a while only.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from time import monotonic

from holdfast.core.model import SECOND
from holdfast.manager.manager import LockManager

#: How long we go by our own clock.
CLOCK_SECONDS = 60.0


class Moments:
    """What is due when. For one thread."""

    def __init__(self, manager: LockManager) -> None:
        self._manager = manager
        self._heap: list[tuple[int, str]] = []
        self._ask_at = 0.0

    def note(self, moment: int, id: str) -> None:
        """See to this one then, whatever else happens."""
        heappush(self._heap, (moment, id))
        if self._heap[0][0] == moment:
            self._ask_at = 0.0  # how far away that is, the next look tells

    def doubt(self) -> None:
        """Do not go by our own clock any more."""
        self._ask_at = 0.0

    @property
    def seconds(self) -> float:
        """Until the next of them, or until the clock has to be asked."""
        return self._ask_at - monotonic() if self._heap else math.inf

    def due(self) -> tuple[int, list[str]]:
        """Those that have come, and the ledger's time, by which they had; each is told once."""
        if not self._heap or monotonic() < self._ask_at:
            return 0, []
        self._ask_at = math.inf  # and less if somebody doubts it while the clock is read
        now = self._manager.now()
        found = []
        while self._heap and self._heap[0][0] <= now:
            found.append(heappop(self._heap)[1])
        if self._heap:
            away = min((self._heap[0][0] - now) / SECOND, CLOCK_SECONDS)
            self._ask_at = min(self._ask_at, monotonic() + away)
        return now, found
