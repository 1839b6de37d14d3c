"""Acquire and release: all or nothing, one grant for each request, and it never grows."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from threading import Thread
from time import monotonic

import pytest

from holdfast import LockConflictError, LockManager, LockNotHeldError
from holdfast.core.model import Grant, Waiting
from holdfast.testing.conformance import Scene, refused


def test_reads_and_writes_are_granted_together_or_not_at_all(
    scene: Scene, manager: LockManager
) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    manager.try_acquire(holder=ann, write_paths=["c"])
    assert manager.try_acquire(holder=bob, read_paths=["a", "c"], write_paths=["b"]) is None
    assert manager.try_acquire(holder=bob, read_paths=["a"], write_paths=["b", "c"]) is None
    assert [grant.holder for grant in manager.active_grants()] == ["ann"]
    assert manager.try_acquire(holder=scene.holder("cid"), write_paths=["a", "b"]) is not None


def test_a_refusal_lists_all_conflicts(scene: Scene, manager: LockManager) -> None:
    for name, path in (("ann", "a"), ("bob", "b"), ("cid", "c/d")):
        manager.try_acquire(holder=scene.holder(name), write_paths=[path])
    refusal = refused(manager.ask(scene.holder("dee"), ["c/"], ["a", "b", "free"]))
    assert {(one.path, one.holder) for one in refusal.conflicts} == {
        ("a", "ann"), ("b", "bob"), ("c/", "cid"),
    }  # fmt: skip


def test_each_acquire_makes_a_grant_of_its_own(scene: Scene, manager: LockManager) -> None:
    ann = scene.holder("ann")
    asked = [manager.try_acquire(holder=ann, write_paths=["x"]) for _ in range(3)]
    grants = [grant for grant in asked if grant is not None]
    assert len({grant.id for grant in grants}) == 3
    assert len({grant.token for grant in grants}) == 3
    assert len(manager.active_grants()) == 3


def test_a_holder_is_never_refused_by_its_own_grants(scene: Scene, manager: LockManager) -> None:
    ann = scene.holder("ann")
    assert manager.try_acquire(holder=ann, read_paths=["a/"], write_paths=["x"])
    assert manager.try_acquire(holder=ann, write_paths=["a/b", "x"])
    assert manager.acquire(holder=ann, read_paths=["."], timeout=0)
    assert manager.ensure(holder=ann, write_paths=["a/b", "y"])


def test_releasing_one_grant_does_not_free_a_path_that_another_still_covers(
    scene: Scene, manager: LockManager
) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    one = manager.try_acquire(holder=ann, write_paths=["x", "y"])
    two = manager.try_acquire(holder=ann, write_paths=["x"])
    three = manager.try_acquire(holder=ann, read_paths=["x"])
    assert one is not None
    assert two is not None
    assert three is not None
    manager.release(one.id)
    assert manager.try_acquire(holder=bob, write_paths=["y"]) is not None
    assert manager.try_acquire(holder=bob, read_paths=["x"]) is None
    manager.release(two.id)
    assert manager.try_acquire(holder=bob, write_paths=["x"]) is None
    assert manager.try_acquire(holder=bob, read_paths=["x"]) is not None
    manager.release(three.id)


def test_a_waiter_is_not_served_while_another_grant_still_covers_it(scene: Scene) -> None:
    one, two = scene.take("ann", writes=["x"]), scene.take("ann", writes=["x"])
    waiting = scene.queue_up("bob", writes=["x"])
    scene.release(one)
    assert scene.waiting() == [waiting.id]
    scene.release(two)
    assert scene.holds(waiting)


def test_ensure_reuses_a_grant_that_covers_the_request(scene: Scene, manager: LockManager) -> None:
    ann = scene.holder("ann")
    grant = manager.try_acquire(holder=ann, read_paths=["a/"], write_paths=["x", "y"])
    assert grant is not None
    for reads, writes in (
        ((), ("x",)), ((), ("y", "x")), (("x",), ()), (("a/b/c", "a/"), ("x",)), (("a/b/",), ()),
    ):  # fmt: skip
        assert manager.ensure(holder=ann, read_paths=reads, write_paths=writes).id == grant.id
    assert len(list(manager.events())) == 1


@pytest.mark.parametrize(
    ("reads", "writes"),
    [((), ("z",)), ((), ("x", "z")), ((), ("a/b",)), (("b",), ()), ((".",), ())],
)
def test_ensure_takes_a_new_grant_for_what_is_not_covered(
    scene: Scene, manager: LockManager, reads: tuple[str, ...], writes: tuple[str, ...]
) -> None:
    ann = scene.holder("ann")
    first = manager.try_acquire(holder=ann, read_paths=["a/"], write_paths=["x"])
    second = manager.ensure(holder=ann, read_paths=reads, write_paths=writes)
    assert first is not None
    assert second.id != first.id
    assert set(second.write_paths) == set(writes)


def test_ensure_does_not_reuse_what_has_ended_or_is_not_its_own(
    scene: Scene, manager: LockManager
) -> None:
    ann = scene.holder("ann")
    first = manager.ensure(holder=ann, write_paths=["x"], ttl=10)
    with pytest.raises(LockConflictError):
        manager.ensure(holder=scene.holder("bob"), write_paths=["x"])
    scene.clock.advance(10)
    second = manager.ensure(holder=ann, write_paths=["x"])
    assert second.id != first.id
    manager.release(second.id)
    assert manager.ensure(holder=ann, write_paths=["x"]).id not in (first.id, second.id)


def test_an_upgrade_while_others_read_is_refused_immediately_and_not_queued(
    scene: Scene, manager: LockManager
) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    manager.try_acquire(holder=ann, read_paths=["x"], ttl=None)
    manager.try_acquire(holder=bob, read_paths=["x"], ttl=None)
    begin = monotonic()
    with pytest.raises(LockConflictError, match="read"):
        manager.acquire(holder=ann, write_paths=["x"], timeout=300)
    with pytest.raises(LockConflictError):
        manager.ensure(holder=bob, write_paths=["x"])
    assert monotonic() - begin < 60
    assert manager.queue() == []
    assert not any(event.type == "ticket_added" for event in manager.events())
    assert list(manager.events())[-1].type == "lock_refused"


@pytest.mark.parametrize(
    ("mine", "theirs"), [("a/", "a/x"), ("a/x", "a/"), ("a/", "a/"), (".", "a/x")]
)
def test_an_upgrade_is_refused_through_folders_too(
    scene: Scene, manager: LockManager, mine: str, theirs: str
) -> None:
    manager.try_acquire(holder=scene.holder("ann"), read_paths=[mine], ttl=None)
    manager.try_acquire(holder=scene.holder("bob"), read_paths=[theirs], ttl=None)
    with pytest.raises(LockConflictError):
        manager.acquire(holder=scene.holder("ann"), write_paths=["a/x"], timeout=300)
    assert manager.queue() == []


def test_a_sole_reader_may_write(scene: Scene, manager: LockManager) -> None:
    ann = scene.holder("ann")
    manager.try_acquire(holder=ann, read_paths=["x"])
    assert manager.acquire(holder=ann, write_paths=["x"], timeout=0)


def test_a_reader_may_wait_to_write_something_else(scene: Scene) -> None:
    scene.take("ann", reads=["x"])
    scene.take("bob", reads=["x", "y"])
    assert isinstance(scene.put(scene.request("ann", [], ["y"]), wait=True), Waiting)


def test_a_waiter_that_begins_to_read_what_it_waits_to_write_is_refused(scene: Scene) -> None:
    scene.take("bob", reads=["x"], ttl=None)
    waiting = scene.queue_up("ann", writes=["x"])
    scene.take("ann", reads=["x"])
    refused(scene.put(waiting, wait=True))
    assert scene.waiting() == []


def test_a_grant_never_grows(scene: Scene, manager: LockManager) -> None:
    ann = scene.holder("ann")
    grant = manager.try_acquire(holder=ann, read_paths=["r"], write_paths=["x"])
    assert grant is not None
    manager.renew(grant.id, holder=ann)
    manager.ensure(holder=ann, write_paths=["x", "y"])
    manager.try_acquire(holder=ann, write_paths=["z"])
    now = next(one for one in manager.active_grants() if one.id == grant.id)
    assert (now.read_paths, now.write_paths, now.token) == (("r",), ("x",), grant.token)
    assert not manager.verify(grant.id, path="y", token=grant.token)


def test_no_method_takes_both_a_grant_and_paths() -> None:
    for name, method in inspect.getmembers(LockManager, inspect.isfunction):
        parameters = set(inspect.signature(method).parameters)
        assert not ({"grant_id", "grant"} & parameters and "write_paths" in parameters), name


def test_releasing_twice_is_no_error(scene: Scene, manager: LockManager) -> None:
    grant = manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"])
    assert grant is not None
    assert not grant.released
    assert manager.release(grant.id) is True
    assert grant.released
    assert manager.release(grant.id) is False
    assert manager.release(grant.id, holder=scene.holder("ann")) is False
    assert manager.release("never-was") is False
    assert sum(event.type == "lock_released" for event in manager.events()) == 1


def test_a_given_holder_must_be_the_holder_of_the_grant(scene: Scene, manager: LockManager) -> None:
    ann = scene.holder("ann")
    grant = manager.try_acquire(holder=ann, write_paths=["x"])
    assert grant is not None
    for stranger in (scene.holder("bob"), "ann"):  # that name in this process is another holder
        with pytest.raises(LockNotHeldError) as caught:
            manager.release(grant.id, holder=stranger)
        assert "ann" in str(caught.value)
    assert not grant.released
    assert manager.release(grant.id, holder=ann) is True


CHILD = """
import sys
from holdfast import LockManager
with LockManager.open(sys.argv[1]) as manager:
    grant = manager.try_acquire(holder="agent-1", write_paths=["app/x.rb"])
    print("granted" if grant else "refused", flush=True)
    sys.stdin.readline()
