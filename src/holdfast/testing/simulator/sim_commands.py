"""The commands of agents and operators: each on the real rules, then its checks.

If the answer to a command is lost, its agent keeps the command and repeats it with the same ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from holdfast.core import rules
from holdfast.core.errors import HoldfastError
from holdfast.core.model import (
    SECOND,
    Decision,
    Event,
    Grant,
    Holder,
    Refusal,
    Request,
    Verdict,
    Waiting,
)
from holdfast.testing.simulator import sim_checks as checks
from holdfast.testing.simulator.sim_agents import (
    Agent,
    Belief,
    patience_of,
    ttl_of,
)
from holdfast.testing.simulator.sim_faults import (
    FOR_EVER,
    FaultyStore,
    Interrupted,
)
from holdfast.testing.simulator.sim_model import Model
from holdfast.testing.simulator.sim_state import Broken, Command
from holdfast.testing.simulator.sim_world import Ask, Footprint, Process, World

if TYPE_CHECKING:
    from holdfast.core.view import View

LOST = "lost"
FALLBACK = SECOND
RECENT_MAX = 25

OPERATOR = Holder(id="operator")


class Commands:
    """The ledger, the model beside it, and all commands."""

    wait_seconds_max = 20
    hold_seconds_max = 4

    def __init__(self, world: World, model: Model, random: Random) -> None:
        self.world = world
        self.model = model
        self.random = random
        self.store: FaultyStore
        self.agents: list[Agent] = []
        self.unread: list[Event] = []
        self.recent: deque[tuple[object, ...]] = deque(maxlen=RECENT_MAX)
        self.trace: Callable[[tuple[object, ...]], None] | None = None
        self.steps = 0
        self._asked = 0

    # The watcher of the store

    def looking(self, view: View) -> None:
        """A decision is about to be made: check the view that it is based on."""
        model = self.model
        model.granted_now = 0
        model.before = model.head
        time = model.time
        time.look()
        if view.now != time.now:
            raise Broken("time (10)", f"the ledger's time is {view.now}, not {time.now}")
        if view.slept != time.slept:
            raise Broken("time (10)", f"the ledger has {view.slept} slept, not {time.slept}")
        if view.head != model.head:
            raise Broken("sequence (10)", f"the last event is {view.head}, not {model.head}")

    def committed(self, decision: Decision[Any], now: int, *, repeated: bool) -> None:
        """These events are in the ledger."""
        events = decision.events
        self.unread.extend(events[:-1] if repeated else events)
        self.model.commit(events, now, repeated=repeated)

    def woken(self, addresses: tuple[str, ...], hints: tuple[str, ...]) -> None:
        """Some waiters were woken. A wake-up may be lost."""
        for agent in self.agents:
            ask = agent.waiting
            if ask is None:
                continue
            called = agent.address in addresses or not set(hints).isdisjoint(ask.footprint.keys)
            if called and self.random.random() < 0.8:
                agent.looks_at = self.world.elapsed

    def transact(
        self,
        agent: Agent | None,
        decide: Callable[[View], Decision[Any]],
        again: Callable[[], None],
    ) -> Any:
        """The outcome, or LOST; then the caller has died or will repeat the command."""
        if agent is not None:
            self.store.turn = agent.process.slot
        try:
            return self.store.transact(decide)
        except Interrupted as fault:
            self.model.count(f"lost {fault.where} the commit")
            if agent is None:
                return LOST
            if self.random.random() < 0.4:
                self.crash(agent.process)
            else:
                agent.retry = again
            return LOST

    def crash(self, process: Process) -> None:
        """A process dies. Some of its descendants live on."""
        self.model.count("crashes")
        orphans: dict[str, int] = {}
        for holder in process.holders[:2]:
            if self.random.random() < 0.4:
                orphans[holder.marks[0]] = 1 + int(self.random.random() * 10)
        self.world.kill(process, orphans)

    def note(self, *facts: object) -> None:
        """Record a step for the report of a failure."""
        self.recent.append((self.steps, *facts))
        if self.trace is not None:
            self.trace((self.steps, *facts))

    # Take

    def new_ask(self, agent: Agent, footprint: Footprint, *, wait: bool, **given: Any) -> Ask:
        """A new request of an agent."""
        self._asked += 1
        random, holder, own = self.random, agent.holder, agent.process.witness
        patience = given["patience"] if "patience" in given else patience_of(random)
        request = Request(
            id=f"g{self._asked}",
            holder=holder,
            keys=footprint.keys,
            modes=footprint.modes,
            silent=footprint.silent,
            ttl=given["ttl"] if "ttl" in given else ttl_of(random, holder),
            priority=int(random.random() * 3),
            patience=patience,
            waiter=own if wait and own is not holder.witness else None,
            wake=agent.address if wait else "",
            grace=SECOND // 2 if wait and patience >= SECOND and random.random() < 0.3 else 0,
        )
        ask = Ask(request, footprint, self.world.elapsed)
        self.model.asks[ask.id] = ask
        return ask

    def ask(self, agent: Agent, ask: Ask, verb: str, *, first: bool = False) -> None:
        """Try, wait, ensure or steal."""
        request = ask.request
        self.model.command = Command(verb, ask.id, ask.holder)
        decide: Callable[[View], Decision[Any]]
        if verb == "ensure":
            decide = lambda view: rules.ensure(view, request)  # noqa: E731
        elif verb == "steal":
            decide = lambda view: rules.steal(view, request)  # noqa: E731
        else:
            wait = verb == "wait"
            decide = lambda view: rules.acquire(view, request, wait=wait, again=not first)  # noqa: E731
        outcome = self.transact(agent, decide, lambda: self.ask(agent, ask, verb))
        self.note(agent.name, verb, ask, outcome)
        if outcome is LOST:
            return
        checks.check_answer(self.model, ask, verb, outcome, first=first)
        if isinstance(outcome, Grant):
            self.given(agent, outcome)
        elif isinstance(outcome, Waiting):
            self._wait(agent, ask, outcome)
        else:
            self._refused(agent, verb, outcome)

    def given(self, agent: Agent, grant: Grant) -> None:
        """An agent learns that it has a grant."""
        footprint = self.model.asks[grant.id].footprint
        until = self.world.elapsed + int(self.random.random() * self.hold_seconds_max * SECOND)
        agent.believe(Belief(grant.id, grant.token, grant.holder.key, footprint, until))

    def _wait(self, agent: Agent, ask: Ask, waiting: Waiting) -> None:
        now = self.world.elapsed
        if agent.waiting is not ask:
            agent.waiting = ask
            patience = 1 + int(self.random.random() * self.wait_seconds_max)
            agent.gives_up_at = now + patience * SECOND
        soon = FALLBACK if waiting.check_after is None else min(FALLBACK, waiting.check_after)
        agent.looks_at = now + soon

    def _refused(self, agent: Agent, verb: str, refusal: Refusal) -> None:
        agent.waiting = None
        self.model.count(f"{verb} refused")
        if refusal.code == "E_LOCK_CYCLE" and agent.beliefs and self.random.random() < 0.7:
            self.release(agent, agent.beliefs[0])

    def cancel(self, agent: Agent, ask: Ask) -> None:
        """Stop waiting."""
        self.model.command = Command("cancel", ask.id, ask.holder)
        agent.waiting = None
        grant = self.transact(
            agent,
            lambda view: rules.cancel(view, ask.id, "timeout"),
            lambda: self.cancel(agent, ask),
        )
        self.note(agent.name, "cancel", ask, grant)
        if grant is LOST:
            return
        checks.check_cancelled(self.model, ask.id, grant)
        if grant is not None:
            self.given(agent, grant)

    # Hold

    def renew(
        self, agent: Agent, belief: Belief, *, by_process: bool, ttl: int | None, rest: int | None
    ) -> None:
        """Extend a lease, in the holder's name or as its owner process."""
        holder = None if by_process else belief.holder
        caller = agent.process.witness
        self.model.command = Command("renew", belief.id, holder or "", caller)
        outcome = self.transact(
            agent,
            lambda view: rules.renew(
                view, belief.id, holder_key=holder, caller=caller, ttl=ttl, rest=rest
            ),
            lambda: self.renew(agent, belief, by_process=by_process, ttl=ttl, rest=rest),
        )
        self.note(agent.name, "renew", belief.id, outcome)
        if outcome is LOST:
            return
        checks.check_renewed(self.model, belief.id, outcome)
        if isinstance(outcome, Refusal):
            agent.forget(belief)

    def write(self, agent: Agent, belief: Belief, key: str, *, fenced: bool) -> None:
        """Write a guarded file, if the ledger allows it."""
        model = self.model
        self.store.turn = agent.process.slot
        model.granted_now = 0
        if fenced:
            verdict = self._write_fenced(belief, key)
        else:
            with self.store.view() as view:
                self.looking(view)
                verdict = rules.verify(view, belief.id, key, belief.token)
            checks.check_verdict(model, belief.id, key, belief.token, verdict)
            if verdict.allowed:
                checks.note_write(model, belief.id, key, belief.token)
        self.note(agent.name, "write", belief.id, key, verdict.allowed, verdict.code)
        if verdict.allowed:
            model.count("writes")
        else:
            model.count("writes refused")
            if belief in agent.beliefs:
                agent.forget(belief)

    def _write_fenced(self, belief: Belief, key: str) -> Verdict:
        model = self.model
        model.time.look()
        try:
            with self.store.fenced(belief.id, belief.token):
                checks.note_write(model, belief.id, key, belief.token)
            verdict = Verdict(allowed=True)
        except HoldfastError as error:
            verdict = Verdict(allowed=False, code=error.code)
        checks.check_verdict(model, belief.id, None, belief.token, verdict)
        return verdict

    # Release

    def release(self, agent: Agent, belief: Belief, *, named: bool = True) -> None:
        """Release a grant, even one that ended long ago."""
        holder = agent.holder.key if named else None
        self.model.command = Command("release", belief.id, holder or "")
        outcome = self.transact(
            agent,
            lambda view: rules.release(view, belief.id, holder),
            lambda: self.release(agent, belief, named=named),
        )
        self.note(agent.name, "release", belief.id, outcome)
        if outcome is LOST:
            return
        agent.forget(belief)
        held = self.model.grants.get(belief.id)
        if held is not None and (holder is None or held.holder == holder):
            raise Broken("fold (4)", f"{belief.id} was released: {outcome}, and is still held")

    def force(self, id: str) -> None:
        """A person takes a grant away."""
        self.model.command = Command("force", id, OPERATOR.key)
        outcome = self.transact(
            None,
            lambda view: rules.force(view, id, by=OPERATOR, reason="simulated"),
            lambda: None,
        )
        self.note("operator", "force", id, outcome)
        if outcome is not LOST and id in self.model.grants:
            raise Broken("fold (4)", f"{id} was forced: {outcome}, and is still held")

    def reap(self) -> None:
        """End all grants that are not live, as the manager does."""
        self.model.command = Command("reap", "", OPERATOR.key)
        self.model.granted_now = 0
        with self.store.view() as view:
            self.looking(view)
            ids = [grant.id for grant in view.grants() if not rules.is_live(view, grant)]
        outcome = self.transact(None, lambda view: rules.reap(view, ids), lambda: None)
        self.note("operator", "reap", outcome)
        if outcome is not LOST:
            checks.check_reaped(self.model, outcome)

    def look(self, agent: Agent, ask: Ask) -> None:
        """Check which conflicts a request would have."""
        with self.store.view(deadline=FOR_EVER) as view:
            self.looking(view)
            conflicts = rules.look(view, ask.request)
        self.note(agent.name, "look", ask, len(conflicts))
        checks.check_conflicts(self.model, ask, ask.footprint, conflicts, conflicts.more)
