"""A stop that is held open: it has not happened yet, and the agent may still be sent back to work.

It is decided in every ledger that it concerns before it is held in any. Then it is held over all of
them together, and the agent continues in all or in none.
"""

from __future__ import annotations

from holdfast.core.model import SECOND
from holdfast.gate.intent import CONTINUE, QUIET, Answer, joined
from holdfast.gate.rulebook import event_decisions
from holdfast.gate.rulebook.outcomes import Halted, Held, Passed, Rested
from holdfast.manager import transactions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.core.model import Decision
    from holdfast.core.view import View
    from holdfast.gate.lease_gate import LeaseGate
    from holdfast.manager.ledger import Ledger

#: While a call or a stop is held open: how often the owner's life is checked.
LOOK_SECONDS = 0.5


class Stop:
    """The stop of an agent in one ledger, which may be held open there: then it has not happened
    yet. The ledger already records when the agent's files come free if its hook is killed."""

    __slots__ = ("_ends", "_follower", "_gate", "_outcome")

    def __init__(self, gate: LeaseGate, outcome: Any, *, ends: bool) -> None:
        self._gate = gate
        self._outcome = outcome
        self._ends = ends
        self._follower = Follower(gate.manager) if self.is_held else None

    @property
    def is_held(self) -> bool:
        """Whether it is held open."""
        return isinstance(self._outcome, Held)

    @property
    def is_blocked(self) -> bool:
        """Whether the agent is blocked, so that only a person lets it continue."""
        return isinstance(self._outcome, Halted)

    @property
    def is_sent_back(self) -> bool:
        """Whether the agent continues, because a file came free for it here."""
        return isinstance(self._outcome, Passed)

    @property
    def is_overtaken(self) -> bool:
        """Whether the agent has continued without it, or is gone."""
        return self._outcome is None

    @property
    def until(self) -> int:
        """The moment until which it is held open at most; 0 if it is not."""
        return self._outcome.until if isinstance(self._outcome, Held) else 0

    def hold_along(self, until: int) -> None:
        """Hold it because another ledger does. An ended sub-agent has no lease left here."""
        gate = self._gate
        if isinstance(self._outcome, Rested) and not self._ends:
            held = gate.decide(lambda view: event_decisions.hold_along(view, gate.asker, until))
            self._outcome = held or self._outcome
            self._follower = Follower(gate.manager)

    def look_again(self, seconds: float) -> None:
        """Wait for at most this long, and decide again."""
        held, gate = self._outcome, self._gate
        assert self._follower is not None

        def now() -> Callable[[View], Decision[Any]]:
            seen, is_over = gate.seen(), gate.hold_seconds <= 0
            return lambda view: event_decisions.hold_on(
                view, gate.asker, seen, until=held.until, is_over=is_over, ends=self._ends
            )

        left = max(0.0, (held.until - gate.manager.now()) / SECOND)
        self._outcome = gate.a_moment_later(self._follower, min(left, seconds), now)

    def rest(self) -> None:
        """Stop the agent, even if a file came free here."""
        self._outcome = self._gate.stopped(may_go_on=False, ends=self._ends)._outcome

    def go_on(self) -> None:
        """Let the agent continue, whatever the outcome here."""
        self._gate.live_on()
        self._outcome = None

    @property
    def answer(self) -> Answer:
        """The answer to the stop."""
        from holdfast.gate.rulebook import agent_messages

        outcome = self._outcome
        if isinstance(outcome, Passed):
            lapsed = self._gate.told((), outcome.lapsed)
            return Answer(CONTINUE, agent_messages.go_on(outcome.came), context=lapsed)
        if isinstance(outcome, Halted):
            return self._gate.halted(outcome)
        if outcome is None:
            return Answer(QUIET)
        user = agent_messages.not_done(outcome.holder.id, outcome.left, outcome.given_back)
        if not outcome.blocks:
            return Answer(QUIET, user=user)
        self._gate.look_out()
        report = outcome.blocks[0].report
        told = f"{agent_messages.blocked(report)}\n{user}".strip()
        return Answer(QUIET, user=told, context=agent_messages.child_blocked(report))


def hold(stops: Sequence[Stop]) -> Answer:
    """Hold one stop open over all ledgers that it was decided in, until one of them has an
    outcome."""
    _hold_along(stops)
    while held := [stop for stop in stops if stop.is_held]:
        if any(stop.is_blocked or stop.is_sent_back or stop.is_overtaken for stop in stops):
            break
        for stop in held:
            stop.look_again(LOOK_SECONDS / len(held))
    if len(stops) > 1:
        _agree(stops)
    said = Answer(QUIET)
    for stop in stops:
        said = joined(said, stop.answer)
    return said


def _hold_along(stops: Sequence[Stop]) -> None:
    """Hold the stop also in ledgers with nothing to wait for: while held, it has happened in
    none."""
    until = max((stop.until for stop in stops), default=0)
    for stop in stops:
        if until and not stop.until:
            stop.hold_along(until)


def _agree(stops: Sequence[Stop]) -> None:
    """Make the agent continue in all ledgers or in none. Each ledger learns by itself of a prompt,
    an end and the death of the client."""
    for stop in stops:
        if stop.is_held:
            stop.look_again(0)
    is_blocked = any(stop.is_blocked for stop in stops)
    is_sent_back = any(stop.is_sent_back for stop in stops)
    for stop in stops:
        if is_blocked:
            if stop.is_held or stop.is_sent_back:
                stop.rest()
        elif stop.is_held or (is_sent_back and not (stop.is_sent_back or stop.is_overtaken)):
            stop.go_on()


class Follower:
    """Waits for new events in a ledger."""

    __slots__ = ("_head", "_manager")

    def __init__(self, manager: Ledger) -> None:
        self._manager = manager
        self.catch_up()

    def catch_up(self) -> None:
        """Count only later events as new."""
        self._head = transactions.look(self._manager, lambda view: view.head)

    def wait(self, seconds: float) -> bool:
        """Whether a new event came within so many seconds."""
        return self._manager.store.wait(self._head, seconds) > self._head
