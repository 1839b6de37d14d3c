"""The ledger as it grows, read once for all who watch.

One thread waits for the ledger, and says when there is something new. What an event is as text is
made once. The last of them are kept; a reader that is further behind reads the ledger itself, so
that none misses an event, however slow it is.

Some of what is shown changes without an event: a dispatcher that is killed writes nothing. So the
same thread looks every few seconds, and raises `beat` if there is news of that kind.
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
from holdfast.core.errors import HoldfastError
from holdfast.core.model import Event
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.manager.plain_data import event_data
from holdfast.server.state.event_history import EVENTS_MAX, History, covered

#: How many events are kept as text.
KEPT_MAX = 5000
#: How many are handed out at a time.
BATCH_MAX = 500
#: How long the thread waits before it looks whether it should end.
WAIT_SECONDS = 0.25
#: How often it looks for what changes without an event.
PULSE_SECONDS = 2.0

#: An event's number, and the event as text.
Line = tuple[int, str]


class Feed:
    """Follows the ledger. `epoch` is another one if the ledger was replaced by another."""

    def __init__(self, manager: LockManager, pulse: Callable[[], object] = lambda: None) -> None:
        """`pulse` is what is looked at every few seconds; it is compared with what it was."""
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
        #: How often something changed without an event.
        self.beat = 0
        #: Why it does not follow any more; empty as long as it does.
        self.error = ""
        self._thread = threading.Thread(target=self._follow, name="holdfast feed", daemon=True)

    def start(self) -> None:
        """Begin to follow. What changes from now on is told, however late the thread begins."""
        self._last_pulse = self._pulse()
        self._thread.start()

    def close(self) -> None:
        """Follow no more, and let everybody go who waits."""
        with self._change:
            self._is_over = True
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_over(self) -> bool:
        """Whether it was closed, or cannot read the ledger any more."""
        return self._is_over or bool(self.error)

    @property
    def head(self) -> int:
        """The number of the last event that it has seen."""
        with self._change:
            return self._head

    def has_been(self, seq: int) -> bool:
        """Whether the ledger had an event of that number. It may be ahead of what was read."""
        return seq <= self.head or seq <= transactions.look(self._manager, lambda view: view.head)

    def seen(self, *, spans: bool = True, since: int = 0) -> dict[str, Any]:
        """What has happened, as far as it was read, as data; of spans, those that changed after an
        event."""
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
        """The next events after one, oldest first; as many as are handed out at a time."""
        with self._change:
            if seq >= self._head:
                return []
            if self._kept and self._kept[0][0] <= seq + 1:
                newest_first = takewhile(lambda line: line[0] > seq, reversed(self._kept))
                return list(newest_first)[::-1][:BATCH_MAX]
        return [_line(event) for event in self._manager.events(seq, BATCH_MAX)]

    # The thread

    def _follow(self) -> None:
        try:
            self._begin()
            while not self._is_over:
                head = self._manager.store.wait(self._head, WAIT_SECONDS)
                if head > self._head:
                    self._take()
                elif head < self._head:
                    self._begin()
                self._look()
        except HoldfastError as error:
            self.error = error.message
            self.changed()

    def _look(self) -> None:
        """Look for what changes without an event, every few seconds."""
        if monotonic() < self._pulse_due:
            return
        self._pulse_due = monotonic() + PULSE_SECONDS
        found = self._pulse()
        if found != self._last_pulse:
            self._last_pulse = found
            self.beat += 1
            self.changed()

    def _begin(self) -> None:
        """Read what there is, or what there is now that the ledger is another one."""
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
    """An event as text. What it covers is told as for a grant, so that nobody has to know keys."""
    data = event_data(event)
    if event.type in (events.LOCK_ACQUIRED, events.TICKET_ADDED):
        reads, writes = covered(event.data)
        data["data"] = {**data["data"], "read_paths": reads, "write_paths": writes}
    return event.seq, as_json(data)


def as_json(value: Any) -> str:
    """On one line and in ASCII, whatever is in the texts."""
    return json.dumps(value, separators=(",", ":"))
