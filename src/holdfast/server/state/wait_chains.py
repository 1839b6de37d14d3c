"""Chains of waiting: A waits for B, which waits for C.

An item waits for the holder of a file that it needs; a task also for the tasks that it comes after,
and a task at work for the holder of a file that one of its calls waits for. Of several, the chain
follows the first, so it is one path through the graph, and ends where nothing more is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.core.conflicts import in_the_way
from holdfast.core.draft import Draft
from holdfast.server.state.ledger_facts import Moment, task_of
from holdfast.server.visible_text import visible
from holdfast.work.engine.work_items import QUEUED, WorkItem
from holdfast.work.tasks import task_states

if TYPE_CHECKING:
    from holdfast.core.model import ConflictInfo
    from holdfast.core.view import View
    from holdfast.work.tasks.task_records import TaskRecord

    #: Finds the conflicts of an item that waits.
    Question = Callable[[WorkItem], list[ConflictInfo]]

#: How many steps a chain has at most.
STEPS_MAX = 8
#: Why a task waits for another one, if not for a file.
AFTER = "comes after it"


@dataclass(frozen=True, slots=True)
class Link:
    """One step: the holder that the previous one waits for, its name, and the file."""

    node: str
    name: str
    path: str

    def to_data(self) -> dict[str, str]:
        return {"name": self.name, "path": self.path}


class Chains:
    """The chains at one moment. Each conflict is looked up once."""

    def __init__(self, now: Moment, view: View, question: Question) -> None:
        self._now = now
        self._view = view
        self._question = question
        self._links: dict[str, Link | None] = {}
        self._tasks = {(one.list, one.name): one for one in now.tasks}
        self._calls = now.calls

    def of_item(self, item: WorkItem) -> list[dict[str, str]]:
        """The chain of an item."""
        return self._chain(self._node(item))

    def of_task(self, task: TaskRecord) -> list[dict[str, str]]:
        """The chain of a task."""
        return self._chain(_node_of(task))

    def after(self, conflicts: list[ConflictInfo]) -> list[dict[str, str]]:
        """The chain of a request with these conflicts."""
        first = self._first(conflicts)
        return [] if first is None else [first.to_data(), *self._chain(first.node)]

    def _chain(self, node: str) -> list[dict[str, str]]:
        steps: list[dict[str, str]] = []
        seen = {node}
        link = self._link(node)
        while link is not None and len(steps) < STEPS_MAX:
            steps.append(link.to_data())
            if link.node in seen:
                break  # a deadlock that is about to be resolved
            seen.add(link.node)
            link = self._link(link.node)
        return steps

    def _link(self, node: str) -> Link | None:
        if node not in self._links:
            self._links[node] = None  # until it is found
            self._links[node] = self._found(node)
        return self._links[node]

    def _found(self, node: str) -> Link | None:
        list, separator, name = node.partition("\0")
        if separator:
            task = self._tasks.get((list, name))
            if task is not None and task.state == task_states.WAITING:
                return self._before(task)
            item = None if task is None else self._now.items.get(task.item)
        else:
            item = self._now.items.get(node)
        return None if item is None else self._first(self._conflicts(item))

    def _before(self, task: TaskRecord) -> Link | None:
        """The first of the tasks before it that is not done."""
        before = (self._tasks.get((task.list, name)) for name in task.task.after)
        left = [one for one in before if one is not None and one.state != task_states.DONE]
        return Link(_node_of(left[0]), left[0].name, "") if left else None

    def _conflicts(self, item: WorkItem) -> list[ConflictInfo]:
        if item.status == QUEUED and not item.grant_id:
            return self._question(item)
        ticket = self._calls.get(item.id)
        if ticket is None:
            return []
        return in_the_way(Draft(self._view), ticket.request, ticket.arrival)

    def _first(self, conflicts: list[ConflictInfo]) -> Link | None:
        if not conflicts:
            return None
        first = conflicts[0]
        item = self._now.item_behind(first)
        node = first.holder if item is None else self._node(item)
        return Link(node, self._now.name(first), first.path)

    def _node(self, item: WorkItem) -> str:
        task = task_of(item)
        return item.id if task is None else f"{task[0]}\0{task[1]}"


def _node_of(task: TaskRecord) -> str:
    return f"{task.list}\0{task.name}"


def sentence(name: str, chain: list[Mapping[str, Any]] | list[dict[str, str]]) -> str:
    """A chain in words: `A waits for B (a.txt), which waits for C`."""
    steps = [f"{one['name']}{' (' + one['path'] + ')' if one['path'] else ''}" for one in chain]
    return visible(f"{name} waits for {', which waits for '.join(steps)}") if steps else ""
