"""Checks of waiting: the queue, wake-ups and hand-overs."""

from __future__ import annotations

from threading import Thread
from time import monotonic

from holdfast.core.model import Grant, Holder, Waiting
from holdfast.testing.conformance.scene import PATIENT_SECONDS, Scene, refused


def tickets_are_served_by_priority_and_arrival(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    late = scene.queue_up("bob", writes=["x"], priority=-1)
    first = scene.queue_up("cid", writes=["x"])
    second = scene.queue_up("dee", writes=["x"])
    urgent = scene.queue_up("eve", writes=["x"], priority=5)
    order = [urgent.id, first.id, second.id, late.id]
    assert scene.waiting() == order
    scene.release(held)
    for number, id in enumerate(order):
        assert scene.waiting() == order[number + 1 :]
        assert scene.release(id) is True


def what_comes_free_is_handed_over_in_the_same_step(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    request = scene.queue_up("bob", ["y"], ["x"])
    head = scene.state()[0]
    scene.release(held)
    released, acquired = scene.history(head)
    assert (released.type, acquired.type) == ("lock_released", "lock_acquired")
    assert acquired.data["id"] == request.id
    refused(scene.ask("cid", writes=["y"]))
    assert isinstance(scene.put(request, wait=True), Grant)


def several_who_can_share_start_together(scene: Scene) -> None:
    held = scene.take("ann", writes=["a/x", "b"])
    readers = [scene.queue_up(name, reads=["a/"]) for name in ("bob", "cid", "dee")]
    writer = scene.queue_up("eve", writes=["b"])
    scene.release(held)
    assert all(scene.holds(request) for request in (*readers, writer))
    assert scene.waiting() == []


def who_can_start_may_pass_who_cannot(scene: Scene) -> None:
    first = scene.take("ann", writes=["x"])
    second = scene.take("bob", writes=["y"])
    wide = scene.queue_up("cid", writes=["x", "y"])
    scene.release(first)
    passing = scene.take("dee", writes=["x"])
    scene.release(second)
    assert scene.waiting() == [wide.id]
    scene.release(passing)
    assert scene.holds(wide)


def a_reservation_is_not_passed(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"], ttl=86_400)
    wide = scene.queue_up("bob", writes=["x", "y"], patience=600)
    passing = scene.take("cid", writes=["y"])
    scene.release(passing)
    scene.clock.advance(600)
    head = scene.state()[0]
    refusal = refused(scene.ask("cid", writes=["y"]))
    assert [(blocker.kind, blocker.holder) for blocker in refusal.conflicts] == [
        ("reservation", "bob")
    ]
    assert scene.history(head)[0].type == "ticket_reserved"
    scene.take("cid", writes=["z"])
    scene.take("ann", writes=["y"])  # the holder that it waits for may
    with scene.view() as view:
        assert [ticket.reserved for ticket in view.queue()] == [True]
        for grant in view.held_by(held.holder.key):
            assert isinstance(grant, Grant)
    for grant in scene.state()[2]:
        if grant.holder.id == "ann":
            scene.release(grant)
    assert scene.holds(wide)


def reservations_come_before_priority(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"], ttl=None)
    old = scene.queue_up("bob", writes=["x"], patience=10)
    scene.clock.advance(10)
    urgent = scene.queue_up("cid", writes=["x"], priority=1000)
    assert isinstance(scene.put(old, wait=True), Waiting)
    assert scene.waiting() == [old.id, urgent.id]
    scene.release(held)
    assert scene.holds(old)


def a_ticket_is_given_up(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    request = scene.queue_up("bob", writes=["x"])
    assert scene.cancel(request, "timeout") is None
    event = scene.history()[-1]
    assert (event.type, event.data["ticket"]) == ("ticket_dropped", request.id)
    assert event.data["why"] == "timeout"
    scene.release(held)
    assert not scene.holds(request)


def who_gives_up_too_late_is_given_what_it_has(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    request = scene.queue_up("bob", writes=["x"])
    scene.release(held)
    late = scene.cancel(request)
    assert isinstance(late, Grant)
    assert (late.id, late.holder) == (request.id, request.holder)


def a_dropped_reservation_lets_the_others_start(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    wide = scene.queue_up("bob", writes=["x", "y"], patience=10)
    scene.clock.advance(10)
    behind = scene.queue_up("cid", writes=["y"])
    scene.cancel(wide)
    assert scene.holds(behind)


def the_ticket_of_a_dead_waiter_disappears(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    dead = scene.queue_up("bob", writes=["x"])
    waiter = scene.processes.start()
    lonely = scene.queue_up(Holder(id="visitor"), writes=["x"], waiter=waiter)
    alive = scene.queue_up("cid", writes=["x"])
    scene.kill("bob")
    scene.processes.end(waiter)
    scene.release(held)
    assert scene.holds(alive)
    dropped = [event.data for event in scene.history() if event.type == "ticket_dropped"]
    assert [(data["ticket"], data["why"]) for data in dropped] == [
        (dead.id, "waiter dead"),
        (lonely.id, "waiter dead"),
    ]


def whoever_would_close_a_circle_is_refused_and_told_it(scene: Scene) -> None:
    for name in ("ann", "bob", "cid"):
        scene.take(name, writes=[name], ttl=None)
    scene.queue_up("ann", writes=["bob"])
    scene.queue_up("bob", writes=["cid"])
    refusal = refused(scene.put(scene.request("cid", [], ["ann"]), wait=True), "E_LOCK_CYCLE")
    assert [step.holder for step in refusal.circle] == ["ann", "bob", "cid"]
    assert len(scene.waiting()) == 2


def a_waiter_is_woken_by_whoever_serves_it(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    waiter = scene.store.waiter()
    try:
        request = scene.queue_up("bob", writes=["x"], wake=waiter.address)
        thread = Thread(target=scene.release, args=(held,))
        begin = monotonic()
        thread.start()
        assert waiter.wait(PATIENT_SECONDS) is True
        assert monotonic() - begin < PATIENT_SECONDS / 2
        thread.join()
        assert scene.holds(request)
    finally:
        waiter.close()


def a_request_whose_waiter_gave_up_is_never_served(scene: Scene) -> None:
    for others in ((), ("cid",)):  # the fast way to hand over, and the slow one
        held = scene.take("ann", writes=["x"])
        waiter = scene.store.waiter()
        request = scene.queue_up("bob", writes=["x"], wake=waiter.address)
        behind = [scene.queue_up(name, writes=["x"]) for name in others]
        waiter.discard()
        scene.release(held)
        assert not scene.holds(request)
        for served in behind:
            assert scene.holds(served)
            scene.release(served.id)
        assert scene.waiting() == []


def a_waiter_in_its_grace_is_woken_to_try_its_luck(scene: Scene) -> None:
    held = scene.take("ann", writes=["a/x"])
    waiter = scene.store.waiter()
    try:
        request = scene.queue_up("bob", reads=["a/"], wake=waiter.address, grace=1)
        scene.release(held)
        assert scene.waiting() == [request.id]
        assert waiter.wait(PATIENT_SECONDS) is True
        assert isinstance(scene.put(request, wait=True), Grant)
    finally:
        waiter.close()


def after_its_grace_a_waiter_is_served_asleep(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    waiting = scene.queue_up("bob", writes=["x"], grace=1)
    scene.clock.advance(1)
    scene.release(held)
    assert scene.holds(waiting)


def a_call_that_came_before_the_wait_is_heard(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    waiter = scene.store.waiter()
    try:
        scene.queue_up("bob", writes=["x"], wake=waiter.address)
        scene.release(held)
        begin = monotonic()
        assert waiter.wait(PATIENT_SECONDS) is True
        assert monotonic() - begin < PATIENT_SECONDS / 2
    finally:
        waiter.close()


def a_waiter_that_nobody_calls_comes_back_in_time(scene: Scene) -> None:
    waiter = scene.store.waiter()
    try:
        begin = monotonic()
        assert waiter.wait(0.05) is False
        assert 0.04 <= monotonic() - begin < PATIENT_SECONDS / 2
    finally:
        waiter.close()


def a_hand_over_needs_no_looking_again(scene: Scene) -> None:
    manager, rounds = scene.manager, 20
    turns: list[int] = []

    def play(number: int) -> None:
        me = Holder(id=f"player-{number}")
        for _ in range(rounds):
            grant = manager.acquire(holder=me, write_paths=["ball"], timeout=PATIENT_SECONDS)
            turns.append(number)
            manager.release(grant.id, holder=me)

    begin = monotonic()
    players = [Thread(target=play, args=(number,)) for number in range(3)]
    for player in players:
        player.start()
    for player in players:
        player.join(PATIENT_SECONDS)
    assert sorted(turns) == sorted([0, 1, 2] * rounds)
    # With a look every second alone, a third of these would have been too late.
    assert monotonic() - begin < rounds


def followers_of_the_ledger_hear_of_the_next_event(scene: Scene) -> None:
    scene.take("ann", writes=["x"])
    head = scene.state()[0]
    begin = monotonic()
    assert scene.store.wait(head, 0.05) == head
    assert scene.store.wait(head - 1, PATIENT_SECONDS) == head
    assert monotonic() - begin < PATIENT_SECONDS / 2
    heard: list[int] = []
    follower = Thread(target=lambda: heard.append(scene.store.wait(head, PATIENT_SECONDS)))
    follower.start()
    scene.take("ann", writes=["y"])
    follower.join(PATIENT_SECONDS)
    assert heard == [head + 1]
    assert monotonic() - begin < PATIENT_SECONDS / 2
