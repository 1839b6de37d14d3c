"""Which tasks of a list can start, and which no longer can, by what they come after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core import bulk_rules
from holdfast.core.model import Decision
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.lists.task import TaskList
from holdfast.work.tasks.task_records import TaskRecord

if TYPE_CHECKING:
    from holdfast.core.view import View

#: How the failure of a task is described to those that come after it.
_ENDED = {task_states.FAILED: "failed", task_states.SKIPPED: "was skipped"}


class Readiness:
    """Of one list. Only tasks that `wants` accepts are started or skipped."""

    def __init__(self, tasks: TaskList, wants: Callable[[str], bool]) -> None:
        self._list = tasks.name
        self._wants = wants
        self._after: dict[str, list[str]] = {}
        for task in tasks:
            for name in task.after:
                self._after.setdefault(name, []).append(task.name)

    def after(self, name: str) -> list[str]:
        """The tasks that come right after one."""
        return self._after.get(name, [])

    def sort(self, view: View, names: Sequence[str]) -> tuple[list[TaskRecord], list[str]]:
        """Those of these tasks that can start now; and the names of those that never can."""
        known = _Known(view, self._list)
        waiting = [record for name in names if (record := self._waiting(known, name)) is not None]
        ready = [
            record for record in waiting
            if all(one.state == task_states.DONE for one in known.before(record))
        ]  # fmt: skip
        return ready, [record.name for record in waiting if known.obstacle(record) is not None]

    def skip(self, view: View, names: Sequence[str]) -> Decision[list[TaskRecord]]:
        """Skip those of these tasks that can never start, and all that come after them. In one
        step: a dispatcher that dies leaves none of them waiting."""
        known = _Known(view, self._list)
        decision: Decision[Any] = Decision(None)
        skipped: list[TaskRecord] = []
        left = list(names)
        while left:
            record = self._waiting(known, left.pop(0))
            failed = None if record is None else known.obstacle(record)
            if record is None or failed is None:
                continue
            why = f"it comes after {failed.name}, which {_ENDED[failed.state]}"
            new = record.moved(task_states.BLOCKED, reason=why, ended=view.now)
            decision = bulk_rules.with_note(
                view, decision, task_records.TASK_CHANGED, new.to_data(), name=new.note
            )
            known.learn(new)
            skipped.append(new)
            left += self.after(new.name)
        return Decision(skipped, decision.events, decision.wake, decision.hint)

    def _waiting(self, known: _Known, name: str) -> TaskRecord | None:
        record = known.record(name) if self._wants(name) else None
        return record if record is not None and record.state == task_states.WAITING else None


class _Known:
    """The records of one moment, each read once."""

    def __init__(self, view: View, list: str) -> None:
        self._view = view
        self._list = list
        self._found: dict[str, TaskRecord | None] = {}

    def record(self, name: str) -> TaskRecord | None:
        if name not in self._found:
            self._found[name] = task_records.task_in(self._view, self._list, name)
        return self._found[name]

    def learn(self, record: TaskRecord) -> None:
        """Add a record."""
        self._found[record.name] = record

    def before(self, record: TaskRecord) -> list[TaskRecord]:
        """What a task comes after."""
        found = (self.record(name) for name in record.task.after)
        return [one for one in found if one is not None]

    def obstacle(self, record: TaskRecord) -> TaskRecord | None:
        """A task that failed or was skipped, so that this one cannot start."""
        return next((one for one in self.before(record) if one.state in _ENDED), None)
