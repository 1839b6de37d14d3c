"""An agent is refused: it waits in the queue, may retry once, and is blocked if that fails.

Parts of decisions, each on the life of one agent.
"""

from __future__ import annotations

from holdfast.core import bulk_rules, rules
from holdfast.core import conflicts as held
from holdfast.core.codec import paths_of
from holdfast.core.conflicts import fate
from holdfast.core.draft import LAST, reach
from holdfast.core.model import SECOND, Refusal, Request
from holdfast.core.overlaps import Overlaps
from holdfast.core.wait_line import admit_if_free, circle, hand_over
from holdfast.gate.rulebook import (
    agent_records,
    file_states,
    handover,
    lease_limits,
)
from holdfast.gate.rulebook.agent_life import FOR_NEXT_EDIT
from holdfast.gate.rulebook.agent_records import Block, Wait
from holdfast.gate.rulebook.outcomes import Denied, Halted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.draft import Draft
    from holdfast.core.model import ConflictInfo, Conflicts, Ticket
    from holdfast.gate.rulebook.agent_life import Life
    from holdfast.gate.rulebook.outcomes import Passed

#: Without handovers: how long after the retry a file stays reserved.
KEPT = 10 * SECOND


def place_in_line(draft: Draft, ticket: Ticket) -> int:
    """The ticket's place among those that want one of its files, counted from 1."""
    wanted = Overlaps(ticket.request.keys)
    ahead = (
        one.arrival < ticket.arrival and any(map(wanted.of, one.request.keys))
        for one in draft.tickets(*reach(ticket.request.keys))
    )
    return 1 + sum(ahead)


# The first refusal


def contend(life: Life, wanted: Sequence[Request], found: Conflicts) -> Denied:
    """The first refusal: a place in line, the heartbeat, and the moment of the one retry."""
    blocked = {conflict.path for conflict in found}
    missing = [one for one in wanted if blocked.intersection(one.paths)] or list(wanted)
    asker = life.asker
    request = _by_name(bulk_rules.together(missing)).but(
        ttl=_kept(life), reason=FOR_NEXT_EDIT, patience=0, stamp=""
    )
    steps = circle(life.draft, request, LAST, found)
    _limit(life, found)
    state = file_states.after(file_states.OWNED, file_states.COMPETED)
    first = found[0]
    wait = Wait(
        Wait.named(life.holder.key, request.id),
        agent=life.holder.id,
        paths=list(dict.fromkeys(request.paths)),
        keys=request.keys,
        blocked=list(dict.fromkeys(conflict.path for conflict in found)),
        owner=first.holder,
        owner_key=first.holder_key,
        since=first.since,
        denied_at=life.now,
        retry_at=life.now + asker.retry,
        retry_seconds=asker.retry_seconds,
        ticket="" if steps else life.draft.enqueue(request).id,
        circle=[(step.path, step.holder) for step in steps],
        at=life.now,
    )
    state = file_states.after(state, file_states.HEARTBEAT_WRITTEN)
    wait.write(life.draft, agent_records.HEARTBEAT, state=state)
    life.known.waits.append(wait)
    code = rules.CYCLE if steps else rules.CONFLICT
    refusal = Refusal(code=code, conflicts=tuple(found), circle=steps, more=found.more)
    life.refusal = request, refusal
    return _denied(life, wait, found)


def _kept(life: Life) -> int:
    """How long a file that comes free stays reserved for the agent: not for ever, because the agent
    may not want it any more."""
    return life.unused if life.asker.wake else life.asker.retry + KEPT


def _by_name(request: Request) -> Request:
    """The same without the inodes of files that have one name only: such a file may be replaced
    before it comes free, and its old inode number may then belong to another file."""
    unsaid = set(request.silent)
    said = [place for place, key in enumerate(request.keys) if key not in unsaid]
    return request.but(
        keys=tuple(request.keys[place] for place in said),
        modes="".join(request.modes[place] for place in said),
        paths=tuple(request.paths[place] for place in said),
        silent=(),
    )


def _limit(life: Life, conflicts: Sequence[ConflictInfo]) -> None:
    """Limit the leases of owners that cannot be judged from here."""
    lease_limits.limit(life.draft, [one.grant_id for one in conflicts], life.asker.foreign)


