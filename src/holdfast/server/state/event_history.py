"""History as it is drawn: spans of grants, contention by file, gaps. It is folded from the ledger's
events, one after the other, and keeps a bounded number of past spans and gaps.

Contention is counted for paths as requests named them. A folder that an agent reads is a path
of its own: requests for files in it that wait for the reader are not counted here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.core import codec, events
from holdfast.core.keys import INODE, kind
from holdfast.core.ledger_time import iso
from holdfast.core.model import READ, SECOND, Event
from holdfast.gate.door.delegated_calls import GAP
from holdfast.server.state.ledger_facts import without_anchors
from holdfast.work.engine import item_store
from holdfast.work.engine.work_items import ANALYZE, OPEN, QUEUED
from holdfast.work.screens.run_report import Gap

#: How many past spans, gaps and paths are kept.
SPANS_MAX = 3000
GAPS_MAX = 500
PATHS_MAX = 20_000
#: How many events back history begins, if the ledger is longer.
EVENTS_MAX = 50_000


class Span:
    """One grant, from its start to its end, if it has ended."""

    __slots__ = (
        "grant", "holder", "how", "item", "phase", "reads", "seq", "since", "until", "writes",
    )  # fmt: skip

    def __init__(
        self, grant: str, holder: str, reads: list[str], writes: list[str], since: int
    ) -> None:
        self.grant = grant
        self.holder = holder
        self.reads = reads
        self.writes = writes
        self.since = since
        self.until: int | None = None
        self.how = ""
        self.item = ""
        self.phase = ""
        #: The number of the event that last changed it.
        self.seq = 0

    def to_data(self) -> dict[str, Any]:
        return {
            "grant": self.grant, "holder": self.holder, "item": self.item, "phase": self.phase,
            "read_paths": self.reads, "write_paths": self.writes, "since": iso(self.since),
            "until": None if self.until is None else iso(self.until), "how": self.how,
        }  # fmt: skip


class Traffic:
    """The grants of one path, and the requests for it."""

    __slots__ = ("at", "grants", "held", "readers", "refused", "to_read", "to_write", "waited",
                 "writers")  # fmt: skip

    def __init__(self) -> None:
        self.at = 0
        self.grants = self.refused = 0
        self.readers = self.writers = 0
        self.to_read = self.to_write = 0
        self.held = self.waited = 0

    @property
    def waiting(self) -> int:
        """How many requests wait now because they cannot share the path with its holders."""
        waiting = self.to_write if self.readers or self.writers else 0
        return waiting + (self.to_read if self.writers else 0)

    @property
    def is_quiet(self) -> bool:
        return not (self.readers or self.writers or self.to_read or self.to_write)

    def pass_time(self, now: int) -> None:
        """Add the time since the last change here."""
        passed = max(0, now - self.at) if self.at else 0
        self.waited += self.waiting * passed
        self.held += passed if self.readers or self.writers else 0
        self.at = now

    def to_data(self, path: str, now: int) -> dict[str, Any]:
        self.pass_time(now)
        return {
            "path": path, "waiting": self.waiting, "writers": self.writers,
            "readers": self.readers, "grants": self.grants, "refused": self.refused,
            "waited_seconds": self.waited / SECOND,
            "held_seconds": self.held / SECOND,
        }  # fmt: skip


class History:
    """Reads the ledger event by event."""

    def __init__(self) -> None:
        self.head = 0
        self.gap_count = 0
        self._now = 0
        self._live: dict[str, Span] = {}
        self._over: OrderedDict[str, Span] = OrderedDict()
        self._traffic: dict[str, Traffic] = {}
        self._waiting: dict[str, tuple[list[str], list[str]]] = {}
        self._gaps: list[Gap] = []
        #: The open items by id: the names and phases under which their holders are shown.
        self._items: dict[str, tuple[str, str]] = {}
        #: The analyses of each controller.
        self._screens: dict[str, dict[str, None]] = {}

    def read(self, history: Iterable[Event]) -> None:
        """Read the next events."""
        for event in history:
            self.see(event)

    def see(self, event: Event) -> None:
        """Read one event."""
        self.head, self._now = event.seq, event.at
        data = event.data
        if event.type == events.LOCK_ACQUIRED:
            self._begin(event)
        elif event.type in events.ENDINGS:
            self._end(event)
        elif event.type == events.LOCK_REFUSED:
            for path in dict.fromkeys(data.get("paths", ())):
                self._at(path).refused += 1
        elif event.type == events.TICKET_ADDED:
            self._want(data["id"], *covered(data))
        elif event.type == events.TICKET_DROPPED:
            self._want(data["ticket"], [], [])
        elif event.type in item_store.ITEM_EVENTS:
            self._item(data)
        elif event.type == GAP:
            self._gap(event)

    def spans(self, since: int = 0) -> list[Span]:
        """Past and present spans, oldest first; only those that changed after event `since`."""
        return [one for one in (*self._over.values(), *self._live.values()) if one.seq > since]

    def gaps(self) -> list[Gap]:
        """The writes that agents wanted and were refused, the latest last."""
        return list(self._gaps)

    def contention(self, most: int) -> list[dict[str, Any]]:
        """The contended paths, the worst first."""
        contended = [
            (path, one)
            for path, one in self._traffic.items()
            if one.waiting or one.waited or one.refused
        ]
        contended.sort(key=lambda pair: (-pair[1].waiting, -pair[1].waited, -pair[1].refused))
        return [one.to_data(path, self._now) for path, one in contended[:most]]

    # Each reads one kind of event

    def _begin(self, event: Event) -> None:
        data = event.data
        reads, writes = covered(data)
        self._want(data["id"], [], [])  # the request may have waited
        holder = data["holder"]["id"]
        span = Span(data["id"], holder, reads, writes, event.at)
        if holder in self._items:  # a file that a task has leased at the write
            span.item, (span.holder, span.phase) = holder, self._items[holder]
        span.seq = event.seq
        self._live[span.grant] = span
        for path in reads:
            self._at(path).readers += 1
        for path in writes:
            self._at(path).writers += 1
        for path in (*reads, *writes):
            self._traffic[path].grants += 1

    def _end(self, event: Event) -> None:
        span = self._live.pop(event.data["grant"], None)
        if span is None:
            return  # granted before the first event that was read
        span.until, span.seq = event.at, event.seq
        span.how = events.ENDINGS[event.type] or event.data.get("why", "")
        for path in span.reads:
            self._at(path).readers -= 1
        for path in span.writes:
            self._at(path).writers -= 1
        self._over[span.grant] = span
        if len(self._over) > SPANS_MAX:
            self._over.popitem(last=False)

    def _item(self, data: Mapping[str, Any]) -> None:
        if data["phase"] == ANALYZE:
            self._screens.setdefault(data["data"].get("group", ""), {})[data["workflow"]] = None
        if data["status"] in OPEN:
            self._items[data["id"]] = (data["workflow"], data["phase"])
        else:
            self._items.pop(data["id"], None)
        waits = data["status"] == QUEUED and not data["grant_id"]
        writes = without_anchors(data["write_paths"])
        wanted = (data["read_paths"], writes) if waits else ([], [])
        self._want(data["id"], *wanted)
        span = self._live.get(data["grant_id"]) or self._over.get(data["grant_id"])
        if span is not None:
            span.item, span.holder, span.phase = data["id"], data["workflow"], data["phase"]
            span.seq = self.head

    def _gap(self, event: Event) -> None:
        data = event.data
        span = self._live.get(data["grant"]) or self._over.get(data["grant"])
        who, item, phase = data["client"], "", ""
        if span is not None:
            who, item, phase = span.holder, span.item, span.phase
        missed = (who,) if phase == ANALYZE else tuple(self._screens.get(who, ()))
        possible = data.get("possible", True)
        self._gaps.append(
            Gap(data["path"], who, item, data["why"], event.at, phase, missed, possible)
        )
        self.gap_count += 1
        del self._gaps[:-GAPS_MAX]

    # Helpers

    def _want(self, id: str, reads: list[str], writes: list[str]) -> None:
        """A request waits for these paths from now on, and for no others."""
        for sign, (old_reads, old_writes) in (
            (-1, self._waiting.pop(id, ([], []))),
            (1, (reads, writes)),
        ):
            for path in old_reads:
                self._at(path).to_read += sign
            for path in old_writes:
                self._at(path).to_write += sign
        if reads or writes:
            self._waiting[id] = (reads, writes)

    def _at(self, path: str) -> Traffic:
        found = self._traffic.get(path)
        if found is None:
            if len(self._traffic) >= PATHS_MAX:
                self._forget_paths()
            found = self._traffic[path] = Traffic()
        found.pass_time(self._now)
        return found

    def _forget_paths(self) -> None:
        """Forget half of the paths: idle ones with the least contention."""
        quiet = [(one.waited, one.refused, path) for path, one in self._traffic.items()
                 if one.is_quiet]  # fmt: skip
        for _waited, _refused, path in sorted(quiet)[: PATHS_MAX // 2]:
            del self._traffic[path]


def covered(data: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The paths of a grant or a request: those to read, and those to write."""
    keys = tuple(data["keys"])
    paths = data.get("paths") or codec.paths_of(keys)
    found: tuple[dict[str, None], dict[str, None]] = ({}, {})
    for key, mode, path in zip(keys, data["modes"], paths, strict=True):
        if kind(key) != INODE:
            found[mode != READ][path] = None
    return list(found[0]), without_anchors(list(found[1]))
