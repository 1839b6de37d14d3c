"""The state of each workflow, in the ledger, so that every process sees the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.core import bulk_rules
from holdfast.core.model import Decision, Event
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.work.screens import workflow_states

if TYPE_CHECKING:
    from holdfast.core.view import View

NOTES = "work:flow:"
STATE_CHANGED = "work_state"
FORGOTTEN = "work_forgotten"


@dataclass(frozen=True, slots=True)
class Flow:
    """One workflow: the work on one controller."""

    name: str
    state: str = workflow_states.IDLE
    reason: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_untouched(self) -> bool:
        """Whether it was neither started nor rejected."""
        return self.state == workflow_states.IDLE and not self.data.get("decision")

    def to_data(self) -> dict[str, Any]:
        """For the ledger, and for `--json`."""
        return {
            "workflow": self.name, "state": self.state, "reason": self.reason,
            "data": dict(self.data),
        }  # fmt: skip


class Flows:
    """The workflows of one repository."""

    def __init__(self, manager: LockManager) -> None:
        self._manager = manager

    def all(self) -> dict[str, Flow]:
        """All known workflows, by name."""
        found = [_flow(event) for event in transactions.notes(self._manager, NOTES)]
        return {flow.name: flow for flow in sorted(found, key=lambda flow: flow.name)}

    def get(self, name: str) -> Flow:
        """One of them; an unknown one is idle."""
        event = transactions.noted(self._manager, f"{NOTES}{name}")
        return _flow(event) if event is not None else Flow(name)

    def move(
        self, name: str, to: str, reason: str = "", data: Mapping[str, Any] | None = None
    ) -> Flow:
        """Move to another state. Raises TransitionError if that is not allowed."""

        def decide(view: View) -> Decision[Flow]:
            return moved(view, name, to, reason, data)

        return transactions.decide(self._manager, decide)

    def try_move(
        self, name: str, to: str, reason: str = "", data: Mapping[str, Any] | None = None
    ) -> bool:
        """The same. False if it is not allowed, as when another process was quicker."""
        try:
            self.move(name, to, reason, data)
        except workflow_states.TransitionError:
            return False
        return True

    def forget(self, name: str) -> None:
        """Forget a workflow."""
        if transactions.noted(self._manager, f"{NOTES}{name}") is not None:
            said = {"workflow": name}
            transactions.note(self._manager, FORGOTTEN, said, name=f"{NOTES}{name}", over=True)


def known(view: View, name: str) -> Flow:
    """One workflow, in a view."""
    event = view.note(f"{NOTES}{name}")
    return _flow(event) if event is not None else Flow(name)


def moved(
    view: View, name: str, to: str, reason: str = "", data: Mapping[str, Any] | None = None
) -> Decision[Flow]:
    """The decision for a transition, to be combined with others."""
    flow = known(view, name)
    workflow_states.follow(name, flow.state, to)
    new = Flow(name, to, reason, {**flow.data, **(data or {})})
    return bulk_rules.with_note(
        view, Decision(new), STATE_CHANGED, new.to_data(), name=f"{NOTES}{name}"
    )


def moved_along(
    view: View,
    decision: Decision[Any],
    name: str,
    to: str,
    reason: str = "",
    data: Mapping[str, Any] | None = None,
) -> Decision[Any]:
    """Extends another decision by a transition, if that is allowed."""
    flow = known(view, name)
    for event in decision.events:  # the decision's own record is newer than the view
        if event.data.get("note") == f"{NOTES}{name}":
            flow = _flow(event)
    if not workflow_states.may_follow(flow.state, to):
        return decision
    new = Flow(name, to, reason, {**flow.data, **(data or {})})
    return bulk_rules.with_note(view, decision, STATE_CHANGED, new.to_data(), name=f"{NOTES}{name}")


def _flow(event: Event) -> Flow:
    data = event.data
    return Flow(data["workflow"], data["state"], data["reason"], data["data"])
