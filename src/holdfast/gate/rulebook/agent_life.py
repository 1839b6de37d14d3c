"""An agent in the middle of one decision: it requests, rests, ends.

The states of an agent towards a file are the table in `file_states`. This module has the steps that
nearly every event needs; those for waiting agents are in `contention` and `handover`.
"""

from __future__ import annotations

from holdfast.core import bulk_rules, events
from holdfast.core.draft import Draft
from holdfast.core.model import SECOND, Conflicts
from holdfast.core.wait_line import hand_over
from holdfast.gate.rulebook import agent_records, display_names, file_states
from holdfast.gate.rulebook.outcomes import Halted, Passed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.core.model import Decision, Grant, Holder, Refusal, Request
    from holdfast.core.view import View
    from holdfast.gate.rulebook.agent_records import Known, Wait
    from holdfast.gate.rulebook.outcomes import Asker, Denied

#: The reason of a lease.
FOR_EDIT = "edit"
#: The reason of a ticket, and of the unused lease that it becomes.
FOR_NEXT_EDIT = "next edit"
#: A hook that waits for a file must find it, however short `gate.idle_seconds` is.
UNUSED_LEAST = 2 * SECOND


class Life:
    """One agent, in the middle of one decision.

    `came` are waits that succeeded in it, `lapsed` files that came free for the agent and that it
    did not use in time. `hears`: the agent reads both, so they are not told again; `goes_on`: the
    agent is sent back to work if a file came free, and reads it then.
    """

    __slots__ = (
        "asker", "came", "draft", "goes_on", "hears", "holder", "known", "lapsed", "now", "refusal",
    )  # fmt: skip

    def __init__(self, view: View, asker: Asker, *, is_ending: bool = False) -> None:
        self.asker = asker
        self.draft = Draft(view)
        self.now = view.now
        self.known: Known = agent_records.known(view, asker.holder.key)
        self.came: list[Wait] = []
        self.lapsed: list[str] = []
        self.hears = asker.hears
        self.goes_on = False
        #: Written last, as an event that may be a repeat must be.
        self.refusal: tuple[Request, Refusal] | None = None
        self.holder = self._introduced(is_ending=is_ending)

    def done(self, outcome: Any) -> Decision[Any]:
        """The decision."""
        for part in self.asker.also:
            part(self.draft, self.holder)
        hand_over(self.draft)
        if self.draft.came_free():
            from holdfast.gate.rulebook.unblocking import note_what_is_free

            note_what_is_free(self.draft)
        if self.refusal is not None:
            from holdfast.core import rules

            rules.note_refusal(self.draft, *self.refusal)
        return self.draft.done(outcome)

    def passed(self) -> Passed:
        """The outcome without a conflict."""
        came = [path for wait in self.came for path in wait.blocked]
        is_limited = self.known.limit is not None
        return Passed(self.holder, came=came, lapsed=self.lapsed, is_limited=is_limited)

    # Who it is

    @property
    def session_key(self) -> str:
        """The key of the session's own agent."""
        return display_names.session_key(self.holder)

    def _introduced(self, *, is_ending: bool) -> Holder:
        """The agent under its name, which is chosen at its first event, or in a new place. For an
        agent that ends, and for a second window, nothing is recorded."""
        holder, presence = self.asker.holder, self.known.presence
        if presence is not None and presence.witness == holder.witness:
            return display_names.named(holder, presence.shown)
        place = self.asker.place()
        if is_ending:
            return display_names.named(holder, display_names.choose(self.draft, holder, place))
        return display_names.introduce(self.draft, holder, place)

    # Coming back to life

    def wake_up(self, *, is_tail: bool = False) -> None:
        """End the agent's rest, and with it the timer of its leases. The tail of an older event
        does not end a stop that is held open, and no attempt of a blocked agent ends its rest."""
        rest = self.known.rest
        is_over = not self.known.blocks and not (is_tail and rest is not None and rest.held_until)
        if rest is not None and is_over:
            bulk_rules.come_to_rest(self.draft, self.holder.key, None)
            rest.end(self.draft, agent_records.AWAKE, agent=self.holder.id)
            self.known.rest = None
        self.show_life()

    def show_life(self) -> None:
        """The agent is alive, whether it works or not: renew leases that others cannot judge, and
        examine its waits. While a stop is held open, the hook that holds it examines them: it can
        send the agent back to work."""
        if self.known.limit is not None or self.draft.view.lease is not None:
            from holdfast.gate.rulebook import lease_limits

            lease_limits.renew(self)
        if self.known.rest is None or not self.known.rest.held_until:
            self.look_round()

    def look_round(self) -> None:
        """Examine the agent's waits."""
        if self.known.waits or self.known.handed:
            from holdfast.gate.rulebook import contention

            contention.look_round(self)

    # Before a write

    def halted(self) -> Halted | None:
        """The outcome for an agent that may write nothing now; None if it may."""
        if not (self.known.blocks or self.holder.agent):
            return None
        from holdfast.gate.rulebook import agent_family

        block = agent_family.block_of(self.draft, self.holder, self.known)
        return None if block is None else Halted(self.holder, block, lapsed=self.lapsed)

    def edit(self, wanted: Sequence[Request]) -> Passed | Denied | Halted:
        """Request all of these files, or none."""
        self.wake_up()
        halted = self.halted()
        if halted is not None:
            return halted
        wanted = [request.but(holder=self.holder) for request in wanted]
        if self.known.waits:
            from holdfast.gate.rulebook import contention

            answer = contention.asked_before(self, wanted)
            if answer is not None:
                return answer
        outcome = self._take(wanted)
        if isinstance(outcome, Conflicts):
            from holdfast.gate.rulebook import contention

            return contention.contend(self, wanted, outcome)
        return self.passed()

    def _take(self, wanted: Sequence[Request]) -> list[Grant] | Conflicts:
        """Take a lease on each file. Files that were handed over become leases, and files of agents
        above come down."""
        outcome = bulk_rules.take_each(self.draft, wanted)
        if not isinstance(outcome, Conflicts) and not self.known.handed:
            return outcome
        from holdfast.gate.rulebook import handover

        stamps = {path: one.stamp for one in wanted for path in one.paths}
        if isinstance(outcome, Conflicts) and handover.hand_down(self, outcome, stamps):
            outcome = bulk_rules.take_each(self.draft, wanted)
        if not isinstance(outcome, Conflicts):
            handover.claim(self, stamps, {one.paths[0]: one for one in wanted})
        return outcome

    @property
    def unused(self) -> int:
        """How long a file that was handed over stays reserved unused."""
        return max(self.asker.idle, UNUSED_LEAST)

    # The end of leases

    def free(self, grant: Grant, cause: str) -> None:
        """End a lease."""
        file_states.after(file_states.OWNED, cause)
        self.draft.end(grant, events.LOCK_RELEASED)

    def leave_lines(self, why: str) -> None:
        """End all waits of the agent, and release files that are reserved for it. Those are
        remembered until the agent hears that it has lost them."""
        if self.asker.wake and not self.hears:
            from holdfast.gate.rulebook import handover

            handover.notice(self, untold=True)
        for wait in [*self.known.waits, *self.known.handed]:
            self.leave_line(wait, why)
        for wait in list(self.known.handed) if self.hears else ():
            if wait in self.came:
                self.came.remove(wait)
            self.lapsed.extend(wait.blocked)
            self.forget(wait)

    def leave_line(self, wait: Wait, why: str) -> None:
        """Give up a place in the queue, and the unused lease that it became."""
        ticket = self.draft.ticket(wait.ticket) if wait.ticket else None
        if ticket is not None:
            self.draft.drop(ticket, why)
        grant = self.draft.live_grant(wait.ticket) if wait.ticket else None
        if grant is not None and grant.reason == FOR_NEXT_EDIT:
            self.draft.end(grant, events.LOCK_RELEASED)

    def forget(self, wait: Wait, **facts: Any) -> None:
        """End a wait, and its result."""
        wait.end(self.draft, agent_records.CONTENTION_OVER, agent=self.holder.id, **facts)
        for known in (self.known.waits, self.known.handed):
            if wait in known:
                known.remove(wait)

    def rest(self, *, held_until: int = 0) -> None:
        """Let all leases end in a while, unless the agent does something before."""
        from holdfast.gate.rulebook import agent_family

        length = self.asker.idle + max(0, held_until - self.now)
        left = bulk_rules.come_to_rest(self.draft, self.holder.key, length)
        known = self.known.rest or self.known.blocks
        if not (left or held_until or known or agent_family.has_children(self.draft, self.holder)):
            return
        rest = agent_records.Rest(
            self.holder.key, agent=self.holder.id, length=length, held_until=held_until,
            at=self.now,
        )  # fmt: skip
        rest.write(self.draft, agent_records.RESTING)
        self.known.rest = rest
