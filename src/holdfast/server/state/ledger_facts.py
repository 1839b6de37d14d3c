"""The facts about work and locks in one view of the ledger, read once, so that they agree."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.core import rules
from holdfast.gate.people.file_standing import standings
from holdfast.gate.rulebook.file_states import RETRY_PENDING
from holdfast.work.engine import item_store, scheduler
from holdfast.work.engine.work_items import DISPATCHED, HELD, QUEUED, WorkItem
from holdfast.work.screens import assignment, workflow_records
from holdfast.work.tasks import task_records

if TYPE_CHECKING:
    from holdfast.core.model import ConflictInfo, Event, Grant, Ticket
    from holdfast.core.view import View
    from holdfast.gate.people.file_standing import Standing
    from holdfast.work.tasks.task_records import ListRecord, TaskRecord

#: The resource that represents a task itself (`work.tasks.attempt.anchor`): not a file.
_ANCHOR = re.compile(r"task:[A-Za-z0-9-]+-[0-9a-f]{6}")


def without_anchors(paths: list[str]) -> list[str]:
    """Paths without the resources that represent tasks."""
    return [path for path in paths if not _ANCHOR.fullmatch(path)]


def covers_files(grant: Grant) -> bool:
    """Whether a grant covers anything besides a task itself."""
    return any(not _ANCHOR.fullmatch(path) for path in grant.paths)


class Moment:
    """The facts in one view of the ledger."""

    def __init__(self, view: View) -> None:
        self.head, self.now = view.head, view.now
        #: With a length, leases without a ttl have an end, which their owners keep moving.
        self.lease = view.lease
        self.grants: list[Grant] = [one for one in view.grants() if rules.is_live(view, one)]
        self.tickets: list[Ticket] = [
            one for one in view.queue() if rules.has_live_waiter(view, one)
        ]
        found = [WorkItem.from_data(event.data) for event in view.notes(item_store.NOTES)]
        self.items = {item.id: item for item in sorted(found, key=lambda item: item.arrival)}
        ids = ((id, item) for item in found for id in (item.id, item.grant_id, item.ticket))
        self._items = {id: item for id, item in ids if id}
        self.flows = {
            event.data["workflow"]: event.data for event in view.notes(workflow_records.NOTES)
        }
        self.assignment: Event | None = view.note(assignment.NOTE)
        self.dispatcher: Event | None = view.note(assignment.DISPATCHER)
        trouble = view.note(scheduler.TROUBLE)
        self.trouble: str = "" if trouble is None else trouble.data["error"]
        self.agents = standings(view, self.grants)
        self.standing = {(one.key, one.file): one for one in self.agents}
        self.lists: list[ListRecord] = task_records.lists_in(view)
        self.tasks: list[TaskRecord] = _listed(self.lists, task_records.tasks_in(view))

    @property
    def active(self) -> list[WorkItem]:
        """The items that an agent works on, in the order of their dispatch."""
        found = [item for item in self.items.values() if item.status == DISPATCHED]
        return sorted(found, key=lambda item: item.dispatched)

    @property
    def held(self) -> list[WorkItem]:
        """The items that keep their locks until a person has decided, in the same order."""
        found = [item for item in self.items.values() if item.status == HELD]
        return sorted(found, key=lambda item: item.dispatched)

    @property
    def queued(self) -> list[WorkItem]:
        """The items that wait, in the order in which they will be dispatched."""
        found = [item for item in self.items.values() if item.status == QUEUED]
        return sorted(found, key=lambda item: item.rank)

    @property
    def others(self) -> list[Grant]:
        """Grants that belong to no item: those of agents and people without a dispatcher."""
        return [grant for grant in self.grants if self.item_of(grant.id, grant.holder.id) is None]

    @property
    def strangers(self) -> list[Ticket]:
        """Tickets that belong to no item."""
        found = ((one, self.item_of(one.id, one.request.holder.id)) for one in self.tickets)
        return [ticket for ticket, item in found if item is None]

    @property
    def strays(self) -> list[Standing]:
        """Agents that wait for a file without a ticket."""
        return [one for one in self.agents if one.state == RETRY_PENDING and not one.line]

    @property
    def calls(self) -> dict[str, Ticket]:
        """For each item at work of which a call waits for a file, the ticket of that call."""
        found = ((self._items.get(one.request.holder.id), one) for one in self.tickets)
        return {item.id: ticket for item, ticket in found
                if item is not None and item.ticket != ticket.id}  # fmt: skip

    def item_of(self, *ids: str) -> WorkItem | None:
        """The item that a grant, a ticket or a holder belongs to."""
        return next((self._items[id] for id in ids if id in self._items), None)

    def item_behind(self, conflict: ConflictInfo) -> WorkItem | None:
        """The item of the holder that a conflict names."""
        return self.item_of(conflict.grant_id, conflict.holder)

    def name(self, conflict: ConflictInfo) -> str:
        """The display name of the holder in a conflict: for an item, its workflow or task."""
        item = self.item_behind(conflict)
        return conflict.holder if item is None else item.workflow


def task_of(item: WorkItem) -> tuple[str, str] | None:
    """The list and the name of an item's task; None if the item is not an attempt at a task."""
    if "list" not in item.data or "task" not in item.data:
        return None
    return str(item.data["list"]), str(item.data["task"])


def _listed(lists: list[ListRecord], tasks: list[TaskRecord]) -> list[TaskRecord]:
    """The tasks that are in their list as it was last started."""
    names = {(one.name, task) for one in lists for task in one.tasks}
    return [one for one in tasks if (one.list, one.name) in names]
