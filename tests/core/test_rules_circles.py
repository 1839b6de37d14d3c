"""Deadlocks: the request that would close the cycle is refused immediately and shown it."""

from __future__ import annotations

from threading import Thread
from time import monotonic

import pytest

from conftest import until
from holdfast import LockCycleError, LockGrant, LockManager
from holdfast.core.model import Grant, Waiting
from holdfast.testing.conformance import Scene, refused


def hold_own(scene: Scene, *names: str) -> dict[str, Grant]:
    return {name: scene.take(name, writes=[name], ttl=None) for name in names}


def test_a_deadlock_of_two_is_refused_immediately(scene: Scene) -> None:
    hold_own(scene, "ann", "bob")
    scene.queue_up("ann", writes=["bob"])
    refusal = refused(scene.put(scene.request("bob", [], ["ann"]), wait=True), "E_LOCK_CYCLE")
    assert [(step.holder, step.held_path) for step in refusal.circle] == [
        ("ann", "ann"),
        ("bob", "bob"),
    ]
    assert len(scene.waiting()) == 1


def test_a_deadlock_of_three_is_refused_immediately(scene: Scene) -> None:
    hold_own(scene, "ann", "bob", "cid")
    scene.queue_up("ann", writes=["bob"])
    scene.queue_up("bob", writes=["cid"])
    refusal = refused(scene.put(scene.request("cid", [], ["ann"]), wait=True), "E_LOCK_CYCLE")
    assert [(step.holder, step.held_path) for step in refusal.circle] == [
        ("ann", "ann"),
        ("bob", "bob"),
        ("cid", "cid"),
    ]
    event = scene.history()[-1]
    assert (event.type, event.data["code"]) == ("lock_refused", "E_LOCK_CYCLE")


def test_a_circle_is_found_among_several_ways(scene: Scene) -> None:
    hold_own(scene, "ann", "bob", "cid", "dee")
    scene.queue_up("bob", writes=["dee"])
    scene.queue_up("cid", writes=["ann"])
    request = scene.request("ann", [], ["bob", "cid", "dee"])
    refusal = refused(scene.put(request, wait=True), "E_LOCK_CYCLE")
    assert [step.holder for step in refusal.circle] == ["cid", "ann"]


def test_a_chain_is_no_circle(scene: Scene) -> None:
    grants = hold_own(scene, "ann", "bob", "cid")
    first = scene.queue_up("ann", writes=["bob"])
    second = scene.queue_up("bob", writes=["cid"])
    third = scene.queue_up("dee", writes=["ann"])
    scene.release(grants["cid"])
    assert scene.holds(second)
    scene.release(grants["bob"])
    assert scene.holds(first)
    assert scene.waiting() == [third.id]


def test_a_circle_through_readers_and_folders_is_one_too(scene: Scene) -> None:
    scene.take("ann", reads=["a/"], ttl=None)
    scene.take("bob", writes=["b"], ttl=None)
    scene.queue_up("bob", writes=["a/x"])
    refused(scene.put(scene.request("ann", ["b"], []), wait=True), "E_LOCK_CYCLE")


def test_a_circle_through_a_reservation_is_one_too(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    scene.take("cid", writes=["z"], ttl=None)
    scene.queue_up("bob", writes=["x", "y"], patience=0)  # bob waits for ann
    scene.queue_up("ann", writes=["z"])  # ann waits for cid
    # cid may overtake the reservation, because bob waits for it through ann: so there is no cycle
    assert isinstance(scene.put(scene.request("cid", [], ["y"]), wait=True), Grant)


def test_a_request_that_does_not_wait_closes_no_cycle(scene: Scene) -> None:
    hold_own(scene, "ann", "bob")
    scene.queue_up("ann", writes=["bob"])
    refused(scene.ask("bob", writes=["ann"]), "E_LOCK_CONFLICT")


def test_a_dead_holder_is_no_part_of_a_circle(scene: Scene) -> None:
    hold_own(scene, "ann", "bob", "cid")
    scene.queue_up("ann", writes=["bob"])
    scene.queue_up("bob", writes=["cid"])
    scene.kill("bob")
    outcome = scene.put(scene.request("cid", [], ["ann"]), wait=True)
    assert isinstance(outcome, Waiting)


def test_a_deadlock_that_a_grant_closes_is_reported_to_the_next_waiter_that_checks(
    scene: Scene,
) -> None:
    hold_own(scene, "bob", "dee")
    waiting = scene.queue_up("ann", writes=["bob"])
    scene.queue_up("bob", writes=["dee", "z"])
    scene.take("ann", writes=["z"])  # overtakes bob, who cannot start: now they wait for each other
    refused(scene.put(waiting, wait=True), "E_LOCK_CYCLE")
    assert len(scene.waiting()) == 1


def test_the_manager_tells_the_circle_in_words(scene: Scene, manager: LockManager) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    mine = manager.try_acquire(holder=ann, write_paths=["a.rb"], ttl=None)
    theirs = manager.try_acquire(holder=bob, write_paths=["b.rb"], ttl=None)
    assert mine is not None
    assert theirs is not None
    got: list[LockGrant] = []
    waiting = Thread(
        target=lambda: got.append(manager.acquire(holder=ann, write_paths=["b.rb"], timeout=60))
    )
    waiting.start()
    until(lambda: len(manager.queue()) == 1, "ann waits")
    begin = monotonic()
    with pytest.raises(LockCycleError) as caught:
        manager.acquire(holder=bob, write_paths=["a.rb"], timeout=300)
    assert monotonic() - begin < 60
    assert caught.value.code == "E_LOCK_CYCLE"
    assert [step.holder for step in caught.value.fields["circle"]] == ["ann", "bob"]
    for word in ("ann", "bob", "a.rb", "b.rb"):
        assert word in str(caught.value)
    assert caught.value.hint
    manager.release(theirs.id)
    waiting.join(60)
    assert [grant.holder for grant in got] == ["ann"]
