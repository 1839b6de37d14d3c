"""What services do with a ledger beyond a single grant: several leases in one decision, and notes.

These are functions and not methods of `LockManager`, because most users need none of them.
"""

from __future__ import annotations

from holdfast.core import bulk_rules
from holdfast.core.model import Grant, Refusal, Request, Waiting
from holdfast.manager import fork_check, request_limits
from holdfast.manager.files.unfinished_edits import settles
from holdfast.manager.ids import new_id
from holdfast.manager.ledger import call_deadline, look_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from holdfast.core.model import ConflictInfo, Decision, Event, Holder
    from holdfast.core.view import View
    from holdfast.manager.files.paths import Place
    from holdfast.manager.ledger import Ledger

    T = TypeVar("T")


def decide(manager: Ledger, rule: Callable[[View], Decision[T]], deadline: float = 0) -> T:
    """Apply a rule to the current state, and commit its decision."""
    return fork_check.decide_once(manager.store, fork_check.count(), rule, _end(manager, deadline))


def look(manager: Ledger, question: Callable[[View], T], deadline: float = 0) -> T:
    """Query the current state."""
    return look_at(manager.store, question, _end(manager, deadline))


def _end(manager: Ledger, deadline: float) -> float:
    return min(deadline, manager.end) if deadline else call_deadline(manager.end)


def request_at(holder: Holder, place: Place, *, reason: str, stamp: str) -> Request:
    """The request to write a place that is already resolved, for as long as the holder lives."""
    keys, modes, paths, silent = request_limits.to_write(place)
    return Request(new_id(), holder, keys, modes, paths, silent, None, reason, stamp=stamp)


def queue(manager: Ledger, request: Request, deadline: float = 0) -> Grant | Waiting | Refusal:
    """Join the queue, without blocking. Repeated with the same request, it reports the result."""
    from holdfast.core import rules

    outcome = decide(manager, lambda view: rules.acquire(view, request, wait=True), deadline)
    if not isinstance(outcome, Grant) and settles(manager, outcome.conflicts):
        return decide(manager, lambda view: rules.acquire(view, request, wait=True), deadline)
    return outcome


def cancel(manager: Ledger, id: str, why: str, deadline: float = 0) -> Grant | None:
    """Leave the queue. If the request has been granted meanwhile, returns the grant."""
    from holdfast.core import rules

    return decide(manager, lambda view: rules.cancel(view, id, why), deadline)


def release_each(manager: Ledger, ids: Sequence[str], deadline: float = 0) -> list[Grant]:
    """Release several grants."""
    return decide(manager, lambda view: bulk_rules.release_each(view, ids), deadline)


def conflicts_of(manager: Ledger, request: Request, deadline: float = 0) -> list[ConflictInfo]:
    """The conflicts of a request, without making it."""
    from holdfast.core import rules

    return look(manager, lambda view: rules.look(view, request), deadline)


def note(
    manager: Ledger,
    type: str,
    data: Mapping[str, Any],
    *,
    name: str = "",
    over: bool = False,
    deadline: float = 0,
) -> Event:
    """Write an event of a service; with a name it is a note, kept until it is over."""
    return decide(
        manager, lambda view: bulk_rules.note(view, type, data, name=name, over=over), deadline
    )


def noted(manager: Ledger, name: str, deadline: float = 0) -> Event | None:
    """The current note of this name."""
    return look(manager, lambda view: view.note(name), deadline)


def notes(manager: Ledger, start: str, deadline: float = 0) -> list[Event]:
    """All notes whose names begin with `start`, oldest first."""
    return look(manager, lambda view: view.notes(start), deadline)
