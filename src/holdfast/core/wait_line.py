"""The queue: which ticket gets a key that came free, and which requests may not wait.

Tickets are ordered (`Ticket.rank`): reservations by arrival, then by priority, then by arrival. A
request that can start may overtake one that cannot. The decision that frees a key also hands it
over: the first ticket that can start becomes a grant in the same transaction, whether its process
is awake or not, so no other request can come in between.

Handing over to a sleeping process costs the time to wake it, many times the length of a short hold.
So a ticket may have a grace: until it has waited that long, and if the key was held only briefly,
its process is woken but not granted the key, and a process that is already running may overtake it.
This keeps crowds fast that hold locks for microseconds, and delays no ticket by more than its
grace.

A ticket past its patience is a reservation: no later overlapping request overtakes it, except those
of holders that it waits for. So no request starves as long as grants end.
"""

from __future__ import annotations

from holdfast.core.conflicts import in_the_way, waiter_is_dead, with_waiting_holders
from holdfast.core.draft import reach
from holdfast.core.overlaps import Overlaps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.draft import Draft
    from holdfast.core.model import ConflictInfo, Conflicts, Request, Ticket


def hand_over(draft: Draft) -> None:
    """Grant the keys that came free in this decision to the waiting requests, in order."""
    if not draft.view.has_tickets:
        draft.freed.clear()
        return
    if not (draft.view.grace_over or draft.after_long):
        draft.hint.extend(draft.freed)
        draft.freed.clear()
        return
    freed: dict[str, None] = {}
    served: dict[str, None] = {}
    while draft.freed:
        freed.update(dict.fromkeys(draft.freed))
        draft.freed.clear()
        if _serve(draft, freed, served):
            freed.clear()
            served.clear()


def _serve(draft: Draft, freed: dict[str, None], served: dict[str, None]) -> bool:
    """Go through the queue once. False if further keys came free on the way (a dead owner, an
    expired lease): a ticket further ahead may have waited for those, so the caller starts again."""
    taken: dict[str, str] = {}
    came_free = Overlaps(freed)
    hinted: dict[str, str] = {}  # blocks only young tickets: a hint may be missed
    for ticket in draft.tickets(*reach(tuple(freed))):
        if freed.keys() <= taken.keys():
            break  # all of it is locked for writing now: no later ticket can start
        # A store may return more: the root's range contains everything.
        if not any(map(came_free.of, ticket.request.keys)):
            continue
        if _lost_to_another(ticket, taken):
            continue
        if is_young(draft, ticket) and not draft.after_long:
            if not _lost_to_another(ticket, hinted) and not (
                in_the_way(draft, ticket.request, ticket.arrival) or draft.freed
            ):
                _hint(draft, ticket, hinted)
        elif admit_if_free(draft, ticket):
            _note_taken(ticket, taken)
            served[ticket.request.holder.key] = None
        if draft.freed:
            return False
    for holder_key in served:
        # A holder's own grants do not conflict with it, so its other tickets may start too.
        for ticket in list(draft.waiting(holder_key)):
            if draft.after_long or not is_young(draft, ticket):
                admit_if_free(draft, ticket)
            if draft.freed:
                return False
    return True


def _hint(draft: Draft, ticket: Ticket, hinted: dict[str, str]) -> None:
    if waiter_is_dead(draft, ticket):
        draft.drop(ticket, "waiter dead")
        return
    draft.hint.extend(ticket.request.keys)
    _note_taken(ticket, hinted)


def is_young(draft: Draft, ticket: Ticket) -> bool:
    """Whether a ticket is still within its grace."""
    return draft.now < ticket.grace_ends_at


def _lost_to_another(ticket: Ticket, taken: dict[str, str]) -> bool:
    holder_key = ticket.request.holder.key
    return any(taken.get(key, holder_key) != holder_key for key in ticket.request.keys)


def _note_taken(ticket: Ticket, taken: dict[str, str]) -> None:
    for key, mode in zip(ticket.request.keys, ticket.request.modes, strict=True):
        if mode == "w":
            taken[key] = ticket.request.holder.key


def admit_if_free(draft: Draft, ticket: Ticket) -> bool:
    """Turn a ticket into a grant if it has no conflict and its waiter is alive."""
    if in_the_way(draft, ticket.request, ticket.arrival) or draft.freed:
        return False
    if waiter_is_dead(draft, ticket):
        draft.drop(ticket, "waiter dead")
        return False
    draft.admit(ticket.request, ticket=True)
    return True


def circle(
    draft: Draft, request: Request, arrival: int, conflicts: Conflicts
) -> tuple[ConflictInfo, ...]:
    """The cycle that a wait would close, as the steps from the requester back to itself."""
    if not draft.view.has_tickets:
        return ()
    asked: set[str] = set()
    me = request.holder.key
    trails: list[tuple[ConflictInfo, ...]] = [
        (conflict,) for conflict in _all(draft, request, arrival, conflicts, me)
    ]
    while trails:
        trail = trails.pop()
        holder_key = trail[-1].holder_key
        if holder_key == me:
            return trail
        if holder_key in asked:
            continue
        asked.add(holder_key)
        for ticket in list(draft.waiting(holder_key)):
            if waiter_is_dead(draft, ticket):
                continue
            behind = in_the_way(draft, ticket.request, ticket.arrival)
            for conflict in _all(draft, ticket.request, ticket.arrival, behind, me):
                trails.append((*trail, conflict))
    return ()


def _all(
    draft: Draft, request: Request, arrival: int, conflicts: Conflicts, about_to_wait: str
) -> Sequence[ConflictInfo]:
    """The conflicts to follow: each conflicting holder that waits may be part of a cycle."""
    if not conflicts.more:
        return conflicts
    return with_waiting_holders(draft, request, arrival, about_to_wait)
