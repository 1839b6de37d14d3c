"""The conflicts of a request: grants and reservations of other holders.

Two requests conflict when they overlap and at least one of them writes. A decision that examines
a grant also checks whether it is still live, and reaps it if not, so locks come free without a
daemon.
"""

from __future__ import annotations

from holdfast.core import events, keys
from holdfast.core.draft import LAST, reach
from holdfast.core.model import (
    CONFLICTS_COUNTED_MAX,
    CONFLICTS_NAMED_MAX,
    READ,
    WRITE,
    ConflictInfo,
    Conflicts,
    Grant,
)
from holdfast.core.overlaps import Overlaps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.draft import Draft
    from holdfast.core.model import Request, Ticket

    #: Key, mode and grant id of something that is held.
    Row = tuple[str, str, str]

#: Beyond the named conflicts, this many rows or more are counted without examining each grant.
CROWD = 20

EXPIRED = "expired"
IDLE = "idle"
OWNER_DEAD = "owner dead"


def fate(draft: Draft, grant: Grant) -> str:
    """Why a grant is no longer live; empty if it is."""
    expires_at = expiry(draft, grant)
    if expires_at is not None and draft.now >= expires_at:
        return EXPIRED
    if grant.idle_at is not None and draft.now >= grant.idle_at:
        return IDLE
    if draft.is_dead(grant.holder.witness, grant.holder.marks):
        return OWNER_DEAD
    return ""


def expiry(draft: Draft, grant: Grant) -> int | None:
    """When a lease ends. If its owner is a process, the time that the machine slept is added."""
    if grant.expires_at is None:
        return None
    if grant.holder.witness is None:
        return grant.expires_at
    return grant.expires_at + max(0, draft.view.slept - grant.slept)


def shown_end(draft: Draft, grant: Grant) -> int | None:
    """When a lease ends, for people; None if it lasts as long as its owner, although it has an end
    that its owner keeps moving."""
    if grant.ttl is None and draft.view.lease is not None:
        return None
    return expiry(draft, grant)


def checked_keys(request: Request) -> tuple[str, ...]:
    """The keys of a request that are checked for conflicts."""
    silent, wanted = request.silent, request.keys
    if not silent:
        return wanted
    if len(wanted) == 2 and silent == wanted[1:]:  # one file, as nearly always
        return wanted[:1]
    unsaid = set(silent)
    return tuple([key for key in wanted if key not in unsaid])


def covers(grant: Grant, request: Request) -> bool:
    """Whether a grant covers the whole request."""
    silent, held = set(request.silent), set(grant.keys)
    written = {key for key, mode in zip(grant.keys, grant.modes, strict=True) if mode == WRITE}
    for key, mode in zip(request.keys, request.modes, strict=True):
        if key in silent:
            continue
        if mode == WRITE:
            if key not in written:
                return False
        elif key not in held and held.isdisjoint(keys.ancestors(key)):
            return False
    return True


def overlaps(request: Request) -> Overlaps:
    """An index of the checked keys of a request, to find those that overlap another key."""
    if not request.silent:
        return Overlaps(request.keys)
    unsaid = set(request.silent)
    return Overlaps([None if key in unsaid else key for key in request.keys])


def steal_only(grant: Grant) -> bool:
    """Whether only an explicit steal takes this over once it has expired."""
    return any(keys.kind(key) in keys.STEAL_ONLY_KINDS for key in grant.keys)


def grants_in_the_way(draft: Draft, request: Request) -> Conflicts:
    """The live grants of others that conflict with a request. Reaps those that are not live.

    The cost of a refusal does not grow with the number of grants: only the first conflicts are
    examined. The others are counted as they are in the ledger, and some of them may have ended, or
    belong to the requesting holder.
    """
    wanted = checked_keys(request)
    rows = draft.scopes(*reach(wanted))
    row = next(rows, None)
    found = Conflicts()
    if row is None:
        return found
    met, looked_at = ConflictScan(draft, request), []
    while row is not None and len(found) < CONFLICTS_NAMED_MAX:
        met.look_at(row, found)
        looked_at.append(row)
        row = next(rows, None)
    if row is None:
        return found
    some = [row]
    while len(some) < CROWD and (row := next(rows, None)) is not None:
        some.append(row)
    if len(some) == CROWD and len(wanted) == 1:
        reads = request.modes[request.keys.index(wanted[0])] == READ
        known = sum(mode == WRITE or not reads for _key, mode, _id in looked_at)
        most = known + CONFLICTS_COUNTED_MAX + 1
        found.and_more(draft.view.count(*reach(wanted), writes=reads, most=most) - known)
        return found
    add = met.look_at if len(some) < CROWD else met.count
    for part in (some, rows):
        for row in part:
            add(row, found)
            if found.are_enough:
                return found
    return found


