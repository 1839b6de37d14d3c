"""Checks for a store that outlives its process and is shared by several."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Event, Thread
from time import monotonic
from typing import Any

from holdfast.core.model import Decision, Grant
from holdfast.testing.conformance.child_processes import child
from holdfast.testing.conformance.scene import PATIENT_SECONDS, Scene, refused
from holdfast.testing.conformance.trouble_checks import (
    SHORT_SECONDS,
    SLACK_SECONDS,
    code_of,
)


def reopening_keeps_everything(scene: Scene) -> None:
    kept = scene.take("ann", ["lib/"], ["x"], ttl=100)
    scene.renew(kept, ttl=1000)
    scene.renew(kept, rest=500)
    scene.queue_up("bob", writes=["x"], patience=10, priority=3)
    scene.clock.advance(10)
    refused(scene.ask("cid", reads=["x"]))
    refused(scene.ask("cid", reads=["x"]))
    forced = scene.take("dee", writes=["y"])
    scene.force(forced, scene.holder("operator"))
    before, history, now = scene.state(), scene.history(), scene.now()
    scene.reopen()
    assert scene.state() == before
    assert scene.history() == history
    assert [e.repeats for e in scene.history()] == [e.repeats for e in history]
    assert scene.now() == now
    assert scene.verify(forced).code == "E_FENCING_MISMATCH"
    refused(scene.ask("cid", reads=["x"]))
    assert scene.state() == before
    scene.clock.step_wall(-3600)
    scene.reopen()
    assert scene.now() == now
    assert scene.take("eve", writes=["z"]).token > before[1]


def two_who_opened_it_share_one_ledger(scene: Scene) -> None:
    other = scene.open()
    try:
        held = scene.take("ann", writes=["x"])
        first, scene.store = scene.store, other
        refused(scene.ask("bob", writes=["x"]))
        request = scene.queue_up("bob", writes=["x"])
        scene.store = first
        scene.release(held)
        scene.store = other
        assert scene.holds(request)
        scene.store = first
        assert scene.holds(request)
    finally:
        other.close()


def a_waiter_elsewhere_is_woken(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    bob = scene.holder("bob")

    def work(say: Callable[[Any], None]) -> None:
        waiter = scene.store.waiter()
        request = scene.queue_up(bob, writes=["x"], wake=waiter.address)
        say(request.id)
        begin = monotonic()
        # The wake-up arrives a moment before the grant can be read: decide again.
        while not isinstance(scene.put(request, wait=True), Grant):
            if monotonic() - begin >= PATIENT_SECONDS:
                break
            waiter.wait(PATIENT_SECONDS)
        say(monotonic() - begin)

    with child(work) as forked:
        id = forked.answer()
        assert scene.waiting() == [id]
        scene.release(held)
        assert forked.answer() < PATIENT_SECONDS / 2
        assert [grant.id for grant in scene.state()[2]] == [id]


def a_child_and_its_parent_exclude_each_other(scene: Scene) -> None:
    bob = scene.holder("bob")

    def work(say: Callable[[Any], None]) -> None:
        grant = scene.take(bob, writes=["x"])
        say([grant.id, grant.token])
        os.read(gate, 1)

    gate, opened = os.pipe()
    try:
        with child(work) as forked:
            id, token = forked.answer()
            refusal = refused(scene.ask("ann", writes=["x"]))
            assert [conflict.grant_id for conflict in refusal.conflicts] == [id]
            assert scene.state()[1] == token
            os.write(opened, b"!")
    finally:
        os.close(gate)
        os.close(opened)


def a_child_outlives_what_its_parent_was_inside_of(scene: Scene) -> None:
    """A child that is forked while another thread of its parent is inside can continue once that
    thread has left."""
    grant = scene.take("ann", writes=["x"])
    entered, leave = Event(), Event()

    def occupy() -> None:
        with scene.store.fenced(grant.id, grant.token, deadline=monotonic() + PATIENT_SECONDS):
            entered.set()
            leave.wait(PATIENT_SECONDS)

    def work(say: Callable[[Any], None]) -> None:
        os.read(gate, 1)
        head = scene.store.transact(
            lambda view: Decision(view.head), deadline=monotonic() + SLACK_SECONDS
        )
        say(head)

    gate, opened = os.pipe()
    inside = Thread(target=occupy)
    inside.start()
    try:
        assert entered.wait(PATIENT_SECONDS)
        with child(work) as forked:
            leave.set()
            inside.join(PATIENT_SECONDS)
            os.write(opened, b"!")
            assert forked.answer() == 1
    finally:
        leave.set()
        os.close(gate)
        os.close(opened)


def a_process_that_was_stopped_inside_keeps_nobody_past_the_deadline(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=10)

    def work(say: Callable[[Any], None]) -> None:
        with scene.store.fenced(grant.id, grant.token, deadline=monotonic() + PATIENT_SECONDS):
            say("inside")
            os.read(os.pipe()[0], 1)

    with child(work) as forked:
        assert forked.answer() == "inside"
        forked.stop()
        scene.clock.advance(10)
        for call in (
            lambda: scene.store.transact(
                lambda view: Decision(view.head), deadline=monotonic() + SHORT_SECONDS
            ),
            lambda: _fence_soon(scene, grant),
        ):
            begin = monotonic()
            assert code_of(call) == "E_STORE_BUSY"
            assert monotonic() - begin < SHORT_SECONDS + SLACK_SECONDS
        forked.kill()
        scene.take("bob", writes=["x"])


def _fence_soon(scene: Scene, grant: Grant) -> None:
    with scene.store.fenced(grant.id, grant.token, deadline=monotonic() + SHORT_SECONDS):
        pass


def a_process_that_was_killed_leaves_a_ledger_that_others_trust(scene: Scene) -> None:
    bob = scene.holder("bob")

    def work(say: Callable[[Any], None]) -> None:
        say(0)
        while True:
            grant = scene.take(bob, writes=["x"])
            scene.release(grant)

    for _ in range(5):
        with child(work) as forked:
            forked.answer()
            before = scene.state()[0]
            end = monotonic() + PATIENT_SECONDS
            while scene.state()[0] < before + 10 and monotonic() < end:
                scene.store.wait(scene.state()[0], 0.05)
        history = scene.history()
        assert [event.seq for event in history] == list(range(1, len(history) + 1))
        for grant in scene.state()[2]:
            scene.release(grant)
        scene.release(scene.take("ann", writes=["x"]))