"""


def test_two_processes_of_one_name_exclude_each_other(repository: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(repository)]
    with LockManager.open(repository) as manager:
        grant = manager.try_acquire(holder="agent-1", write_paths=["app/x.rb"])
        assert grant is not None
        said = subprocess.run(command, input="\n", capture_output=True, text=True, timeout=60)
        assert said.stdout == "refused\n", said.stderr
        assert manager.try_acquire(holder="agent-1", write_paths=["app/x.rb"]) is not None
        for held in manager.active_grants():
            manager.release(held.id, holder="agent-1")
        said = subprocess.run(command, input="\n", capture_output=True, text=True, timeout=60)
        assert said.stdout == "granted\n", said.stderr


def test_threads_that_share_a_name_are_one_holder(manager: LockManager) -> None:
    got: list[object] = []
    take = lambda: got.append(manager.try_acquire(holder="one", write_paths=["x"]))  # noqa: E731
    threads = [Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(got) == 4
    assert all(got)


def test_active_grants_are_all_that_is_held_oldest_first(
    scene: Scene, manager: LockManager
) -> None:
    names = ["ann", "bob", "cid", "dee"]
    for name in names:
        scene.take(name, writes=[name], ttl=10 if name == "bob" else None)
        scene.clock.advance(1)
    scene.clock.advance(10)
    scene.kill("dee")
    assert [grant.holder for grant in manager.active_grants()] == ["ann", "cid"]
    assert all(isinstance(grant, Grant) for grant in scene.state()[2])
