"""Read and write locks: the promises of 004 that the kernel keeps."""

from __future__ import annotations

import inspect
import sys
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pytest

from conftest import STORES, opener, until
from holdfast import (
    ConflictInfo,
    GrantSnapshot,
    LockCycleError,
    LockGrant,
    LockManager,
    LockTimeoutError,
    OverLockError,
)
from holdfast.core.model import Holder, Witness
from holdfast.manager.clock import SystemClock
from holdfast.manager.owners.liveness import own_witness
from holdfast.testing.conformance import Scene, refused


def ask(manager: LockManager, who: Holder, mode: str, path: str) -> LockGrant | None:
    """To read or to write one path."""
    reads, writes = ([path], []) if mode == "r" else ([], [path])
    return manager.try_acquire(holder=who, read_paths=reads, write_paths=writes)


def test_seed004_01_many_may_read_files_and_folders(scene: Scene, manager: LockManager) -> None:
    for number in range(5):
        grant = manager.try_acquire(
            holder=scene.holder(f"reader-{number}"), read_paths=["app/models/", "app/x.rb"]
        )
        assert grant is not None
        assert grant.read_paths == ("app/models/", "app/x.rb")


def test_seed004_01_a_write_lock_is_exclusive_and_on_files_only(
    scene: Scene, manager: LockManager
) -> None:
    assert manager.try_acquire(holder=scene.holder("ann"), write_paths=["app/x.rb"])
    bob = scene.holder("bob")
    assert manager.try_acquire(holder=bob, write_paths=["app/x.rb"]) is None
    assert manager.try_acquire(holder=bob, read_paths=["app/x.rb"]) is None
    with pytest.raises(OverLockError):
        manager.try_acquire(holder=bob, write_paths=["lib/"])


@pytest.mark.parametrize(
    ("held", "requested", "granted"),
    [("r", "r", True), ("r", "w", False), ("w", "r", False), ("w", "w", False)],
)
def test_seed004_02_compatibility_matrix(
    scene: Scene, manager: LockManager, held: str, requested: str, granted: bool
) -> None:
    assert ask(manager, scene.holder("ann"), held, "x")
    outcome = ask(manager, scene.holder("bob"), requested, "x")
    assert (outcome is not None) is granted


@pytest.mark.parametrize(
    ("active", "requested", "overlap"),
    [
        ("a.rb", "a.rb", True),
        ("a.rb", "b.rb", False),
        ("d/", "d/file.rb", True),
        ("d/", "d/deep/er/file.rb", True),
        ("d/file.rb", "d/", True),
        ("d/", "d/e/", True),
        ("d/e/", "d/", True),
        ("d/", "e/", False),
        ("d/", "de/", False),
        ("d/e/", "d/f/", False),
    ],
)
def test_seed004_03_the_five_overlap_rules(
    scene: Scene, manager: LockManager, active: str, requested: str, overlap: bool
) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    files = [path for path in (active, requested) if not path.endswith("/")]
    if files:  # one of them can be written: they exclude each other exactly if they overlap
        mode, other = ("w", "r") if active in files else ("r", "w")
        assert ask(manager, ann, mode, active)
        assert (ask(manager, bob, other, requested) is None) is overlap
        return
    # Two folders are only ever read; whether they overlap shows in a file of the inner one.
    assert manager.try_acquire(holder=ann, read_paths=[active])
    assert manager.try_acquire(holder=bob, read_paths=[requested])
    inside = max(active, requested, key=len) + "file.rb"
    found = manager.check_conflicts(write_paths=[inside])
    assert ({conflict.holder for conflict in found} == {"ann", "bob"}) is overlap


def test_seed004_03_without_overlap_there_is_no_conflict_whatever_the_modes(
    scene: Scene, manager: LockManager
) -> None:
    assert manager.try_acquire(holder=scene.holder("ann"), write_paths=["a/x"], read_paths=["b/"])
    assert manager.try_acquire(holder=scene.holder("bob"), write_paths=["a/y"], read_paths=["c/"])


def test_seed004_04_a_write_lock_on_a_folder_is_an_over_lock_error(
    scene: Scene, manager: LockManager
) -> None:
    ann = scene.holder("ann")
    for call in (manager.try_acquire, manager.acquire, manager.ensure, manager.steal):
        with pytest.raises(OverLockError, match="app/models/"):
            call(holder=ann, write_paths=["app/x.rb", "app/models/"])
    assert manager.active_grants() == []


