"""The events of agents, each one decision of the gate on a real store, with all its checks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from holdfast.core.model import SECOND, Decision
from holdfast.gate.rulebook import event_decisions
from holdfast.gate.rulebook.outcomes import Asker, Denied, Halted, Passed, Seen
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite.sqlite_store import SqliteStore
from holdfast.testing.gate_simulator import sim_gate_checks as checks
from holdfast.testing.gate_simulator.sim_gate_model import GateModel, Promises
from holdfast.testing.gate_simulator.sim_gate_world import (
    HERE,
    Agent,
    Call,
    GateWorld,
    Step,
)
from holdfast.testing.simulator.sim_state import Broken

if TYPE_CHECKING:
    from holdfast.core.view import View
    from holdfast.store.contract import Store

FOR_EVER = float("inf")
RECENT_MAX = 25
HISTORY_EVENTS_MAX = 1000


class GateEvents:
    """The ledger, the model beside it, and all events of agents."""

    def __init__(self, seed: int, *, store: str, folder: str, wake: bool) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.world = GateWorld()
        self.promises = Promises(
            retry=180 * SECOND, idle=30 * SECOND, foreign=1800 * SECOND, wake=wake
        )
        self.model = GateModel(self.world, self.promises)
        self.store: Store
        if store == "memory":
            self.store = MemoryStore(
                clock=self.world.clock, is_dead=self.world.is_dead,
                history_events_max=HISTORY_EVENTS_MAX,
            )  # fmt: skip
        else:
            self.store = SqliteStore(
                f"{folder}/ledger.db", clock=self.world.clock, is_dead=self.world.is_dead
            )
        self.steps = 0
        self.recent: deque[tuple[object, ...]] = deque(maxlen=RECENT_MAX)
        self.trace: Callable[[tuple[object, ...]], None] | None = None
        self._ids = 0
        self._start: int | None = None

    def close(self) -> None:
        """Close the ledger."""
        self.store.close()

    def note(self, *facts: object) -> None:
        """Record a step for the report of a failure."""
        told = (self.steps, *facts)
        self.recent.append(told)
        if self.trace is not None:
            self.trace(told)

    def compare(self) -> None:
        """The ledger's state follows from its events."""
        with self.store.view(deadline=FOR_EVER) as view:
            checks.compare(self.model, view)

    def _new_id(self) -> str:
        self._ids += 1
        return f"g{self._ids}"

    # One transaction

    def decide(
        self, kind: str, agent: Agent | None, rule: Callable[[View], Decision[Any]], **facts: Any
    ) -> Any:
        """One decision on the ledger, with all its checks."""
        self.world.viewer = HERE if agent is None else agent.session.host
        made: list[tuple[Decision[Any], int]] = []

        def watched(view: View) -> Decision[Any]:
            made[:] = [(rule(view), view.now)]
            return made[0][0]

        step = Step(kind, agent, facts, self.world.elapsed, self.world.viewer)
        before = checks.Before(self.model, step)
        outcome = self.store.transact(watched, deadline=FOR_EVER)
        decision, now = made[0]
        if self._start is None:
            self._start = now - self.world.elapsed
        if now != self._start + self.world.elapsed:
            raise Broken("time", f"the ledger says {now}")
        self.note(step, "->", _told(outcome))
        events = decision.events
        with self.store.view(deadline=FOR_EVER) as view:
            head = view.head
        if events and head < events[-1].seq:  # a refusal that repeats is counted, not written
            events = events[:-1]
        self.model.commit(step, events, now)
        checks.check(self.model, step, before, outcome)
        self.model.count(f"{kind}: {_told(outcome).split()[0]}")
        return outcome

    def _asker(self, agent: Agent) -> Asker:
        promises = self.promises
        return Asker(
            agent.holder,
            place=lambda: "pts/1" if agent.session.host == HERE else "",
            new_id=self._new_id,
            retry_seconds=promises.retry / SECOND,
            idle=promises.idle,
            foreign=promises.foreign,
            wake=promises.wake,
            is_writing=self._is_writing,
        )

    def _decided(self, agent: Agent, call: Call) -> Any:
        asker, facts = self._asker(agent), call.facts
        if call.stage and not agent.is_alive:
            return self.decide("leave", agent, lambda view: event_decisions.leave(view, asker))
        if call.kind == "edit":
            wanted = [
                agent.request(self._new_id(), path, facts["stamps"][path])
                for path in facts["paths"]
            ]
            if call.stage:
                rule: Any = lambda view: event_decisions.wait_on(view, asker, wanted, call.wait_id)  # noqa: E731
                return self.decide("wait_on", agent, rule, **facts)
            return self.decide(
                "edit", agent, lambda view: event_decisions.edit(view, asker, wanted), **facts
            )
        if call.kind == "stop":
            return self._decide_stop(agent, call, asker)
        if call.kind == "commit":
            ids = facts["ids"]
            return self.decide(
                "commit", agent,
                lambda view: event_decisions.commit(view, ids, self._is_writing), ids=ids,
            )  # fmt: skip
        decision = getattr(event_decisions, call.kind)
        return self.decide(call.kind, agent, lambda view: decision(view, asker, **facts), **facts)

    def _is_writing(self, key: str, keys: Sequence[str]) -> bool:
        """Whether an edit of an agent is being decided, or is permitted and not done yet."""
        return any(
            not set(keys).isdisjoint(paths)
            for agent in self._everybody()
            if agent.key == key
            for paths in (*agent.writes, *(call.facts.get("paths", ()) for call in agent.calls))
        )

    def _everybody(self) -> Sequence[Agent]:
        """All agents whose clients may still write."""
        raise NotImplementedError

    def _decide_stop(self, agent: Agent, call: Call, asker: Asker) -> Any:
        facts = call.facts
        if not call.stage:
            more = {name: facts[name] for name in ("may_go_on", "ends", "hold")}
            return self.decide(
                "stop", agent,
                lambda view: event_decisions.stop(view, asker, facts["seen"], **more), **facts,
            )  # fmt: skip
        seen = self._seen(agent)
        is_over = self._now >= call.until
        return self.decide(
            "hold_on", agent,
            lambda view: event_decisions.hold_on(
                view, asker, seen, is_over=is_over, ends=facts["ends"]
            ),
            seen=seen, ends=facts["ends"],
        )  # fmt: skip

    def _seen(self, agent: Agent) -> Seen:
        """The stamps of the files that an agent has, and of those that it waits for."""
        stamp = self.world.stamp
        waits = [one for one in self.model.refusals.values() if one.key == agent.key]
        return Seen(
            {lease.id: stamp(lease.paths[0]) for lease in self.model.of(agent.key)},
            {path: stamp(path) for wait in waits for path in wait.paths},
        )

    @property
    def _now(self) -> int:
        return (self._start or 0) + self.world.elapsed


def _told(outcome: Any) -> str:
    if isinstance(outcome, tuple):
        return _told(outcome[0])
    if isinstance(outcome, Denied):
        return f"Denied {outcome.wait.owner_key} until {outcome.wait.retry_at}"
    if isinstance(outcome, Halted):
        return f"Halted {outcome.block.key}"
    if isinstance(outcome, Passed):
        return f"Passed {' '.join(outcome.came)}".strip()
    return type(outcome).__name__
