"""What happened in a demo, read from the ledger: how far each controller is, which agents waited
for which others.

A wait is an agent that could not start because another had one of its files, although there was a
free slot. It is computed from the grants alone, without the code of the dispatcher.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.cli.demo.demo_checks import ENDS, Held, clash, held
from holdfast.cli.demo.demo_words import GREEN
from holdfast.cli.terminal.tables import RED, YELLOW
from holdfast.core.model import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.core.model import Event

ANALYZE = "analyze"
#: A slot that is free for less time is about to be used.
SETTLED = SECOND // 20
#: States worth a line of their own; between them a workflow is only queued.
_TOLD = {"applying": "", "completed": GREEN, "error": RED}


class News(NamedTuple):
    """One event of a workflow."""

    at: int
    who: str
    text: str
    colour: str = ""


@dataclass(slots=True)
class Wait:
    """An agent that was not started because another had one of its files."""

    waiter: str
    phase: str
    holder: str
    path: str
    began: int
    seconds: float = 0.0

    def to_data(self) -> dict[str, Any]:
        found = asdict(self)
        del found["began"]
        return {**found, "seconds": round(self.seconds, 2)}


class Story:
    """Follows the ledger from its first event, and counts."""

    def __init__(self, root: str, slots: int) -> None:
        self.seen = 0
        self.began = 0
        self.ended = 0
        self.most_at_once = 0
        self.work_seconds = 0.0
        #: How far each controller is, as the dispatcher recorded it.
        self.states: dict[str, str] = {}
        self.items: dict[str, Mapping[str, Any]] = {}
        #: Which agents are running, and since when.
        self.out: dict[str, int] = {}
        self.waits: list[Wait] = []
        self.gaps: dict[tuple[str, str], str] = {}
        #: Which agents were retried, and why: workflow, phase and reason.
        self.retried: list[tuple[str, str, str]] = []
        #: Which checks failed so that a fix was needed: workflow, phase, after how long.
        self.failed: list[tuple[str, str, float]] = []
        self._root = root
        self._slots = slots
        #: Items that were in progress when their dispatcher was killed.
        self._cut: set[str] = set()
        #: Whether there is no dispatcher, until another starts an agent.
        self._is_cut = False
        self._live: dict[str, Held] = {}
        self._behind: dict[tuple[str, str], Wait] = {}
        self._told: set[tuple[str, str]] = set()

    def read(self, events: Sequence[Event]) -> list[News]:
        """Continue with these events. The news worth printing."""
        return [news for event in events for news in self._see(event)]

    def cut_off(self) -> int:
        """The dispatcher was killed: no agent runs any more. How many were running."""
        self._cut, self._is_cut = set(self.out), True
        self.out.clear()
        return len(self._cut)

    def analysed(self, group: str) -> int:
        """How many screens of a controller are done."""
        return sum(
            item["workflow"].startswith(f"{group}/") and item["status"] == "completed"
            for item in self.items.values()
        )

    def waiting(self) -> list[Wait]:
        """The present waits."""
        return list(self._behind.values())

    @property
    def queued(self) -> int:
        """How many items are queued."""
        return sum(item["status"] == "queued" for item in self.items.values())

    # One event

    def _see(self, event: Event) -> list[News]:
        news = self._settle(event.at)
        self.seen, self.ended = event.seq, event.at
        self.began = self.began or event.at
        data = event.data
        if event.type == "lock_acquired":
            self._taken(data["id"], held(event), event.at)
        elif event.type in ENDS:
            self._given(data["grant"], event.at)
        elif event.type == "work_state":
            self.states[data["workflow"]] = state = data["state"]
            if state in _TOLD:
                reason = f": {data['reason']}" if data["reason"] else ""
                news.append(News(event.at, data["workflow"], f"{state}{reason}", _TOLD[state]))
        elif event.type == "coverage_gap":
            news += self._refused(event)
        elif event.type.startswith("work_") and "status" in data:
            news += self._changed(event)
        return news

    def _changed(self, event: Event) -> list[News]:
        item = event.data
        known = self.items.get(item["id"], {})
        self.items[item["id"]] = item
        if item["status"] == "dispatched":
            # a process that cleans up after a dead one takes over its locks, and starts no agent
            if item["dispatched"] != known.get("dispatched"):
                self._is_cut = False
                self.out[item["id"]] = event.at
                self.most_at_once = max(self.most_at_once, len(self.out))
        else:
            took = (event.at - self.out.pop(item["id"], event.at)) / SECOND
            if event.type != "work_retried":
                self.work_seconds += took
            if item["phase"] == "fix" and known.get("phase") != "fix":
                self.failed.append((item["workflow"], item["data"]["failed"], took))
        if item["status"] == "queued" and not item["grant_id"]:
            self._queued(item, event.at)
        else:
            self._forget(lambda waiter, _grant: waiter == item["id"], event.at)
        return self._trouble(event, item, known)

    def _trouble(
        self, event: Event, item: Mapping[str, Any], known: Mapping[str, Any]
    ) -> list[News]:
        who = item["workflow"]
        if event.type == "work_retried":
            self.retried.append((who, item["phase"], item["reason"]))
            if item["id"] in self._cut:
                self._cut.remove(item["id"])
                return []  # it was reported with all the others
            return [News(event.at, who, f"{item['reason']}; it is run again", RED)]
        if item["phase"] == "fix" and known.get("phase") != "fix":
            failed = item["data"]["failed"]
            return [News(event.at, who, f"its {failed} failed; a fix is tried", RED)]
        return []

    def _refused(self, event: Event) -> list[News]:
        grant = self._live.get(event.data["grant"])
        item = self.items.get(grant.holder) if grant is not None else None
        who = item["workflow"] if item is not None else "an agent"
        path = event.data["path"].removeprefix(f"{self._root}/")
        if (who, path) in self.gaps:
            return []
        self.gaps[who, path] = event.data["why"]
        return [News(event.at, who, f"is refused {path}, which it did not name", RED)]

    # Waits

    def _taken(self, grant: str, new: Held, at: int) -> None:
        self._live[grant] = new
        for item in self.items.values():
            if item["status"] == "queued" and not item["grant_id"] and item["id"] != new.holder:
                self._compare(item, grant, at)

    def _given(self, grant: str, at: int) -> None:
        self._live.pop(grant, None)
        self._forget(lambda _waiter, other: other == grant, at)

    def _queued(self, item: Mapping[str, Any], at: int) -> None:
        for grant in self._live:
            self._compare(item, grant, at)

    def _compare(self, item: Mapping[str, Any], grant: str, at: int) -> None:
        holder = self._live[grant]
        path = clash(_wanted(item), holder)
        if path and (item["id"], grant) not in self._behind:
            other = self.items.get(holder.holder, {}).get("workflow", holder.holder)
            wait = Wait(item["workflow"], item["phase"], other, path, at)
            self._behind[item["id"], grant] = wait

    def _settle(self, now: int) -> list[News]:
        """If a slot was free all the time since the last event, an item that is behind another
        waits for its files and for nothing else."""
        if self._is_cut or len(self.out) >= self._slots or now - self.ended < SETTLED:
            return []
        news = []
        for key, wait in self._behind.items():
            if key not in self._told:
                self._told.add(key)
                self.waits.append(wait)
                text = f"waits for {wait.holder}: {wait.path}"
                news.append(News(self.ended, wait.waiter, text, YELLOW))
        return news

    def _forget(self, is_over: Callable[[str, str], bool], at: int) -> None:
        for key in [key for key in self._behind if is_over(*key)]:
            wait = self._behind.pop(key)
            wait.seconds += (at - wait.began) / SECOND
            self._told.discard(key)


def _wanted(item: Mapping[str, Any]) -> Held:
    """What an item requests, as if it held it."""
    paths = (*item["read_paths"], *item["write_paths"])
    modes = "r" * len(item["read_paths"]) + "w" * len(item["write_paths"])
    return Held(item["id"], 0, paths, modes, paths)