class ConflictScan:
    """Compares a request with the held keys, row by row."""

    __slots__ = ("_draft", "_known", "_request", "_seen", "_wanted")

    def __init__(self, draft: Draft, request: Request) -> None:
        self._draft = draft
        self._request = request
        self._wanted = overlaps(request)
        self._known: dict[str, Grant | None] = {}
        self._seen: set[tuple[str, str]] = set()

    def look_at(self, row: Row, found: Conflicts) -> None:
        """Add the conflicts of the request with a row, if the row's grant is live."""
        held_key, held_mode, id = row
        grant, places = self.clash(row)
        if grant is None:
            return
        for place in places:
            path, mode = self._request.paths[place], self._request.modes[place]
            if (id, path) in self._seen:
                continue
            self._seen.add((id, path))
            if len(found) < CONFLICTS_NAMED_MAX:
                info = held_conflict(self._draft, grant, held_key, held_mode, path, mode)
                found.append(info)
            else:
                found.and_more(1)

    def count(self, row: Row, found: Conflicts) -> None:
        """Count the conflicts of the request with a row, without examining its grant."""
        id = row[2]
        if self._known.get(id, self) is None:
            return
        for place in self._places(row):
            told = (id, self._request.paths[place])
            if told not in self._seen:
                self._seen.add(told)
                found.and_more(1)

    def clash(self, row: Row) -> tuple[Grant | None, list[int]]:
        """The row's grant, if it is live and of another holder, and the positions of the
        request's keys that conflict with it; otherwise None."""
        id = row[2]
        if self._known.get(id, self) is None:
            return None, []
        places = self._places(row)
        if places and id not in self._known:
            self._known[id] = self._standing(id)
        return (self._known[id], places) if places else (None, [])

    def _places(self, row: Row) -> list[int]:
        places = self._wanted.of(row[0])
        if row[1] == READ:
            modes = self._request.modes
            return [place for place in places if modes[place] != READ]
        return places

    def _standing(self, id: str) -> Grant | None:
        draft = self._draft
        grant = draft.live_grant(id)
        if grant is None or grant.holder.key == self._request.holder.key:
            return None
        why = fate(draft, grant)
        if why and not steal_only(grant):
            draft.end(grant, events.LOCK_REAPED, why=why)
            return None
        return grant


def clashes(draft: Draft, request: Request) -> Iterator[tuple[Grant, Row, int]]:
    """All live grants of others that conflict with a request, each with the row that it holds
    and the position of the requested key."""
    met = ConflictScan(draft, request)
    for row in draft.scopes(*reach(checked_keys(request))):
        grant, places = met.clash(row)
        if grant is not None:
            for place in places:
                yield grant, row, place


def held_conflict(
    draft: Draft, grant: Grant, held_key: str, held_mode: str, path: str, mode: str
) -> ConflictInfo:
    """The details of a conflict with one grant."""
    limits = [at for at in (shown_end(draft, grant), grant.idle_at) if at is not None]
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
    """The earlier reservations of others that a request may not overtake."""
    return [
        _reserved_conflict(ticket, request, clash)
        for ticket, clash in _reservations_ahead(draft, request, arrival)
        if request.holder.key not in awaited(draft, ticket)
    ]


def _reservations_ahead(
    draft: Draft, request: Request, arrival: int
) -> list[tuple[Ticket, tuple[int, int]]]:
    """The earlier reservations of others that conflict with a request, and where."""
    if not draft.view.grace_over:
        return []
    found = []
    for ticket in list(draft.ripe(*reach(checked_keys(request)))):
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
    silent, theirs = set(request.silent), Overlaps(other.keys)
    for mine, (key, mode) in enumerate(zip(request.keys, request.modes, strict=True)):
        if key in silent:
            continue
        for place in theirs.of(key):
            if mode == WRITE or other.modes[place] == WRITE:
                return mine, place
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
    if request.wake and draft.view.gave_up(request.wake):
        return True  # it gave up, and could not write that to the ledger
    if draft.is_dead(request.waiter):
        return True
    return draft.is_dead(holder.witness, holder.marks) is True


def awaited(draft: Draft, reservation: Ticket) -> set[str]:
    """The holders that a reservation waits for, directly or through other waiting holders.

    They may overtake it: if they could not get the locks that they need to finish, its turn would
    never come.
    """
    found: set[str] = set()
    pending = [reservation]
    while pending:
        ticket = pending.pop()
        holders = {grant.holder.key for grant, *_ in clashes(draft, ticket.request)}
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


def in_the_way(draft: Draft, request: Request, arrival: int = LAST) -> Conflicts:
    """The conflicts that keep a request from starting now: the first by name, the rest counted."""
    found = grants_in_the_way(draft, request)
    reserved = reservations_in_the_way(draft, request, arrival)
    room = CONFLICTS_NAMED_MAX - len(found)
    found += reserved[:room]
    found.and_more(max(0, len(reserved) - room))
    return found


def with_waiting_holders(
    draft: Draft, request: Request, arrival: int, about_to_wait: str
) -> list[ConflictInfo]:
    """One conflict with each conflicting holder that is itself waiting, or about to wait. There
    are few waiting holders, even where a request conflicts with very many grants."""
    waiting = {ticket.request.holder.key for ticket in draft.view.queue()}
    waiting.add(about_to_wait)
    waiting.discard(request.holder.key)
    met = ConflictScan(draft, request)
    found = []
    for holder_key in sorted(waiting):
        for row in draft.rows_of(holder_key):
            grant, places = met.clash(row)
            if grant is not None:
                path, mode = request.paths[places[0]], request.modes[places[0]]
                found.append(held_conflict(draft, grant, row[0], row[1], path, mode))
                break
    return [*found, *reservations_in_the_way(draft, request, arrival)]
