"""The result of a run, read from the ledger alone, by any process and at any time.

It covers screens and controllers only: a task has a record of its own
(`holdfast.work.tasks.task_records`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.model import SECOND, Event
from holdfast.gate.door.delegated_calls import GAP
from holdfast.manager.files.control_files import control_of
from holdfast.manager.manager import LockManager
from holdfast.work.engine import item_store as events
from holdfast.work.engine.work_items import (
    ANALYZE,
    COMPLETED,
    DISPATCHED,
    ERROR,
    WorkItem,
)
from holdfast.work.screens.workflow_records import Flow


@dataclass(slots=True)
class Gap:
    """A file that an agent was refused to write, or a folder that it was refused to make; `screens`
    are the workflows whose analyses should have named it."""

    path: str
    workflow: str
    item: str
    why: str
    at: int
    phase: str = ""
    screens: tuple[str, ...] = ()
    #: Whether a grant could cover it at all; none covers a folder, or a file that controls us or a
    #: client.
    possible: bool = True
    #: The program that it controls, if any.
    controls: str = ""
    #: Whether a finished merge had written it before: an amendment does not change such a file.
    finished: bool = False

    def to_data(self) -> dict[str, Any]:
        return {
            "path": self.path, "workflow": self.workflow, "item": self.item, "why": self.why,
            "at": self.at, "phase": self.phase, "screens": list(self.screens),
            "possible": self.possible, "controls": self.controls, "finished": self.finished,
        }  # fmt: skip

    def is_missing(self, flows: Mapping[str, Flow]) -> bool:
        """Whether the next merge of its controller needs it: not if an analysis tried to write it,
        and not if it was added already."""
        flow = flows.get(self.workflow)
        targets = flow.data.get("targets", ()) if flow is not None else ()
        return self.possible and self.phase != ANALYZE and self.path not in targets


@dataclass(slots=True)
class Report:
    """The work since an event, in figures."""

    began: int = 0
    ended: int = 0
    items: int = 0
    completed: int = 0
    failed: list[WorkItem] = field(default_factory=list)
    retried: int = 0
    most_at_once: int = 0
    worked_seconds: float = 0.0
    gaps: list[Gap] = field(default_factory=list)

    @property
    def wall_seconds(self) -> float:
        return max(0.0, (self.ended - self.began) / SECOND)

    def to_data(self) -> dict[str, Any]:
        return {
            "wall_seconds": round(self.wall_seconds, 3),
            "worked_seconds": round(self.worked_seconds, 3),
            "most_at_once": self.most_at_once,
            "items": self.items,
            "completed": self.completed,
            "retried": self.retried,
            "failed": [
                {"workflow": one.workflow, "phase": one.phase, "reason": one.reason}
                for one in self.failed
            ],
            "gaps": [gap.to_data() for gap in self.gaps],
        }


def report(manager: LockManager, since: int = 0) -> Report:
    """Everything that happened after an event."""
    return _Reading().read(manager.events(after=since))


class _Reading:
    """One reading of the ledger, from start to end."""

    def __init__(self) -> None:
        self._report = Report()
        self._out: dict[str, int] = {}
        self._by_grant: dict[str, WorkItem] = {}
        self._screens: dict[str, dict[str, None]] = {}
        self._told: set[tuple[str, str]] = set()
        self._finished: dict[str, set[str]] = {}

    def read(self, history: Iterable[Event]) -> Report:
        for event in history:
            if event.type == GAP:
                self._gap(event)
            elif event.type in events.ITEM_EVENTS and "list" not in event.data["data"]:
                self._item(event, WorkItem.from_data(event.data))
        return self._report

    def _item(self, event: Event, item: WorkItem) -> None:
        made = self._report
        made.began = made.began or event.at
        made.ended = event.at
        if item.grant_id:
            self._by_grant[item.grant_id] = item
        if item.phase == ANALYZE:
            self._screens.setdefault(item.data.get("group", ""), {})[item.workflow] = None
        if event.type == events.ITEM_QUEUED:
            made.items += 1
        if event.type == events.ITEM_RETRIED:
            made.retried += 1
        if item.status == DISPATCHED:
            self._out.setdefault(item.id, event.at)
            made.most_at_once = max(made.most_at_once, len(self._out))
        elif item.id in self._out:
            made.worked_seconds += (event.at - self._out.pop(item.id)) / SECOND
        if item.status == COMPLETED:
            made.completed += 1
            self._finished.setdefault(item.workflow, set()).update(item.data.get("targets", ()))
        elif item.status == ERROR:
            made.failed.append(item)

    def _gap(self, event: Event) -> None:
        data = event.data
        item = self._by_grant.get(data["grant"])
        if item is None or (item.id, data["path"]) in self._told:
            return
        self._told.add((item.id, data["path"]))
        is_merge = item.phase != ANALYZE
        screens = self._screens.get(item.workflow, ()) if is_merge else (item.workflow,)
        known = control_of(data["path"])  # older records may lack this
        controls = data.get("controls") or (known.of if known is not None else "")
        self._report.gaps.append(
            Gap(
                data["path"], item.workflow, item.id, data["why"], event.at, item.phase,
                tuple(screens), data.get("possible", True) and not controls, controls,
                data["path"] in self._finished.get(item.workflow, ()),
            )
        )  # fmt: skip
