"""The controllers of a manifest of screens: their states, and the orders that a person can give."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from holdfast.work.engine.work_items import ANALYZE, COMPLETED, ERROR
from holdfast.work.screens import workflow_states as states

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.server.state.ledger_facts import Moment

APPROVE, REJECT, AGAIN = "approve", "reject", "analyze"

#: The order in which controllers are shown: first those that need a person.
_SHOWN = (
    (states.AWAITING_DECISIONS,),
    (states.ERROR,),
    states.MERGING,
    (states.ANALYZING,),
    (states.QUEUED,),
    (states.IDLE,),
    (states.COMPLETED,),
)
_RANKS = {state: rank for rank, group in enumerate(_SHOWN) for state in group}


def controllers(now: Moment) -> list[dict[str, Any]]:
    """Every controller in the order in which they are shown; within a state, in manifest order."""
    screens: dict[str, list[str]] = {}
    for screen in now.assignment.data["screens"] if now.assignment is not None else ():
        screens.setdefault(f"{screen['module']}/{screen['controller']}", []).append(screen["name"])
    analysed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for item in now.items.values():
        if item.phase == ANALYZE:
            analysed[str(item.data.get("group", ""))] += item.status == COMPLETED
            failed[str(item.data.get("group", ""))] += item.status == ERROR
    names = dict.fromkeys([*screens, *now.flows])
    found = [
        _controller(name, now.flows.get(name, {}), screens.get(name, []), analysed, failed)
        for name in names
    ]
    return sorted(found, key=lambda one: _RANKS[one["state"]])


def _controller(
    name: str,
    flow: Mapping[str, Any],
    screens: list[str],
    analysed: Counter[str],
    failed: Counter[str],
) -> dict[str, Any]:
    module, _, controller = name.rpartition("/")
    data, state = flow.get("data", {}), flow.get("state", states.IDLE)
    return {
        "name": name, "module": module, "controller": controller, "screens": screens,
        "state": state, "reason": flow.get("reason", ""),
        "analysed": analysed[name], "failed": failed[name],
        "targets": data.get("targets", []), "decision": data.get("decision", ""),
        "orders": _orders(state),
    }  # fmt: skip


def _orders(state: str) -> list[str]:
    """The orders that a person can give for a controller in this state."""
    if state == states.AWAITING_DECISIONS:
        return [APPROVE, REJECT]
    return [AGAIN] if state in states.OVER else []
