"""Deadlines at which something is due for an item, by the ledger's clock.

That clock is read only when one of them may have come, because reading it is a query to the ledger.
In between we use our own clock. It may stop or drift, so it is trusted only for a while.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from time import monotonic

from holdfast.core.model import SECOND
from holdfast.manager.manager import LockManager

#: How long we rely on our own clock.
CLOCK_SECONDS = 60.0


class Deadlines:
    """Which item is due when. For one thread."""

    def __init__(self, manager: LockManager) -> None:
        self._manager = manager
        self._heap: list[tuple[int, str]] = []
        self._ask_at = 0.0

    def note(self, moment: int, id: str) -> None:
        """Make the item due at that moment."""
        heappush(self._heap, (moment, id))
        if self._heap[0][0] == moment:
            self._ask_at = 0.0  # the next reading of the clock tells how far away it is

    def doubt(self) -> None:
        """Stop relying on our own clock."""
        self._ask_at = 0.0

    @property
    def seconds(self) -> float:
        """Seconds until the next moment, or until the ledger's clock has to be read."""
        return self._ask_at - monotonic() if self._heap else math.inf

    def due(self) -> tuple[int, list[str]]:
        """The items that are due, and the ledger's time at which they were; each is returned
        once."""
        if not self._heap or monotonic() < self._ask_at:
            return 0, []
        self._ask_at = math.inf  # or earlier, if `doubt` is called while the clock is read
        now = self._manager.now()
        found = []
        while self._heap and self._heap[0][0] <= now:
            found.append(heappop(self._heap)[1])
        if self._heap:
            away = min((self._heap[0][0] - now) / SECOND, CLOCK_SECONDS)
            self._ask_at = min(self._ask_at, monotonic() + away)
        return now, found
