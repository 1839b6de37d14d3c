"""A task in the ledger, and the list that it belongs to: typed records, each the last word.

    work:tasks:LIST        ListRecord   a list that was begun, with its tasks as they were then
    work:task:LIST:NAME    TaskRecord   one task: how it stands, and what has come of it

The event's version says how a record is spelled; one that a newer Holdfast wrote is refused in
words. Only this module knows how these notes are named and spelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from holdfast.core import bulk_rules
from holdfast.core.codec import witness_from_list
from holdfast.core.errors import RecordVersionError
from holdfast.core.model import Decision, Event, Witness
from holdfast.work.tasks import task_states
from holdfast.work.tasks.lists.task import Task

if TYPE_CHECKING:
    from holdfast.core.view import View

LISTS = "work:tasks:"
TASKS = "work:task:"

LIST_BEGUN = "task_list_begun"
LIST_ENDED = "task_list_ended"
TASK_CHANGED = "task_changed"
TASK_FORGOTTEN = "task_forgotten"
VERSION = 1

#: How many of the last lines that an agent or a check printed are kept with its record.
TAIL_LINES = 12


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """How one task stands. Times are microseconds of ledger time, 0 for never.

    `item` is the work item of its present or last attempt, whose folder below `.holdfast/runs` has
    the output and `changes.patch`. `needs` are the files that an attempt which was undone is known
    to have written: the next one takes all of them at its start. `files` are those that the task
    has changed. `tail` is the end of what was printed by whatever failed. `waited_microseconds` is
    how long its calls stood in line for the files of others.
    """

    list: str
    task: Task
    state: str = task_states.WAITING
    reason: str = ""
    item: str = ""
    #: Attempts that were begun, and how many of them ended because the agent failed or was killed:
    #: only those count against the limit.
    tries: int = 0
    failures: int = 0
    #: How often the check of the present attempt failed.
    round: int = 0
    began: int = 0
    ended: int = 0
    worked_microseconds: int = 0
    waited_microseconds: int = 0
    needs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    commit: str = ""
    #: The file with all that was printed, relative to the root.
    log: str = ""
    tail: tuple[str, ...] = ()
    #: Who approved or rejected it.
    decision: str = ""
    #: While it lands: what is committed, in git's own names.
    landing: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.task.name

    @property
    def note(self) -> str:
        """What the record is asked for by."""
        return note_of(self.list, self.task.name)

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to it by itself."""
        return self.state in task_states.OVER

    def moved(self, cause: str, **changes: Any) -> TaskRecord:
        """The record after a transition. Raises KeyError if there is no such transition."""
        return replace(self, state=task_states.after(self.state, cause), **changes)

    def but(self, **changes: Any) -> TaskRecord:
        """The same task in the same state, of which something else has changed."""
        return replace(self, **changes)

    def to_data(self) -> dict[str, Any]:
        """What the event says; also for `--json`."""
        found: dict[str, Any] = {}
        for name in _NAMES:
            value = getattr(self, name)
            if isinstance(value, Task):
                value = value.to_data()
            found[name] = list(value) if isinstance(value, tuple) else value
        return {**found, "name": self.name}

    @classmethod
    def from_event(cls, event: Event) -> TaskRecord:
        """The record that an event holds. Raises RecordVersionError."""
        data = _readable(event)
        given = {name: data[name] for name in _NAMES if name in data}
        given["task"] = Task.from_data(data["task"])
        for key in ("needs", "files", "tail"):
            given[key] = tuple(given.get(key, ()))
        return cls(**given)


#: Of the fields of a record, which are many and read often.
_NAMES = tuple(one.name for one in fields(TaskRecord))


@dataclass(frozen=True, slots=True)
class ListRecord:
    """A list that was begun. `review` is whether a person decides on each task; `by` is the witness
    of the dispatcher that began it last, as `codec.witness_to_list` spells it, and `beside` those
    of earlier ones that were not proven dead then; `command` is what a person types to go on with
    it."""

    name: str
    tasks: tuple[str, ...]
    slots: int
    review: bool = False
    is_checklist: bool = False
    began: int = 0
    by: tuple[Any, ...] = ()
    command: str = ""
    beside: tuple[tuple[Any, ...], ...] = ()

    @property
    def note(self) -> str:
        """What the record is asked for by."""
        return f"{LISTS}{self.name}"

    def to_data(self) -> dict[str, Any]:
        """What the event says."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        found = {key: list(value) if isinstance(value, tuple) else value
                 for key, value in values.items()}  # fmt: skip
        return {**found, "beside": [list(one) for one in self.beside]}

    @property
    def dispatchers(self) -> list[Witness]:
        """The processes that were to do the work when it was begun last."""
        found = (witness_from_list(list(one)) for one in (self.by, *self.beside) if one)
        return [one for one in found if one is not None]

    @classmethod
    def from_event(cls, event: Event) -> ListRecord:
        """The record that an event holds. Raises RecordVersionError."""
        data = _readable(event)
        given = {one.name: data[one.name] for one in fields(cls) if one.name in data}
        beside = tuple(tuple(one) for one in given.get("beside", ()))
        read = {"tasks": tuple(given["tasks"]), "by": tuple(given.get("by", ())), "beside": beside}
        return cls(**{**given, **read})


def note_of(list: str, name: str) -> str:
    """What the record of a task is asked for by."""
    return f"{TASKS}{list}:{name}"


def task_in(view: View, list: str, name: str) -> TaskRecord | None:
    """The record of one task."""
    event = view.note(note_of(list, name))
    return None if event is None else TaskRecord.from_event(event)


def tasks_in(view: View, list: str | None = None) -> list[TaskRecord]:
    """The records of a list, or of all lists, in the order of their lists."""
    start = TASKS if list is None else f"{TASKS}{list}:"
    found = [TaskRecord.from_event(event) for event in view.notes(start)]
    wanted = [one for one in found if list is None or one.list == list]
    order = {(one.name, task): place for one in lists_in(view)
             for place, task in enumerate(one.tasks)}  # fmt: skip
    return sorted(wanted, key=lambda one: (one.list, order.get((one.list, one.name), 1 << 30)))


def list_in(view: View, name: str) -> ListRecord | None:
    """The record of one list."""
    event = view.note(f"{LISTS}{name}")
    return None if event is None else ListRecord.from_event(event)


def noted(view: View, decision: Decision[Any], record: TaskRecord) -> Decision[Any]:
    """A decision together with the last word on a task."""
    return bulk_rules.with_note(view, decision, TASK_CHANGED, record.to_data(), name=record.note)


def lists_in(view: View) -> list[ListRecord]:
    """The lists that were begun and not forgotten, the one that was begun last at the end."""
    found = [ListRecord.from_event(event) for event in view.notes(LISTS)]
    return sorted(found, key=lambda one: one.began)


def _readable(event: Event) -> Mapping[str, Any]:
    if event.version > VERSION:
        raise RecordVersionError(
            f"the ledger's {event.type} {event.seq} was written by a newer version of Holdfast "
            f"(version {event.version}, this one reads up to {VERSION})",
            hint="upgrade: pip install --upgrade holdfast",
            event=event.seq, type=event.type, version=event.version,
        )  # fmt: skip
    return event.data
