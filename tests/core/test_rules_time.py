"""Ledger time never goes back, and no clock step or sleep frees or freezes anything wrongly."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import STORES, opener
from holdfast import Holder, LockManager
from holdfast.core.model import SECOND, Grant, Waiting
from holdfast.testing.conformance import Scene, refused

YEAR = 365 * 86_400


@pytest.mark.parametrize("step", [86_400, YEAR, -86_400, -10 * YEAR])
def test_a_step_of_the_wall_clock_frees_nothing_and_freezes_nothing(
    scene: Scene, step: float
) -> None:
    grant = scene.take("ann", writes=["x"], ttl=60)
    scene.clock.step_wall(step)
    assert scene.verify(grant, "x")
    refused(scene.ask("bob", writes=["x"]))
    scene.clock.advance(59.999999)
    refused(scene.ask("bob", writes=["x"]))
    scene.clock.advance(0.000001)
    scene.take("bob", writes=["x"])


def test_a_step_of_the_wall_clock_does_not_reserve_before_the_limit(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    scene.queue_up("bob", writes=["x", "y"], patience=600)
    scene.clock.step_wall(YEAR)
    scene.release(scene.take("cid", writes=["y"]))
    scene.clock.step_wall(-2 * YEAR)
    scene.clock.advance(600)
    refused(scene.ask("cid", writes=["y"]))


def test_a_sleep_of_the_machine_uses_up_no_lease_of_a_process_that_slept_too(
    scene: Scene,
) -> None:
    grant = scene.take("ann", writes=["x"], ttl=60)
    scene.clock.advance(20)
    scene.clock.sleep_machine(8 * 3600)
    assert scene.verify(grant, "x")
    refused(scene.ask("bob", writes=["x"]))
    scene.clock.advance(39)
    refused(scene.ask("bob", writes=["x"]))
    scene.clock.advance(1)
    scene.take("bob", writes=["x"])


def test_several_sleeps_add_up(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=60)
    for number in range(5):
        scene.clock.sleep_machine(100)
        if number == 2:
            scene.take("cid", writes=["other"])  # the ledger has seen some of them
        scene.clock.advance(10)
    assert scene.verify(grant, "x")
    scene.clock.advance(10)
    assert scene.verify(grant, "x").code == "E_LOCK_EXPIRED"


def test_a_renewal_after_a_sleep_does_not_count_the_sleep_twice(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=60)
    scene.clock.sleep_machine(3600)
    renewed = scene.renew(grant)
    assert isinstance(renewed, Grant)
    scene.clock.advance(60)
    scene.take("bob", writes=["x"])


def test_a_lease_taken_after_a_sleep_is_no_longer_than_it_says(scene: Scene) -> None:
    scene.take("cid", writes=["other"])
    scene.clock.sleep_machine(3600)
    scene.take("ann", writes=["x"], ttl=60)
    scene.clock.advance(60)
    scene.take("bob", writes=["x"])


def test_a_sleep_does_not_extend_a_lease_without_an_owner(scene: Scene) -> None:
    scene.take(Holder(id="visitor"), writes=["x"], ttl=60)
    scene.clock.sleep_machine(60)
    scene.take("bob", writes=["x"])


def test_a_sleep_keeps_a_lease_without_a_ttl(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=None)
    scene.clock.sleep_machine(YEAR)
    assert scene.verify(grant, "x")


def test_time_goes_on_after_a_reboot(embedded: Scene) -> None:
    embedded.take(Holder(id="visitor"), writes=["x"], ttl=60)
    before = embedded.now()
    embedded.clock.reboot(down_seconds=30)
    embedded.reopen()
    assert embedded.now() == before + 30 * SECOND
    refused(embedded.ask("bob", writes=["x"]))
    embedded.clock.advance(30)
    embedded.take("bob", writes=["x"])


def test_time_does_not_go_back_when_a_reboot_lost_the_date(embedded: Scene) -> None:
    embedded.take(Holder(id="visitor"), writes=["x"], ttl=60)
    embedded.clock.advance(40)
    embedded.take("ann", writes=["y"])
    before = embedded.now()
    embedded.clock.step_wall(-20 * YEAR)  # an empty battery
    embedded.clock.reboot()
    embedded.reopen()
    assert embedded.now() >= before
    refused(embedded.ask("bob", writes=["x"]))
    embedded.clock.advance(20)
    embedded.take("bob", writes=["x"])


def test_sleep_before_a_reboot_is_not_counted_again(embedded: Scene) -> None:
    embedded.clock.sleep_machine(1000)
    embedded.take("ann", writes=["y"])
    embedded.clock.sleep_machine(1000)
    embedded.take("ann", writes=["z"])
    embedded.clock.reboot()
    embedded.take("bob", writes=["x"], ttl=60)
    embedded.clock.sleep_machine(10)
    embedded.clock.advance(59)
    refused(embedded.ask("cid", writes=["x"]))
    embedded.clock.advance(1)
    embedded.take("cid", writes=["x"])


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.floats(0, 1000)),
        st.tuples(st.just("step_wall"), st.floats(-1e8, 1e8)),
        st.tuples(st.just("sleep_machine"), st.floats(0, 10_000)),
        st.tuples(st.just("reboot"), st.floats(0, 1000)),
        st.tuples(st.just("event"), st.just(0.0)),
    ),
    max_size=25,
)


@pytest.mark.parametrize("store", STORES)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(moves=MOVES)
def test_time_never_goes_back_whatever_the_clocks_do(
    store: str, tmp_path: Path, moves: list[tuple[str, float]]
) -> None:
    folder = Path(mkdtemp(dir=tmp_path))
    with Scene(opener(store, folder)) as scene:
        visitor = Holder(id="visitor")
        scene.take(visitor, writes=["x"])
        seen = scene.now()
        for move, seconds in moves:
            if move in ("event", "reboot"):  # a sleep that was not recorded is lost
                scene.take(visitor, writes=["x"])
            if move != "event":
                getattr(scene.clock, move)(seconds)
            if move == "reboot":
                scene.take(visitor, writes=["x"])
            now = scene.now()
            assert now >= seen
            if move == "step_wall":
                assert now == seen
            elif move in ("advance", "sleep_machine"):
                assert now == seen + round(seconds * SECOND)
            seen = now
        times = [event.at for event in scene.history()]
        assert times == sorted(times)


def test_events_are_in_the_order_of_their_times(scene: Scene) -> None:
    for step in (0, 10, -100, 50, -1000):
        scene.clock.step_wall(step)
        scene.clock.advance(1)
        scene.release(scene.take("ann", writes=["x"]))
    times = [event.at for event in scene.history()]
    assert times == sorted(times)


def test_times_for_people_are_utc_in_iso_8601(scene: Scene, manager: LockManager) -> None:
    grant = manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"], ttl=1.25)
    assert grant is not None
    assert grant.acquired_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    fields = grant.to_dict()
    assert fields["acquired_at"] == "2023-11-14T22:13:20.000000Z"
    assert fields["expires_at"] == "2023-11-14T22:13:21.250000Z"
    assert datetime.fromisoformat(fields["expires_at"]) == grant.expires_at
    forever = manager.try_acquire(holder=scene.holder("ann"), write_paths=["y"], ttl=None)
    assert forever is not None
    assert forever.to_dict()["expires_at"] is None


def test_a_waiter_learns_when_to_check_again(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=60)
    outcome = scene.put(scene.request("bob", [], ["x"], patience=600), wait=True)
    assert isinstance(outcome, Waiting)
    assert outcome.check_after == 60 * SECOND
    scene.take("cid", writes=["y"], ttl=None)
    outcome = scene.put(scene.request("dee", [], ["y"], patience=600), wait=True)
    assert isinstance(outcome, Waiting)
    assert outcome.check_after == 600 * SECOND
