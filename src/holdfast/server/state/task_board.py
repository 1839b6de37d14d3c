"""The tasks of all lists, for the page and other programs.

A row has what a table shows of a task, without its prompt and its output, since a list may have
hundreds of tasks. `one` has everything.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from holdfast.core.ledger_time import iso
from holdfast.server.state import wait_chains
from holdfast.server.state.ledger_facts import Moment
from holdfast.server.state.wait_chains import Chains
from holdfast.work.tasks import task_states
from holdfast.work.tasks.task_records import TaskRecord

#: How much of a prompt is in a row.
LINE_CHARACTERS_MAX = 160

#: The order in which the tasks of a list are shown: first those that need a person, last those that
#: are over.
_ORDER = (
    (task_states.REVIEWING,),
    (task_states.FAILED,),
    (task_states.WORKING, task_states.CHECKING, task_states.FIXING, task_states.LANDING),
    (task_states.QUEUED,),
    (task_states.WAITING,),
    (task_states.SKIPPED,),
    (task_states.DONE,),
)
SHOWN = {state: rank for rank, group in enumerate(_ORDER) for state in group}

#: Commands to start with, and what each does.
_GUIDANCE = (
    ('holdfast dispatch --task "what to do"', "let an agent do a task, in this checkout"),
    ("holdfast dispatch TODO.md", "do every unticked item of a checklist, several at a time"),
    ("holdfast init", "let the agents that you start yourself share this checkout"),
    ("holdfast lock FILE", "hold a file yourself, until holdfast unlock FILE"),
)


def rows(
    now: Moment, found: Chains, cut_off: Collection[str], reasons: int
) -> list[dict[str, Any]]:
    """Every task in the order in which they are shown: the latest list first. The first `reasons`
    tasks that wait for locks have their chains, and so have all that wait for other tasks."""
    left, told = reasons, []
    latest = {one.name: -number for number, one in enumerate(now.lists)}
    for task in sorted(now.tasks, key=lambda one: (latest[one.list], SHOWN[one.state])):
        asks = task.state == task_states.QUEUED
        is_told = not asks or left > 0
        left -= asks
        chain = found.of_task(task) if is_told and not task.is_over else []
        told.append(_row(now, task, chain, cut_off))
    return told


def one(
    now: Moment, found: Chains, cut_off: Collection[str], list: str, name: str
) -> dict[str, Any] | None:
    """Everything in the record of a task."""
    task = next((each for each in now.tasks if (each.list, each.name) == (list, name)), None)
    if task is None:
        return None
    chain = [] if task.is_over else found.of_task(task)
    terms = task.task.to_data()
    return {
        **_row(now, task, chain, cut_off), "prompt": task.task.prompt, "terms": terms,
        "files": [*task.files], "needs": [*task.needs], "tail": [*task.tail], "log": task.log,
        "chain_sentence": wait_chains.sentence(task.name, chain),
    }  # fmt: skip


def guidance(now: Moment) -> list[dict[str, str]]:
    """Commands to start with, if nothing is held, nothing waits and no work was ever started."""
    if now.grants or now.tickets or now.items or now.lists or now.flows or now.agents:
        return []
    return [{"command": command, "does": does} for command, does in _GUIDANCE]


def _row(
    now: Moment, task: TaskRecord, chain: list[dict[str, str]], cut_off: Collection[str]
) -> dict[str, Any]:
    item = now.items.get(task.item)
    waits = task.state in (task_states.WAITING, task_states.QUEUED)
    is_cut_off = task.item in cut_off and task.state in task_states.HOLDING
    is_reviewed = task.state == task_states.REVIEWING
    since = item.dispatched if item is not None and task.state in task_states.HOLDING else 0
    return {
        "list": task.list, "name": task.name, "state": task.state, "reason": task.reason,
        "line": _line(task.task.prompt), "item": task.item, "tries": task.tries,
        "round": task.round, "commit": task.commit, "decision": task.decision,
        "changed": len(task.files), "after": [*task.task.after],
        "began": iso(task.began) if task.began else None,
        "ended": iso(task.ended) if task.ended else None,
        "since": iso(since) if since else None,
        "worked_seconds": task.worked_microseconds / 1_000_000,
        "waited_seconds": task.waited_microseconds / 1_000_000,
        "waits": waits or bool(chain), "chain": chain, "cut_off": is_cut_off,
        "at_work": task.state in task_states.HOLDING and not is_reviewed,
        "undecided": is_reviewed and not is_cut_off,
    }  # fmt: skip


def _line(prompt: str) -> str:
    """The first line of a prompt."""
    first = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return first if len(first) <= LINE_CHARACTERS_MAX else f"{first[: LINE_CHARACTERS_MAX - 1]}…"
