"""The part of top for lists of tasks: the progress of each, its tasks, and what they wait for."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli.terminal.sheet import Sheet
from holdfast.cli.terminal.tables import BOLD, DIM, RED, YELLOW, Cell, Column
from holdfast.core.model import SECOND
from holdfast.core.sentences import duration
from holdfast.manager import transactions
from holdfast.server.state.task_board import SHOWN
from holdfast.work.abandoned_work import judge
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.list_progress import (
    Wait,
    chain_in,
    chain_sentence,
    first_waits,
    progress_of,
    tasks_of,
    waits_after,
)
from holdfast.work.tasks.lists.task import title_of

if TYPE_CHECKING:
    from holdfast.core.view import View
    from holdfast.manager.manager import LockManager
    from holdfast.work.tasks.task_records import ListRecord, TaskRecord

_COLOURS = {
    task_states.FAILED: RED,
    task_states.SKIPPED: YELLOW,
    task_states.REVIEWING: YELLOW,
    task_states.DONE: DIM,
}
_COUNTED = (
    task_states.REVIEWING,
    task_states.WORKING,
    task_states.CHECKING,
    task_states.FIXING,
    task_states.LANDING,
    task_states.QUEUED,
    task_states.WAITING,
    task_states.FAILED,
    task_states.SKIPPED,
)


# The data


def lists_of(manager: LockManager, state: dict[str, Any]) -> list[dict[str, Any]]:
    """Every list, the latest first, with its tasks and what each waits for. `state` is the state
    of locks at about the same moment."""

    def look(view: View) -> tuple[int, list[ListRecord], list[TaskRecord]]:
        return view.now, task_records.lists_in(view), task_records.tasks_in(view)

    now, lists, known = transactions.look(manager, look)
    paused = {one["id"]: one["not_before"] for one in state["waiting"]}
    found = []
    counted = {one["name"]: one for one in state["progress"] if one["kind"] == "tasks"}
    for one in reversed(lists):
        tasks = tasks_of(one, known)
        names = {task.item: task.name for task in tasks if task.item}
        found_waits = [
            *_waits_of_calls(state, one.name), *_waits_for_locks(state, names), *waits_after(tasks)
        ]  # fmt: skip
        waits = first_waits(found_waits)
        progress = progress_of(one, tasks, now, judge(manager.store))
        told = [
            _task_data(task, now, waits, paused.get(task.item, 0), progress.is_abandoned)
            for task in tasks
        ]
        cut_off = counted.get(one.name, {}).get("cut_off", 0)
        found.append(
            {**progress.to_data(), "cut_off": cut_off, "slots": one.slots, "tasks": told}
        )  # fmt: skip
    return found


def _task_data(
    record: TaskRecord, now: int, waits: Mapping[str, Wait], not_before: int, is_abandoned: bool
) -> dict[str, Any]:
    links = () if record.is_over else chain_in(record.name, waits)
    is_cut_off = is_abandoned and record.state in task_states.HOLDING
    until = record.ended or (record.began if is_cut_off else now)
    said = [record.reason, chain_sentence(links)]
    if is_cut_off:
        said.append("cut off: its dispatcher has died")
    elif record.state == task_states.QUEUED and not links and not is_abandoned:
        said.append(_due(not_before - now))
    said.append(_outcome(record))
    return {
        **record.to_data(),
        "elapsed_seconds": (until - record.began) / SECOND if record.began else 0.0,
        "waits_for": [{"whom": one.whom, "what": one.what} for one in links],
        "note": "; ".join(one for one in said if one),
    }


def _due(microseconds: int) -> str:
    if microseconds > 0:
        return f"next attempt in {duration(microseconds)}"
    return "waits for a free slot"


def _outcome(record: TaskRecord) -> str:
    if record.state == task_states.DONE and record.commit:
        return f"commit {record.commit[:10]}"
    if record.state == task_states.FAILED and record.log:
        return f"its output: {record.log}"
    return ""


def _waits_for_locks(state: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[Wait]:
    """The waits of requests and items, with tasks by name. The holder of a task's locks has the id
    of its item."""
    for one in (*state["tickets"], *state["waiting"]):
        who = one["holder"] if "behind" in one else one["id"]
        for conflict in one.get("why", ()):
            whom = conflict["holder"]
            if whom != who:
                yield Wait(names.get(who, who), names.get(whom, whom), conflict["path"])


def _waits_of_calls(state: Mapping[str, Any], list: str) -> Iterator[Wait]:
    """The waits of tasks at work of which a call waits for a file, as the server computed them."""
    for one in state["tasks"]:
        if one["list"] == list and one["state"] in task_states.HOLDING:
            who = one["name"]
            for step in one["chain"]:
                yield Wait(who, step["name"], step["path"])
                who = step["name"]


def items_of(state: Mapping[str, Any]) -> set[str]:
    """The items of tasks, whose locks and waits are shown with the tasks."""
    return {task["item"] for one in state["lists"] for task in one["tasks"] if task["item"]}


def waiting_in(state: Mapping[str, Any]) -> int:
    """How many tasks wait: for a slot, for another task, or for a file."""
    return sum(
        task["state"] in (task_states.QUEUED, task_states.WAITING) or bool(task["waits_for"])
        for one in state["lists"] for task in one["tasks"]
    )  # fmt: skip


# The lines


def lines_of(state: Mapping[str, Any], sheet: Sheet) -> list[str]:
    """All lists. Of a finished list the tasks are shown only if it is the latest."""
    shown = [one for at, one in enumerate(state["lists"]) if at == 0 or not one["is_over"]]
    lines: list[str] = []
    for one in shown:
        lines += ["", *sheet.lines(_progress_line(one), BOLD), *_to_do(one, sheet)]
        lines += _table(one, state, sheet)
    others = [_progress_line(one) for one in state["lists"] if one not in shown]
    return [*lines, *[""] * bool(others), *(line for one in others for line in sheet.lines(one))]


def _progress_line(one: Mapping[str, Any]) -> str:
    counts = one["counts"]
    said = [f"{one['done']} of {one['total']} tasks done"]
    # Tasks that were at work when the dispatcher died no longer are.
    said += [f"{one['cut_off']} cut off"] if one["cut_off"] else []
    said += [f"{counts[state]} {state}" for state in _COUNTED
             if counts.get(state)
             and not (one["cut_off"] and state in task_states.HOLDING)]  # fmt: skip
    # The time of a dispatcher's death is unknown; a list that was done before took no time now.
    if not one["is_abandoned"] and (one["elapsed_seconds"] or not one["is_over"]):
        said.append(f"{_time(one['elapsed_seconds'])} elapsed")
    if one["left_seconds"] is not None:
        said.append(f"about {_time(one['left_seconds'])} left")
    return f"{title_of(one['name'])}: {', '.join(said)}"


def _to_do(one: Mapping[str, Any], sheet: Sheet) -> list[str]:
    """The lines about what a person has to do."""
    lines = []
    if one["is_abandoned"]:
        lines += sheet.lines(f"its dispatcher has died; to continue: {one['command']}", RED)
    waiting = [task["name"] for task in one["tasks"] if task["state"] == task_states.REVIEWING]
    if waiting and not one["is_abandoned"]:
        more = f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""
        said = f"to decide: holdfast decide {shlex.quote(waiting[0])}{more}"
        lines += sheet.lines(said, YELLOW)
    return lines


_COLUMNS = [
    Column("TASK", 14), Column("STATE"), Column("FOR"), Column("TRIES"), Column("HAS", 12),
]  # fmt: skip


def _table(one: Mapping[str, Any], state: Mapping[str, Any], sheet: Sheet) -> list[str]:
    held = _held(state)
    tasks = sorted(one["tasks"], key=lambda task: SHOWN[task["state"]])
    rows = [_row(task, held.get(task["item"], [])) for task in tasks]
    return sheet.table_with_notes(_COLUMNS, rows, [task["note"] for task in tasks])


def _row(task: Mapping[str, Any], held: Sequence[str]) -> list[Cell]:
    has = task["files"] if task["state"] == task_states.DONE else held
    more = f" and {len(has) - 1} more" if len(has) > 1 else ""
    return [
        Cell(task["name"]), Cell(task["state"], _COLOURS.get(task["state"], "")),
        Cell(_time(task["elapsed_seconds"]) if task["elapsed_seconds"] else ""),
        Cell(str(task["tries"] or "")), Cell(f"{has[0]}{more}" if has else ""),
    ]  # fmt: skip


def _held(state: Mapping[str, Any]) -> dict[str, list[str]]:
    """The files that tasks hold, by item, without the lock that represents the task itself."""
    found: dict[str, list[str]] = {}
    for grant in state["locks"]["active_grants"]:
        paths = [path for path in grant["write_paths"] if not is_anchor(path)]
        found.setdefault(grant["holder"], []).extend(paths)
    return found


def is_anchor(path: str) -> bool:
    """Whether a lock represents a task, and no file or resource that others could want."""
    return path.startswith("task:")


def _time(seconds: float) -> str:
    return duration(round(seconds * SECOND))
