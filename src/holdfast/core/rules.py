"""The rules: acquire, renew, release. Each is a pure function of a view and a command.

A refusal is an outcome, not an exception: other changes of the decision (a reaped grant, a new
reservation) are committed with it.
"""

from __future__ import annotations

from holdfast.core import events
from holdfast.core.conflicts import (
    EXPIRED,
    checked_keys,
    clashes,
    covers,
    expiry,
    fate,
    in_the_way,
    steal_only,
    waiter_is_dead,
)
from holdfast.core.draft import LAST, LONG, NOTHING, SERVED, Draft, granted, kept_for, reach
from holdfast.core.model import (
    CONFLICTS_NAMED_MAX,
    READ,
    WRITE,
    Decision,
    Ending,
    Event,
    Grant,
    Holder,
    Refusal,
    Ticket,
    Verdict,
    Waiting,
)
from holdfast.core.overlaps import Overlaps
from holdfast.core.wait_line import circle, hand_over, is_young

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from holdfast.core.model import ConflictInfo, Conflicts, Request, Witness
    from holdfast.core.view import View

CONFLICT = "E_LOCK_CONFLICT"
CYCLE = "E_LOCK_CYCLE"
EXPIRED_CODE = "E_LOCK_EXPIRED"
NOT_HELD = "E_LOCK_NOT_HELD"
FENCED = "E_FENCING_MISMATCH"
VIOLATION = "E_LOCK_VIOLATION"

#: The code of the error for a late caller, by how its grant ended.
_ENDED_CODES = {
    "expired": EXPIRED_CODE, "idle": EXPIRED_CODE,
    "stolen": FENCED, "forced": FENCED, "moved": FENCED,
}  # fmt: skip


def acquire(
    view: View, request: Request, *, wait: bool, again: bool = True
) -> Decision[Grant | Waiting | Refusal]:
    """Grant the whole request; if that is not possible now, queue it (with `wait`) or refuse it.

    Repeating a request is harmless; `again=False` asserts that this is the first attempt.
    """
    known = view.grant(request.id) if again else None
    if known is not None:  # its answer was lost, or it waited and has been granted
        return _already_decided(Draft(view), known)
    if not again:
        short = acquire_if_free(view, request)
        if short.outcome is not None:
            return Decision(short.outcome, short.events)
    draft = Draft(view)
    ticket = draft.ticket(request.id)
    if again and wait and request.silent:
        # The request may be old: a file that had one name then may have two by now.
        request = request.without_silent()
    conflicts = in_the_way(draft, request, ticket.arrival if ticket else LAST)
    while draft.freed:
        # Requests that waited for a reaped grant come first.
        hand_over(draft)
        known = draft.grant(request.id)
        if known is not None:
            return _already_decided(draft, known)
        ticket = draft.ticket(request.id)
        conflicts = in_the_way(draft, request, ticket.arrival if ticket else LAST)
    if not conflicts:
        return draft.done(draft.admit(request, ticket=ticket is not None))
    if not wait:
        return _refuse(draft, request, ticket, conflicts)
    return _wait(draft, request, ticket, conflicts)


def acquire_if_free(view: View, request: Request) -> Decision[Grant | None]:
    """The fast path for the usual case: the keys are free, and no ticket has to be served first.

    None is not a refusal: only `acquire` can decide. Not for repeated requests.
    """
    if view.grace_over or not view.is_free(*reach(checked_keys(request))):
        return Decision(None)
    grant = granted(view, request, view.last_token)
    event = Event(view.head + 1, events.LOCK_ACQUIRED, view.now, NOTHING, subject=grant)
    return Decision(grant, (event,))


