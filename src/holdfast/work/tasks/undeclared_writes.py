"""The files that tasks tried to write and had not declared, from the ledger.

Only tasks with `writes` have such gaps. Each write was refused, and its task continued without it:
the operator adds the file to `writes`, or accepts the refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.core.model import Event
from holdfast.gate.door.delegated_calls import GAP
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.work.engine.item_store import ITEM_EVENTS
from holdfast.work.tasks import task_records
from holdfast.work.tasks.task_records import TaskRecord


@dataclass(frozen=True, slots=True)
class Undeclared:
    """One such file. `controls` is the program that it controls, if any: then no list may declare
    it."""

    list: str
    task: str
    path: str
    at: int
    controls: str = ""

    def to_data(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def undeclared(manager: LockManager, name: str | None = None) -> list[Undeclared]:
    """The undeclared files of one list, or of all, each once: of the last attempts at its tasks,
    and without files that the task declares by now."""
    found = transactions.look(manager, lambda view: task_records.tasks_in(view, name))
    declare = {one.item: one for one in found if one.item and one.task.writes is not None}
    return list(_read(manager, declare)) if declare else []


def _read(manager: LockManager, declare: dict[str, TaskRecord]) -> Iterator[Undeclared]:
    by_grant: dict[str, TaskRecord] = {}
    told: set[tuple[str, str]] = set()
    for event in manager.events():
        if event.type in ITEM_EVENTS and event.data["id"] in declare:
            by_grant[event.data["grant_id"]] = declare[event.data["id"]]
        elif event.type == GAP and event.data["grant"] in by_grant:
            record = by_grant[event.data["grant"]]
            if _is_new(event, record, told):
                data = event.data
                yield Undeclared(
                    record.list, record.name, data["path"], event.at, data.get("controls", "")
                )


def _is_new(event: Event, record: TaskRecord, told: set[tuple[str, str]]) -> bool:
    path = event.data["path"]
    if path in (record.task.writes or ()) or (record.item, path) in told:
        return False
    told.add((record.item, path))
    return True
