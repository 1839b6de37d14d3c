"""Agents that act at random: invariants of the ledger after every step."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import pytest

from holdfast.core import rules
from holdfast.gate.config.settings import Settings
from holdfast.gate.people.blocked_agents import blockers, resume
from holdfast.gate.rulebook import agent_records, event_decisions
from holdfast.gate.rulebook.agent_life import FOR_NEXT_EDIT
from holdfast.manager import transactions
from stage import Actor, Stage

if TYPE_CHECKING:
    from holdfast.core.view import View

STEPS = 60
FILES = ("app/x.rb", "lib/y.rb", "new.rb")
AGENTS = (("ann", ""), ("ann", "one"), ("ann", "two"), ("bob", ""), ("cid", ""), ("cid", "one"))


class Walk:
    """Some agents, and a random sequence of their actions."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.random = Random(seed)
        stage.settings = Settings(wake=seed % 4 != 0)
        self.stopped: set[str] = set()
        self.ways: list[Callable[[Actor], None]] = [
            *[self.edits] * 8, self.waits, *[self.works] * 2, *[self.stops] * 2,
            self.holds_its_stop, self.is_told, self.ends, self.fails, self.is_killed, self.commits,
            *[self.rests] * 3, self.is_let_on,
        ]  # fmt: skip

    def step(self) -> None:
        session, agent = self.random.choice(AGENTS)
        if session not in self.stage.clients:
            self.stage.restart(session)
            self.stage.agent(session).gate().session_start()
        actor = self.stage.agent(session, agent)
        self.random.choice(self.ways)(actor)
        transactions.look(self.stage.manager, self.check)

    def check(self, view: View) -> None:
        """The invariants."""
        live = [grant for grant in view.grants() if rules.is_live(view, grant)]
        for path in FILES:
            assert len({grant.holder.key for grant in live if path in grant.paths}) <= 1
        waits = {wait.ticket for wait in agent_records.waits(view)}
        blocked = {block.key for block in agent_records.blocks(view)}
        for ticket in view.queue():
            if rules.has_live_waiter(view, ticket):
                assert ticket.id in waits
                assert ticket.request.holder.key not in blocked | self.stopped
        for grant in live:
            if grant.reason == FOR_NEXT_EDIT:
                assert grant.id in waits
                assert grant.holder.key not in blocked | self.stopped

    def is_blocked(self, actor: Actor) -> bool:
        return actor.holder.key in {block.key for block in blockers(self.stage.manager)}

    # Actions of agents

    def edits(self, actor: Actor, *, hold: bool = False) -> None:
        paths = self.random.sample(FILES, self.random.choice((1, 1, 2)))
        was_blocked = self.is_blocked(actor)
        write = self.random.choice(("new\n", None))
        kind = actor.edit(*paths, write=write, hold=hold).kind
        self.stopped.discard(actor.holder.key)
        if was_blocked or kind == "halt":
            assert kind == "halt"
            above = self.stage.agent(actor.session)  # a blocked agent's sub-agents are refused too
            assert self.is_blocked(actor) or self.is_blocked(above)
        elif kind == "allow":
            lasting = {grant.paths[0] for grant in actor.grants() if grant.ttl is None}
            assert lasting.issuperset(paths)
        else:
            with self.stage.manager.store.view(deadline=time.monotonic() + 60) as view:
                assert agent_records.known(view, actor.holder.key).waits

    def waits(self, actor: Actor) -> None:
        self._somebody_fails()
        self.edits(actor, hold=True)

    def works(self, actor: Actor) -> None:
        actor.gate().live_on()
        self.stopped.discard(actor.holder.key)

    def stops(self, actor: Actor, *, hold: bool = False) -> None:
        was_blocked = self.is_blocked(actor)
        kind = actor.stop(hold=hold, may_go_on=hold or self.random.random() < 0.5).kind
        if kind == "continue":
            assert not was_blocked
            self.stopped.discard(actor.holder.key)
        else:
            self.stopped.add(actor.holder.key)

    def holds_its_stop(self, actor: Actor) -> None:
        self._somebody_fails()
        self.stops(actor, hold=True)

    def _somebody_fails(self) -> None:
        other = self.stage.agent(*self.random.choice(AGENTS))
        self.stage.later(self.random.choice((1, 40)), lambda: other.gate().fail())

    def is_told(self, actor: Actor) -> None:
        self.stage.agent(actor.session).gate().prompt()
        self.stopped.discard(self.stage.agent(actor.session).holder.key)

    def ends(self, actor: Actor) -> None:
        actor.gate().end_session()

    def fails(self, actor: Actor) -> None:
        actor.gate().fail()

    def is_killed(self, actor: Actor) -> None:
        self.stage.kill(actor.session)

    def commits(self, actor: Actor) -> None:
        ids = [grant.id for grant in actor.grants()][:1]
        transactions.decide(self.stage.manager, lambda view: event_decisions.commit(view, ids))

    def rests(self, actor: Actor) -> None:
        self.stage.pass_time(self.random.choice((1, 10, 30, 60, 180)))

    def is_let_on(self, actor: Actor) -> None:
        resume(self.stage.manager, "somebody")
        assert blockers(self.stage.manager) == []


@pytest.mark.parametrize("seed", range(8))
def test_whatever_agents_do_a_file_has_one_owner_and_only_who_is_at_work_stands_in_line(
    stage: Stage, seed: int
) -> None:
    walk = Walk(stage, seed)
    for _ in range(STEPS):
        walk.step()
