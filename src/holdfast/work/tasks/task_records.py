"""A task in the ledger, and its list: typed records, each the latest state.

    work:tasks:LIST        ListRecord   a list that was started, with its tasks as they were then
    work:task:LIST:NAME    TaskRecord   one task: its state and its result

The event's version tells how a record is spelled; one that a newer Holdfast wrote is refused with a
message. Only this module knows how these notes are named and spelled.
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

#: How many of the last lines of an agent's or a check's output are kept with its record.
TAIL_LINES = 12


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """The state of one task. Times are microseconds of ledger time, 0 for never.

    `item` is the work item of its present or last attempt, whose folder below `.holdfast/runs` has
    the output and `changes.patch`. `needs` are the files that an undone attempt is known to have
    written: the next one takes all of them at its start. `files` are those that the task has
    changed. `tail` is the end of the output of the command that failed. `waited_microseconds` is
    how long its calls have waited for the files of others.
    """

    list: str
    task: Task
    state: str = task_states.WAITING
    reason: str = ""
    item: str = ""
    #: Attempts that were started, and how many of them ended because the agent failed or was
    #: killed: only those count against the limit.
    tries: int = 0
    failures: int = 0
    #: How many times the check of the present attempt has failed.
    round: int = 0
    began: int = 0
    ended: int = 0
    worked_microseconds: int = 0
    waited_microseconds: int = 0
    needs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    commit: str = ""
    #: The file with the full output, relative to the root.
    log: str = ""
    tail: tuple[str, ...] = ()
    #: The person who approved or rejected it.
    decision: str = ""
    #: While it lands: what is committed, in git's own names.
    landing: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.task.name

    @property
    def note(self) -> str:
        """The name of the note with the record."""
        return note_of(self.list, self.task.name)

    @property
    def is_over(self) -> bool:
        """Whether it will not change by itself."""
        return self.state in task_states.OVER

    def moved(self, cause: str, **changes: Any) -> TaskRecord:
        """The record after a transition. Raises KeyError if there is no such transition."""
        return replace(self, state=task_states.after(self.state, cause), **changes)

    def but(self, **changes: Any) -> TaskRecord:
        """The same task in the same state, with other changes."""
        return replace(self, **changes)

    def to_data(self) -> dict[str, Any]:
        """The content of the event; also for `--json`."""
        found: dict[str, Any] = {}
        for name in _NAMES:
            value = getattr(self, name)
            if isinstance(value, Task):
                value = value.to_data()
            found[name] = list(value) if isinstance(value, tuple) else value
        return {**found, "name": self.name}

    @classmethod
    def from_event(cls, event: Event) -> TaskRecord:
        """The record in an event. Raises RecordVersionError."""
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
    """A list that was started. `review` is whether a person decides on each task; `by` is the
    witness of the dispatcher that started it last, as `codec.witness_to_list` spells it, and
    `beside` those of earlier ones that were not proven dead then; `command` is what a person types
    to continue it."""

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
        """The name of the note with the record."""
        return f"{LISTS}{self.name}"

    def to_data(self) -> dict[str, Any]:
        """The content of the event."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        found = {key: list(value) if isinstance(value, tuple) else value
                 for key, value in values.items()}  # fmt: skip
        return {**found, "beside": [list(one) for one in self.beside]}

    @property
    def dispatchers(self) -> list[Witness]:
        """The processes that have this work since it was last started."""
        found = (witness_from_list(list(one)) for one in (self.by, *self.beside) if one)
        return [one for one in found if one is not None]

    @classmethod
    def from_event(cls, event: Event) -> ListRecord:
        """The record in an event. Raises RecordVersionError."""
        data = _readable(event)
        given = {one.name: data[one.name] for one in fields(cls) if one.name in data}
        beside = tuple(tuple(one) for one in given.get("beside", ()))
        read = {"tasks": tuple(given["tasks"]), "by": tuple(given.get("by", ())), "beside": beside}
        return cls(**{**given, **read})


def note_of(list: str, name: str) -> str:
    """The name of the note with the record of a task."""
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
    """Extends a decision by the new record of a task."""
    return bulk_rules.with_note(view, decision, TASK_CHANGED, record.to_data(), name=record.note)


def lists_in(view: View) -> list[ListRecord]:
    """The lists that were started and not forgotten, the latest at the end."""
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
