"""The events of lists of tasks, as sentences."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Data = Mapping[str, Any]


def sentence(type: str, data: Data) -> str:
    """One event as a sentence; empty for an unknown type."""
    if is_of_task(type, data):
        return _worked(type, data)
    told = _TOLD.get(type)
    return "" if told is None else told(data)


def is_of_task(type: str, data: Data) -> bool:
    """Whether an event is about a work item that is an attempt at a task."""
    inner = data.get("data")
    return type.startswith("work_") and isinstance(inner, dict) and "task" in inner


def _said(data: Data, key: str, otherwise: str) -> str:
    return str(data.get(key) or otherwise)


def _begun(data: Data) -> str:
    return f"a dispatcher started the list {_said(data, 'name', 'of tasks')}"


def _ended(data: Data) -> str:
    return f"every task of the list {_said(data, 'name', 'of tasks')} has ended"


def _changed(data: Data) -> str:
    reason = data.get("reason")
    task, state = _said(data, "name", "of a list"), _said(data, "state", "changed")
    said = {"failed": "failed", "skipped": "was skipped"}.get(state, f"is {state} now")
    return f"task {task} {said}{f': {reason}' if reason else ''}"


def _forgotten(data: Data) -> str:
    name = _said(data, "list", "of tasks")
    return f"task {data['task']} of {name} was forgotten" if "task" in data else (
        f"the list {name} was forgotten"
    )  # fmt: skip


def _decided(data: Data) -> str:
    verb = "approved" if data.get("approve") else "rejected"
    return f"{_said(data, 'by', 'a person')} {verb} task {_said(data, 'task', 'of a list')}"


def _yields(data: Data) -> str:
    item, why = _said(data, "item", "a task"), data.get("why")
    if data.get("over"):
        return f"{item} has yielded"
    return f"{item} has to yield to an older task{f': {why}' if why else ''}"


def _worked(type: str, data: Data) -> str:
    """What happens to the work item of a task; empty for events that are described alike for every
    item."""
    name, inner = _said(data, "workflow", "a task"), data["data"]
    reason = f": {data['reason']}" if data.get("reason") else ""
    is_decided = data.get("phase") == "decided"
    if type == "work_queued":
        return f"{name} is in line{reason}"
    is_rejected = inner.get("approve") is False
    if type == "work_dispatched" and is_decided:
        return f"{name} is being undone" if is_rejected else f"{name} is landing"
    if type == "work_dispatched":
        return f"{name} was started{reason}"
    if type == "work_waits" and is_decided:
        return (
            f"{name} has been decided on and is about to {'be undone' if is_rejected else 'land'}"
        )
    if type == "work_waits":
        return f"{name} waits for a decision" if data.get("status") == "held" else (
            f"{name} is in line{reason}"
        )  # fmt: skip
    if type == "work_ended":
        return f"{name}: its attempt ended: {_said(data, 'status', 'over')}{reason}"
    return ""


_TOLD: dict[str, Callable[[Data], str]] = {
    "task_list_begun": _begun,
    "task_list_ended": _ended,
    "task_changed": _changed,
    "task_forgotten": _forgotten,
    "task_decided": _decided,
    "work_yield": _yields,
}
