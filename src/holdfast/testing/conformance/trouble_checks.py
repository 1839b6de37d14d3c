"""Checks of fences, deadlines, threads and a forked child."""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from holdfast.core import rules
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.model import Decision, Grant, Holder
from holdfast.testing.conformance.child_processes import child
from holdfast.testing.conformance.scene import PATIENT_SECONDS, Scene

#: A deadline that a check waits for, and the delay that a busy machine may add.
SHORT_SECONDS = 0.1
SLACK_SECONDS = 5.0


def code_of(call: Callable[[], object]) -> str:
    """The code of the error that a call raises, or nothing."""
    raised: HoldfastError | None = None
    try:
        call()
    except HoldfastError as error:
        raised = error
    if raised is None:
        return ""
    assert raised.hint, f"{raised.code} does not say what to do next"
    return raised.code


def _enter(scene: Scene, id: str, token: int) -> None:
    with scene.store.fenced(id, token, deadline=monotonic() + PATIENT_SECONDS):
        pass


def a_fence_lets_in_only_a_live_grant_with_its_token(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=10)
    _enter(scene, grant.id, grant.token)
    assert code_of(lambda: _enter(scene, grant.id, grant.token - 1)) == "E_FENCING_MISMATCH"
    assert code_of(lambda: _enter(scene, "nobody-made-this", 1)) == "E_LOCK_NOT_HELD"
    scene.clock.advance(10)
    assert code_of(lambda: _enter(scene, grant.id, grant.token)) == "E_LOCK_EXPIRED"
    stolen = scene.steal(scene.request("bob", [], ["x"]))
    assert isinstance(stolen, Grant)
    assert code_of(lambda: _enter(scene, grant.id, grant.token)) == "E_FENCING_MISMATCH"
    _enter(scene, stolen.id, stolen.token)
    scene.release(stolen)
    assert code_of(lambda: _enter(scene, stolen.id, stolen.token)) == "E_LOCK_NOT_HELD"


def nothing_changes_hands_inside_a_fence(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=10)
    before = scene.state()
    answers: list[tuple[str, float]] = []
    request = scene.request("bob", [], ["x"])

    def intrude() -> None:
        begin = monotonic()
        code = code_of(
            lambda: scene.store.transact(
                lambda view: rules.acquire(view, request, wait=False),
                deadline=monotonic() + SHORT_SECONDS,
            )
        )
        answers.append((code, monotonic() - begin))

    with scene.store.fenced(grant.id, grant.token, deadline=monotonic() + PATIENT_SECONDS):
        scene.clock.advance(10)  # inside, not even expiry ends it
        intruder = Thread(target=intrude)
        intruder.start()
        intruder.join(PATIENT_SECONDS)
        ((code, waited),) = answers
        assert code == "E_STORE_BUSY"
        assert SHORT_SECONDS * 0.9 <= waited < SHORT_SECONDS + SLACK_SECONDS
    assert scene.state() == before
    assert isinstance(scene.put(request), Grant)


def a_fence_opens_when_its_section_fails(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"])
    try:
        with scene.store.fenced(grant.id, grant.token, deadline=monotonic() + PATIENT_SECONDS):
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert scene.release(grant) is True


def the_ledger_is_not_used_from_within_a_fence(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"])
    begin = monotonic()
    with scene.store.fenced(grant.id, grant.token, deadline=monotonic() + PATIENT_SECONDS):
        code = code_of(
            lambda: scene.store.transact(
                lambda view: Decision(view.head), deadline=monotonic() + SHORT_SECONDS
            )
        )
        assert code == "E_STORE_BUSY"
    assert monotonic() - begin < SHORT_SECONDS + SLACK_SECONDS
    scene.take("ann", writes=["y"])


def every_call_has_a_deadline(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"])
    entered, leave = Event(), Event()

    def occupy() -> None:
        with scene.store.fenced(grant.id, grant.token, deadline=monotonic() + PATIENT_SECONDS):
            entered.set()
            leave.wait(PATIENT_SECONDS)

    def soon() -> float:
        return monotonic() + SHORT_SECONDS

    def fence() -> None:
        with scene.store.fenced(grant.id, grant.token, deadline=soon()):
            pass

    inside = Thread(target=occupy)
    inside.start()
    try:
        assert entered.wait(PATIENT_SECONDS)
        begin = monotonic()
        decide: Callable[[Any], Decision[int]] = lambda view: Decision(view.head)  # noqa: E731
        assert code_of(lambda: scene.store.transact(decide, deadline=soon())) == "E_STORE_BUSY"
        assert code_of(fence) == "E_STORE_BUSY"
        assert code_of(lambda: scene.store.transact(decide, deadline=0.0)) == "E_STORE_BUSY"
        assert monotonic() - begin < 2 * SHORT_SECONDS + SLACK_SECONDS
    finally:
        leave.set()
        inside.join(PATIENT_SECONDS)
    assert scene.release(grant) is True


def many_threads_never_hold_the_same_thing(scene: Scene) -> None:
    manager, threads, rounds = scene.manager, 6, 25
    files = ["a/x", "a/y", "b/z", "port:1"]
    inside: dict[str, list[str]] = {file: [] for file in files}
    tokens: list[int] = []
    trouble: list[str] = []
    guard = Lock()

    def note(file: str, mode: str) -> None:
        others = inside[file]
        if others and (mode == "w" or "w" in others):
            trouble.append(f"{mode} of {file} beside {others}")
        others.append(mode)

    def work(number: int) -> None:
        dice = random.Random(number)
        me = Holder(id=f"worker-{number}")
        for _ in range(rounds):
            writes = dice.sample(files, dice.choice((1, 1, 2)))
            reads = ["a/"] if dice.random() < 0.3 and not set(writes) & set(files[:2]) else []
            grant = manager.acquire(
                holder=me, read_paths=reads, write_paths=writes, timeout=PATIENT_SECONDS
            )
            touched = [(file, "w") for file in writes]
            touched += [(file, "r") for file in files[:2] if reads]
            with guard:
                tokens.append(grant.token)
                for file, mode in touched:
                    note(file, mode)
            with manager.fenced(grant):
                pass
            with guard:
                for file, mode in touched:
                    inside[file].remove(mode)
            manager.release(grant.id, holder=me)

    crew = [Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join(2 * PATIENT_SECONDS)
    assert trouble == []
    assert len(set(tokens)) == threads * rounds
    _head, last_token, left, waiting = scene.state()
    assert (left, waiting, last_token) == ([], [], max(tokens))


def a_closed_store_is_not_used(scene: Scene) -> None:
    scene.take("ann", writes=["x"])
    scene.store.close()
    scene.store.close()  # closing twice is not an error
    assert code_of(lambda: scene.take("ann", writes=["y"])) == StoreError.code


def a_forked_child_can_use_the_store(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])

    def work(say: Callable[[Any], None]) -> None:
        say(isinstance(scene.ask("bob", writes=["x"]), Grant))
        say(scene.take("bob", writes=["y"]).token)

    with child(work) as forked:
        assert forked.answer() is False
        assert forked.answer() > held.token
    scene.take("cid", writes=["z"])
    assert scene.release(held) is True
