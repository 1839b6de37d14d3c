"""Rules for services: several grants in one decision, grants that move, leases of idle agents.

Like those in `rules`, they take a view and a command, and return a decision.
"""

from __future__ import annotations

from holdfast.core import events
from holdfast.core.conflicts import (
    checked_keys,
    covers,
    expiry,
    fate,
    in_the_way,
    steal_only,
)
from holdfast.core.draft import NOTHING, Draft, granted, kept_for, reach
from holdfast.core.model import Conflicts, Decision, Event, Grant, Refusal, Request
from holdfast.core.wait_line import hand_over

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, TypeVar

    from holdfast.core.model import Holder
    from holdfast.core.view import View

    T = TypeVar("T")

#: A lease of which less than this part has passed (a sixth) is not renewed yet. It is half of the
#: time between two renewals, so that all leases of a process are soon renewed together.
FRESH_PART = 6


def take_each(draft: Draft, requests: Sequence[Request]) -> list[Grant] | Conflicts:
    """A part of a decision: a separate grant for each of these requests of one holder, or none and
    the conflicts. Grants that the holder already has are kept. Separate grants can be released one
    by one."""
    have = [covering(draft, request) for request in requests]
    missing = [request for request, grant in zip(requests, have, strict=True) if grant is None]
    conflicts = _all_in_the_way(draft, missing)
    while draft.freed:
        hand_over(draft)  # requests that waited for a reaped grant come first
        conflicts = _all_in_the_way(draft, missing)
    if conflicts:
        return conflicts
    return [
        grant or draft.admit(request, ticket=False) for request, grant in _pairs(requests, have)
    ]


def take_free(view: View, requests: Sequence[Request]) -> Decision[list[Grant]]:
    """A grant for each of these requests of one holder whose keys are free and not reserved. The
    others are skipped: no refusal, no ticket, and nothing is reaped for them. It serves a holder
    that is about to request them one by one; `rules.acquire` then decides on the skipped ones."""
    grants: list[Grant] = []
    token = view.last_token
    for request in _free(view, requests):
        grant = granted(view, request, token)
        token = grant.token
        grants.append(grant)
    seqs = range(view.head + 1, view.head + 1 + len(grants))
    history = [
        Event(seq, events.LOCK_ACQUIRED, view.now, NOTHING, subject=grant)
        for seq, grant in zip(seqs, grants, strict=True)
    ]
    return Decision(grants, tuple(history))


def _free(view: View, requests: Sequence[Request]) -> list[Request]:
    """The requests, all of one holder, that can start now. Usually all of them can, so they are
    checked together first, and one by one only if that fails."""
    everything = tuple([key for request in requests for key in checked_keys(request)])
    if not view.grace_over and view.is_free(*reach(everything)):
        return list(requests)
    found = []
    for request in requests:
        where = reach(checked_keys(request))
        if view.is_free(*where) and not (view.grace_over and view.ripe(*where)):
            found.append(request)
    return found


def _pairs(
    requests: Sequence[Request], have: Sequence[Grant | None]
) -> list[tuple[Request, Grant | None]]:
    return list(zip(requests, have, strict=True))


def together(requests: Sequence[Request]) -> Request:
    """One request for everything that these want."""
    first = requests[0]
    return Request(
        first.id,
        first.holder,
        tuple(key for request in requests for key in request.keys),
        "".join(request.modes for request in requests),
        tuple(path for request in requests for path in request.paths),
        tuple(key for request in requests for key in request.silent),
        first.ttl,
        first.reason,
        first.priority,
        first.patience,
        first.waiter,
        first.wake,
        first.grace,
    )


def _all_in_the_way(draft: Draft, requests: Sequence[Request]) -> Conflicts:
    """All conflicts by name: the caller of a large request must learn which files are free."""
    found = Conflicts()
    for request in requests:
        conflicts = in_the_way(draft, request)
        found += conflicts
        found.and_more(conflicts.more)
    return found


def covering(draft: Draft, request: Request) -> Grant | None:
    """A live grant of the same holder that covers the whole request."""
    at, _below = reach(checked_keys(request))
    for id in sorted({id for _key, _mode, id in draft.scopes(at, [])}):
        grant = draft.live_grant(id)
        if (
            grant is not None
            and grant.holder.key == request.holder.key
            and covers(grant, request)
            and not fate(draft, grant)
        ):
            return grant
    return None


def heir(
    grant: Grant,
    holder: Holder,
    id: str,
    keys: Sequence[str] | None = None,
    reason: str | None = None,
    *,
    for_life: bool = False,
) -> Request:
    """The request by which a grant, or some of its keys, passes to a holder; with `for_life` only
    the owner's death ends the new grant."""
    only = None if keys is None else set(keys)
    kept = [
        (key, mode, path)
        for key, mode, path in zip(grant.keys, grant.modes, grant.paths, strict=True)
        if only is None or key in only
    ]
    return Request(
        id,
        holder,
        tuple(key for key, _mode, _path in kept),
        "".join(mode for _key, mode, _path in kept),
        tuple(path for _key, _mode, path in kept),
        ttl=None if for_life else grant.ttl,
        reason=grant.reason if reason is None else reason,
        stamp=grant.stamp,
    )


