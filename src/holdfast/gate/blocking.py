"""Agents that were stopped because a retry failed: which, by whom, and how they go on.

That one is blocked is a note in the ledger with the whole report, so it outlives the session: it
is there until somebody has read it and says that the agent may go on.
"""

from __future__ import annotations

from holdfast.manager import services

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.model import Event
    from holdfast.manager.manager import LockManager

BLOCKED = "agent_blocked"
RESUMED = "agent_resumed"


def blockers(manager: LockManager, start: str = "gate:") -> list[Event]:
    """What blocks which agent, oldest first: the events with the reports."""
    return [event for event in services.notes(manager, start) if event.type == BLOCKED]


def resume(
    manager: LockManager, by: str, *, agent: str = "", start: str = "gate:"
) -> list[dict[str, Any]]:
    """Blocked agents may go on: all of them, or one by its name. What had blocked them."""
    reports = []
    for event in blockers(manager, start):
        if agent in ("", event.data["agent"]):
            data = {"agent": event.data["agent"], "by": by}
            services.note(manager, RESUMED, data, name=event.data["note"], over=True)
            reports.append(dict(event.data["report"]))
    return reports