def _already_decided(draft: Draft, known: Grant | Ending) -> Decision[Grant | Waiting | Refusal]:
    if isinstance(known, Ending):
        return draft.done(lost(known))
    why = fate(draft, known)
    if why in ("", "owner dead"):
        return draft.done(known)
    if steal_only(known):
        return draft.done(Refusal(code=EXPIRED_CODE, message=f"grant {known.id} has expired"))
    ended = draft.end(known, events.LOCK_REAPED, why=why)
    hand_over(draft)
    return draft.done(lost(events.ending(ended)))


def _refuse(
    draft: Draft, request: Request, ticket: Ticket | None, conflicts: Conflicts
) -> Decision[Grant | Waiting | Refusal]:
    expired = all(_expired_and_not_stolen(draft, conflict) for conflict in conflicts)
    code = EXPIRED_CODE if expired else CONFLICT
    refusal = Refusal(code=code, conflicts=tuple(conflicts), more=conflicts.more)
    return record_refusal(draft, request, ticket, refusal)


def _expired_and_not_stolen(draft: Draft, conflict: ConflictInfo) -> bool:
    grant = draft.live_grant(conflict.grant_id)
    return grant is not None and steal_only(grant) and fate(draft, grant) == EXPIRED


def record_refusal(
    draft: Draft, request: Request, ticket: Ticket | None, refusal: Refusal
) -> Decision[Grant | Waiting | Refusal]:
    """Record a refusal, once however often it is repeated."""
    if ticket is not None:
        draft.drop(ticket, "refused")
    hand_over(draft)
    note_refusal(draft, request, refusal)
    return draft.done(refusal)


def note_refusal(draft: Draft, request: Request, refusal: Refusal) -> None:
    """Add the event of a refusal, as the last of its decision."""
    data, once = _refusal_record(request, refusal)
    draft.emit(events.LOCK_REFUSED, data, once=once)


def _refusal_record(request: Request, refusal: Refusal) -> tuple[dict[str, Any], str]:
    """The data of a refusal's event, and the text that identifies its repetitions. Neither grows
    with the size of the request."""
    blockers = sorted({one.grant_id for one in refusal.conflicts[:CONFLICTS_NAMED_MAX]})
    told: dict[str, Any] = {
        "holder": request.holder.id,
        "paths": request.paths[:CONFLICTS_NAMED_MAX],
        "modes": request.modes[:CONFLICTS_NAMED_MAX],
        "code": refusal.code,
        "blockers": blockers,
    }
    beyond = len(request.paths) > CONFLICTS_NAMED_MAX
    if beyond:
        told["more_paths"] = len(set(request.paths)) - len(set(told["paths"]))
    more = refusal.more + max(0, len(refusal.conflicts) - CONFLICTS_NAMED_MAX)
    if more:
        told["more"] = more
    asked = "\n".join((request.modes, *request.keys))
    if beyond:
        from hashlib import sha256

        asked = sha256(asked.encode()).hexdigest()
    return told, "\n".join((refusal.code, request.holder.key, asked, *blockers))


def _wait(
    draft: Draft, request: Request, ticket: Ticket | None, conflicts: Conflicts
) -> Decision[Grant | Waiting | Refusal]:
    if draft.is_dead(request.holder.witness, request.holder.marks):
        refusal = Refusal(code=NOT_HELD, message=f"{request.holder.id} is no longer alive")
        return record_refusal(draft, request, ticket, refusal)
    if _is_upgrade(draft, request, conflicts):
        refusal = Refusal(
            code=CONFLICT,
            message="a read lock cannot become a write lock while others read",
            conflicts=tuple(conflicts),
            more=conflicts.more,
        )
        return record_refusal(draft, request, ticket, refusal)
    steps = circle(draft, request, ticket.arrival if ticket else LAST, conflicts)
    ticket = draft.ticket(request.id)  # the search may have made it a reservation
    if steps:
        refusal = Refusal(code=CYCLE, conflicts=tuple(conflicts), circle=steps, more=conflicts.more)
        return record_refusal(draft, request, ticket, refusal)
    if any(_expired_and_not_stolen(draft, conflict) for conflict in conflicts):
        return _refuse(draft, request, ticket, conflicts)
    if ticket is None:
        ticket = draft.enqueue(request)
    elif not ticket.reserved and draft.now >= ticket.ripe_at:
        ticket = draft.reserve(ticket)
    hand_over(draft)
    moments = [conflict.until for conflict in conflicts if conflict.until is not None]
    if draft.view.lease is not None:
        moments += _ends_of_kept(draft, conflicts)
    if not ticket.reserved:
        moments.append(ticket.ripe_at)
    if is_young(draft, ticket):
        moments.append(ticket.grace_ends_at)
    check_after = max(0, min(moments) - draft.now) if moments else None
    behind = tuple(conflicts)
    return draft.done(
        Waiting(ticket=ticket, conflicts=behind, check_after=check_after, more=conflicts.more)
    )


