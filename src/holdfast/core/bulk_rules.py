"""What services need beyond one grant at a time: many at once, changing hands, coming to rest.

The same kind of functions as in `rules`: a view and a command in, a decision out.
"""

from __future__ import annotations

from holdfast.core import events
from holdfast.core.conflicts import covers, fate, in_the_way, looked_up
from holdfast.core.draft import NOTHING, Draft, granted, reach
from holdfast.core.model import Conflicts, Decision, Event, Grant, Refusal, Request
from holdfast.core.wait_line import hand_over

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeVar

    from holdfast.core.model import Holder
    from holdfast.core.view import View

    T = TypeVar("T")


def take_each(draft: Draft, requests: Sequence[Request]) -> list[Grant] | Conflicts:
    """A part of a decision: a grant for each of these requests of one holder, or none at all and
    what stands in the way. Those that it has are kept, the others are new. Grants of their own can
    be given back one by one."""
    have = [covering(draft, request) for request in requests]
    missing = [request for request, grant in zip(requests, have, strict=True) if grant is None]
    conflicts = _all_in_the_way(draft, missing)
    while draft.freed:
        hand_over(draft)  # those who have waited for what was just reaped come first
        conflicts = _all_in_the_way(draft, missing)
    if conflicts:
        return conflicts
    return [
        grant or draft.admit(request, ticket=False) for request, grant in _pairs(requests, have)
    ]


def take_free(view: View, requests: Sequence[Request]) -> Decision[list[Grant]]:
    """A grant for each of these requests of one holder that is free and that no reservation is
    for. The others are left: no refusal, no ticket, and nothing is reaped for them. For what the
    holder is about to ask for one by one, where `rules.acquire` decides about the rest."""
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
    """Those of some requests of one holder that can start now. Mostly all of them can, which is
    one question; only else each of them is one."""
    everything = tuple([key for request in requests for key in looked_up(request)])
    if not view.grace_over and view.is_free(*reach(everything)):
        return list(requests)
    found = []
    for request in requests:
        where = reach(looked_up(request))
        if view.is_free(*where) and not (view.grace_over and view.ripe(*where)):
            found.append(request)
    return found


def _pairs(
    requests: Sequence[Request], have: Sequence[Grant | None]
) -> list[tuple[Request, Grant | None]]:
    return list(zip(requests, have, strict=True))


def together(requests: Sequence[Request]) -> Request:
    """One request for all that these ask for."""
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
    """All of it by name: a caller that asks for many files must know which of them are free."""
    found = Conflicts()
    for request in requests:
        conflicts = in_the_way(draft, request)
        found += conflicts
        found.and_more(conflicts.more)
    return found


def covering(draft: Draft, request: Request) -> Grant | None:
    """A live grant of the same holder that gives all that a request wants."""
    at, _below = reach(looked_up(request))
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
    """The request with which a grant, or some keys of it, goes to a holder; with `for_life` it has
    no end any more but its owner's."""
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
    """Grants change hands without coming free: each ends, and what the requests beside its id
    want of it begins, with new tokens. All or nothing; what nobody takes over is given back. The
    holder with the key `leaves` stands in no line any more."""
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
    """A grant ends, and what these want of it begins. The caller sees to it that they want no more
    than that, and hands over what is left."""
    to = [{"holder": request.holder.id, "grant": request.id} for request in heirs]
    draft.end(grant, events.LOCK_MOVED, to=to)
    return [draft.admit(request, ticket=False) for request in heirs]


def release_each(view: View, ids: Sequence[str], *, leaves: str = "") -> Decision[list[Grant]]:
    """Give several grants back at once. Those that have ended already are no error. The holder with
    the key `leaves` stands in no line any more."""
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
    """Nobody waits for this holder any more, although its process may not be known to be gone."""
    if holder_key and draft.view.has_tickets:
        for ticket in list(draft.waiting(holder_key)):
            draft.drop(ticket, "cancelled")


def come_to_rest(draft: Draft, holder_key: str, length: int | None) -> list[Grant]:
    """A part of a decision: all that a holder has ends so long from now; with None it is held on.

    What has ended already stays ended: nobody wakes up a lease that others may have seen free.
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


def with_note(
    view: View,
    decision: Decision[T],
    type: str,
    data: Mapping[str, Any],
    *,
    name: str = "",
    over: bool = False,
) -> Decision[T]:
    """Another decision and a note, both or neither."""
    seq = view.head + len(decision.events) + 1
    event = Event(seq=seq, type=type, at=view.now, data=_said(data, name, over))
    events = (*decision.events, event)
    return Decision(decision.outcome, events, decision.wake, decision.hint)


def note(
    view: View, type: str, data: Mapping[str, Any], *, name: str = "", over: bool = False
) -> Decision[Event]:
    """An event of a service; with a name it is the last word on something, until it is over."""
    event = Event(seq=view.head + 1, type=type, at=view.now, data=_said(data, name, over))
    return Decision(event, (event,))


def _said(data: Mapping[str, Any], name: str, over: bool) -> dict[str, Any]:
    said = dict(data)
    if name:
        said["note"] = name
        if over:
            said["over"] = True
    return said
