"""The lease gate: before an agent writes a file it holds it, without ever hearing of locks.

Each file that an agent writes is a lease of its own, without an end but that of its owner. What
is free is taken, what the agent has is kept, and what another live agent has is refused:

    refused   a heartbeat is written, with the moment of the one retry (180 s later, exactly);
              the agent stands in line meanwhile, so that nobody barges in when the file comes free
    in between  every attempt is answered from that record: nothing is tried
    retry     at that moment, by the hook that held the call open, else by the next call
    blocked   the retry failed: the agent is stopped, a report says who has what since when, and
              nothing that it writes passes until somebody told it to go on

All that is known of an agent beside its leases are notes in the ledger, so nothing has to run.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core import moving, rules
from holdfast.core.model import SECOND, Decision, Grant, Refusal, Waiting
from holdfast.gate.agents import relative, session_key
from holdfast.gate.blocking import BLOCKED, blockers, resume
from holdfast.gate.intent import ALLOW, DENY, HALT, QUIET, Answer, leads_into_spec
from holdfast.manager import services
from holdfast.manager.ids import new_id
from holdfast.manager.liveness import own_witness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.core.model import ConflictInfo, Event, Holder, Request
    from holdfast.core.view import View
    from holdfast.gate.settings import Settings
    from holdfast.manager.manager import LockManager

#: The events of the gate.
HEARTBEAT = "contention_heartbeat"
CONTENTION_OVER = "contention_over"
RESTING = "agent_resting"
AWAKE = "agent_awake"

#: How much longer than until the retry a file is kept for the one who was refused.
KEPT = 10 * SECOND
#: How long one who waits to be woken trusts that it will be.
LOOK_SECONDS = 2.0

REASON = "edit"
#: The reason of a lease whose file was changed before it came to its present holder.
CHANGED = "edit, changed"


def notes_of(key: str) -> str:
    """How the names of all notes on an agent start."""
    return f"gate:{key}:"


class Gate:
    """The gate of one repository, for one event of one agent."""

    __slots__ = (
        "_deadline_seconds", "_hold_seconds", "_manager", "_pause", "_settings", "holder", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        manager: LockManager,
        holder: Holder,
        settings: Settings,
        *,
        deadline_seconds: float = 8.0,
        hold_seconds: float = 0,
        pause: Callable[[float, Any], bool] | None = None,
    ) -> None:
        """`deadline_seconds`: how long one decision may take. `hold_seconds`: how long this call
        may be held open. `pause` waits so many seconds, or until a waiter is called."""
        self._manager = manager
        self.holder = holder
        self._settings = settings
        self._deadline_seconds = deadline_seconds
        self._hold_seconds = hold_seconds
        self._pause = pause
        #: What was asked for; what of it is new has the id of its request.
        self.wanted: list[Request] = []

    @property
    def _deadline(self) -> float:
        return monotonic() + self._deadline_seconds

    # Before a write

    def permit(self, paths: Sequence[str]) -> Answer:
        """May this agent write these files, all of them or none? From now on it holds them."""
        wanted = services.requests(self._manager, self.holder, dict.fromkeys(paths), REASON)
        if not wanted:
            return Answer(QUIET)
        locked = self._locked_spec(wanted)
        if locked is not None:
            return locked
        self.wanted = wanted
        start = notes_of(self.holder.key)

        def at_once(view: View) -> Decision[list[Grant] | Refusal | None]:
            if view.notes(start):
                return Decision(None)
            found = moving.ensure_each(view, wanted)
            return Decision(found.outcome, found.events, found.wake, found.hint)

        outcome = self._decide(at_once)
        if outcome is None:
            return self._with_history(wanted)
        return self._answer(wanted, outcome)

    def _locked_spec(self, wanted: list[Request]) -> Answer | None:
        """The refusal of what lies in a spec that somebody else has locked."""
        inside = [key for one in wanted if leads_into_spec(key := one.keys[0])]
        if not inside or self._manager.tree is None:
            return None
        from holdfast.gate import specs

        return specs.refusal(self.holder, [f"{self._manager.tree.root}/{key}" for key in inside])

    def _decide(self, rule: Callable[[View], Decision[Any]]) -> Any:
        return services.decide(self._manager, rule, self._deadline)

    def _notes(self) -> list[Event]:
        return services.notes(self._manager, notes_of(self.holder.key), self._deadline)

    def _with_history(self, wanted: list[Request]) -> Answer:
        """There is something to know of this agent first."""
        self.awake()
        notes = self._notes()
        blocked = [event for event in notes if event.type == BLOCKED]
        if blocked:
            return self._still_blocked(blocked)
        keys = {key for request in wanted for key in request.keys}
        for event in notes:
            if event.type != HEARTBEAT:
                continue
            if keys.intersection(event.data["keys"]):
                return self._again(event, wanted)
            if self._manager.now() >= event.data["retry_at"]:
                self._leave_line(event, "not retried")  # it went on with something else
        return self._answer(wanted, self._take(wanted))

    def _answer(self, wanted: list[Request], outcome: list[Grant] | Refusal) -> Answer:
        if isinstance(outcome, Refusal) and self._hand_down(outcome.conflicts):
            outcome = self._take(wanted)
        if isinstance(outcome, Refusal):
            return self._contend(wanted, outcome.conflicts)
        return Answer(ALLOW)

    def _take(self, wanted: list[Request]) -> list[Grant] | Refusal:
        return services.ensure_each(self._manager, wanted, self._deadline)

    def _hand_down(self, conflicts: Sequence[ConflictInfo]) -> bool:
        """What is held above a sub-agent goes down to it. False if there is nothing of that."""
        if not self.holder.agent:
            return False
        from holdfast.gate import family

        above = family.ancestors(self._manager, self.holder)
        wanted = [one for one in conflicts if one.kind == "grant" and one.holder_key in above]
        ids = {one.grant_id for one in wanted}
        if not ids:
            return False

        def handed(view: View) -> list[Grant]:
            held = [grant for key in above for grant in view.held_by(key)]
            return [grant for grant in held if grant.id in ids]

        found = services.look(self._manager, handed, self._deadline)
        return bool(found) and self._hand_on(found, self.holder)

    def _hand_on(self, grants: Sequence[Grant], holder: Holder) -> bool:
        """These go to another agent; that a file was changed is not forgotten on the way."""
        moves = []
        for grant in grants:
            reason = grant.reason if is_unchanged(self._manager, grant) else CHANGED
            moves.append((grant.id, moving.heir(grant, holder, new_id(), reason=reason)))
        return not isinstance(services.exchange(self._manager, moves, self._deadline), Refusal)

    # Contention

    def _contend(self, wanted: list[Request], conflicts: Sequence[ConflictInfo]) -> Answer:
        """The first refusal: stand in line, write the heartbeat, and wait if we may."""
        waiter = self._manager.store.waiter() if self._may_hold() else None
        blocked = {conflict.path for conflict in conflicts}
        missing = [one for one in wanted if blocked.intersection(one.paths)] or wanted
        try:
            # What comes free is kept until the retry, and not for ever: who knows if it comes.
            request = (
                moving.together(missing)
                # With the hook that holds the call open ends the wait: whoever was interrupted
                # does not come back for it.
                .waiting(
                    waiter=own_witness() if waiter else None,
                    wake=waiter.address if waiter else "",
                    grace=0,
                )
                .impatient(round(self._settings.retry_seconds * SECOND) + KEPT)
            )
            stand = services.queue(self._manager, request, self._deadline)
            if isinstance(stand, Grant):
                return self._got(stand, wanted)
            circle = stand.circle if isinstance(stand, Refusal) else ()
            if stand.conflicts:
                conflicts = stand.conflicts
            ticket = request.id if isinstance(stand, Waiting) else ""
            record = self._heartbeat(request, conflicts, circle, ticket=ticket)
            if circle or waiter is None:
                return self._denied(record, conflicts)
            self._hold(record.data["retry_at"], request.id, waiter)
            return self._retry(record, wanted)
        finally:
            if waiter is not None:
                waiter.close()

    def _may_hold(self) -> bool:
        return self._pause is not None and self._hold_seconds > self._settings.retry_seconds

    def _hold(self, until: int, ticket: str, waiter: Any) -> None:
        """Keep the call open until the retry is due; with `wake`, or until the file is ours."""
        assert self._pause is not None
        while (left := until - self._manager.now()) > 0:
            seconds = left / SECOND
            self._pause(min(seconds, LOOK_SECONDS) if self._settings.wake else seconds, waiter)
            if self._settings.wake and self._is_granted(ticket):
                return

    def _is_granted(self, id: str) -> bool:
        def ask(view: View) -> Decision[bool]:
            grant = view.grant(id)
            return Decision(isinstance(grant, Grant) and rules.is_live(view, grant))

        # Through the gate: a wake-up comes a moment before what it tells of can be read.
        found: bool = self._decide(ask)
        return found

    def _heartbeat(
        self,
        request: Request,
        conflicts: Sequence[ConflictInfo],
        circle: Sequence[ConflictInfo],
        *,
        ticket: str,
    ) -> Event:
        retry = round(self._settings.retry_seconds * SECOND)
        first = conflicts[0]

        def write(view: View) -> Decision[Event]:
            data = {
                "agent": self.holder.id,
                "paths": list(dict.fromkeys(request.paths)),
                "keys": list(request.keys),  # of what is waited for
                "blocked": list(dict.fromkeys(conflict.path for conflict in conflicts)),
                "owner": first.holder,
                "owner_key": first.holder_key,
                "since": first.since,
                "denied_at": view.now,
                "retry_at": view.now + retry,
                "retry_seconds": self._settings.retry_seconds,
                "ticket": ticket,
                "circle": [[step.path, step.holder] for step in circle],
            }
            name = f"{notes_of(self.holder.key)}retry:{request.id}"
            return moving.note(view, HEARTBEAT, data, name=name)

        made: Event = self._decide(write)
        return made

    def _denied(self, record: Event, conflicts: Sequence[ConflictInfo] = ()) -> Answer:
        from holdfast.gate import telling

        now = self._manager.now()
        return Answer(
            DENY,
            telling.denied(record.data, now, conflicts),
            user=telling.denied_to_user(record.data, self.holder.id, now),
        )

    def _again(self, record: Event, wanted: list[Request]) -> Answer:
        """An attempt on something that was refused before."""
        if self._is_wakeful(record):
            return self._retry(record, wanted)
        if self._manager.now() < record.data["retry_at"]:
            return self._denied(record)
        return self._retry(record, wanted)

    def _is_wakeful(self, record: Event) -> bool:
        ticket = record.data["ticket"]
        return self._settings.wake and bool(ticket) and self._is_granted(ticket)

    def _retry(self, record: Event, wanted: list[Request]) -> Answer:
        """The one retry. It has been kept for us if it came free; else there is one attempt."""
        ticket = record.data["ticket"]
        kept = services.cancel(self._manager, ticket, "retried", self._deadline) if ticket else None
        if kept is not None:
            self._over(record, CONTENTION_OVER)
            self._spread(kept)
        outcome = self._take(wanted)
        if isinstance(outcome, Refusal) and self._hand_down(outcome.conflicts):
            outcome = self._take(wanted)
        if not isinstance(outcome, Refusal):
            if kept is None:
                self._over(record, CONTENTION_OVER)
            return Answer(ALLOW)
        if kept is not None:  # ours now, but the call wants still more: a contention of its own
            return self._contend(wanted, outcome.conflicts)
        return self._block(record, outcome.conflicts)

    def _got(self, grant: Grant, wanted: list[Request]) -> Answer:
        """It came free while we asked."""
        self._spread(grant)
        return self._answer(wanted, self._take(wanted))

    def _leave_line(self, record: Event, why: str) -> None:
        """Nothing is waited for with this record any more, and nothing is kept for it."""
        ticket = record.data.get("ticket")
        if ticket and services.cancel(self._manager, ticket, why, self._deadline):
            services.release_each(self._manager, [ticket], self._deadline)

    def _spread(self, grant: Grant) -> None:
        """What was kept becomes a lease for each file, so that each can be given back, without an
        end but its owner's."""
        moves = []
        for path in dict.fromkeys(grant.paths):
            keys = [key for key, of in zip(grant.keys, grant.paths, strict=True) if of == path]
            heir = moving.heir(grant, grant.holder, new_id(), keys, for_life=True)
            moves.append((grant.id, heir))
        self._decide(lambda view: moving.exchange(view, moves))

    def _over(self, record: Event, type: str, **data: Any) -> None:
        services.note(
            self._manager, type, {"agent": self.holder.id, **data}, name=record.data["note"],
            over=True, deadline=self._deadline,
        )  # fmt: skip

    # Blocked

    def _block(self, record: Event, conflicts: Sequence[ConflictInfo]) -> Answer:
        """The retry failed: stop, and say everything that somebody needs to decide."""
        from holdfast.gate import telling

        self._over(record, CONTENTION_OVER, blocked=True)
        now = self._manager.now()
        first = conflicts[0]
        report = telling.report(
            self.holder.id, first, record, now, retry_seconds=self._settings.retry_seconds
        )
        name = f"{notes_of(self.holder.key)}blocked:{record.data['note'].rsplit(':', 1)[1]}"
        services.note(
            self._manager, BLOCKED, {"agent": self.holder.id, "report": report},
            name=name, deadline=self._deadline,
        )  # fmt: skip
        self.stop(background=False)
        return Answer(HALT, telling.blocked(report), user=telling.blocked(report), report=report)

    def _still_blocked(self, blocked: Sequence[Event]) -> Answer:
        from holdfast.gate import telling

        report = blocked[0].data["report"]
        return Answer(HALT, telling.blocked(report), user=telling.blocked(report), report=report)

    def prompt(self) -> list[dict[str, Any]]:
        """The user spoke: whoever of this session was blocked may go on, and a retry that was due
        and never made is forgotten. What had blocked them."""
        for event in self._notes():
            if event.type == HEARTBEAT and self._manager.now() >= event.data["retry_at"]:
                self._leave_line(event, "a new prompt")
                self._over(event, CONTENTION_OVER)
        return resume(self._manager, "a new prompt", start=f"gate:{session_key(self.holder)}")

    # The end of leases

    def stop(self, *, background: bool) -> None:
        """The agent came to rest: what it never changed is free, the rest is in a while, and it
        stands in no line any more: what nobody waits for must not be kept for it."""
        for event in self._notes():
            self._leave_line(event, "stopped")
        if not self._changed() or background:
            return
        length = round(self._settings.idle_seconds * SECOND)
        services.rest(self._manager, self.holder, length, self._deadline)
        services.note(
            self._manager, RESTING, {"agent": self.holder.id, "seconds": length / SECOND},
            name=f"{notes_of(self.holder.key)}rest", deadline=self._deadline,
        )  # fmt: skip

    def _changed(self) -> list[Grant]:
        """What the agent holds and has changed; what it never changed is free from now on."""
        held = services.held_by(self._manager, self.holder, self._deadline)
        unchanged = [grant.id for grant in held if is_unchanged(self._manager, grant)]
        if unchanged:
            services.release_each(self._manager, unchanged, self._deadline)
        return [grant for grant in held if grant.id not in unchanged]

    def awake(self) -> None:
        """Something happened: the timer that a stop started does not run any more."""
        name = f"{notes_of(self.holder.key)}rest"
        if services.noted(self._manager, name, self._deadline) is None:
            return
        services.rest(self._manager, self.holder, None, self._deadline)
        services.note(
            self._manager, AWAKE, {"agent": self.holder.id}, name=name, over=True,
            deadline=self._deadline,
        )  # fmt: skip

    def end_agent(self) -> list[dict[str, Any]]:
        """A sub-agent ended: what it changed goes up to its parent, not into the open. What it
        was blocked by in the end, for the parent to know."""
        from holdfast.gate import family

        changed = self._changed()
        if changed:
            above = family.ancestors(self._manager, self.holder)[0]
            self._hand_on(changed, relative(self.holder, above))
        self._forget(notes_of(self.holder.key))
        family.ended(self._manager, self.holder)
        found = blockers(self._manager, notes_of(self.holder.key))
        return [event.data["report"] for event in found]

    def end_session(self) -> None:
        """The session ended: everything of all its agents is free."""
        start = session_key(self.holder)
        held = services.look(self._manager, lambda view: view.held_within(start), self._deadline)
        services.release_each(self._manager, [grant.id for grant in held], self._deadline)
        self._forget(f"gate:{start}")
        from holdfast.gate import family

        family.forget(self._manager, start)

    def fail(self) -> None:
        """The agent failed for good: everything of it is free, and it stands in no line."""
        for event in self._notes():
            self._leave_line(event, "failed")
        held = services.look(
            self._manager, lambda view: view.held_by(self.holder.key), self._deadline
        )
        services.release_each(self._manager, [grant.id for grant in held], self._deadline)

    def _forget(self, start: str) -> None:
        """Those whose notes start like this wait for nothing any more. That one was blocked is not
        forgotten: somebody has to read it."""
        for event in services.notes(self._manager, start, self._deadline):
            if event.type == BLOCKED:
                continue
            self._leave_line(event, "ended")
            self._over(event, CONTENTION_OVER)

    def rebind(self) -> None:
        """The same agent in a new process: what it had under the old one is still its own."""
        start = session_key(self.holder) if not self.holder.agent else self.holder.key

        def stale(view: View) -> list[Grant]:
            return [g for g in view.held_within(start) if g.holder.witness != self.holder.witness]

        old = services.look(self._manager, stale, self._deadline)
        mine = [grant for grant in old if grant.holder.key == self.holder.key]
        # sub-agents of the old process are gone with it: their files are their parent's again
        others = [grant for grant in old if grant.holder.key != self.holder.key]
        if mine or others:
            self._hand_on([*mine, *others], self.holder)


def is_unchanged(manager: LockManager, grant: Grant) -> bool:
    """Whether nobody has written the file of a lease since it was taken.

    A token is at least the wall clock at that moment, and a file's time of change comes from the
    same clock, a tick behind. A file that was not there and is not there was never made.
    """
    if grant.reason == CHANGED:
        return False
    existed = any(key.startswith("inode:") for key in grant.keys)
    root = manager.tree.root if manager.tree is not None else ""
    try:
        status = os.lstat(f"{root}/{grant.paths[0]}")
    except OSError:
        return not existed
    return existed and status.st_ctime_ns // 1000 < grant.token - TICK


#: How far a file's time of change may be behind the clock.
TICK = SECOND // 50
