"""What the events of lists of tasks say, as sentences."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Data = Mapping[str, Any]


def sentence(type: str, data: Data) -> str:
    """One event as a sentence; empty for what this does not know."""
    told = _TOLD.get(type)
    return "" if told is None else told(data)


def _said(data: Data, key: str, otherwise: str) -> str:
    return str(data.get(key) or otherwise)


def _begun(data: Data) -> str:
    return f"a dispatcher began with the list {_said(data, 'name', 'of tasks')}"


def _changed(data: Data) -> str:
    reason = data.get("reason")
    task, state = _said(data, "name", "of a list"), _said(data, "state", "changed")
    return f"task {task} is {state} now{f': {reason}' if reason else ''}"


def _forgotten(data: Data) -> str:
    name = _said(data, "list", "of tasks")
    return f"task {data['task']} of {name} is forgotten" if "task" in data else (
        f"the list {name} is forgotten"
    )  # fmt: skip


def _decided(data: Data) -> str:
    verb = "approved" if data.get("approve") else "rejected"
    return f"{_said(data, 'by', 'a person')} {verb} task {_said(data, 'task', 'of a list')}"


def _yields(data: Data) -> str:
    item, why = _said(data, "item", "a task"), data.get("why")
    if data.get("over"):
        return f"{item} has yielded"
    return f"{item} has to yield to an older task{f': {why}' if why else ''}"


_TOLD: dict[str, Callable[[Data], str]] = {
    "task_list_begun": _begun,
    "task_changed": _changed,
    "task_forgotten": _forgotten,
    "task_decided": _decided,
    "work_yield": _yields,
}
