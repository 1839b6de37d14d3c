"""How far all the work is: how much is done, for how long it has gone on, and when it will be done.

`holdfast.work.tasks.list_progress` computes how far a list of tasks is, for the page and for `top`.
The end is reported as unknown before a task has ended, while only people are waited for, and when
no dispatcher is running.

A killed dispatcher writes nothing, so its death is no event. It is judged by the process that it
recorded in the ledger (`holdfast.work.abandoned_work`); a process of another machine or container
cannot be judged from here and counts as alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from holdfast.core.model import SECOND
from holdfast.core.sentences import duration
from holdfast.server.state.ledger_facts import Moment, task_of
from holdfast.server.visible_text import visible
from holdfast.work.abandoned_work import is_abandoned, is_proven_dead
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
    """All work that was begun and not forgotten, the latest last."""
    found = [_of_list(now, one) for one in now.lists]
    screens = _of_screens(now)
    return [*([] if screens is None else [screens]), *found]


def cut_off(now: Moment, work: list[dict[str, Any]]) -> set[str]:
    """The items that are out or in review as far as the ledger knows, and whose dispatcher is
    gone."""
    lists = {one["name"] for one in work if one["gone"] and one["kind"] == TASKS}
    screens = any(one["gone"] for one in work if one["kind"] == SCREENS)
    found = ((item, task_of(item)) for item in (*now.active, *now.held))
    return {item.id for item, task in found if (screens if task is None else task[0] in lists)}


def gone(view: View) -> tuple[str, ...]:
    """The work whose dispatcher is gone: what a timer compares with its last look. As long as every
    dispatcher lives, or has ended with nothing left to do, only a few records are read for that."""
    begun = [witness for one in task_records.lists_in(view) for witness in one.dispatchers]
    begun += assignment.dispatchers_of(view.note(assignment.NOTE), view.note(assignment.DISPATCHER))
    if not any(map(is_proven_dead, begun)):
        return ()
    return tuple(one["name"] for one in progress(Moment(view)) if one["gone"])


# A list of tasks


def _of_list(now: Moment, one: ListRecord) -> dict[str, Any]:
    at = progress_of(one, now.tasks, now.now)
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
    return f"The dispatcher of {_title(one)} is not running any more, and {count} left."


def _forecast(at: Progress, left: list[TaskRecord]) -> tuple[float | None, str, str]:
    """The seconds that are left, the same in words, and what it was judged by; None if it is not
    known."""
    if not left:
        return 0.0, "", ""
    if at.is_abandoned:
        return None, "end not known: no dispatcher is running", ""
    undecided = at.counts.get(task_states.REVIEWING, 0)
    if undecided == len(left):
        return None, "waits for a decision", ""
    if at.left is None:
        known = "what is left takes longer than usual" if at.done else "before a task is done"
        return None, f"end not known{':' if at.done else ''} {known}", ""
    judged = "1 task that is done" if at.done == 1 else f"{at.done} tasks that are done"
    more = ", and a decision" if undecided else ""
    return at.left / SECOND, f"about {duration(at.left)} left{more}", f"judged by {judged}"


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
        "forecast_basis": "judged by the pace so far" if seconds else "",
        "gone": "The dispatcher is not running any more, and work is left." if is_gone else "",
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

    return is_abandoned(by, launchers())
