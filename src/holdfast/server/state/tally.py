"""All counts: the header, the tabs, the headings, `/metrics` and `top` show these.

A unit of work is a task, a controller, or an item that belongs to neither. Only this module decides
whether one has failed: `failures` lists those that have, and `failed` is their number.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from holdfast.gate.rulebook.file_states import BLOCKED
from holdfast.server.state.ledger_facts import Moment, covers_files, task_of
from holdfast.work.engine.work_items import COMPLETED, ERROR, WorkItem
from holdfast.work.screens import workflow_states
from holdfast.work.tasks import task_states


def counts(now: Moment, gaps: int = 0, cut_off: Collection[str] = ()) -> dict[str, int]:
    """All counts by name. `held` counts grants; `at_work` items at work or in review, and grants of
    agents and people; `waiting` items, agents and people that wait; `decisions` controllers and
    tasks that wait for a person; `trouble` everything that went wrong. The number of `gaps` comes
    from history; `cut_off` are the items whose dispatcher has died, and which are no longer at
    work."""
    blocked = [one for one in now.agents if one.state == BLOCKED]
    failed = len(failures(now))
    return {
        "held": sum(covers_files(grant) for grant in now.grants),
        "at_work": len(now.active) + len(now.held) - len(cut_off) + len(now.others),
        "cut_off": len(cut_off),
        "waiting": len(now.queued) + len(now.strangers) + len(now.strays),
        "done": _done(now),
        "failed": failed,
        "skipped": sum(one.state == task_states.SKIPPED for one in now.tasks),
        "decisions": len(undecided(now, cut_off)),
        "blocked": len(blocked),
        "gaps": gaps,
        "trouble": failed + len(blocked) + gaps + bool(now.trouble),
    }


def failures(now: Moment) -> list[dict[str, Any]]:
    """The controllers and tasks that failed, and failed items that belong to neither."""
    flows = [
        {"kind": "controller", "name": name, "list": "", "reason": flow.get("reason", "")}
        for name, flow in now.flows.items() if flow["state"] == workflow_states.ERROR
    ]  # fmt: skip
    tasks = [
        {"kind": "task", "name": one.name, "list": one.list, "reason": one.reason}
        for one in now.tasks if one.state == task_states.FAILED
    ]  # fmt: skip
    items = [
        {"kind": "item", "name": one.workflow, "list": "", "reason": one.reason, "item": one.id}
        for one in _alone(now) if one.status == ERROR
    ]  # fmt: skip
    return [*flows, *tasks, *items]


def undecided(now: Moment, cut_off: Collection[str] = ()) -> list[dict[str, str]]:
    """The controllers and tasks that wait for a person's decision. A task in review whose
    dispatcher has died does not: the next dispatcher undoes and repeats it."""
    flows = [{"kind": "controller", "name": name, "list": ""} for name, flow in now.flows.items()
             if flow["state"] == workflow_states.AWAITING_DECISIONS]  # fmt: skip
    tasks = [{"kind": "task", "name": one.name, "list": one.list} for one in now.tasks
             if one.state == task_states.REVIEWING and one.item not in cut_off]  # fmt: skip
    return [*flows, *tasks]


def _done(now: Moment) -> int:
    flows = [flow for flow in now.flows.values() if flow["state"] == workflow_states.COMPLETED]
    tasks = [one for one in now.tasks if one.state == task_states.DONE]
    return len(flows) + len(tasks) + sum(one.status == COMPLETED for one in _alone(now))


def _alone(now: Moment) -> list[WorkItem]:
    """Items that belong to no controller and no task."""
    return [item for item in now.items.values() if task_of(item) is None
            and str(item.data.get("group", "")) not in now.flows]  # fmt: skip
