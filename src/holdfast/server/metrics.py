"""Figures for Prometheus, in its text format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.model import SECOND
from holdfast.gate.rulebook.file_states import BLOCKED, OWNED, RETRY_PENDING
from holdfast.work.engine.work_items import STATUSES
from holdfast.work.screens import workflow_states
from holdfast.work.tasks import task_states

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def text(figures: Mapping[str, Any], *, gaps: int, watchers: int) -> str:
    """All figures."""
    items = {f'status="{one}"': figures["items"][one]
             for one in STATUSES}  # fmt: skip
    flows = {f'state="{one}"': figures["workflows"][one] for one in workflow_states.STATES}
    tasks = {f'state="{one}"': figures["tasks"][one] for one in task_states.STATES}
    agents = {f'state="{one}"': figures["agents"][one] for one in (OWNED, RETRY_PENDING, BLOCKED)}
    lines = [
        *_metric("grants", "gauge", "Grants that are held", figures["grants"]),
        *_metric("tickets", "gauge", "Requests in the queue for locks", figures["tickets"]),
        *_metric("items", "gauge", "Work items in the ledger", items),
        *_metric("workflows", "gauge", "Workflows by their state", flows),
        *_metric("tasks", "gauge", "Tasks by their state", tasks),
        *_metric("failed", "gauge", "Controllers, tasks and other items that failed",
                 figures["failed"]),
        *_metric("retries", "gauge", "Retries of the items in the ledger", figures["retries"]),
        *_metric("wait_seconds_max", "gauge", "The longest wait that is not over",
                 figures["longest_wait"] / SECOND),
        *_metric("agent_files", "gauge", "Files that agents own, wait for or are blocked at",
                 agents),
        *_metric("retries_overdue", "gauge", "Retries of agents that are overdue",
                 figures["overdue"]),
        *_metric("blocked_agents", "gauge", "Agents that the gate has stopped",
                 figures["blockers"]),
        *_metric("scheduler_broken", "gauge", "1 if a scheduler failed",
                 int(bool(figures["trouble"]))),
        *_metric("gaps_total", "counter", "Writes that no grant covered", gaps),
        *_metric("events_total", "counter", "Events in the ledger", figures["events"]),
        *_metric("watchers", "gauge", "Streams that are open here", watchers),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, help: str, value: float | Mapping[str, float]) -> list[str]:
    full = f"holdfast_{name}"
    values = value if isinstance(value, Mapping) else {"": value}
    samples = [
        f"{full}{{{labels}}} {number:g}" if labels else f"{full} {number}"
        for labels, number in values.items()
    ]
    return [f"# HELP {full} {help}.", f"# TYPE {full} {kind}", *samples]
