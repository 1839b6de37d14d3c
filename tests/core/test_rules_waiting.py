"""Waiting: tickets in order, passing, reservations; nothing starves as long as grants end."""

from __future__ import annotations

import inspect
from threading import Thread
from time import monotonic
from typing import Any

import pytest

from conftest import until
from holdfast import LockGrant, LockManager, LockTimeoutError
from holdfast.core.model import Grant, Holder, Ticket, Waiting
from holdfast.testing.conformance import Scene, refused

TEN_MINUTES = 600


def test_the_queue_is_by_priority_and_then_by_arrival(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    order = [3, -2, 0, 3, 0, 1000, -1000]
    requests = [
        scene.queue_up(f"w{number}", writes=["x"], priority=priority)
        for number, priority in enumerate(order)
    ]
    expected = sorted(range(len(order)), key=lambda number: (-order[number], number))
    assert scene.waiting() == [requests[number].id for number in expected]
    scene.release(held)
    for number in expected:
        assert scene.holds(requests[number])
        scene.release(requests[number].id)


def test_a_release_hands_over_in_the_same_step_so_no_request_barges_in(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    waiting = scene.queue_up("bob", writes=["x"])
    scene.release(held)
    released, acquired = scene.history()[-2:]
    assert (released.type, acquired.type) == ("lock_released", "lock_acquired")
    assert acquired.data["ticket"]
    refused(scene.ask("cid", writes=["x"]))
    refused(scene.ask("ann", writes=["x"]))
    assert scene.holds(waiting)


def test_a_request_that_can_start_overtakes_one_that_cannot(scene: Scene) -> None:
    scene.take("ann", writes=["x"])
    wide = scene.queue_up("bob", writes=["x", "y", "z"], priority=10)
    scene.take("cid", writes=["y"])
    late = scene.queue_up("dee", writes=["x"])
    assert scene.waiting() == [wide.id, late.id]
    scene.release(next(grant for grant in scene.state()[2] if grant.holder.id == "ann"))
    assert scene.waiting() == [wide.id]  # it was its turn, but it could not start
    assert scene.holds(late)


def test_several_are_served_together_if_they_get_on(scene: Scene) -> None:
    held = scene.take("ann", writes=["a/x"])
    requests = [
        scene.queue_up("bob", reads=["a/"]),
        scene.queue_up("cid", reads=["a/x"]),
        scene.queue_up("dee", writes=["a/x"]),
        scene.queue_up("eve", reads=["a/x"]),
    ]
    scene.release(held)
    assert [scene.holds(request) for request in requests] == [True, True, False, True]


def test_the_limit_is_ten_minutes_by_default() -> None:
    assert inspect.signature(LockManager.acquire).parameters["patience"].default == TEN_MINUTES


def test_after_its_limit_a_ticket_is_a_reservation_that_no_request_overtakes(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    wide = scene.queue_up("bob", writes=["x", "y"])
    scene.clock.advance(TEN_MINUTES - 0.000001)
    scene.release(scene.take("cid", writes=["y"]))
    scene.clock.advance(0.000001)
    (conflict,) = refused(scene.ask("cid", writes=["y"])).conflicts
    assert (conflict.kind, conflict.holder, conflict.grant_id) == ("reservation", "bob", wide.id)
    assert (conflict.path, conflict.held_path) == ("y", "y")
    refused(scene.ask("cid", reads=["y"]))
    refused(scene.ensure(scene.request("cid", [], ["y"])))
    refused(scene.steal(scene.request("cid", [], ["y"])))
    behind = scene.queue_up("cid", writes=["y"], priority=1000)
    assert scene.waiting() == [wide.id, behind.id]


def test_a_reservation_stops_try_acquire_of_the_manager_and_is_shown(
    scene: Scene, manager: LockManager
) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    scene.queue_up("bob", writes=["x", "y"], patience=60)
    assert manager.check_conflicts(write_paths=["y"]) == []
    scene.clock.advance(60)
    assert manager.try_acquire(holder=scene.holder("cid"), write_paths=["y"]) is None
    (shown,) = manager.check_conflicts(write_paths=["y"])
    assert (shown.kind, shown.holder) == ("reservation", "bob")


def test_a_reservation_does_not_stop_what_does_not_conflict(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    scene.queue_up("bob", ["lib/"], ["x", "y"], patience=0)
    scene.take("cid", reads=["lib/a", "z"])
    scene.take("cid", writes=["other"])
    refused(scene.ask("cid", writes=["lib/a"]))


def test_a_reservation_is_recorded_once(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    request = scene.queue_up("bob", writes=["x", "y"], patience=60)
    scene.clock.advance(60)
    for _ in range(3):
        refused(scene.ask("cid", writes=["y"]))
        assert isinstance(scene.put(request, wait=True), Waiting)
    reserved = [event for event in scene.history() if event.type == "ticket_reserved"]
    assert [event.data["ticket"] for event in reserved] == [request.id]


def test_its_own_look_makes_a_ticket_a_reservation_too(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    request = scene.queue_up("bob", writes=["x"], patience=60)
    scene.clock.advance(60)
    outcome = scene.put(request, wait=True)
    assert isinstance(outcome, Waiting)
    assert outcome.ticket.reserved


def test_reservations_stand_by_arrival_before_all_others(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"], ttl=None)
    first = scene.queue_up("bob", writes=["x"], priority=-5, patience=60)
    second = scene.queue_up("cid", writes=["x"], priority=5, patience=60)
    scene.clock.advance(60)
    third = scene.queue_up("dee", writes=["x"], priority=1000)
    for request in (second, first):
        scene.put(request, wait=True)
    assert scene.waiting() == [first.id, second.id, third.id]
    scene.release(held)
    for request in (first, second, third):
        assert scene.holds(request)
        scene.release(request.id)


def test_a_holder_that_a_reservation_waits_for_may_pass_it(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"], ttl=None)
    wide = scene.queue_up("bob", writes=["x", "y"], patience=0)
    more = scene.take("ann", writes=["y"])
    refused(scene.ask("cid", reads=["y"]))
    scene.release(held)
    scene.release(more)
    assert scene.holds(wide)


def test_so_may_one_that_it_waits_for_through_another(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    last = scene.take("cid", writes=["z"], ttl=None)
    reservation = scene.queue_up("bob", writes=["x", "y"], patience=0)
    scene.queue_up("ann", writes=["z"])  # bob waits for ann, and ann for cid
    more = scene.take("cid", writes=["y"])
    refused(scene.ask("dee", reads=["y"]))
    scene.release(more)
    scene.release(last)
    for grant in scene.state()[2]:
        if grant.holder.id == "ann":
            scene.release(grant)
    assert scene.holds(reservation)


def test_so_may_one_that_it_waits_for_through_another_reservation(scene: Scene) -> None:
    scene.take("bob", writes=["x"], ttl=None)
    scene.take("dee", writes=["z"], ttl=None)
    scene.queue_up("ann", writes=["x", "p"], patience=0)  # ann waits for bob
    scene.queue_up("cid", writes=["y", "z"], patience=0)  # cid waits for dee
    scene.queue_up("bob", writes=["y"])  # bob waits for cid's reservation
    scene.take("dee", writes=["p"])  # so without dee no request would ever start


def test_a_waiter_that_holds_may_be_overtaken_by_the_holder_it_waits_for_also_in_the_queue(
    scene: Scene,
) -> None:
    held = scene.take("ann", writes=["x"], ttl=None)
    other = scene.take("cid", writes=["y"], ttl=None)
    scene.queue_up("bob", writes=["x", "y"], patience=0)
    waiting = scene.queue_up("ann", writes=["y"])  # behind the reservation, and yet first
    scene.release(other)
    assert scene.holds(waiting)
    assert scene.holds(held)


def test_a_wide_request_is_served_although_narrow_ones_keep_coming(scene: Scene) -> None:
    """Without a reservation the two files would never be free at one moment."""
    grants = [scene.take("n0", writes=["x"]), scene.take("n1", writes=["y"])]
    wide = scene.queue_up("wide", writes=["x", "y"], patience=TEN_MINUTES)
    for number in range(2, 100):
        path = "xy"[number % 2]
        scene.clock.advance(10)
        scene.release(grants.pop(0))
        if scene.holds(wide):
            break
        outcome = scene.put(scene.request(f"n{number}", [], [path]), wait=True)
        assert isinstance(outcome, Grant | Waiting)
        if isinstance(outcome, Grant):
            grants.append(outcome)
    assert scene.holds(wide)
    assert number <= 63


def test_the_ticket_of_a_dead_waiter_disappears(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    dead = scene.queue_up("bob", writes=["x"])
    alive = scene.queue_up("cid", writes=["x"])
    scene.kill("bob")
    scene.release(held)
    assert scene.holds(alive)
    assert scene.waiting() == []
    (dropped,) = [event for event in scene.history() if event.type == "ticket_dropped"]
    assert dropped.data == {"ticket": dead.id, "holder": "bob", "why": "waiter dead"}


def test_the_reservation_of_a_dead_waiter_blocks_no_request(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    scene.queue_up("bob", writes=["x", "y"], patience=0)
    scene.kill("bob")
    scene.take("cid", writes=["y"])
    assert scene.waiting() == []


def test_a_waiting_process_that_dies_takes_its_ticket_along_though_its_holder_lives(
    scene: Scene,
) -> None:
    held = scene.take("ann", writes=["x"])
    command = scene.processes.start()
    request = scene.queue_up(Holder(id="terminal"), writes=["x"], waiter=command)
    scene.processes.end(command)
    scene.release(held)
    assert not scene.holds(request)
    assert scene.waiting() == []


def test_a_dead_owners_lock_goes_to_the_first_in_line(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    first = scene.queue_up("bob", writes=["x"])
    second = scene.queue_up("cid", writes=["x"])
    scene.kill("ann")
    assert isinstance(scene.put(second, wait=True), Waiting)  # it noticed, and was honest
    assert scene.holds(first)


# Grace: for a moment a waiter is woken instead of served


def test_in_its_grace_a_waiter_may_be_overtaken_by_a_running_process(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    waiting = scene.queue_up("bob", writes=["x"], grace=1)
    scene.release(held)
    assert scene.waiting() == [waiting.id]
    scene.clock.advance(0.99)
    passing = scene.take("cid", writes=["x"])
    scene.clock.advance(0.009999)
    scene.release(passing)
    assert scene.waiting() == [waiting.id]
    assert isinstance(scene.put(waiting, wait=True), Grant)


def test_after_a_long_hold_a_waiter_is_served_even_in_its_grace(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    waiting = scene.queue_up("bob", writes=["x"], grace=1)
    scene.clock.advance(0.01)
    scene.release(held)
    assert scene.holds(waiting)


def test_in_a_crowd_one_turn_follows_the_other(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    first = scene.queue_up("bob", writes=["x"], grace=0.2)
    second = scene.queue_up("cid", writes=["x"], grace=0.2)
    scene.release(held)
    scene.clock.advance(0.2)
    scene.release(scene.take("dan", writes=["x"]))
    assert scene.holds(first)
    scene.release(first.id)
    assert scene.waiting() == [second.id]  # its own turn has not come
    scene.clock.advance(0.2)
    scene.release(scene.take("dan", writes=["x"]))
    assert scene.holds(second)


def queue(scene: Scene) -> list[Ticket]:
    with scene.view() as view:
        return view.queue()


def test_a_turn_does_not_wait_for_less_urgent_requests(scene: Scene) -> None:
    scene.take("ann", writes=["x"])
    scene.queue_up("bob", writes=["x"], grace=0.2)
    scene.queue_up("cid", writes=["x"], grace=0.2, priority=1)
    scene.queue_up("dan", writes=["y", "x"], grace=0.2)
    assert [ticket.grace_ends_at - ticket.added_at for ticket in queue(scene)] == [
        200_000, 200_000, 400_000,
    ]  # fmt: skip


def test_however_many_wait_no_turn_is_further_away_than_a_second(scene: Scene) -> None:
    scene.take("ann", writes=["x"])
    for number in range(9):
        scene.queue_up(f"bob-{number}", writes=["x"], grace=0.4)
    assert max(ticket.grace_ends_at - ticket.added_at for ticket in queue(scene)) == 1_400_000


def test_no_wait_is_longer_by_more_than_the_grace(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    waiting = scene.queue_up("bob", writes=["x"], grace=1)
    scene.clock.advance(1)
    scene.release(held)
    assert scene.holds(waiting)


def test_a_ticket_past_its_grace_comes_before_one_within_it(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    old = scene.queue_up("bob", writes=["x"], grace=1)
    scene.clock.advance(1)
    scene.queue_up("cid", writes=["x"], grace=1)
    scene.release(held)
    assert scene.holds(old)


def test_a_waiter_that_died_in_its_grace_keeps_no_request_waiting(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    waiting = scene.queue_up("bob", writes=["x"])
    scene.queue_up("cid", writes=["x"], grace=1, priority=1)
    scene.kill("cid")
    scene.release(held)
    assert scene.holds(waiting)
    assert scene.waiting() == []


def test_a_free_but_awaited_key_goes_to_the_ticket_past_its_grace(scene: Scene) -> None:
    """No sleeping waiter is forgotten: the next decision grants it."""
    held = scene.take("ann", writes=["x"])
    waiting = scene.queue_up("bob", writes=["x"], grace=1)
    scene.release(held)
    scene.clock.advance(1)
    outcome = scene.put(scene.request("cid", [], ["x"]), wait=True)
    assert scene.holds(waiting) != isinstance(outcome, Grant)
    scene.release(outcome if isinstance(outcome, Grant) else waiting.id)
    assert scene.holds(waiting) or isinstance(outcome, Waiting)


# With the manager, which really waits


def test_acquire_waits_until_it_is_free(scene: Scene, manager: LockManager) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    held = manager.try_acquire(holder=ann, write_paths=["x"])
    assert held is not None
    got: list[LockGrant] = []
    waiting = Thread(
        target=lambda: got.append(manager.acquire(holder=bob, write_paths=["x"], timeout=60))
    )
    waiting.start()
    until(lambda: len(manager.queue()) == 1, "bob waits")
    manager.release(held.id)
    waiting.join(60)
    assert [grant.holder for grant in got] == ["bob"]
    assert manager.queue() == []


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_acquire_gives_up_at_its_timeout_and_leaves_nothing(
    scene: Scene, manager: LockManager, timeout: float
) -> None:
    manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"], reason="long work")
    begin = monotonic()
    with pytest.raises(LockTimeoutError) as caught:
        manager.acquire(holder=scene.holder("bob"), write_paths=["x"], timeout=timeout)
    assert timeout <= monotonic() - begin < timeout + 30
    assert caught.value.code == "E_LOCK_TIMEOUT"
    assert [conflict.holder for conflict in caught.value.fields["conflicts"]] == ["ann"]
    assert "ann" in str(caught.value)
    assert "long work" in str(caught.value)
    assert caught.value.hint
    assert manager.queue() == []
    last = list(manager.events())[-1]
    assert (last.type, last.data["why"]) == ("ticket_dropped", "timeout")


def test_a_waiter_gets_what_expires_meanwhile(scene: Scene, manager: LockManager) -> None:
    manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"], ttl=10)
    got: list[LockGrant] = []
    bob = scene.holder("bob")
    waiting = Thread(
        target=lambda: got.append(manager.acquire(holder=bob, write_paths=["x"], timeout=60))
    )
    waiting.start()
    until(lambda: len(manager.queue()) == 1, "bob waits")
    scene.clock.advance(10)
    waiting.join(60)
    assert [grant.holder for grant in got] == ["bob"]


def test_a_waiter_gets_what_a_dead_owner_had(scene: Scene, manager: LockManager) -> None:
    manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"], ttl=None)
    got: list[LockGrant] = []
    bob = scene.holder("bob")
    waiting = Thread(
        target=lambda: got.append(manager.acquire(holder=bob, write_paths=["x"], timeout=60))
    )
    waiting.start()
    until(lambda: len(manager.queue()) == 1, "bob waits")
    scene.kill("ann")
    waiting.join(60)
    assert [grant.holder for grant in got] == ["bob"]


def test_an_interrupted_wait_leaves_nothing(scene: Scene, manager: LockManager) -> None:
    manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"])

    class Impatience(BaseException):
        pass

    class Waiter:
        address = ""

        def wait(self, timeout: float) -> bool:
            raise Impatience

        def close(self) -> None: ...

        def discard(self) -> None: ...

    manager.store = _with_waiter(manager.store, Waiter())
    with pytest.raises(Impatience):
        manager.acquire(holder=scene.holder("bob"), write_paths=["x"], timeout=60)
    assert manager.queue() == []
    assert list(manager.events())[-1].data["why"] == "cancelled"


def _with_waiter(store: object, waiter: object) -> Any:
    class Interrupted:
        def waiter(self) -> object:
            return waiter

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    return Interrupted()
