"""What services do with a manager beyond what everybody does: many leases at once, and notes.

Functions beside `LockManager`, not methods of it: whoever takes a lock for itself needs none.
"""

from __future__ import annotations

from time import monotonic

from holdfast.core import moving, rules
from holdfast.core.model import Grant, Refusal, Waiting
from holdfast.manager import forks
from holdfast.manager.manager import DEADLINE_SECONDS
from holdfast.manager.settling import settles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TypeVar

    from holdfast.core.model import ConflictInfo, Decision, Event, Holder, Request
    from holdfast.core.view import View
    from holdfast.manager.manager import LockManager

    T = TypeVar("T")


def decide(manager: LockManager, rule: Callable[[View], Decision[T]], deadline: float = 0) -> T:
    """What a rule decides on the present state, committed."""
    end = deadline or monotonic() + DEADLINE_SECONDS
    return forks.decide_once(manager.store, forks.count(), rule, end)


def look(manager: LockManager, question: Callable[[View], T], deadline: float = 0) -> T:
    """What the present state answers."""
    with manager.store.view(deadline=deadline or monotonic() + DEADLINE_SECONDS) as view:
        return question(view)


def requests(
    manager: LockManager, holder: Holder, paths: Iterable[str], reason: str
) -> list[Request]:
    """One request for each file to write, by somebody who keeps it as long as it lives."""
    return [manager.request(holder, (), [path], None, reason) for path in paths]


def ensure_each(
    manager: LockManager, wanted: Sequence[Request], deadline: float = 0
) -> list[Grant] | Refusal:
    """A grant for each, all or nothing; what the holder has already stays as it is."""
    outcome = decide(manager, lambda view: moving.ensure_each(view, wanted), deadline)
    if isinstance(outcome, Refusal) and settles(manager, outcome.conflicts):
        return decide(manager, lambda view: moving.ensure_each(view, wanted), deadline)
    return outcome


def queue(manager: LockManager, request: Request, deadline: float = 0) -> Grant | Waiting | Refusal:
    """Stand in line, without waiting here. Asked again with the same request, how it stands."""
    outcome = decide(manager, lambda view: rules.acquire(view, request, wait=True), deadline)
    if not isinstance(outcome, Grant) and settles(manager, outcome.conflicts):
        return decide(manager, lambda view: rules.acquire(view, request, wait=True), deadline)
    return outcome


def cancel(manager: LockManager, id: str, why: str, deadline: float = 0) -> Grant | None:
    """Leave the line. If the turn came meanwhile, here is the grant."""
    return decide(manager, lambda view: rules.cancel(view, id, why), deadline)


def held_by(manager: LockManager, holder: Holder, deadline: float = 0) -> list[Grant]:
    """All that a holder has now."""

    def live(view: View) -> list[Grant]:
        return [grant for grant in view.held_by(holder.key) if rules.is_live(view, grant)]

    return look(manager, live, deadline)


def exchange(
    manager: LockManager, moves: Sequence[tuple[str, Request]], deadline: float = 0
) -> list[Grant] | Refusal:
    """Grants go to other holders (or to the same one in a new process) without coming free."""
    return decide(manager, lambda view: moving.exchange(view, moves), deadline)


def release_each(manager: LockManager, ids: Sequence[str], deadline: float = 0) -> list[Grant]:
    """Give several back."""
    return decide(manager, lambda view: moving.release_each(view, ids), deadline)


def rest(
    manager: LockManager, holder: Holder, length: int | None, deadline: float = 0
) -> list[Grant]:
    """All that a holder has ends so many microseconds from now; with None it is held on."""
    return decide(manager, lambda view: moving.rest(view, holder.key, length), deadline)


def conflicts_of(manager: LockManager, request: Request, deadline: float = 0) -> list[ConflictInfo]:
    """What stands in the way of a request, without asking for it."""
    return look(manager, lambda view: rules.look(view, request), deadline)


def note(
    manager: LockManager,
    type: str,
    data: Mapping[str, Any],
    *,
    name: str = "",
    over: bool = False,
    deadline: float = 0,
) -> Event:
    """Write an event of a service down; with a name it can be asked for until it is over."""
    return decide(
        manager, lambda view: moving.note(view, type, data, name=name, over=over), deadline
    )


def noted(manager: LockManager, name: str, deadline: float = 0) -> Event | None:
    """The last word on something."""
    return look(manager, lambda view: view.note(name), deadline)


def notes(manager: LockManager, start: str, deadline: float = 0) -> list[Event]:
    """All notes whose names start like this, oldest first."""
    return look(manager, lambda view: view.notes(start), deadline)
