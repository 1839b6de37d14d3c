"""What stands in the way of a request: grants of others, and reservations of others.

Two requests conflict when they overlap and at least one of the two wants to write. Whoever
looks at a grant also finds out whether it still lives; one that does not is reaped on the
spot, so no daemon is needed for a lock to come free.
"""

from __future__ import annotations

from holdfast.core import events, keys
from holdfast.core.draft import LAST, reach
from holdfast.core.model import READ, WRITE, ConflictInfo, Grant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.draft import Draft
    from holdfast.core.model import Request, Ticket

EXPIRED = "expired"
IDLE = "idle"
OWNER_DEAD = "owner dead"


def fate(draft: Draft, grant: Grant) -> str:
    """Why a grant is no longer live, or nothing if it is."""
    expires_at = expiry(draft, grant)
    if expires_at is not None and draft.now >= expires_at:
        return EXPIRED
    if grant.idle_at is not None and draft.now >= grant.idle_at:
        return IDLE
    if draft.is_dead(grant.holder.witness, grant.holder.marks):
        return OWNER_DEAD
    return ""


def expiry(draft: Draft, grant: Grant) -> int | None:
    """When a lease ends. What the machine slept is added if its owner, a process, slept too."""
    if grant.expires_at is None:
        return None
    if grant.holder.witness is None:
        return grant.expires_at
    return grant.expires_at + max(0, draft.view.slept - grant.slept)


def looked_up(request: Request) -> tuple[str, ...]:
    """The keys by which a request meets others."""
    silent, wanted = request.silent, request.keys
    if not silent:
        return wanted
    if len(wanted) == 2 and silent == wanted[1:]:  # one file, as nearly always
        return wanted[:1]
    return tuple([key for key in wanted if key not in silent])


def steal_only(grant: Grant) -> bool:
    """Whether only an explicit steal takes this over once it has expired."""
    return any(keys.kind(key) in keys.STEAL_ONLY_KINDS for key in grant.keys)


def grants_in_the_way(draft: Draft, request: Request) -> list[ConflictInfo]:
    """The live grants of others that conflict with a request. Reaps those that are not live."""
    rows = draft.scopes(*reach(looked_up(request)))
    if not rows:
        return []
    found: dict[tuple[str, str], ConflictInfo] = {}
    for held_key, held_mode, id in sorted(rows):  # the same order on every store
        for key, mode, path in zip(request.keys, request.modes, request.paths, strict=True):
            if mode == READ and held_mode == READ:
                continue
            if key in request.silent or not keys.overlap(key, held_key):
                continue
            grant = draft.live_grant(id)
            if grant is None or grant.holder.key == request.holder.key:
                break
            why = fate(draft, grant)
            if why and not steal_only(grant):
                draft.end(grant, events.LOCK_REAPED, why=why)
                break
            found.setdefault(
                (id, path), held_conflict(draft, grant, held_key, held_mode, path, mode)
            )
    return list(found.values())


def held_conflict(
    draft: Draft, grant: Grant, held_key: str, held_mode: str, path: str, mode: str
) -> ConflictInfo:
    """The facts about one grant in the way."""
    limits = [at for at in (expiry(draft, grant), grant.idle_at) if at is not None]
    return ConflictInfo(
        path=path,
        mode=mode,
        held_path=grant.paths[grant.keys.index(held_key)],
        held_mode=held_mode,
        holder=grant.holder.id,
        holder_key=grant.holder.key,
        grant_id=grant.id,
        since=grant.acquired_at,
        until=min(limits, default=None),
        reason=grant.reason,
    )


def reservations_in_the_way(
    draft: Draft, request: Request, arrival: int = LAST
) -> list[ConflictInfo]:
    """The reservations of others, made earlier, that a request may not pass."""
    return [
        _reserved_conflict(ticket, request, clash)
        for ticket, clash in _reservations_ahead(draft, request, arrival)
        if request.holder.key not in awaited(draft, ticket)
    ]


def _reservations_ahead(
    draft: Draft, request: Request, arrival: int
) -> list[tuple[Ticket, tuple[int, int]]]:
    """The reservations of others, made earlier, that clash with a request, and where."""
    if not draft.view.stirs:
        return []
    found = []
    for ticket in list(draft.ripe(*reach(looked_up(request)))):
        if ticket.arrival >= arrival or ticket.request.holder.key == request.holder.key:
            continue
        clash = first_clash(request, ticket.request)
        if clash is None:
            continue
        if waiter_is_dead(draft, ticket):
            draft.drop(ticket, "waiter dead")
            continue
        found.append((ticket if ticket.reserved else draft.reserve(ticket), clash))
    return found


def first_clash(request: Request, other: Request) -> tuple[int, int] | None:
    """The positions of the first keys of two requests that conflict."""
    for mine, (key, mode) in enumerate(zip(request.keys, request.modes, strict=True)):
        if key in request.silent:
            continue
        for theirs, (held_key, held_mode) in enumerate(zip(other.keys, other.modes, strict=True)):
            if (mode == WRITE or held_mode == WRITE) and keys.overlap(key, held_key):
                return mine, theirs
    return None


def _reserved_conflict(ticket: Ticket, request: Request, clash: tuple[int, int]) -> ConflictInfo:
    mine, theirs = clash
    return ConflictInfo(
        path=request.paths[mine],
        mode=request.modes[mine],
        held_path=ticket.request.paths[theirs],
        held_mode=ticket.request.modes[theirs],
        holder=ticket.request.holder.id,
        holder_key=ticket.request.holder.key,
        grant_id=ticket.id,
        since=ticket.added_at,
        until=None,
        reason=ticket.request.reason,
        kind="reservation",
    )


def waiter_is_dead(draft: Draft, ticket: Ticket) -> bool:
    """Whether no process waits with this ticket any more."""
    request, holder = ticket.request, ticket.request.holder
    if request.wake and draft.view.deserted(request.wake):
        return True  # it gave up, and could not say so in the ledger
    if draft.is_dead(request.waiter):
        return True
    return draft.is_dead(holder.witness, holder.marks)


def awaited(draft: Draft, reservation: Ticket) -> set[str]:
    """The holders that a reservation waits for, directly or through others that wait.

    They may pass it: if they could not get what they need to finish, it would never come to its
    turn.
    """
    found: set[str] = set()
    pending = [reservation]
    while pending:
        ticket = pending.pop()
        holders = {conflict.holder_key for conflict in grants_in_the_way(draft, ticket.request)}
        for ahead, _clash in _reservations_ahead(draft, ticket.request, ticket.arrival):
            holders.add(ahead.request.holder.key)
        for holder_key in sorted(holders - found):
            found.add(holder_key)
            pending.extend(
                waiting
                for waiting in draft.waiting(holder_key)
                if not waiter_is_dead(draft, waiting)
            )
    return found


def in_the_way(draft: Draft, request: Request, arrival: int = LAST) -> list[ConflictInfo]:
    """All that keeps a request from starting now."""
    return grants_in_the_way(draft, request) + reservations_in_the_way(draft, request, arrival)