def _ends_of_kept(draft: Draft, conflicts: Conflicts) -> list[int]:
    """When the leases in the way would end if their owners renewed them no more."""
    grants = (draft.live_grant(one.grant_id) for one in conflicts if one.kind == "grant")
    ends = (expiry(draft, grant) for grant in grants if grant is not None)
    return [end for end in ends if end is not None]


def _is_upgrade(draft: Draft, request: Request, conflicts: Conflicts) -> bool:
    """Whether the holder already reads the keys that it now wants to write, and others read them
    too.

    Two such requests would wait for each other forever.
    """
    if WRITE not in request.modes:
        return False
    if conflicts.more:
        found = clashes(draft, request)
        contested = {request.paths[place] for _, row, place in found if row[1] == READ}
    else:
        contested = {one.path for one in conflicts if one.held_mode == READ and one.kind == "grant"}
    if not contested:
        return False
    wanted = [
        key for key, path in zip(request.keys, request.paths, strict=True) if path in contested
    ]
    overlapping = Overlaps(wanted)
    for key, _mode, id in draft.scopes(*reach(tuple(wanted))):
        grant = draft.live_grant(id)
        mine = grant is not None and grant.holder.key == request.holder.key
        if mine and overlapping.of(key):
            return True
    return False


def ensure(view: View, request: Request) -> Decision[Grant | Waiting | Refusal]:
    """Reuse a live grant of the same holder that already covers the request, or acquire."""
    draft = Draft(view)
    at, _below = reach(request.keys)
    for id in sorted({id for _key, _mode, id in draft.scopes(at, [])}):
        grant = draft.live_grant(id)
        if grant is None or grant.holder.key != request.holder.key:
            continue
        if covers(grant, request) and not fate(draft, grant):
            return Decision(grant)
    return acquire(view, request, wait=False)


def cancel(view: View, id: str, why: str) -> Decision[Grant | None]:
    """Stop waiting. If the request has been granted meanwhile, the outcome is its grant."""
    draft = Draft(view)
    grant = draft.live_grant(id)
    if grant is not None and not fate(draft, grant):
        return draft.done(grant)
    ticket = draft.ticket(id)
    if ticket is not None:
        draft.drop(ticket, why)
        hand_over(draft)
    return draft.done(None)


def release(view: View, id: str, holder_key: str | None) -> Decision[bool | Refusal]:
    """Release a grant. It is not an error if it has ended, but it is if it is another holder's."""
    grant = view.grant(id)
    if not isinstance(grant, Grant):
        return Decision(False)
    if holder_key is not None and holder_key != grant.holder.key:
        return Decision(_not_the_holder(grant))
    if not view.has_tickets or not (view.grace_over or view.now - grant.acquired_at >= LONG):
        event = Event(view.head + 1, events.LOCK_RELEASED, view.now, NOTHING, subject=grant)
        return Decision(True, (event,), (), grant.keys if view.has_tickets else ())
    heir = _only_heir(view, grant)
    if heir is not None:
        ended = Event(view.head + 1, events.LOCK_RELEASED, view.now, NOTHING, subject=grant)
        given = granted(view, heir, view.last_token)
        begun = Event(view.head + 2, events.LOCK_ACQUIRED, view.now, SERVED, subject=given)
        return Decision(True, (ended, begun), (heir.wake,) if heir.wake else ())
    draft = Draft(view)
    draft.end(grant, events.LOCK_RELEASED)
    hand_over(draft)
    return draft.done(True)


