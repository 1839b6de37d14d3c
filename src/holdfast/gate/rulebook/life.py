"""An agent in the middle of one decision: it asks, waits, rests, ends.

The life of an agent towards a file is the table in `states`; each step below asks it.
"""

from __future__ import annotations

from holdfast.core import conflicts as held
from holdfast.core import events, moving, rules
from holdfast.core.codec import paths_of
from holdfast.core.conflicts import fate
from holdfast.core.draft import LAST, NOTHING, Draft, reach
from holdfast.core.model import AGENT, SECOND, Conflicts, Grant, Refusal, Request
from holdfast.core.overlaps import Overlaps
from holdfast.core.waiting import circle, hand_over
from holdfast.gate.rulebook import naming, records, states
from holdfast.gate.rulebook.outcomes import Denied, Halted, Passed
from holdfast.gate.rulebook.records import Block, Limit, Presence, Rest, Wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from holdfast.core.model import ConflictInfo, Decision, Holder, Ticket
    from holdfast.core.view import View
    from holdfast.gate.rulebook.outcomes import Asker, Stamps
    from holdfast.gate.rulebook.records import Known

REASON = "edit"
#: The reason of a place in line, and of what came free for it and was not used yet.
HANDED_OVER = "next edit"
#: A hook that waits for a file has to find it, however soon leases of the idle end.
UNUSED_LEAST = 2 * SECOND
#: Without hand-overs: how much longer than until the retry a file is kept.
KEPT = 10 * SECOND


def is_unchanged(grant: Grant, stamps: Stamps) -> bool:
    """Whether the file of a lease is as it was when the lease was taken. In doubt it is not."""
    return bool(grant.stamp) and stamps.get(grant.paths[0]) == grant.stamp


def place_in_line(draft: Draft, ticket: Ticket) -> int:
    """How many stand before it for something that it wants too, and one more."""
    wanted = Overlaps(ticket.request.keys)
    ahead = (
        one.arrival < ticket.arrival and any(map(wanted.of, one.request.keys))
        for one in draft.tickets(*reach(ticket.request.keys))
    )
    return 1 + sum(ahead)


def by_name(request: Request) -> Request:
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


