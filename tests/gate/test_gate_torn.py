"""Each event of an agent is one transaction: it takes effect completely, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from conftest import furnish
from holdfast.core.model import Decision
from holdfast.manager.manager import LockManager
from holdfast.testing.simulator.sim_faults import FaultyStore, Interrupted
from stage import Actor, Stage, settled

if TYPE_CHECKING:
    from holdfast.core.view import View

INSIDE, AFTER = 0.4, 0.9  # where in a transaction the process dies, as drawn by FaultyStore


class Drawn(Random):
    """Random numbers that are all equal."""

    def __init__(self, number: float) -> None:
        super().__init__(0)
        self._number = number

    def random(self) -> float:
        return self._number


class Nobody:
    """A watcher that ignores all that the store does."""

    def looking(self, view: View) -> None: ...

    def committed(self, decision: Decision[Any], now: int, *, repeated: bool) -> None: ...

    def woken(self, addresses: tuple[str, ...], hints: tuple[str, ...]) -> None: ...


def dies(stage: Stage, where: float, event: Callable[[], object]) -> None:
    """An event whose hook is killed in its first transaction."""
    whole = stage.manager
    store = FaultyStore(
        [whole.store], random=Drawn(where), watcher=Nobody(), fault_rate=1.0, survives_tearing=True
    )
    stage.manager = LockManager(store, tree=whole.tree, clock=stage.clock)
    try:
        with pytest.raises(Interrupted):
            event()
    finally:
        stage.manager = whole


class Scene:
    """One agent has a file, another is about to do something."""

    def __init__(self, root: Path) -> None:
        furnish(root)
        settled(root / "app/x.rb", root / "lib/y.rb")
        self.stage = Stage(root)
        self.ann, self.bob = self.stage.agent("ann"), self.stage.agent("bob")
        self.child = self.stage.agent("bob", "child")

    def told(self) -> list[str]:
        """The ledger's events, without ids and times."""
        return [event.type for event in self.stage.manager.events()]

    def leases(self) -> list[tuple[str, str, bool]]:
        """The holder of each file, and whether the lease has no idle limit."""
        return sorted(
            (grant.holder.key, grant.paths[0], grant.idle_at is None)
            for agent in (self.ann, self.bob, self.child)
            for grant in agent.grants()
        )


def takes(scene: Scene) -> Callable[[], object]:
    return lambda: scene.bob.edit("app/x.rb", "lib/y.rb", write=None).kind


def is_refused(scene: Scene) -> Callable[[], object]:
    scene.ann.edit("app/x.rb", write=None)
    return lambda: scene.bob.edit("app/x.rb", write=None).kind


def is_blocked(scene: Scene) -> Callable[[], object]:
    is_refused(scene)()
    scene.bob.edit("lib/y.rb", write=None)
    scene.stage.clock.advance(180)
    return lambda: scene.bob.edit("app/x.rb", write=None).kind


def retries(scene: Scene) -> Callable[[], object]:
    is_refused(scene)()
    scene.bob.stop(may_go_on=False)
    scene.ann.gate().end_session()
    scene.stage.clock.advance(180)
    return lambda: scene.bob.edit("app/x.rb", write=None).kind


def is_told(scene: Scene) -> Callable[[], object]:
    is_refused(scene)()
    scene.stage.kill("ann")
    return lambda: scene.bob.gate().live_on().context


def uses_what_was_handed_over(scene: Scene) -> Callable[[], object]:
    is_refused(scene)()
    scene.ann.gate().end_session()
    return lambda: scene.bob.edit("app/x.rb", write=None).kind


def prompts(scene: Scene) -> Callable[[], object]:
    is_blocked(scene)()
    return lambda: scene.bob.gate().prompt().kind


def stops(scene: Scene) -> Callable[[], object]:
    is_refused(scene)()
    scene.bob.edit("lib/y.rb")
    return lambda: scene.bob.stop().kind