def _only_heir(view: View, grant: Grant) -> Request | None:
    """The fast path for the usual hand-over: the only request that waits there, if it wants exactly
    the released keys and no other grant has any of them. None means only that this path is not
    possible."""
    there = reach(grant.keys)
    tickets = list(view.tickets(*there))
    if len(tickets) != 1 or tickets[0].request.keys != grant.keys:
        return None
    request = tickets[0].request
    if any(id != grant.id for _key, _mode, id in view.scopes(*there)):
        return None
    holder = request.holder
    for witness, marks in ((request.waiter, ()), (holder.witness, holder.marks)):
        if witness is not None and view.dead(witness, marks):
            return None
    return None if request.wake and view.gave_up(request.wake) else request


def renew(
    view: View,
    id: str,
    *,
    holder_key: str | None,
    caller: Witness | None = None,
    ttl: int | None = None,
    rest: int | None = None,
) -> Decision[Grant | Refusal]:
    """Extend a lease, by its own ttl if none is given; it is never shortened.

    The caller proves to be the holder by its key, or by being the owner's process. With `rest` the
    grant also ends after that time, unless it is renewed first.
    """
    draft = Draft(view)
    grant = draft.grant(id)
    if not isinstance(grant, Grant):
        return draft.done(lost(grant, id))
    if holder_key is None:
        is_holder = caller is None or caller == grant.holder.witness
    else:
        is_holder = holder_key == grant.holder.key
    if not is_holder:
        return draft.done(_not_the_holder(grant))
    why = fate(draft, grant)
    if why in ("expired", "idle") and not steal_only(grant):
        ended = draft.end(grant, events.LOCK_REAPED, why=why)
        hand_over(draft)
        return draft.done(lost(events.ending(ended)))
    expires_at = expiry(draft, grant)  # includes sleep so far; sleep is counted from now on
    length = grant.ttl if grant.ttl is not None else kept_for(view, grant.holder)
    if expires_at is not None or length is not None:
        expires_at = max(expires_at or 0, draft.now + (ttl or length or 0))
    idle_at = None if rest is None else draft.now + rest
    return draft.done(draft.extend(grant, expires_at=expires_at, idle_at=idle_at))


def steal(view: View, request: Request) -> Decision[Grant | Waiting | Refusal]:
    """Take over expired locks, and only those. Of several contenders exactly one succeeds."""
    draft = Draft(view)
    known = draft.grant(request.id)
    if known is not None:
        return _already_decided(draft, known)
    targets = _expired_in_the_way(draft, request)
    by = {"holder": request.holder.id, "grant": request.id}
    for grant in targets:
        draft.end(grant, events.LOCK_STOLEN, by=by)
    if targets and not in_the_way(draft, request):
        stolen = draft.admit(request, ticket=False)
        hand_over(draft)
        return draft.done(stolen)
    return _refuse_steal(Draft(view), request)


def _expired_in_the_way(draft: Draft, request: Request) -> list[Grant]:
    found: dict[str, Grant] = {}
    wanted = Overlaps(request.keys)
    for key, mode, id in draft.scopes(*reach(checked_keys(request))):
        grant = draft.live_grant(id)
        if grant is None or id in found or grant.holder.key == request.holder.key:
            continue
        clash = any(WRITE in (mode, request.modes[at]) for at in wanted.of(key))
        if clash and fate(draft, grant) == EXPIRED:
            found[id] = grant
    return list(found.values())


