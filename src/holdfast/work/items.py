"""Work items: what is to be done, what it needs, how it stands; and the order of a queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

QUEUED = "queued"
DISPATCHED = "dispatched"
COMPLETED = "completed"
ERROR = "error"

ANALYZE = "analyze"
APPLY = "apply"
TEST = "test"
FIX = "fix"
CI = "ci"
VERIFY = "verify"
#: What is closest to its end comes first, so that as few as possible hold something at a time.
_ORDER = {VERIFY: 0, CI: 0, TEST: 1, FIX: 1, APPLY: 2, "merge": 2, ANALYZE: 3}
LAST = 4


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
    """An item that is to be: what is to be done, and what for."""

    workflow: str
    phase: str
    lock_request: LockRequest
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One thing to do, as the ledger has it. Never changed: what happens makes a new one.

    Times are microseconds of ledger time. `arrival` is its place in line, which it keeps whatever
    happens to it; `first_phase` is where it begins again after a crash. `grant_id` is set from its
    dispatch on, and also while it waits for a slot with its locks held; `ticket` is its place in
    the kernel's line, if it has one. `data` is what the one who queued it wants back.
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

    @property
    def queued_at(self) -> datetime:
        """When it came into the queue."""
        return _time(self.queued)

    @property
    def dispatched_at(self) -> datetime | None:
        """When its locks were taken and its agent was sent out; None if that is still to come."""
        return _time(self.dispatched) if self.dispatched else None

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Its place among those that wait: the escalated, then by phase, then first come first
        served."""
        return (not self.escalated, _ORDER.get(self.phase, LAST), self.arrival)

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to it."""
        return self.status in (COMPLETED, ERROR)

    def but(self, **changes: Any) -> WorkItem:
        """The same item, after something happened to it."""
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
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> WorkItem:
        """The item that `to_data` wrote."""
        return cls(
            id=data["id"],
            workflow=data["workflow"],
            phase=data["phase"],
            lock_request=LockRequest(tuple(data["read_paths"]), tuple(data["write_paths"])),
            arrival=data["arrival"],
            queued=data["queued"],
            status=data["status"],
            dispatched=data["dispatched"],
            grant_id=data["grant_id"],
            token=data["token"],
            retries=data["retries"],
            reason=data["reason"],
            escalated=data["escalated"],
            ticket=data["ticket"],
            first_phase=data["first_phase"],
            data=data["data"],
        )


def _time(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)