def test_seed004_17_a_request_is_granted_whole_or_refused_immediately(
    scene: Scene, manager: LockManager
) -> None:
    assert manager.try_acquire(holder=scene.holder("ann"), write_paths=["b"])
    begin = monotonic()
    bob = scene.holder("bob")
    assert manager.try_acquire(holder=bob, read_paths=["a"], write_paths=["b", "c"]) is None
    assert monotonic() - begin < 30  # not blocked
    assert manager.try_acquire(holder=scene.holder("cid"), write_paths=["a", "c"]) is not None


def test_seed004_17_a_waiting_request_stays_queued_and_holds_nothing_meanwhile(
    scene: Scene,
) -> None:
    scene.take("ann", writes=["b"])
    waiting = scene.queue_up("bob", ["a"], ["b", "c"])
    scene.take("cid", writes=["a", "c"])
    assert scene.waiting() == [waiting.id]


def test_seed004_19_a_grants_footprint_never_grows(scene: Scene, manager: LockManager) -> None:
    ann = scene.holder("ann")
    grant = manager.try_acquire(holder=ann, write_paths=["a"])
    assert grant is not None
    manager.renew(grant.id, holder=ann)
    manager.ensure(holder=ann, write_paths=["a", "b"])
    assert next(one for one in manager.active_grants() if one.id == grant.id).write_paths == ("a",)
    verdict = manager.verify(grant.id, path="b", token=grant.token)
    assert (verdict.allowed, verdict.code) == (False, "E_LOCK_VIOLATION")
    assert "b" in verdict.reason  # the gap is named, so that it can be recorded


def test_seed004_20_the_interface_of_the_manager() -> None:
    def names(method: str) -> list[str]:
        return list(inspect.signature(getattr(LockManager, method)).parameters)[1:]

    assert {"holder", "read_paths", "write_paths"} <= set(names("try_acquire"))
    assert {"holder", "read_paths", "write_paths", "timeout"} <= set(names("acquire"))
    assert names("release")[0] == "grant_id"
    assert set(names("check_conflicts")) == {"read_paths", "write_paths"}
    assert names("active_grants") == []
    timeout = inspect.signature(LockManager.acquire).parameters["timeout"].default
    assert timeout == 300


def test_seed004_20_the_results_of_the_methods(scene: Scene, manager: LockManager) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    grant = manager.try_acquire(holder=ann, write_paths=["x"])
    assert isinstance(grant, LockGrant)
    assert manager.try_acquire(holder=bob, write_paths=["x"]) is None
    with pytest.raises(LockTimeoutError):
        manager.acquire(holder=bob, write_paths=["x"], timeout=0.01)
    assert manager.try_acquire(holder=ann, read_paths=["y"])
    before = scene.history()
    (conflict,) = manager.check_conflicts(read_paths=["y"], write_paths=["x"])
    assert isinstance(conflict, ConflictInfo)
    assert (conflict.path, conflict.holder, conflict.grant_id) == ("x", "ann", grant.id)
    assert scene.history() == before, "looking takes nothing, and refuses nobody"
    held, _read = manager.active_grants()
    assert isinstance(held, GrantSnapshot)
    assert held.id == grant.id
    manager.release(grant.id)
    manager.release(grant.id)
    assert grant.id not in [one.id for one in manager.active_grants()]
    assert isinstance(manager.acquire(holder=bob, write_paths=["x"]), LockGrant)


def test_seed004_21_the_fields_of_a_grant(scene: Scene, manager: LockManager) -> None:
    grant = manager.try_acquire(
        holder=scene.holder("ann"), read_paths=["app/"], write_paths=["x"], reason="why"
    )
    assert grant is not None
    assert str(uuid.UUID(grant.id)) == grant.id
    assert grant.holder == "ann"
    assert (list(grant.read_paths), list(grant.write_paths)) == (["app/"], ["x"])
    assert grant.expires_at == grant.acquired_at + timedelta(minutes=30)
    assert grant.released is False
    assert isinstance(grant.token, int)
    assert grant.reason == "why"
    manager.release(grant.id)
    assert grant.released is True


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads that are interrupted almost everywhere, as on a machine with much to do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_seed004_22_the_manager_is_safe_for_threads(scene: Scene, manager: LockManager) -> None:
    counters = dict.fromkeys("abc", 0)
    rounds, threads = 20, 6
    trouble: list[Exception] = []

    def work(number: int) -> None:
        me = scene.holder(f"worker-{number}")
        for step in range(rounds):
            path = "abc"[(number + step) % 3]
            grant = manager.acquire(holder=me, write_paths=[path], timeout=20)
            seen = counters[path]
            manager.check_conflicts(write_paths=["a", "b", "c"])
            manager.active_grants()
            counters[path] = seen + 1
            manager.release(grant.id)

    def watched(number: int) -> None:
        try:
            work(number)
        except Exception as error:
            trouble.append(error)

    for number in range(threads):
        scene.holder(f"worker-{number}")
    crew = [Thread(target=watched, args=(number,)) for number in range(threads)]
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join(120)
    assert trouble == []
    assert sum(counters.values()) == rounds * threads
    assert manager.active_grants() == []