def _denied(life: Life, wait: Wait, conflicts: Sequence[ConflictInfo]) -> Denied:
    came = [path for one in life.came for path in one.blocked]
    line = _line(life, wait)
    return Denied(
        life.holder, wait, conflicts, line=line, now=life.now, came=came, lapsed=life.lapsed
    )


def _line(life: Life, wait: Wait) -> int:
    """The place in line, counted from 1; 0 without one."""
    ticket = life.draft.ticket(wait.ticket) if wait.ticket else None
    return 0 if ticket is None else place_in_line(life.draft, ticket)


# Before the retry


def asked_before(life: Life, wanted: Sequence[Request]) -> Denied | Halted | None:
    """An edit of files that were refused before; None if there is nothing to wait for. The wait
    that is due first is tried first."""
    keys = {key for request in wanted for key in request.keys}
    for wait in sorted(life.known.waits, key=lambda wait: wait.retry_at):
        if not keys.isdisjoint(wait.keys):
            answer = again(life, wait, wanted)
            if isinstance(answer, Denied) and not _has_a_place(life, wait):
                answer = back_in_line(life, wait, answer)
            if answer is not None:
                return answer
    return None


def wait_on(life: Life, wanted: Sequence[Request], id: str) -> Passed | Denied | Halted:
    """The edit whose call is held open for a wait, once more."""
    handover.notice(life)
    halted = life.halted()  # another call may have blocked the agent meanwhile
    if halted is not None:
        return halted
    for wait in list(life.known.waits):
        if wait.id == id:
            answer = again(life, wait, wanted)
            if answer is not None:
                return answer
    return life.edit(wanted)


def again(life: Life, wait: Wait, wanted: Sequence[Request]) -> Denied | Halted | None:
    """An attempt on files that were refused before; None if there is nothing to wait for."""
    if life.now >= wait.retry_at:
        halted = retry(life, wait)
        if halted is not None:
            life.rest()
        return halted
    conflicts = settle(life, wait)
    if wait not in life.known.waits:
        return None
    if life.asker.wake:
        if not conflicts:  # it came free while the agent was not in the queue
            life.leave_line(wait, "free")
            handover.over(life, wait, file_states.HANDED_OVER)
            return None
        asked = {path for request in wanted for path in request.paths}
        if asked.isdisjoint(one.path for one in conflicts):
            return None  # only another file of the same refusal is not free
    return _denied(life, wait, conflicts)


def _has_a_place(life: Life, wait: Wait) -> bool:
    """Whether the wait is in the queue, has been served, or would deadlock."""
    return bool(wait.circle) or stands_in_line(life, wait) or _is_served(life, wait)


def back_in_line(life: Life, wait: Wait, denied: Denied) -> Denied:
    """The agent had stopped, and left the queue. It tries again, so it joins the end of the queue;
    the time of its retry stays."""
    request = _request(life, wait)
    found = held.in_the_way(life.draft, request)
    steps = circle(life.draft, request, LAST, found)
    ticket = None if steps else life.draft.enqueue(request)
    fields = {"ticket": "" if ticket is None else ticket.id, "held": False}
    if found:
        first = found[0]
        fields |= {"owner": first.holder, "owner_key": first.holder_key, "since": first.since}
    again = wait.but(**fields, circle=[(step.path, step.holder) for step in steps])
    again.write(life.draft, agent_records.BACK_IN_LINE, state=file_states.RETRY_PENDING)
    life.known.waits[life.known.waits.index(wait)] = again
    if ticket is not None:
        admit_if_free(life.draft, ticket)
    return _denied(life, again, denied.conflicts)


def look_round(life: Life) -> None:
    """Examine the agent's waits: a holder may have died without an event."""
    handover.notice(life)
    for wait in list(life.known.waits) if life.asker.wake else ():
        if stands_in_line(life, wait):
            settle(life, wait)


def stands_in_line(life: Life, wait: Wait) -> bool:
    """Whether the wait has a place in the queue."""
    return bool(wait.ticket) and life.draft.ticket(wait.ticket) is not None


