"""An agent is refused: it stands in line, may try once more, and is blocked if that fails.

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

#: Without hand-overs: how much longer than until the retry a file is kept.
KEPT = 10 * SECOND


def place_in_line(draft: Draft, ticket: Ticket) -> int:
    """How many stand before it for something that it wants too, and one more."""
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
    """How long something is kept that comes free for the agent: not for ever, for it may not be
    wanted any more."""
    return life.unused if life.asker.wake else life.asker.retry + KEPT


def _by_name(request: Request) -> Request:
    """The same without the inodes of files that have one name only: until they come free they may
    be replaced, and then their old numbers are those of other files."""
    unsaid = set(request.silent)
    said = [place for place, key in enumerate(request.keys) if key not in unsaid]
    return request.but(
        keys=tuple(request.keys[place] for place in said),
        modes="".join(request.modes[place] for place in said),
        paths=tuple(request.paths[place] for place in said),
        silent=(),
    )


def _limit(life: Life, conflicts: Sequence[ConflictInfo]) -> None:
    """Owners whom nobody here can judge keep their files for a while only."""
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
    """An edit of something that was refused before; None if there is nothing to wait for. What is
    due first is tried first."""
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
    """The edit whose call is held open for a wait."""
    handover.notice(life)
    halted = life.halted()  # since, by another call
    if halted is not None:
        return halted
    for wait in list(life.known.waits):
        if wait.id == id:
            answer = again(life, wait, wanted)
            if answer is not None:
                return answer
    return life.edit(wanted)


def again(life: Life, wait: Wait, wanted: Sequence[Request]) -> Denied | Halted | None:
    """An attempt on something that was refused before; None if it need not be waited for."""
    if life.now >= wait.retry_at:
        halted = retry(life, wait)
        if halted is not None:
            life.rest()
        return halted
    conflicts = settle(life, wait)
    if wait not in life.known.waits:
        return None
    if life.asker.wake:
        if not conflicts:  # it came free while the agent did not stand in line
            life.leave_line(wait, "free")
            handover.over(life, wait, file_states.HANDED_OVER)
            return None
        asked = {path for request in wanted for path in request.paths}
        if asked.isdisjoint(one.path for one in conflicts):
            return None  # only something else, of which it was refused as well, is not free
    return _denied(life, wait, conflicts)


def _has_a_place(life: Life, wait: Wait) -> bool:
    """Whether the wait stands in line, has come to its turn, or would close a circle."""
    return bool(wait.circle) or stands_in_line(life, wait) or _is_served(life, wait)


def back_in_line(life: Life, wait: Wait, denied: Denied) -> Denied:
    """The agent had stopped, and left the line. It tries again, so it stands at the end of it; the
    retry stays when it was."""
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
    """Has something come free? Those who hold what is waited for may have died without a word."""
    handover.notice(life)
    for wait in list(life.known.waits) if life.asker.wake else ():
        if stands_in_line(life, wait):
            settle(life, wait)


def stands_in_line(life: Life, wait: Wait) -> bool:
    """Whether there is a place in line."""
    return bool(wait.ticket) and life.draft.ticket(wait.ticket) is not None


def settle(life: Life, wait: Wait) -> Sequence[ConflictInfo]:
    """Who has what is waited for, with the life of each owner looked at again: what a dead one had
    goes to whoever is first in line. What has gone up to an agent above comes down."""
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
    """What is in the way of each file of a request: of all together only the first are named."""
    return [
        conflict
        for key, mode, path in zip(request.keys, request.modes, request.paths, strict=True)
        for conflict in held.in_the_way(
            life.draft, request.but(keys=(key,), modes=mode, paths=(path,), silent=()), arrival
        )
    ]


def _request(life: Life, wait: Wait) -> Request:
    """What is waited for: the one in line, or the same again."""
    ticket = life.draft.ticket(wait.ticket) if wait.ticket else None
    if ticket is not None:
        return ticket.request
    return Request(
        life.asker.new_id(), life.holder, wait.keys, "w" * len(wait.keys),
        paths_of(wait.keys), ttl=_kept(life), reason=FOR_NEXT_EDIT, patience=0,
    )  # fmt: skip


# The retry


def retry_what_is_due(life: Life, *, stops: bool = True) -> Halted | None:
    """The retries whose moment has come. The first that fails, if the agent `stops` then."""
    for wait in list(life.known.waits):
        if life.now >= wait.retry_at:
            halted = retry(life, wait, stops=stops)
            if halted is not None and stops:
                return halted
    return None


def retry(life: Life, wait: Wait, *, stops: bool = True) -> Halted | None:
    """The one retry: what is free is the agent's for a while. If it fails the agent `stops`, unless
    its user is there."""
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
    """The retry failed: stop, and say everything that a person needs to decide."""
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