@pytest.mark.parametrize("store", STORES)
def test_seed004_22_while_one_thread_decides_no_other_does(tmp_path: Path, store: str) -> None:
    """The first is stopped in the middle, when it has seen that the owner is dead."""
    inside, go_on = Event(), Event()

    def is_dead(_witness: Witness, _marks: tuple[str, ...] = ()) -> bool:
        if not inside.is_set():
            inside.set()
            go_on.wait(20)
        return True

    ledger = opener(store, tmp_path)("ledger", clock=SystemClock(), is_dead=is_dead)
    got: dict[str, object] = {}

    def take(name: str) -> None:
        try:
            got[name] = manager.try_acquire(holder=Holder(id=name, key=name), write_paths=["x"])
        except Exception as error:
            got[name] = error

    with LockManager(ledger) as manager:
        assert manager.try_acquire(
            holder=Holder(id="zoe", key="zoe", witness=own_witness()), write_paths=["x"]
        )
        ann, bob = (Thread(target=take, args=(name,)) for name in ("ann", "bob"))
        ann.start()
        assert inside.wait(20)
        bob.start()
        bob.join(0.3)  # it waits until the first has decided
        go_on.set()
        ann.join(20)
        bob.join(20)
        assert isinstance(got["ann"], LockGrant)
        assert got["bob"] is None


def test_seed004_32_a_grant_that_leaked_ends_with_its_ttl(
    scene: Scene, manager: LockManager
) -> None:
    grant = manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"])
    assert grant is not None
    scene.clock.advance(30 * 60)
    with manager.reaper(interval=0.01):
        until(lambda: not scene.state()[2], "the reaper has been round", 10)
    reaped = scene.history()[-1]
    assert (reaped.type, reaped.data["why"]) == ("lock_reaped", "expired")
    assert grant.released


def test_seed004_32_it_is_free_without_a_reaper_too(scene: Scene, manager: LockManager) -> None:
    manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"])
    scene.clock.advance(30 * 60)
    assert manager.active_grants() == []
    assert manager.try_acquire(holder=scene.holder("bob"), write_paths=["x"]) is not None


def test_seed004_32_the_waiter_has_the_lock_when_the_ttl_is_over(repository: Path) -> None:
    """By the clock of the machine alone; the process that leaked it is alive."""
    with LockManager.open(repository) as manager:
        leaked = manager.acquire(holder="ann", write_paths=["app/x.rb"], ttl=0.2)
        after = manager.acquire(holder="bob", write_paths=["app/x.rb"], timeout=5)
        assert leaked.expires_at is not None
        assert after.acquired_at >= leaked.expires_at
        assert leaked.released


def test_seed004_33_there_is_no_deadlock(scene: Scene, manager: LockManager) -> None:
    """Also for holders that do hold and wait: the last one of the cycle is refused instead."""
    ann, bob = scene.holder("ann"), scene.holder("bob")
    assert manager.try_acquire(holder=ann, write_paths=["a"], ttl=None)
    assert manager.try_acquire(holder=bob, write_paths=["b"], ttl=None)
    scene.queue_up(ann, writes=["b"])
    with pytest.raises(LockCycleError):
        manager.acquire(holder=bob, write_paths=["a"], timeout=1)


def test_seed004_33_a_wide_request_does_not_starve(scene: Scene) -> None:
    grants = {"x": scene.take("n0", writes=["x"]), "y": scene.take("n1", writes=["y"])}
    wide = scene.queue_up("wide", writes=["x", "y"])
    for number in range(2, 61):  # nearly ten minutes in which one of the two is always taken
        path = "xy"[number % 2]
        scene.release(grants.pop(path))
        scene.clock.advance(10)
        grants[path] = scene.take(f"n{number}", writes=[path])
    scene.clock.advance(10)
    scene.release(grants.pop("x"))
    refused(scene.ask("late", writes=["x"]))
    scene.release(grants.pop("y"))
    assert scene.holds(wide)