def _refuse_steal(draft: Draft, request: Request) -> Decision[Grant | Waiting | Refusal]:
    conflicts = in_the_way(draft, request)
    hand_over(draft)
    conflicts = in_the_way(draft, request)
    if conflicts:
        refusal = Refusal(code=CONFLICT, conflicts=tuple(conflicts), more=conflicts.more)
    else:
        refusal = Refusal(code=NOT_HELD, message="nothing here has expired: nothing to steal")
    return record_refusal(draft, request, None, refusal)


def force(view: View, id: str, *, by: Holder, reason: str) -> Decision[Grant | Refusal]:
    """Take a grant away from its holder. The event has both parties and the reason."""
    draft = Draft(view)
    grant = draft.grant(id)
    if not isinstance(grant, Grant):
        return draft.done(lost(grant, id))
    draft.end(grant, events.LOCK_FORCED, by={"holder": by.id}, reason=reason)
    hand_over(draft)
    return draft.done(grant)


def reap(view: View, ids: Iterable[str]) -> Decision[list[Ending]]:
    """End those of these grants that are not live, and the tickets whose waiters are dead.

    Nothing depends on this: every decision reaps the grants that it examines.
    """
    draft = Draft(view)
    endings = []
    for id in ids:
        ticket = draft.ticket(id)
        if ticket is not None and waiter_is_dead(draft, ticket):
            draft.drop(ticket, "waiter dead")
        grant = draft.live_grant(id)
        why = "" if grant is None else fate(draft, grant)
        if grant is not None and why and not steal_only(grant):
            endings.append(events.ending(draft.end(grant, events.LOCK_REAPED, why=why)))
    hand_over(draft)
    return draft.done(endings)


def look(view: View, request: Request) -> Conflicts:
    """The conflicts that a request would meet now. Nothing is written."""
    return in_the_way(Draft(view), request)


def is_live(view: View, grant: Grant) -> bool:
    """Whether a grant is still in force."""
    draft = Draft(view)
    return not fate(draft, grant) or steal_only(grant)


def has_live_waiter(view: View, ticket: Ticket) -> bool:
    """Whether the process that waits with a ticket is alive."""
    return not waiter_is_dead(Draft(view), ticket)


def verify(view: View, id: str, key: str | None, token: int) -> Verdict:
    """Whether a write may proceed: the grant is live, the token is its own, it covers the path."""
    draft = Draft(view)
    grant = draft.grant(id)
    if not isinstance(grant, Grant):
        refusal = lost(grant, id)
        return Verdict(allowed=False, code=refusal.code, reason=refusal.message)
    if grant.token != token:
        reason = f"token {token} is not the token of grant {id}"
        return Verdict(allowed=False, code=FENCED, reason=reason)
    why = fate(draft, grant)
    if why:
        code = NOT_HELD if why == "owner dead" else EXPIRED_CODE
        return Verdict(allowed=False, code=code, reason=f"grant {id} is not live: {why}")
    writes = [held for held, mode in zip(grant.keys, grant.modes, strict=True) if mode == WRITE]
    if key is not None and key not in writes:
        reason = f"grant {id} does not cover writing {key}"
        return Verdict(allowed=False, code=VIOLATION, reason=reason)
    return Verdict(allowed=True)


def lost(ending: Ending | None, id: str = "") -> Refusal:
    """The refusal for a caller whose grant has ended."""
    if ending is None:
        message = f"there is no grant {id}: it was released, or never existed"
        return Refusal(code=NOT_HELD, message=message)
    code = _ENDED_CODES.get(ending.why, NOT_HELD)
    by = f" by {ending.by}" if ending.by else ""
    message = f"grant {ending.id} of {ending.holder} has ended: {ending.why}{by}"
    return Refusal(code=code, message=message, ending=ending)


def _not_the_holder(grant: Grant) -> Refusal:
    message = f"grant {grant.id} belongs to {grant.holder.id}"
    return Refusal(code=NOT_HELD, message=message)