def settle(life: Life, wait: Wait) -> Sequence[ConflictInfo]:
    """The conflicts of a wait, with the life of each owner checked again: a dead owner's files go
    to the first in line. Files that have gone up to an agent above come down."""
    ticket = life.draft.ticket(wait.ticket) if wait.ticket else None
    request = _request(life, wait)
    arrival = LAST if ticket is None else ticket.arrival
    conflicts = held.in_the_way(life.draft, request, arrival)
    while life.draft.freed:
        hand_over(life.draft)
        handover.notice(life)
        if wait not in life.known.waits:
            return ()
        conflicts = held.in_the_way(life.draft, request, arrival)
    _limit(life, conflicts)
    is_due = life.now >= wait.retry_at
    is_told = life.asker.wake and (life.hears or life.goes_on)
    may_come = bool(conflicts) and bool(life.holder.agent) and (is_told or is_due)
    if may_come and handover.hand_down(life, _by_file(life, request, arrival), in_turn=not is_due):
        life.leave_line(wait, "handed down")
        handover.over(
            life, wait, file_states.RETRY_SUCCEEDED if is_due else file_states.HANDED_OVER
        )
        life.came.append(wait)
        return ()
    return conflicts


def _by_file(life: Life, request: Request, arrival: int) -> list[ConflictInfo]:
    """The conflicts of each file of a request: a request as a whole names only the first ones."""
    return [
        conflict
        for key, mode, path in zip(request.keys, request.modes, request.paths, strict=True)
        for conflict in held.in_the_way(
            life.draft, request.but(keys=(key,), modes=mode, paths=(path,), silent=()), arrival
        )
    ]


def _request(life: Life, wait: Wait) -> Request:
    """The request of a wait: the one in the queue, or the same again."""
    ticket = life.draft.ticket(wait.ticket) if wait.ticket else None
    if ticket is not None:
        return ticket.request
    return Request(
        life.asker.new_id(), life.holder, wait.keys, "w" * len(wait.keys),
        paths_of(wait.keys), ttl=_kept(life), reason=FOR_NEXT_EDIT, patience=0,
    )  # fmt: skip


# The retry


def retry_what_is_due(life: Life, *, stops: bool = True) -> Halted | None:
    """Make the retries that are due. Returns the first that fails, if the agent `stops` then."""
    for wait in list(life.known.waits):
        if life.now >= wait.retry_at:
            halted = retry(life, wait, stops=stops)
            if halted is not None and stops:
                return halted
    return None


def retry(life: Life, wait: Wait, *, stops: bool = True) -> Halted | None:
    """The one retry: free files are reserved for the agent for a while. If the retry fails the
    agent `stops`, unless its user has just spoken to it."""
    conflicts = settle(life, wait)
    if wait not in life.known.waits:
        return None
    if _is_served(life, wait):
        handover.handed(life, wait, file_states.RETRY_SUCCEEDED)
        return None
    if conflicts:
        return _block(life, wait, conflicts, stops=stops)
    request = _request(life, wait)
    life.leave_line(wait, "retried")
    request = request.but(id=life.asker.new_id(), ttl=life.unused)
    grant = life.draft.admit(request, ticket=False)
    once_more = wait.but(ticket=grant.id)
    life.known.waits[life.known.waits.index(wait)] = once_more
    handover.handed(life, once_more, file_states.RETRY_SUCCEEDED)
    return None


def _is_served(life: Life, wait: Wait) -> bool:
    grant = life.draft.live_grant(wait.ticket) if wait.ticket else None
    return grant is not None and not fate(life.draft, grant)


def _block(life: Life, wait: Wait, conflicts: Sequence[ConflictInfo], *, stops: bool) -> Halted:
    """The retry failed: block the agent, with a report of all that a person needs to decide."""
    from holdfast.gate.rulebook.agent_messages import report

    request = _request(life, wait)
    life.leave_line(wait, "retried")
    state = file_states.after(wait.state, file_states.RETRY_FAILED)
    handover.over(life, wait, file_states.RETRY_FAILED, blocked=True)
    if stops:
        life.leave_lines("blocked")
    told = report(life.holder, conflicts[0], wait, life.now)
    wanted = zip(request.keys, request.paths, strict=True)
    block = Block(
        Block.named(life.holder.key, wait.id), agent=life.holder.id, report=told,
        keys=[key for key, path in wanted if path == conflicts[0].path], at=life.now,
    )  # fmt: skip
    block.write(life.draft, agent_records.BLOCKED, state=state)
    life.known.blocks.append(block)
    return Halted(life.holder, block, lapsed=life.lapsed)
