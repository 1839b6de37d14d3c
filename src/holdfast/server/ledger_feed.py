"""Follows the ledger, once for all readers.

One thread waits for the ledger, and reports new events. The text of each event is made once, and
the last ones are kept; a reader that is further behind reads the ledger itself, so that it misses
no event, however slow it is.

Some facts change without an event: a dispatcher that is killed writes nothing. So the same thread
checks for them every few seconds, and raises `beat` if one has changed.

While the server of a ledger is away, streams end and new ones are refused, so that readers know.
The thread goes on when the server is back. After any other error it stops.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from itertools import takewhile
from time import monotonic
from typing import Any

from holdfast.core import events
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.model import Event
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.manager.plain_data import event_data
from holdfast.server.state.event_history import EVENTS_MAX, History, covered

#: How many events are kept as text.
KEPT_MAX = 5000
#: How many are returned by one call.
BATCH_MAX = 500
#: How long the thread waits before it checks whether it should end.
WAIT_SECONDS = 0.25
#: How often it checks for changes without an event.
PULSE_SECONDS = 2.0

#: An event's number, and the event as text.
Line = tuple[int, str]


class Feed:
    """Follows the ledger. `epoch` changes when the ledger is replaced by another one."""

    def __init__(self, manager: LockManager, pulse: Callable[[], object] = lambda: None) -> None:
        """`pulse` is called every few seconds; a result unlike the last one is a change."""
        self._manager = manager
        self._pulse = pulse
        self._last_pulse: object = None
        self._pulse_due = 0.0
        #: Called, in the thread of the feed, when there is something new.
        self.changed: Callable[[], None] = lambda: None
        self._kept: deque[Line] = deque(maxlen=KEPT_MAX)
        self._change = threading.Lock()
        self._is_over = False
        self._head = transactions.look(manager, lambda view: view.head)
        self.history = History()
        self.epoch = 0
        #: How many changes there were without an event.
        self.beat = 0
        #: Why it cannot follow; None while it follows.
        self.trouble: HoldfastError | None = None
        self._thread = threading.Thread(target=self._follow, name="holdfast feed", daemon=True)

    def start(self) -> None:
        """Start following. Changes from now on are reported, however late the thread starts."""
        self._last_pulse = self._pulse()
        self._thread.start()

    def close(self) -> None:
        """Stop following, and release all waiting readers."""
        with self._change:
            self._is_over = True
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_over(self) -> bool:
        """Whether it was closed, or cannot read the ledger."""
        return self._is_over or self.trouble is not None

    @property
    def head(self) -> int:
        """The number of the last event that it has read."""
        with self._change:
            return self._head

    def has_been(self, seq: int) -> bool:
        """Whether the ledger has ever had an event of that number, read by this feed or not."""
        return seq <= self.head or seq <= transactions.look(self._manager, lambda view: view.head)

    def seen(self, *, spans: bool = True, since: int = 0) -> dict[str, Any]:
        """The history that was read, as data; of the spans, those that changed after event
        `since`."""
        with self._change:
            return {
                "head": self.history.head,
                "spans": [span.to_data() for span in self.history.spans(since)] if spans else [],
                "contention": self.history.contention(200),
                "gaps": [gap.to_data() for gap in self.history.gaps()],
            }

    def gaps(self) -> list[dict[str, Any]]:
        """The gaps alone."""
        with self._change:
            return [gap.to_data() for gap in self.history.gaps()]

    def after(self, seq: int) -> list[Line]:
        """The next events after one, oldest first, at most `BATCH_MAX`."""
        with self._change:
            if seq >= self._head:
                return []
            if self._kept and self._kept[0][0] <= seq + 1:
                newest_first = takewhile(lambda line: line[0] > seq, reversed(self._kept))
                return list(newest_first)[::-1][:BATCH_MAX]
        return [_line(event) for event in self._manager.events(seq, BATCH_MAX)]

    # The thread

    def _follow(self) -> None:
        follow = self._begin
        while not self._is_over:
            try:
                follow()
                follow = self._step
                self.trouble = None
            except HoldfastError as error:
                self.trouble = error
                self.changed()
                if not isinstance(error, StoreError) or not error.is_away:
                    return

    def _step(self) -> None:
        """Wait for a change for a moment, and take it in."""
        head = self._manager.store.wait(self._head, WAIT_SECONDS)
        if head > self._head:
            self._take()
        elif head < self._head:
            self._begin()
        self._look()

    def _look(self) -> None:
        """Check for changes without an event, every few seconds."""
        if monotonic() < self._pulse_due:
            return
        self._pulse_due = monotonic() + PULSE_SECONDS
        found = self._pulse()
        if found != self._last_pulse:
            self._last_pulse = found
            self.beat += 1
            self.changed()

    def _begin(self) -> None:
        """Read the ledger from its beginning, or as far back as history goes."""
        head = transactions.look(self._manager, lambda view: view.head)
        with self._change:
            self.epoch += head < self._head
            self._kept.clear()
            self.history = History()
            self._head = max(0, head - EVENTS_MAX)
        self._take()

    def _take(self) -> None:
        while True:
            some = list(self._manager.events(self._head, BATCH_MAX))
            lines = [_line(event) for event in some]
            with self._change:
                self.history.read(some)
                self._kept.extend(lines)
                if some:
                    self._head = some[-1].seq
            self.changed()
            if len(some) < BATCH_MAX or self._is_over:
                return


def _line(event: Event) -> Line:
    """An event as text, with its paths as a grant has them, so that readers need not know keys."""
    data = event_data(event)
    if event.type in (events.LOCK_ACQUIRED, events.TICKET_ADDED):
        reads, writes = covered(event.data)
        data["data"] = {**data["data"], "read_paths": reads, "write_paths": writes}
    return event.seq, as_json(data)


def as_json(value: Any) -> str:
    """A value as JSON on one line, in ASCII."""
    return json.dumps(value, separators=(",", ":"))
