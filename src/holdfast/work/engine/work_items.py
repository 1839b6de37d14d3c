"""Work items: what to do, what it needs, its state; and the order of a queue.

    queued      it waits: for its locks, for a slot, or until `not_before`
    dispatched  a dispatcher has started it, with its locks
    held        it keeps its locks and waits for a decision, without a slot
    completed   it is done
    error       it has failed, for the reason in `reason`

The only transitions are those of `EDGES`: `after` raises for anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

from holdfast.work.engine.transitions import Edge, Transitions

QUEUED = "queued"
DISPATCHED = "dispatched"
HELD = "held"
COMPLETED = "completed"
ERROR = "error"
STATUSES = (QUEUED, DISPATCHED, HELD, COMPLETED, ERROR)
#: The item may still change.
OPEN = (QUEUED, DISPATCHED, HELD)

SENT_OUT = "its locks and a slot are free"
NEXT_PHASE = "its callback wants another phase, with its locks held"
PUT_ON_HOLD = "its callback waits for a decision, with its locks held"
WENT_ON = "the decision has been made"
RETRIED = "it is retried, without its locks"
TAKEN_OVER = "its dispatcher is gone, and another cleans up after it"
DONE = "its work is done"
FAILED = "its work failed, or was cancelled"

ANALYZE = "analyze"
APPLY = "apply"
TEST = "test"
FIX = "fix"
CI = "ci"
VERIFY = "verify"
#: The order in which the phases of a screen run. Every other order is derived from this one; the
#: phases of one stage are equally urgent.
STAGES = ((ANALYZE,), (APPLY,), (TEST, FIX), (CI, VERIFY))
PHASES = tuple(phase for stage in STAGES for phase in stage)
#: The phases of a merge, which starts when all screens of its controller are analysed.
MERGE_PHASES = PHASES[PHASES.index(APPLY) :]
#: The phases that check an applied merge; a fix runs only after one of them has failed.
CHECKS = tuple(phase for phase in MERGE_PHASES[1:] if phase != FIX)
#: The item closest to its end comes first, so that as few as possible hold locks at a time; a phase
#: that is not listed comes last.
LAST = len(STAGES)
_URGENCY = {phase: LAST - 1 - at for at, stage in enumerate(STAGES) for phase in stage}
_URGENCY["merge"] = _URGENCY[APPLY]

#: The place of an item among those that wait; the smallest comes first.
Rank = tuple[bool, int, int, int]


EDGES = (
    Edge(QUEUED, DISPATCHED, SENT_OUT),
    Edge(DISPATCHED, QUEUED, NEXT_PHASE),
    Edge(DISPATCHED, HELD, PUT_ON_HOLD),
    Edge(HELD, QUEUED, WENT_ON),
    *(Edge(before, QUEUED, RETRIED) for before in OPEN),
    *(Edge(before, DISPATCHED, TAKEN_OVER) for before in OPEN),
    *(Edge(before, COMPLETED, DONE) for before in OPEN),
    *(Edge(before, ERROR, FAILED) for before in OPEN),
)

TRANSITIONS = Transitions(*EDGES)
after = TRANSITIONS.after


@dataclass(frozen=True, slots=True)
class LockRequest:
    """What an item needs, all of it or nothing. Folders only for reading."""

    read_paths: tuple[str, ...] = ()
    write_paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, reads: Iterable[str] = (), writes: Iterable[str] = ()) -> LockRequest:
        """From paths in any order, each once."""
        return cls(tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes)))


@dataclass(frozen=True, slots=True)
class Order:
    """An item that is to be queued. A higher priority comes first."""

    workflow: str
    phase: str
    lock_request: LockRequest
    data: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One piece of work, as the ledger has it. Immutable: every change makes a new one.

    Times are microseconds of ledger time. `arrival` is its place in the queue, which it keeps
    whatever happens to it; `first_phase` is where it starts again after a crash. `grant_id` is set
    from its dispatch on, and also while it waits with its locks held; `holder` is the key of the
    holder of that grant, which may take further grants while the item is in progress. `ticket` is
    its ticket in the kernel, if it has one. It is not tried before `not_before`. `data` is kept for
    the caller that queued it.
    """

    id: str
    workflow: str
    phase: str
    lock_request: LockRequest
    arrival: int
    queued: int
    status: str = QUEUED
    dispatched: int = 0
    grant_id: str = ""
    token: int = 0
    retries: int = 0
    reason: str = ""
    escalated: bool = False
    ticket: str = ""
    first_phase: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0
    not_before: int = 0
    holder: str = ""

    @property
    def queued_at(self) -> datetime:
        """When it was queued."""
        return _time(self.queued)

    @property
    def dispatched_at(self) -> datetime | None:
        """When its locks were taken and its agent was started; None before that."""
        return _time(self.dispatched) if self.dispatched else None

    @property
    def rank(self) -> Rank:
        """Its place among the waiting items: escalated items first, then by priority, then by
        phase, then first come, first served."""
        order = _URGENCY.get(self.phase, LAST)
        return (not self.escalated, -self.priority, order, self.arrival)

    @property
    def is_over(self) -> bool:
        """Whether it will not change any more."""
        return self.status in (COMPLETED, ERROR)

    def but(self, **changes: Any) -> WorkItem:
        """A copy with these changes."""
        return replace(self, **changes)

    def to_data(self) -> dict[str, Any]:
        """For the ledger, and for `--json`."""
        return {
            "id": self.id,
            "workflow": self.workflow,
            "phase": self.phase,
            "read_paths": list(self.lock_request.read_paths),
            "write_paths": list(self.lock_request.write_paths),
            "status": self.status,
            "arrival": self.arrival,
            "queued": self.queued,
            "dispatched": self.dispatched,
            "grant_id": self.grant_id,
            "token": self.token,
            "retries": self.retries,
            "reason": self.reason,
            "escalated": self.escalated,
            "ticket": self.ticket,
            "first_phase": self.first_phase,
            "data": dict(self.data),
            "priority": self.priority,
            "not_before": self.not_before,
            "holder": self.holder,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> WorkItem:
        """The item that `to_data` wrote, in this version or an earlier one: a field that did not
        exist then has its default."""
        wanted = LockRequest(tuple(data["read_paths"]), tuple(data["write_paths"]))
        given = {name: data[name] for name in _PLAIN_FIELDS if name in data}
        return cls(lock_request=wanted, **given)


_PLAIN_FIELDS = tuple(one.name for one in fields(WorkItem) if one.name != "lock_request")


def _time(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)
