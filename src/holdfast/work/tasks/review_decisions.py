"""The decision of a person on a task in review, in the ledger.

    work:decision:LIST:NAME    {"list", "task", "approve", "by", "item", "tries"}

The decision itself changes nothing: the dispatcher of the list finds it, and lands the task or
undoes it. A decision is about one attempt, which `item` and `tries` name, so it is never applied to
a later one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.core import bulk_rules
from holdfast.core.model import Decision, Event
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.work.abandoned_work import judge
from holdfast.work.engine.item_store import is_abandoned_in, known_item
from holdfast.work.screens.workflow_states import TransitionError
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.list_progress import is_abandoned
from holdfast.work.tasks.task_records import TaskRecord

if TYPE_CHECKING:
    from holdfast.core.view import View

DECISIONS = "work:decision:"
TASK_DECIDED = "task_decided"


@dataclass(frozen=True, slots=True)
class TaskDecision:
    """Whether a task is approved, and by whom. `seq` is the number of the event."""

    list: str
    task: str
    approve: bool
    by: str
    seq: int


def note_of(list: str, name: str) -> str:
    """The name of the note with the decision on a task."""
    return f"{DECISIONS}{list}:{name}"


def decide_task(
    manager: LockManager,
    list: str,
    name: str,
    approve: bool,
    by: str,
    *,
    attempt: tuple[str, int] | None = None,
) -> TaskDecision:
    """Record the decision. Raises TransitionError unless the task is in review and undecided, and
    its dispatcher is alive to carry it out; with `attempt`, the item and the number of the attempt
    that the person saw, also if that is not the present one."""

    def decide(view: View) -> Decision[TaskDecision]:
        record = _in_review(view, list, name)
        if attempt is not None and attempt != (record.item, record.tries):
            raise TransitionError(
                f"{name} has been done again since you looked", hint="look at its changes again",
                list=list, task=name, state=record.state,
            )  # fmt: skip
        data = {"list": list, "task": name, "approve": approve, "by": by,
                "item": record.item, "tries": record.tries}  # fmt: skip
        noted = bulk_rules.note(view, TASK_DECIDED, data, name=note_of(list, name))
        return Decision(_decision(noted.outcome), noted.events)

    return transactions.decide(manager, decide)


def decision_in(view: View, list: str, name: str) -> TaskDecision | None:
    """The decision on the present attempt at a task; None if there is none."""
    event, record = view.note(note_of(list, name)), task_records.task_in(view, list, name)
    if event is None or record is None:
        return None
    about = (event.data["item"], event.data["tries"])
    return _decision(event) if about == (record.item, record.tries) else None


def _in_review(view: View, list: str, name: str) -> TaskRecord:
    record = task_records.task_in(view, list, name)
    if record is None or record.state != task_states.REVIEWING:
        state = "unknown" if record is None else record.state
        raise TransitionError(
            f"{name} is {state}, not in review",
            hint="holdfast top shows which tasks are",
            list=list, task=name, state=state,
        )  # fmt: skip
    refuse_cut_off(view, record)
    decided = decision_in(view, list, name)
    if decided is not None:
        raise TransitionError(
            f"{decided.by} has {'approved' if decided.approve else 'rejected'} {name} already",
            hint="its dispatcher is handling it",
            list=list, task=name, state=record.state,
        )  # fmt: skip
    return record


def is_cut_off(view: View, record: TaskRecord) -> bool:
    """Whether the process that held the files of a task in review is dead, or every dispatcher of
    its list is. Then the files are restored and the task is done again: there is nothing to
    approve."""
    item = known_item(view, record.item)
    if item is None or is_abandoned_in(view, item):
        return True
    tasklist = task_records.list_in(view, record.list)
    return tasklist is not None and is_abandoned(tasklist, [record], judge(view))


def refuse_cut_off(view: View, record: TaskRecord) -> None:
    """Raises TransitionError for a task that is cut off."""
    if not is_cut_off(view, record):
        return
    tasklist = task_records.list_in(view, record.list)
    command = tasklist.command if tasklist is not None else ""
    raise TransitionError(
        f"{record.name}: its dispatcher is gone, and its changes have been undone",
        hint=f"it is done again when you continue: {command}",
        list=record.list, task=record.name, state=record.state,
    )  # fmt: skip


def _decision(event: Event) -> TaskDecision:
    data = event.data
    return TaskDecision(data["list"], data["task"], data["approve"], data["by"], event.seq)