def begins_to_hold(scene: Scene) -> Callable[[], object]:
    is_refused(scene)()
    scene.bob.edit("lib/y.rb")
    return lambda: scene.bob.stop(hold=True).kind


def goes_on(scene: Scene) -> Callable[[], object]:
    is_refused(scene)()
    scene.stage.kill("ann")
    return lambda: scene.bob.stop(hold=True).kind


def ends_a_session(scene: Scene) -> Callable[[], object]:
    is_blocked(scene)()
    scene.child.edit("app/models/user.rb")
    return lambda: scene.bob.gate().end_session().kind


def ends_a_child(scene: Scene) -> Callable[[], object]:
    scene.child.edit("app/x.rb")
    return lambda: scene.child.stop().kind


def gives_down(scene: Scene) -> Callable[[], object]:
    scene.bob.edit("app/x.rb")
    return lambda: scene.child.edit("app/x.rb").kind


def fails(scene: Scene) -> Callable[[], object]:
    is_refused(scene)()
    scene.bob.edit("lib/y.rb")
    return lambda: scene.bob.gate().fail()


def begins(scene: Scene) -> Callable[[], object]:
    scene.ann.edit("app/x.rb")
    return lambda: scene.bob.gate().session_start().context


def begins_again(scene: Scene) -> Callable[[], object]:
    scene.bob.edit("app/x.rb")
    scene.child.edit("lib/y.rb")
    scene.stage.kill("bob")
    scene.stage.restart("bob")
    return lambda: scene.bob.gate().session_start().context


def starts_a_child(scene: Scene) -> Callable[[], object]:
    scene.bob.calls()
    return lambda: scene.child.gate().agent_start().kind


EVENTS = [
    takes, is_refused, is_blocked, retries, is_told, uses_what_was_handed_over, prompts, stops,
    begins_to_hold, goes_on, ends_a_session, ends_a_child, gives_down, fails, begins, begins_again,
    starts_a_child,
]  # fmt: skip


@pytest.mark.parametrize("prepare", EVENTS, ids=lambda event: event.__name__)
def test_an_event_that_is_torn_has_not_happened_and_can_be_repeated(
    tmp_path: Path, prepare: Callable[[Scene], Callable[[], object]]
) -> None:
    whole, torn = Scene(tmp_path / "whole"), Scene(tmp_path / "torn")
    event = prepare(torn)
    before, held = torn.told(), torn.leases()
    dies(torn.stage, INSIDE, event)
    assert torn.told() == before
    assert torn.leases() == held
    assert event() == prepare(whole)()
    assert torn.told() == whole.told()
    assert torn.leases() == whole.leases()
    assert len(torn.told()) > len(before)


REPEATED = [takes, is_refused, is_blocked, retries, uses_what_was_handed_over, gives_down, fails]


@pytest.mark.parametrize("prepare", REPEATED, ids=lambda event: event.__name__)
def test_an_event_whose_answer_was_lost_is_answered_the_same_when_it_is_repeated(
    tmp_path: Path, prepare: Callable[[Scene], Callable[[], object]]
) -> None:
    whole, lost = Scene(tmp_path / "whole"), Scene(tmp_path / "lost")
    event = prepare(lost)
    dies(lost.stage, AFTER, event)
    done = prepare(whole)()
    assert lost.leases() == whole.leases()
    assert event() == done
    mine = [type for type in lost.told() if type in ("contention_heartbeat", "agent_blocked")]
    once = [type for type in whole.told() if type in ("contention_heartbeat", "agent_blocked")]
    assert mine == once


def test_a_hold_that_is_torn_in_one_of_its_looks_can_be_repeated(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "torn")
    is_refused(scene)()
    scene.stage.later(3, lambda: scene.stage.kill("ann"))
    actor: Actor = scene.bob
    scene.stage.later(3, lambda: dies(scene.stage, INSIDE, lambda: actor.gate().live_on()))
    assert actor.edit("app/x.rb", hold=True, write=None).kind == "allow"
    assert len(scene.stage.events("file_handed_over")) == 1
