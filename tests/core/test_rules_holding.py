"""`with manager.hold(...)`: a grant that is kept alive, and that knows whether it still is one."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any, cast

import pytest

from conftest import until
from holdfast import FencingError, LockExpiredError, LockManager, LockTimeoutError, StoreBusyError
from holdfast.testing.conformance import Scene


def test_a_hold_acquires_and_releases(scene: Scene, manager: LockManager) -> None:
    with manager.hold(read_paths=["lib/"], write_paths=["x"], reason="work") as grant:
        assert grant.state == "held"
        assert (grant.read_paths, grant.write_paths, grant.reason) == (("lib/",), ("x",), "work")
        assert manager.verify(grant.id, path="x", token=grant.token)
        assert [held.id for held in manager.active_grants()] == [grant.id]
    assert manager.active_grants() == []
    assert grant.released


def test_a_hold_is_a_holder_of_its_own_unless_one_is_given(manager: LockManager) -> None:
    with manager.hold(write_paths=["x"]):
        with pytest.raises(LockTimeoutError), manager.hold(write_paths=["x"], timeout=0):
            pytest.fail("two holds of one thing")
        with manager.hold(write_paths=["y"]):
            assert len({grant.holder for grant in manager.active_grants()}) == 2
    with manager.hold(holder="me", write_paths=["x"]) as one:  # noqa: SIM117
        with manager.hold(holder="me", write_paths=["x"], timeout=0) as two:
            assert one.holder == two.holder == "me"


def test_a_hold_releases_on_every_way_out(manager: LockManager) -> None:
    for error in (ZeroDivisionError, KeyboardInterrupt, GeneratorExit):
        with pytest.raises(error), manager.hold(write_paths=["x"]):
            raise error
        assert manager.active_grants() == []


def test_a_hold_that_waits_in_vain_holds_nothing(scene: Scene, manager: LockManager) -> None:
    scene.take("ann", writes=["x"])
    with pytest.raises(LockTimeoutError), manager.hold(write_paths=["x"], timeout=0.01):
        pytest.fail("not reached")
    assert manager.queue() == []


def test_a_hold_renews_by_itself(scene: Scene, manager: LockManager) -> None:
    with manager.hold(write_paths=["x"], ttl=1.5) as grant:
        until(lambda: scene.history()[-1].type == "lock_renewed", "it has been renewed")
        scene.clock.advance(1)
        renewed = scene.state()[0]
        until(lambda: scene.state()[0] > renewed, "it has been renewed again")
        scene.clock.advance(1)
        assert manager.verify(grant.id, path="x", token=grant.token)


class Sleeper:
    """A store whose waiters sleep on until they are let go."""

    def __init__(self, store: object) -> None:
        self._store = store
        self.go_on = Event()

    def waiter(self) -> Sleeper:
        return self

    address = ""

    def wait(self, timeout: float) -> bool:
        return self.go_on.wait(60)

    def close(self) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_lease_counts_from_when_it_was_handed_over_and_not_from_when_we_woke(
    scene: Scene, manager: LockManager
) -> None:
    held = scene.take("ann", writes=["x"], ttl=None)
    store = Sleeper(manager.store)
    manager.store = cast("Any", store)
    expected: list[bool] = []

    def hold() -> None:
        with manager.hold(write_paths=["x"], ttl=30, timeout=60):
            try:
                until(lambda: scene.history()[-1].type == "lock_renewed", "renewed", seconds=5)
                expected.append(True)
            except AssertionError:
                expected.append(False)

    thread = Thread(target=hold)
    thread.start()
    until(lambda: len(manager.queue()) == 1, "it waits")
    scene.clock.advance(1)
    scene.release(held)
    scene.clock.advance(24)  # of the thirty seconds, six are left
    store.go_on.set()
    thread.join(120)
    assert expected == [True]


def test_a_hold_without_a_ttl_needs_no_renewals(scene: Scene, manager: LockManager) -> None:
    with manager.hold(write_paths=["x"], ttl=None) as grant:
        assert (grant.state, grant.expires_at) == ("held", None)
    assert [event.type for event in scene.history()] == ["lock_acquired", "lock_released"]


def test_a_hold_that_was_forced_is_lost_and_says_so_at_the_end(
    scene: Scene, manager: LockManager
) -> None:
    with pytest.raises(FencingError) as caught, manager.hold(write_paths=["x"], ttl=1.5) as grant:  # noqa: PT012
        manager.force(grant.id, by="operator", reason="test")
        until(lambda: grant.state == "lost", "the holder has noticed")
    assert caught.value.fields["ending"].by == "operator"


def test_a_hold_whose_lease_ran_out_is_lost(scene: Scene, manager: LockManager) -> None:
    with pytest.raises(LockExpiredError), manager.hold(write_paths=["x"], ttl=1.5) as grant:  # noqa: PT012
        scene.clock.advance(10)
        until(lambda: grant.state == "lost", "the holder has noticed")


def test_a_loss_does_not_hide_the_error_that_came_first(scene: Scene, manager: LockManager) -> None:
    with pytest.raises(ZeroDivisionError), manager.hold(write_paths=["x"], ttl=1.5) as grant:  # noqa: PT012
        manager.force(grant.id, by="operator", reason="test")
        until(lambda: grant.state == "lost", "the holder has noticed")
        raise ZeroDivisionError


class OutOfReach:
    """A store that cannot be reached for a while."""

    def __init__(self, store: object) -> None:
        self._store = store
        self.away = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name != "transact":
            return found

        def transact(*args: object, **rest: object) -> object:
            if self.away:
                raise StoreBusyError("out of reach", hint="wait")
            return found(*args, **rest)

        return transact


def test_a_holder_that_cannot_reach_the_store_is_suspect_and_then_lost(
    manager: LockManager,
) -> None:
    manager.store = store = OutOfReach(manager.store)
    with pytest.raises(LockExpiredError), manager.hold(write_paths=["x"], ttl=0.6) as grant:  # noqa: PT012
        store.away = True
        seen = []
        until(
            lambda: seen.append(grant.state) or grant.state == "lost",  # type: ignore[func-returns-value]
            "the lease must have run out",
        )
        assert "suspect" in seen
        assert seen.index("suspect") < seen.index("lost")
        store.away = False


def test_a_holder_that_reaches_the_store_again_in_time_is_held_again(
    manager: LockManager,
) -> None:
    manager.store = store = OutOfReach(manager.store)
    with manager.hold(write_paths=["x"], ttl=3) as grant:
        store.away = True
        until(lambda: grant.state == "suspect", "it has failed to renew")
        store.away = False
        until(lambda: grant.state == "held", "it has renewed")


def test_many_holds_of_one_thing_take_turns(manager: LockManager) -> None:
    inside, turns = [], []

    def work(number: int) -> None:
        for _ in range(5):
            with manager.hold(write_paths=["x"], timeout=60):
                inside.append(number)
                turns.append(len(inside))
                inside.remove(number)

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert turns == [1] * 20