class Life:
    """One agent, in the middle of one decision."""

    __slots__ = ("_asker", "_lapsed", "_refusal", "came", "draft", "holder", "known", "now")

    def __init__(self, view: View, asker: Asker, *, is_ending: bool = False) -> None:
        self._asker = asker
        self.draft = Draft(view)
        self.now = view.now
        self.known: Known = records.known(view, asker.holder.key)
        self.came: list[Wait] = []
        self._lapsed: list[str] = []
        #: Said last, as an event has to be that may be a repeat.
        self._refusal: tuple[Request, Refusal] | None = None
        self.holder = self._introduced(is_ending=is_ending)

    def done(self, outcome: Any) -> Decision[Any]:
        """The decision."""
        for part in self._asker.also:
            part(self.draft, self.holder)
        hand_over(self.draft)
        tell_of_what_is_free(self.draft)
        if self._refusal is not None:
            rules.note_refusal(self.draft, *self._refusal)
        return self.draft.done(outcome)

    def passed(self) -> Passed:
        """Nothing stands in the way."""
        came = [path for wait in self.came for path in wait.blocked]
        is_limited = self.known.limit is not None
        return Passed(self.holder, came=came, lapsed=self._lapsed, is_limited=is_limited)

    # Who it is

    @property
    def session_key(self) -> str:
        """The key of the session's own agent."""
        return naming.session_key(self.holder)

    def _introduced(self, *, is_ending: bool) -> Holder:
        """The agent by its name, which is chosen when it is first heard of, or in a new place. Of
        one that ends nothing is written down any more."""
        holder, presence = self._asker.holder, self.known.presence
        if presence is not None and presence.witness == holder.witness:
            return naming.named(holder, presence.shown)
        place = self._asker.place()
        if is_ending:
            return naming.named(holder, naming.choose(self.draft, holder, place))
        return naming.introduce(self.draft, holder, place)

    def others(self) -> list[Presence]:
        """Who else is at work here. Those that ended without a word are forgotten, and nothing is
        kept for them, whatever a command of theirs still writes."""
        found = []
        for one in records.present(self.draft):
            if (one.client, one.session) == (self.holder.client, self.holder.session):
                continue
            if self.draft.is_dead(one.witness):
                for ticket in list(self.draft.waiting(one.key)):
                    self.draft.drop(ticket, "waiter dead")
                for grant in self.draft.held_by(one.key):
                    if grant.reason == HANDED_OVER:
                        self.free(grant, states.ENDED)
                records.end_all(self.draft, records.of_agent(one.key))
            else:
                found.append(one)
        return found

    def move(self, grant: Grant, holder: Holder) -> Grant:
        """A lease goes to another agent, and with it what is known of its file."""
        id, is_kept = self._asker.new_id(), grant.reason == HANDED_OVER
        heir = moving.heir(grant, holder, id, reason=REASON if is_kept else None, for_life=is_kept)
        return moving.move(self.draft, grant, [heir])[0]

    def move_up(self, grant: Grant, parent: Holder, rest: Rest | None) -> None:
        """A lease goes to the agent above; if that has stopped already, it ends in a while, too."""
        moved = self.move(grant, parent)
        if rest is not None:
            idle_at = max(self.now, rest.held_until) + self._asker.idle
            self.draft.extend(moved, expires_at=moved.expires_at, idle_at=idle_at)

    # Coming back to life

    def wake_up(self, *, is_tail: bool = False) -> None:
        """Something happened: the timer that a stop started does not run any more, leases that
        others cannot judge last on, and what came free for the agent is its own. The tail of
        something older does not end a stop that is held open, and whatever a blocked agent tries
        does not end its rest."""
        rest = self.known.rest
        is_over = not self.known.blocks and not (is_tail and rest is not None and rest.held_until)
        if rest is not None and is_over:
            moving.come_to_rest(self.draft, self.holder.key, None)
            rest.end(self.draft, records.AWAKE, agent=self.holder.id)
            self.known.rest = None
        if self.known.limit is not None:
            self._renew()
        self.look_round()

    def _renew(self) -> None:
        """Leases that have an end because others cannot judge their owner last on."""
        length, limited = self._asker.foreign, False
        for grant in self.draft.held_by(self.holder.key):
            if grant.expires_at is None or grant.ttl is not None or fate(self.draft, grant):
                continue
            limited = True
            if grant.expires_at < self.now + length - length // 3:
                until = self.now + length
                self.draft.extend(grant, expires_at=until, idle_at=grant.idle_at)
        if not limited and self.known.limit is not None:
            self.known.limit.end(self.draft, records.LASTING, agent=self.holder.id)
            self.known.limit = None

    def look_round(self) -> None:
        """Has something come free? Those who hold what is waited for may have died without a
        word."""
        self.notice()
        for wait in list(self.known.waits) if self._asker.wake else ():
            if self.stands_in_line(wait):
                self.in_the_way(wait)

    def notice(self) -> None:
        """What was waited for and has been handed over is waited for no more. What was handed over
        and not used in time is nobody's."""
        for wait in [*self.known.handed, *(self.known.waits if self._asker.wake else ())]:
            if self.draft.ticket(wait.ticket) is not None:
                continue
            grant = self.draft.grant(wait.ticket)
            is_handed = wait in self.known.handed  # maybe in this very decision
            why = fate(self.draft, grant) if isinstance(grant, Grant) else ""
            if isinstance(grant, Grant) and not why:
                if not is_handed:
                    self._handed(wait, states.HANDED_OVER)
            elif grant is not None or is_handed:
                if isinstance(grant, Grant):
                    self.draft.end(grant, events.LOCK_REAPED, why=why)
                self._lapsed.extend(wait.blocked)
                self._forget(wait)

    def _handed(self, wait: Wait, cause: str) -> None:
        """A wait has come to something: the file is the agent's."""
        state = states.after(states.RETRY_PENDING, cause)
        wait.write(self.draft, records.HANDED_OVER, state=state, cause=cause)
        self.known.waits.remove(wait)
        handed = wait.but(handed=True)
        self.known.handed.append(handed)
        self.came.append(handed)

    def _over(self, wait: Wait, cause: str, **facts: Any) -> None:
        """A wait has ended."""
        state = states.after(states.RETRY_PENDING, cause)
        self._forget(wait, state=state, cause=cause, **facts)

    def _forget(self, wait: Wait, **facts: Any) -> None:
        wait.end(self.draft, records.CONTENTION_OVER, agent=self.holder.id, **facts)
        for known in (self.known.waits, self.known.handed):
            if wait in known:
                known.remove(wait)

    # Before a write

    def edit(self, wanted: Sequence[Request]) -> Passed | Denied | Halted:
        """All of these files, or none."""
        self.wake_up()
        if self.known.blocks:
            return Halted(self.holder, self.known.blocks[0], is_new=False)
        wanted = [request.but(holder=self.holder) for request in wanted]
        keys = {key for request in wanted for key in request.keys}
        for wait in list(self.known.waits):
            if not keys.isdisjoint(wait.keys):
                answer = self._again(wait, wanted)
                if answer is not None:
                    return answer
        return self._ask(wanted)

    def wait_on(self, wanted: Sequence[Request], id: str) -> Passed | Denied | Halted:
        """The edit whose call is held open for a wait."""
        self.notice()
        if self.known.blocks:  # since, by another call
            return Halted(self.holder, self.known.blocks[0], is_new=False)
        for wait in list(self.known.waits):
            if wait.id == id:
                answer = self._again(wait, wanted)
                if answer is not None:
                    return answer
        return self.edit(wanted)

    def _again(self, wait: Wait, wanted: Sequence[Request]) -> Denied | Halted | None:
        """An attempt on something that was refused before; None if it need not be waited for."""
        if self.now >= wait.retry_at:
            halted = self.retry(wait)
            if halted is not None:
                self.rest()
            return halted
        conflicts = self.in_the_way(wait)
        if wait not in self.known.waits:
            return None
        if self._asker.wake:
            if not conflicts:  # it came free while the agent did not stand in line
                self.leave_line(wait, "free")
                self._over(wait, states.HANDED_OVER)
                return None
            asked = {path for request in wanted for path in request.paths}
            if asked.isdisjoint(one.path for one in conflicts):
                return None  # only something else, of which it was refused as well, is not free
        return self._denied(wait, conflicts)

    @property
    def _unused(self) -> int:
        """How long something stays the agent's that was handed over and is not used."""
        return max(self._asker.idle, UNUSED_LEAST)

    @property
    def may_wait(self) -> bool:
        """Whether a stop may be held open for what is waited for."""
        return self._asker.wake and not self.known.blocks

    def stands_in_line(self, wait: Wait) -> bool:
        """Whether there is a place in line."""
        return bool(wait.ticket) and self.draft.ticket(wait.ticket) is not None

    def _is_served(self, wait: Wait) -> bool:
        grant = self.draft.live_grant(wait.ticket) if wait.ticket else None
        return grant is not None and not fate(self.draft, grant)

    def in_the_way(self, wait: Wait) -> Sequence[ConflictInfo]:
        """Who has what is waited for, with the life of each owner looked at again: what a dead one
        had goes to whoever is first in line. What has gone up to an agent above comes down."""
        ticket = self.draft.ticket(wait.ticket) if wait.ticket else None
        request = self._request(wait)
        arrival = LAST if ticket is None else ticket.arrival
        conflicts = held.in_the_way(self.draft, request, arrival)
        while self.draft.freed:
            hand_over(self.draft)
            self.notice()
            if wait not in self.known.waits:
                return ()
            conflicts = held.in_the_way(self.draft, request, arrival)
        self._limit(conflicts)
        is_due = self.now >= wait.retry_at
        may_come = bool(conflicts) and (self._asker.wake or is_due)
        if may_come and self._hand_down(conflicts, in_turn=not is_due):
            self.leave_line(wait, "handed down")
            self._over(wait, states.RETRY_SUCCEEDED if is_due else states.HANDED_OVER)
            self.came.append(wait)
            return ()
        return conflicts

    def _request(self, wait: Wait) -> Request:
        """What is waited for: the one in line, or the same again."""
        ticket = self.draft.ticket(wait.ticket) if wait.ticket else None
        if ticket is not None:
            return ticket.request
        return Request(
            self._asker.new_id(), self.holder, wait.keys, "w" * len(wait.keys),
            paths_of(wait.keys), ttl=self._unused, reason=HANDED_OVER, patience=0,
        )  # fmt: skip

    def _ask(self, wanted: Sequence[Request]) -> Passed | Denied:
        outcome = self._take(wanted)
        if isinstance(outcome, Conflicts):
            return self._contend(wanted, outcome)
        return self.passed()

    def _take(self, wanted: Sequence[Request]) -> list[Grant] | Conflicts:
        """A lease on each file. What was handed over becomes one, what agents above have comes
        down."""
        outcome = moving.take_each(self.draft, wanted)
        stamps = {path: one.stamp for one in wanted for path in one.paths}
        if isinstance(outcome, Conflicts) and self._hand_down(outcome, stamps):
            outcome = moving.take_each(self.draft, wanted)
        if self.known.handed and not isinstance(outcome, Conflicts):
            self.claim(stamps, {one.paths[0]: one for one in wanted})
        return outcome

    def claim(self, stamps: Stamps, wanted: Mapping[str, Request] = NOTHING) -> None:
        """What was handed over and is used now is a lease for each file, without an end but its
        owner's. The rest of it is kept on as long as it would have been."""
        for wait in list(self.known.handed):
            grant = self.draft.live_grant(wait.ticket)
            if grant is None or stamps.keys().isdisjoint(grant.paths):
                continue
            heirs, left = [], [path for path in wait.paths if path not in stamps]
            for path in dict.fromkeys(grant.paths):
                request = wanted.get(path)
                if path not in stamps or (request and self.draft.live_grant(request.id)):
                    continue
                heir = request or self._heir(grant, (path,), REASON, for_life=True)
                heirs.append(heir.but(stamp=stamps[path]))
            rest = self._heir(grant, left, HANDED_OVER) if left else None
            if rest is None or grant.expires_at is None:
                if heirs:
                    moving.move(self.draft, grant, heirs)
                else:  # its client has just died, and the files were taken beside it
                    self.draft.end(grant, events.LOCK_RELEASED)
                self._forget(wait)
                continue
            rest = rest.but(ttl=max(0, grant.expires_at - self.now))
            moving.move(self.draft, grant, [*heirs, rest])
            blocked = [path for path in wait.blocked if path in left]
            kept = wait.but(ticket=rest.id, paths=left, keys=rest.keys, blocked=blocked)
            kept.write(self.draft, records.HANDED_OVER)
            self.known.handed[self.known.handed.index(wait)] = kept

    def _heir(
        self, grant: Grant, paths: Sequence[str], reason: str, *, for_life: bool = False
    ) -> Request:
        keys = [key for key, of in zip(grant.keys, grant.paths, strict=True) if of in paths]
        id = self._asker.new_id()
        return moving.heir(grant, self.holder, id, keys, reason, for_life=for_life)

    def _hand_down(
        self, conflicts: Sequence[ConflictInfo], stamps: Stamps = NOTHING, *, in_turn: bool = False
    ) -> bool:
        """What is held above a sub-agent goes down to it: a lease whole, and of what the agent
        above had not used yet the files with these stamps. False if somebody else has a part of it,
        or, with `in_turn`, if another agent of the session is to have it before."""
        if not self.holder.agent:
            return False
        from holdfast.gate.rulebook import family

        above = family.ancestors(self.draft, self.holder)
        ids: dict[str, None] = {}
        for one in conflicts:
            if one.kind == "reservation":
                if in_turn and one.holder_key.startswith(self.session_key):
                    return False
            elif one.holder_key in above:
                ids[one.grant_id] = None
            else:
                return False
        for id in ids:
            grant = self.draft.live_grant(id)
            if grant is None:
                continue
            used = [path for path in dict.fromkeys(grant.paths) if path in stamps]
            if grant.reason == HANDED_OVER and used:
                heirs = [self._heir(grant, (path,), REASON, for_life=True) for path in used]
                both = zip(heirs, used, strict=True)
                moving.move(self.draft, grant, [one.but(stamp=stamps[path]) for one, path in both])
            else:
                self.move(grant, self.holder)
        return bool(ids)

    # Refused

    def _contend(self, wanted: Sequence[Request], found: Conflicts) -> Denied:
        """The first refusal: a place in line, the heartbeat, and the moment of the one retry."""
        blocked = {conflict.path for conflict in found}
        missing = [one for one in wanted if blocked.intersection(one.paths)] or list(wanted)
        asker = self._asker
        request = by_name(moving.together(missing)).but(
            # What comes free is kept for a while, not for ever: it may not be wanted any more.
            ttl=self._unused if asker.wake else asker.retry + KEPT,
            reason=HANDED_OVER, patience=0, stamp="",
        )  # fmt: skip
        steps = circle(self.draft, request, LAST, found)
        self._limit(found)
        state = states.after(states.OWNED, states.COMPETED)
        first = found[0]
        wait = Wait(
            Wait.named(self.holder.key, request.id),
            agent=self.holder.id,
            paths=list(dict.fromkeys(request.paths)),
            keys=request.keys,
            blocked=list(dict.fromkeys(conflict.path for conflict in found)),
            owner=first.holder,
            owner_key=first.holder_key,
            since=first.since,
            denied_at=self.now,
            retry_at=self.now + asker.retry,
            retry_seconds=asker.retry_seconds,
            ticket="" if steps else self.draft.enqueue(request).id,
            circle=[(step.path, step.holder) for step in steps],
            at=self.now,
        )
        state = states.after(state, states.HEARTBEAT_WRITTEN)
        wait.write(self.draft, records.HEARTBEAT, state=state)
        self.known.waits.append(wait)
        code = rules.CYCLE if steps else rules.CONFLICT
        refusal = Refusal(code=code, conflicts=tuple(found), circle=steps, more=found.more)
        self._refusal = request, refusal
        return self._denied(wait, found)

    def _limit(self, conflicts: Sequence[ConflictInfo]) -> None:
        """Leases of agents of whom nobody here can tell whether they live have an end from now."""
        for conflict in conflicts:
            grant = self.draft.live_grant(conflict.grant_id)
            if (
                grant is not None
                and grant.holder.key[:1] == AGENT
                and grant.ttl is None
                and grant.expires_at is None
                and self.draft.is_dead(grant.holder.witness, grant.holder.marks) is None
            ):
                until = self.now + self._asker.foreign
                self.draft.extend(grant, expires_at=until, idle_at=grant.idle_at)
                limit = Limit(grant.holder.key, agent=grant.holder.id)
                if self.draft.note(limit.name) is None:
                    limit.write(self.draft, records.LIMITED)

    def _denied(self, wait: Wait, conflicts: Sequence[ConflictInfo]) -> Denied:
        came = [path for one in self.came for path in one.blocked]
        return Denied(self.holder, wait, conflicts, line=self._line(wait), now=self.now, came=came)

    def _line(self, wait: Wait) -> int:
        """The place in line, counted from 1; 0 without one."""
        ticket = self.draft.ticket(wait.ticket) if wait.ticket else None
        return 0 if ticket is None else place_in_line(self.draft, ticket)

    def retry(self, wait: Wait, *, stops: bool = True) -> Halted | None:
        """The one retry: what is free is the agent's for a while. If it fails the agent `stops`,
        unless its user is there."""
        conflicts = self.in_the_way(wait)
        if wait not in self.known.waits:
            return None
        if self._is_served(wait):
            self._handed(wait, states.RETRY_SUCCEEDED)
            return None
        if conflicts:
            return self._block(wait, conflicts, stops=stops)
        request = self._request(wait)
        self.leave_line(wait, "retried")
        request = request.but(id=self._asker.new_id(), ttl=self._unused)
        grant = self.draft.admit(request, ticket=False)
        again = wait.but(ticket=grant.id)
        self.known.waits[self.known.waits.index(wait)] = again
        self._handed(again, states.RETRY_SUCCEEDED)
        return None

    def _block(self, wait: Wait, conflicts: Sequence[ConflictInfo], *, stops: bool) -> Halted:
        """The retry failed: stop, and say everything that a person needs to decide."""
        from holdfast.gate.rulebook.telling import report

        self.leave_line(wait, "retried")
        state = states.after(states.RETRY_PENDING, states.RETRY_FAILED)
        self._over(wait, states.RETRY_FAILED, blocked=True)
        if stops:
            self.leave_lines("blocked")
        told = report(self.holder, conflicts[0], wait, self.now)
        block = Block(
            Block.named(self.holder.key, wait.id), agent=self.holder.id, report=told, at=self.now
        )
        block.write(self.draft, records.BLOCKED, state=state)
        self.known.blocks.append(block)
        return Halted(self.holder, block, is_new=True)

    # The end of leases

    def free(self, grant: Grant, cause: str) -> None:
        """A lease ends."""
        states.after(states.OWNED, cause)
        self.draft.end(grant, events.LOCK_RELEASED)

    def leave_lines(self, why: str) -> None:
        """Nothing is waited for any more, and nothing is kept for the agent."""
        for wait in [*self.known.waits, *self.known.handed]:
            self.leave_line(wait, why)
        for wait in list(self.known.handed):
            self._forget(wait)

    def leave_line(self, wait: Wait, why: str) -> None:
        ticket = self.draft.ticket(wait.ticket) if wait.ticket else None
        if ticket is not None:
            self.draft.drop(ticket, why)
        grant = self.draft.live_grant(wait.ticket) if wait.ticket else None
        if grant is not None and grant.reason == HANDED_OVER:
            self.draft.end(grant, events.LOCK_RELEASED)

    def _has_children(self) -> bool:
        from holdfast.gate.rulebook import family

        return family.has_children(self.draft, self.holder)

    def rest(self, *, held_until: int = 0) -> None:
        """All leases end in a while, unless the agent does something before."""
        length = self._asker.idle + max(0, held_until - self.now)
        left = moving.come_to_rest(self.draft, self.holder.key, length)
        known = self.known.rest or self.known.blocks
        if not (left or held_until or known or self._has_children()):
            return
        rest = Rest(
            self.holder.key, agent=self.holder.id, length=length, held_until=held_until,
            at=self.now,
        )  # fmt: skip
        rest.write(self.draft, records.RESTING)
        self.known.rest = rest


def tell_of_what_is_free(draft: Draft) -> None:
    """That what an agent is blocked by is free, so that a person can let it go on."""
    free = draft.came_free()
    for block in records.blocks(draft) if free else ():
        if block.report["blocked_file"] in free:
            file = block.report["blocked_file"]
            draft.say(records.FREE_AGAIN, {"agent": block.agent, "key": block.key, "file": file})
