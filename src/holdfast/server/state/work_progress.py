"""The progress of all work: how much is done, how long it has taken, and when it will be done.

`holdfast.work.tasks.list_progress` computes the progress of a list of tasks, for the page and for
`top`. The end is unknown before a task has ended, while the work only waits for people, and while
no dispatcher is running.

A dispatcher that is killed writes nothing, so no event reports its death. It is detected by the
process that the dispatcher recorded in the ledger (`holdfast.work.abandoned_work`). The death of
one on another machine or in another container cannot be detected from here: it counts as alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from holdfast.core.model import SECOND
from holdfast.core.sentences import duration
from holdfast.server.state.ledger_facts import Moment, task_of
from holdfast.server.visible_text import visible
from holdfast.work.abandoned_work import is_abandoned, judge
from holdfast.work.engine.work_items import DISPATCHED, HELD
from holdfast.work.screens import assignment
from holdfast.work.screens import workflow_states as flow_states
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.list_progress import Progress, progress_of, tasks_of
from holdfast.work.tasks.lists.task import COMMAND_LINE

if TYPE_CHECKING:
    from holdfast.core.model import Witness
    from holdfast.core.view import View
    from holdfast.work.engine.work_items import WorkItem
    from holdfast.work.tasks.task_records import ListRecord, TaskRecord

TASKS, SCREENS = "tasks", "screens"
RESUME = "holdfast dispatch --resume"


def progress(now: Moment) -> list[dict[str, Any]]:
    """The progress of all work in the ledger, the latest last."""
    found = [_of_list(now, one) for one in now.lists]
    screens = _of_screens(now)
    return [*([] if screens is None else [screens]), *found]


def cut_off(now: Moment, work: list[dict[str, Any]]) -> set[str]:
    """The items that are at work or in review according to the ledger, and whose dispatcher has
    died."""
    lists = {one["name"] for one in work if one["gone"] and one["kind"] == TASKS}
    screens = any(one["gone"] for one in work if one["kind"] == SCREENS)
    found = ((item, task_of(item)) for item in (*now.active, *now.held))
    return {item.id for item, task in found if (screens if task is None else task[0] in lists)}


def gone(view: View) -> tuple[str, ...]:
    """The work whose dispatcher has died, for a timer that compares it with its last result. While
    every dispatcher lives, or has ended with nothing left to do, this reads only a few records."""
    begun = [witness for one in task_records.lists_in(view) for witness in one.dispatchers]
    begun += assignment.dispatchers_of(view.note(assignment.NOTE), view.note(assignment.DISPATCHER))
    if not any(map(judge(view), begun)):
        return ()
    return tuple(one["name"] for one in progress(Moment(view)) if one["gone"])


# A list of tasks


def _of_list(now: Moment, one: ListRecord) -> dict[str, Any]:
    at = progress_of(one, now.tasks, now.now, judge(now))
    left = [task for task in tasks_of(one, now.tasks) if not task.is_over]
    is_gone = at.is_abandoned
    is_out = task_states.HOLDING if is_gone else task_states.OUT
    out = sum(at.counts.get(state, 0) for state in is_out)
    seconds, said, basis = _forecast(at, left)
    return {
        "kind": TASKS, "name": one.name, "title": _title(one),
        "total": at.total, "done": at.done, "failed": at.counts.get(task_states.FAILED, 0),
        "skipped": at.counts.get(task_states.SKIPPED, 0), "left": len(left),
        "at_work": 0 if is_gone else out, "cut_off": out if is_gone else 0,
        "decisions": 0 if is_gone else at.counts.get(task_states.REVIEWING, 0),
        "states": dict(at.counts), "slots": one.slots, "review": one.review, "command": one.command,
        "runs": bool(left) and not is_gone, "elapsed_seconds": at.elapsed / SECOND,
        "forecast_seconds": seconds, "forecast": said, "forecast_basis": basis,
        "gone": _gone(one, len(left)) if is_gone else "",
    }  # fmt: skip


def _title(one: ListRecord) -> str:
    return "tasks of the command line" if one.name == COMMAND_LINE else visible(one.name)


def _gone(one: ListRecord, left: int) -> str:
    count = "1 task is" if left == 1 else f"{left} tasks are"
    return f"The dispatcher of {_title(one)} is no longer running, and {count} left."


def _forecast(at: Progress, left: list[TaskRecord]) -> tuple[float | None, str, str]:
    """The seconds left, or None if unknown; the same in words; and the basis of the forecast."""
    if not left:
        return 0.0, "", ""
    if at.is_abandoned:
        return None, "end not known: no dispatcher is running", ""
    undecided = at.counts.get(task_states.REVIEWING, 0)
    if undecided == len(left):
        return None, "waits for a decision", ""
    if at.left is None:
        known = "the rest takes longer than usual" if at.done else "before a task is done"
        return None, f"end not known{':' if at.done else ''} {known}", ""
    based = "1 finished task" if at.done == 1 else f"{at.done} finished tasks"
    more = ", and a decision" if undecided else ""
    return at.left / SECOND, f"about {duration(at.left)} left{more}", f"based on {based}"


# Screens


def _of_screens(now: Moment) -> dict[str, Any] | None:
    event = now.assignment
    if event is None:
        return None
    names = dict.fromkeys(f"{one['module']}/{one['controller']}" for one in event.data["screens"])
    state_of = {name: now.flows.get(name, {}).get("state", flow_states.IDLE) for name in names}
    done = sum(state == flow_states.COMPLETED for state in state_of.values())
    failed = sum(state == flow_states.ERROR for state in state_of.values())
    rejected = sum(_is_rejected(now, name) for name in names)
    undecided = sum(state == flow_states.AWAITING_DECISIONS for state in state_of.values())
    left = len(names) - done - failed - rejected
    by = assignment.dispatchers_of(event, now.dispatcher)
    items = [item for item in now.items.values() if task_of(item) is None]
    is_gone = left > 0 and _is_gone(now, by, lambda item: task_of(item) is None)
    out = sum(item.status == DISPATCHED for item in items)
    elapsed = max(0, (now.now if left and not is_gone else _last(items, event.at)) - event.at)
    seconds, said = _screens_forecast(done, left, undecided, elapsed, is_gone)
    return {
        "kind": SCREENS, "name": event.data["source"],
        "title": visible(str(event.data["source"]).rpartition("/")[2] or "screens"),
        "total": len(names), "done": done, "failed": failed, "skipped": rejected, "left": left,
        "at_work": 0 if is_gone else out, "cut_off": out if is_gone else 0, "decisions": undecided,
        "states": {}, "slots": 0, "review": bool(event.data["review"]),
        "command": RESUME, "runs": left > 0 and not is_gone,
        "elapsed_seconds": elapsed / SECOND, "forecast_seconds": seconds, "forecast": said,
        "forecast_basis": "based on the pace so far" if seconds else "",
        "gone": "The dispatcher is no longer running, and work is left." if is_gone else "",
    }  # fmt: skip


def _is_rejected(now: Moment, name: str) -> bool:
    flow = now.flows.get(name, {})
    decided = str(flow.get("data", {}).get("decision", ""))
    return flow.get("state") == flow_states.IDLE and bool(decided)


def _screens_forecast(
    done: int, left: int, undecided: int, elapsed: int, is_gone: bool
) -> tuple[float | None, str]:
    if not left:
        return 0.0, ""
    if is_gone:
        return None, "end not known: no dispatcher is running"
    if undecided:
        return None, "waits for a decision"
    if not done:
        return None, "end not known before a controller is done"
    found = elapsed / done * left
    return found / SECOND, f"about {duration(round(found))} left"


def _last(items: Iterable[WorkItem], default: int) -> int:
    return max((item.dispatched or item.queued for item in items), default=default)


# Dispatchers


def _is_gone(now: Moment, by: list[Witness], is_own: Callable[[WorkItem], bool]) -> bool:
    """Whether screens are abandoned: their dispatchers are dead, and so are the launchers of their
    items in progress."""

    def launchers() -> Iterator[Witness | None]:
        out = {item.id for item in now.items.values()
               if item.status in (DISPATCHED, HELD) and is_own(item)}  # fmt: skip
        yield from {grant.holder.witness for grant in now.grants if grant.holder.id in out}

    return is_abandoned(by, launchers(), is_dead=judge(now))
