"""The states of a workflow, and its transitions.

    idle -> queued -> analyzing -> awaiting_decisions -> queued -> applying -> testing
         -> fixing -> testing …  -> ci -> verifying -> completed

A phase without a command is skipped. A workflow in progress may end in an error, and from there, or
once it is completed, it may be queued again.
"""

from __future__ import annotations

from holdfast.core.errors import Refused
from holdfast.work.engine.work_items import (
    ANALYZE,
    APPLY,
    CHECKS,
    CI,
    FIX,
    MERGE_PHASES,
    TEST,
    VERIFY,
)

IDLE = "idle"
QUEUED = "queued"
ANALYZING = "analyzing"
AWAITING_DECISIONS = "awaiting_decisions"
APPLYING = "applying"
TESTING = "testing"
FIXING = "fixing"
IN_CI = "ci"
VERIFYING = "verifying"
COMPLETED = "completed"
ERROR = "error"

#: The state of a workflow while an item of a phase is in progress.
OF_PHASE = {
    ANALYZE: ANALYZING,
    APPLY: APPLYING,
    TEST: TESTING,
    FIX: FIXING,
    CI: IN_CI,
    VERIFY: VERIFYING,
}
#: The states of a merge in progress, in the order of its phases.
MERGING = tuple(OF_PHASE[phase] for phase in MERGE_PHASES)
_CHECKING = tuple(OF_PHASE[phase] for phase in CHECKS)


def _after(phase: str) -> tuple[str, ...]:
    """The states that may follow that of a phase of a merge."""
    if phase == FIX:
        return (*_CHECKING, QUEUED)
    if phase == APPLY:
        return (*_CHECKING, COMPLETED, QUEUED)
    later = _CHECKING[CHECKS.index(phase) + 1 :]
    return (FIXING, *later, COMPLETED, QUEUED)


_NEXT: dict[str, tuple[str, ...]] = {
    # also straight to the end, if an earlier run has done it
    IDLE: (QUEUED, COMPLETED),
    # also back to idle, if a queued workflow is cancelled before it starts
    QUEUED: (ANALYZING, APPLYING, IDLE),
    ANALYZING: (AWAITING_DECISIONS, QUEUED),
    # also straight to the end, if there is nothing to write
    AWAITING_DECISIONS: (QUEUED, IDLE, COMPLETED),
    **{OF_PHASE[phase]: _after(phase) for phase in MERGE_PHASES},
    COMPLETED: (QUEUED, IDLE),
    ERROR: (QUEUED, IDLE),
}

STATES = tuple(_NEXT)
#: Nothing more happens without a person.
OVER = (IDLE, COMPLETED, ERROR)


class TransitionError(Refused):
    """A workflow cannot change from one state to another. The fields: `workflow`, `state`, `to`."""

    code = "E_TRANSITION"


def may_follow(state: str, to: str) -> bool:
    """Whether a workflow may change from one state to another."""
    return to in _NEXT.get(state, ()) or (to == ERROR and state not in (IDLE, ERROR, COMPLETED))


def follow(workflow: str, state: str, to: str) -> str:
    """The next state. Raises TransitionError if it is not allowed."""
    if not may_follow(state, to):
        allowed = ", ".join(_NEXT.get(state, ())) or "nothing"
        raise TransitionError(
            f"{workflow} is {state} and cannot become {to}",
            hint=f"allowed next: {allowed}",
            workflow=workflow, state=state, to=to,
        )  # fmt: skip
    return to
