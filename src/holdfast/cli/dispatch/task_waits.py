"""Waits of tasks for holders outside their list.

It is ordinary that one task waits for another, and passes. But a person who has locked a file, an
agent or another list may keep a task waiting for hours; the operator has to know the holder.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.cli.printing import local, plain
from holdfast.core.conflicts import in_the_way
from holdfast.core.draft import Draft
from holdfast.core.model import READ, SECOND
from holdfast.core.sentences import duration
from holdfast.manager import transactions
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.work_items import QUEUED
from holdfast.work.tasks import task_records

if TYPE_CHECKING:
    from holdfast.core.model import ConflictInfo
    from holdfast.core.view import View
    from holdfast.manager.manager import LockManager
    from holdfast.work.tasks.task_records import TaskRecord

    Question = Callable[[View], list[ConflictInfo]]

#: How long a task waits before that is printed.
PATIENCE_SECONDS = 5.0
#: How often the ledger is queried, unless a query takes long, and for how many tasks that have not
#: started.
LOOK_SECONDS = 1.0
LOOK_PART = 20
NOT_BEGUN_MAX = 20


@dataclass(frozen=True, slots=True)
class Wait:
    """A task that waits for a holder outside its list. `is_out` is whether an agent of it is
    running; times are microseconds."""

    task: str
    holder: str
    path: str
    waited: int
    is_out: bool
    sentence: str


class Waits:
    """Finds them, and remembers what each task that has not started wants."""

    def __init__(self, manager: LockManager, name: str) -> None:
        self._manager = manager
        self._list = name
        self._item_store = ItemStore(manager)
        self._questions: dict[str, Question] = {}
        self._due = 0.0
        self.found: list[Wait] = []

    def look(self) -> list[Wait]:
        """The waits of now, or of a moment ago: the ledger is queried at most once a second."""
        began = time.monotonic()
        if began >= self._due:
            questions = self._unbegun()
            self.found = transactions.look(self._manager, lambda view: self._found(view, questions))
            now = time.monotonic()
            self._due = max(began + LOOK_SECONDS, now + LOOK_PART * (now - began))
        return self.found

    def _unbegun(self) -> dict[str, tuple[int, Question]]:
        """What the first queued items want, and since when."""
        own = [item for item in self._item_store.items()
               if item.status == QUEUED and not item.grant_id
               and item.data.get("list") == self._list]  # fmt: skip
        first = sorted(own, key=lambda item: item.rank)[:NOT_BEGUN_MAX]
        kept = self._questions
        self._questions = {item.id: kept.get(item.id) or self._item_store.question(item)
                           for item in first}  # fmt: skip
        return {item.id: (max(item.queued, item.not_before), self._questions[item.id])
                for item in first}  # fmt: skip

    def _found(self, view: View, questions: Mapping[str, tuple[int, Question]]) -> list[Wait]:
        known = {
            one.item: one for one in task_records.tasks_in(view) if one.item and not one.is_over
        }
        own = {id: one for id, one in known.items() if one.list == self._list}
        found: list[Wait] = []
        for ticket in view.queue():
            id = ticket.request.holder.id
            if id in own:
                conflicts = in_the_way(Draft(view), ticket.request, ticket.arrival)
                waited = view.now - ticket.added_at
                found += self._waits(own[id], conflicts, known, waited, view.now, is_out=True)
        for id, (since, question) in questions.items():
            if id in own and since < view.now:
                waited = view.now - since
                found += self._waits(
                    own[id], question(view), known, waited, view.now, is_out=False
                )  # fmt: skip
        return found

    def _waits(
        self,
        task: TaskRecord,
        conflicts: Iterable[ConflictInfo],
        known: Mapping[str, TaskRecord],
        waited: int,
        now: int,
        *,
        is_out: bool,
    ) -> list[Wait]:
        """One for each holder that is no task of the list, for the first of its files."""
        found: dict[str, Wait] = {}
        for one in conflicts:
            other = known.get(one.holder)
            if one.holder not in found and (other is None or other.list != self._list):
                said = _sentence(one, other, now)
                found[one.holder] = Wait(task.name, one.holder, one.path, waited, is_out, said)
        return [*found.values()]


def _sentence(conflict: ConflictInfo, task: TaskRecord | None, now: int) -> str:
    """The holder, since when, until when, and what to do."""
    path, who = plain(conflict.path), plain(conflict.holder)
    since = duration(now - conflict.since)
    if conflict.kind == "reservation":
        return f"{path} is reserved for {who}, which has waited for {since}"
    verb = "reading" if conflict.held_mode == READ else "writing"
    if task is not None:
        whose = f"task {plain(task.name)} of {plain(task.list)}"
        return f"{path} has been locked for {verb} by {whose} for {since}, until that task ends"
    said = f"{path} has been locked for {verb} by {who} for {since}"
    name = shlex.quote(plain(conflict.held_path))
    if conflict.until is None:
        force = f"holdfast unlock --force {name}"
        return f"{said}, until {who} ends; wait, or release it by force: {force}"
    until = local(time.time() + (conflict.until - now) / SECOND)
    return f"{said}, until {until}; to release it: holdfast unlock {name} (as {who}), or wait"


def in_words(waits: Iterable[Wait]) -> str:
    """What the running agents wait for, in one line; empty if none waits."""
    return "; ".join(
        f"{plain(one.task)} waits for {plain(one.path)}, which {plain(one.holder)} has locked"
        for one in waits if one.is_out
    )  # fmt: skip