def exchange(
    view: View, moves: Sequence[tuple[str, Request]], *, leaves: str = ""
) -> Decision[list[Grant] | Refusal]:
    """Move grants to other holders without freeing them in between: each ends, and the requests
    listed with its id begin, with new tokens. All or nothing; keys that no request takes over are
    released. The holder with the key `leaves` leaves the queue."""
    from holdfast.core import rules

    draft = Draft(view)
    known = [draft.live_grant(request.id) for _id, request in moves]
    if moves and all(known):  # an answer that was lost
        return draft.done([grant for grant in known if grant is not None])
    heirs: dict[str, list[Request]] = {}
    for id, request in moves:
        heirs.setdefault(id, []).append(request)
    for id, requests in heirs.items():
        grant = draft.grant(id)
        if not isinstance(grant, Grant):
            return draft.done(rules.lost(grant, id))
        if fate(draft, grant) not in ("", "owner dead"):
            message = f"grant {id} has expired"
            return draft.done(Refusal(code=rules.EXPIRED_CODE, message=message))
        held = set(zip(grant.keys, grant.modes, strict=True))
        for request in requests:
            if not held.issuperset(zip(request.keys, request.modes, strict=True)):
                message = f"grant {id} does not cover everything to be moved"
                return draft.done(Refusal(code=rules.VIOLATION, message=message))
    made: dict[str, Grant] = {}
    for id, requests in heirs.items():
        grant = draft.live_grant(id)
        assert grant is not None
        made.update((one.id, one) for one in move(draft, grant, requests))
    _leave_line(draft, leaves)
    hand_over(draft)
    return draft.done([made[request.id] for _id, request in moves])


def move(draft: Draft, grant: Grant, heirs: Sequence[Request]) -> list[Grant]:
    """End a grant and grant these requests in its place. The caller ensures that they want no more
    than the grant covers, and hands over the rest."""
    to = [{"holder": request.holder.id, "grant": request.id} for request in heirs]
    draft.end(grant, events.LOCK_MOVED, to=to)
    return [draft.admit(request, ticket=False) for request in heirs]


def release_each(view: View, ids: Sequence[str], *, leaves: str = "") -> Decision[list[Grant]]:
    """Release several grants in one decision. A grant that has already ended is not an error. The
    holder with the key `leaves` leaves the queue."""
    draft = Draft(view)
    ended = []
    for id in ids:
        grant = draft.live_grant(id)
        if grant is not None:
            draft.end(grant, events.LOCK_RELEASED)
            ended.append(grant)
    _leave_line(draft, leaves)
    hand_over(draft)
    return draft.done(ended)


def _leave_line(draft: Draft, holder_key: str) -> None:
    """Drop the tickets of a holder, although its process may not be known to be dead."""
    if holder_key and draft.view.has_tickets:
        for ticket in list(draft.waiting(holder_key)):
            draft.drop(ticket, "cancelled")


def come_to_rest(draft: Draft, holder_key: str, length: int | None) -> list[Grant]:
    """A part of a decision: all grants of a holder end after `length`; with None they stay held.

    A lease that has already expired is not revived: another holder may have seen it free.
    """
    idle_at = None if length is None else draft.now + length
    left = []
    for grant in draft.held_by(holder_key):
        why = fate(draft, grant)
        if why in ("expired", "idle"):
            draft.end(grant, events.LOCK_REAPED, why=why)
        elif grant.idle_at is not None or idle_at is not None:
            left.append(draft.extend(grant, expires_at=grant.expires_at, idle_at=idle_at))
        else:
            left.append(grant)
    return left


def keep(view: View, holder_keys: Iterable[str]) -> Decision[list[str]]:
    """Renew the leases without a ttl of these holders, in one decision. The outcome is the holders
    that still have such leases, or wait for some.

    A lease that has ended is removed and never revived: another holder may have seen it free.
    """
    draft = Draft(view)
    left, due = [], []
    for key in holder_keys:
        has_some = False
        for grant in view.held_by(key):
            if grant.ttl is None and not end_if_over(draft, grant):
                has_some = True
                due.append(grant)
        if has_some or (view.has_tickets and any(True for _ in draft.waiting(key))):
            left.append(key)
    renew_kept(draft, due)
    hand_over(draft)
    return draft.done(left)


def end_if_over(draft: Draft, grant: Grant) -> bool:
    """Whether a lease has ended; if so it is removed, unless only a steal may do that."""
    why = fate(draft, grant)
    if why and not steal_only(grant):
        draft.end(grant, events.LOCK_REAPED, why=why)
    return bool(why)


def renew_kept(draft: Draft, grants: Iterable[Grant]) -> None:
    """A part of a decision, on a ledger where leases without a ttl have to be renewed: renew those
    of these live leases of which enough has passed."""
    length = draft.view.lease
    if length is None:
        return
    fresh = draft.now + length - length // FRESH_PART
    due = [
        grant
        for grant in grants
        if kept_for(draft.view, grant.holder) is not None
        and ((ends := expiry(draft, grant)) is None or ends < fresh)
    ]
    draft.keep(due, length)


def with_note(
    view: View,
    decision: Decision[T],
    type: str,
    data: Mapping[str, Any],
    *,
    name: str = "",
    over: bool = False,
) -> Decision[T]:
    """A decision together with an event of a service, both or neither."""
    seq = view.head + len(decision.events) + 1
    event = Event(seq=seq, type=type, at=view.now, data=_said(data, name, over))
    events = (*decision.events, event)
    return Decision(decision.outcome, events, decision.wake, decision.hint)


def note(
    view: View, type: str, data: Mapping[str, Any], *, name: str = "", over: bool = False
) -> Decision[Event]:
    """An event of a service; with a name it is a note, kept with the state until it is over."""
    event = Event(seq=view.head + 1, type=type, at=view.now, data=_said(data, name, over))
    return Decision(event, (event,))


def _said(data: Mapping[str, Any], name: str, over: bool) -> dict[str, Any]:
    said = dict(data)
    if name:
        said["note"] = name
        if over:
            said["over"] = True
    return said
