"""A dead owner never blocks; an owner that cannot be checked counts as alive."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast import Holder, LockManager
from holdfast.core.draft import Draft
from holdfast.core.model import Decision, Grant, Witness
from holdfast.manager.owners.liveness import own_witness, witness_of
from holdfast.testing.conformance import Scene, refused

if TYPE_CHECKING:
    from holdfast.core.view import View

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux's /proc to prove that a process is gone"
)


def test_a_dead_owner_is_reaped_in_the_step_that_grants_the_next(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=None)
    scene.kill("ann")
    head = scene.state()[0]
    new = scene.take("bob", writes=["x"])
    reaped, acquired = scene.history(head)
    assert (reaped.type, reaped.data["grant"]) == ("lock_reaped", grant.id)
    assert (reaped.data["why"], reaped.data["holder"]) == ("owner dead", "ann")
    assert (acquired.type, acquired.data["id"]) == ("lock_acquired", new.id)


def test_a_dead_owner_is_met_by_every_kind_of_request(scene: Scene) -> None:
    for number, ask in enumerate((scene.ask, scene.ask, None)):
        path = f"x{number}"
        scene.take("ann", writes=[path], ttl=None)
        scene.kill("ann")
        if ask is not None:
            assert scene.take("bob", writes=[path])
        else:
            grant = scene.ensure(scene.request("bob", [], [path]))
            assert isinstance(grant, Grant)
            assert grant.holder.id == "bob"


def test_liveness_is_asked_inside_the_decision_each_time(scene: Scene) -> None:
    asked: list[Witness] = []
    real = scene.processes.is_dead

    def is_dead(witness: Witness, marks: tuple[str, ...]) -> bool | None:
        asked.append(witness)
        return real(witness, marks)

    scene.processes.is_dead = is_dead  # type: ignore[method-assign]
    scene.reopen()
    ann = scene.take("ann", writes=["x"], ttl=None)
    for _ in range(3):
        asked.clear()
        refused(scene.ask("bob", writes=["x"]))
        assert ann.holder.witness in asked


def test_one_decision_asks_once_for_an_owner_that_cannot_be_judged(scene: Scene) -> None:
    ann = scene.take("ann", writes=["x"], ttl=None).holder.witness
    scene.processes.hide(ann)
    asked: list[Witness] = []

    def decide(view: View) -> Decision[list[bool | None]]:
        draft, dead = Draft(view), view.dead

        def counted(witness: Witness, marks: tuple[str, ...]) -> bool | None:
            asked.append(witness)
            return dead(witness, marks)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(view, "dead", counted)
            return Decision([draft.is_dead(ann), draft.is_dead(ann), draft.is_dead(None)])

    deadline = time.monotonic() + 10
    assert scene.store.transact(decide, deadline=deadline) == [None, None, False]
    assert asked == [ann]


def test_the_locks_of_a_live_owner_are_not_touched(scene: Scene) -> None:
    kept = scene.take("ann", writes=["x"], ttl=None)
    scene.take("bob", writes=["y"], ttl=None)
    scene.kill("bob")
    scene.take("cid", writes=["y"])
    assert scene.holds(kept)


def test_a_new_process_of_the_same_name_is_another_holder(scene: Scene) -> None:
    old = scene.take("ann", writes=["x"], ttl=None)
    first = scene.holder("ann")
    scene.kill("ann")
    new = scene.take("ann", writes=["x"], ttl=None)
    assert scene.holder("ann") != first
    assert scene.verify(old, "x").code == "E_LOCK_NOT_HELD"
    assert scene.verify(new, "x")


def test_descendants_that_carry_its_mark_keep_a_dead_owner_alive(scene: Scene) -> None:
    scene.take(scene.holder("ann", marks=("RUN=7",)), writes=["x"], ttl=None)
    scene.processes.leave_behind("RUN=7")
    scene.kill("ann")
    refused(scene.ask("bob", writes=["x"]))
    scene.processes.clear_away("RUN=7")
    scene.take("bob", writes=["x"])


def test_a_holder_without_a_process_lives_by_its_ttl(scene: Scene) -> None:
    scene.take(Holder(id="visitor"), writes=["x"], ttl=10)
    refused(scene.ask("bob", writes=["x"]))
    scene.clock.advance(10)
    scene.take("bob", writes=["x"])


# With real processes


@contextmanager
def sleeper(mark: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing until it is killed."""
    environment = dict([mark.split("=")]) if mark else {}
    with subprocess.Popen(["sleep", "600"], env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def owner(process: subprocess.Popen[bytes], *marks: str) -> Holder:
    witness = witness_of(process.pid)
    assert witness is not None
    return Holder(id="agent", witness=witness, marks=marks)


@linux_only
def test_the_lock_of_a_killed_process_is_free_immediately(repository: Path) -> None:
    with LockManager.open(repository) as manager, sleeper() as process:
        agent = owner(process)
        assert manager.try_acquire(holder=agent, write_paths=["app/x.rb"], ttl=None)
        assert manager.try_acquire(holder="bob", write_paths=["app/x.rb"]) is None
        process.kill()
        process.wait(60)
        assert manager.try_acquire(holder="bob", write_paths=["app/x.rb"]) is not None


@linux_only
def test_a_zombie_is_dead(repository: Path) -> None:
    with LockManager.open(repository) as manager, sleeper() as process:
        assert manager.try_acquire(holder=owner(process), write_paths=["app/x.rb"], ttl=None)
        process.kill()  # and no process has waited for it yet
        from conftest import until

        until(
            lambda: manager.try_acquire(holder="bob", write_paths=["app/x.rb"]) is not None,
            "the kernel has ended the process",
        )


@linux_only
def test_an_orphan_that_carries_the_mark_keeps_the_lock(repository: Path) -> None:
    mark = "HOLDFAST_TEST_RUN=orphan-7"
    with LockManager.open(repository) as manager, sleeper(mark) as orphan:
        with sleeper() as process:
            agent = owner(process, mark)
            assert manager.try_acquire(holder=agent, write_paths=["app/x.rb"], ttl=None)
            process.kill()
            process.wait(60)
        assert manager.try_acquire(holder="bob", write_paths=["app/x.rb"]) is None
        orphan.kill()
        orphan.wait(60)
        assert manager.try_acquire(holder="bob", write_paths=["app/x.rb"]) is not None


@linux_only
@pytest.mark.parametrize(
    ("changed", "dead"),
    [
        ({"host": "another machine"}, False),
        ({"namespace": "another container"}, False),
        ({"boot": ""}, False),
        ({"boot": "before the last reboot"}, True),
        ({"start": 1}, True),
        ({"pid": 2**22 + 1}, True),
        ({}, False),
    ],
)
def test_only_a_proven_death_counts(
    repository: Path, changed: dict[str, object], dead: bool
) -> None:
    mine = own_witness()
    parts = {name: getattr(mine, name) for name in ("host", "boot", "namespace", "pid", "start")}
    agent = Holder(id="agent", witness=Witness(**{**parts, **changed}))
    with LockManager.open(repository) as manager:
        assert manager.try_acquire(holder=agent, write_paths=["app/x.rb"], ttl=None)
        taken = manager.try_acquire(holder=Holder(id="bob"), write_paths=["app/x.rb"])
        assert (taken is not None) is dead


def test_an_owner_that_cannot_be_checked_falls_back_to_expiry(scene: Scene) -> None:
    stranger = Witness(host="elsewhere", boot="b", namespace="n", pid=1, start=1)
    scene.take(Holder(id="far", witness=stranger), writes=["x"], ttl=10)
    refused(scene.ask("bob", writes=["x"]))
    scene.clock.advance(10)
    scene.take("bob", writes=["x"])
