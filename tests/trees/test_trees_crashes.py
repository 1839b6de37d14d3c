"""Publishing and restoring, killed in the middle: atomic, and clean after a doctor.

Every step is one call to the system that names a file; the child is killed before it. All steps
and hundreds of random moments are in tests/fights.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest

from helpers_processes import LINUX_ONLY, Crowd, until
from helpers_trees import ANN, BOB, World, in_child, killed_at, picture, tree
from helpers_trees_crash import Fate, crash_restores, crash_snapshots, thieves
from holdfast.core.errors import StoreBusyError
from holdfast.trees import (
    NoTreeError,
    Repository,
    acquire,
    create,
    find,
    remove,
    status,
    steal,
)
from holdfast.trees.locking.operation_guard import Guard

pytestmark = LINUX_ONLY


def test_a_publish_that_is_killed_is_whole_or_not_there(tmp_path: Path) -> None:
    fates = crash_snapshots(World(tmp_path), every=19)
    assert {Fate.NOTHING, Fate.WHOLE} <= fates


def test_a_restore_in_place_that_is_killed_leaves_the_old_payload_or_the_new_one(
    tmp_path: Path,
) -> None:
    fates = crash_restores(World(tmp_path), every=19)
    assert fates == {Fate.NOTHING, Fate.WHOLE}


def test_a_new_worktree_that_is_killed_is_whole_or_not_there(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write("x")
    world.lock()
    id = world.take()
    expected = picture(world.payload)
    seen = set()
    for step in range(0, 400, 12):
        name = f"w{step}"
        dead = killed_at(step, partial(create, world.repository, name, snapshot_id=id))
        there = (world.root / "worktrees" / name).exists()
        if there:
            assert picture(world.root / "worktrees" / name) == expected
        world.codes(clean=True)
        assert world.codes() == []
        assert world.leftovers() == []
        seen.add(there)
        if not dead:
            break
    assert not dead
    assert seen == {True, False}


def test_a_removal_that_is_killed_is_done_or_not(tmp_path: Path) -> None:
    world = World(tmp_path)
    seen = set()
    for step in range(0, 400, 12):
        name = f"w{step}"
        worktree = create(world.repository, name).worktree
        acquire(worktree, ANN)
        dead = killed_at(step, partial(remove, worktree, ANN, force=True))
        there = (world.root / "worktrees" / name).exists()
        world.codes(clean=True)
        assert world.codes() == []
        assert world.leftovers() == []
        if there:
            assert find(world.repository, name).id == worktree.id
        seen.add(there)
        if not dead:
            break
    assert not dead
    assert seen == {True, False}


def test_an_init_that_is_killed_leaves_no_repository(tmp_path: Path) -> None:
    for step in range(0, 200, 10):
        place = tmp_path / f"r{step}"
        dead = killed_at(step, partial(Repository.init, str(place)))
        try:
            find(Repository.open(str(place) if place.exists() else str(tmp_path)), "main")
        except NoTreeError:
            assert dead
        if not dead:
            return
    pytest.fail("it never came to an end")


# Stopped holders

HOLDER = """
import sys
from holdfast.trees import *
from holdfast.core.errors import HoldfastError
class Stops(Progress):
    def begin(self, task, files=0, bytes=0):
        if task == "check":
            say("middle")
            os.kill(os.getpid(), signal.SIGSTOP)
main = find(Repository.open(sys.argv[1]), "main")
acquire(main, "here:sleeper:1:1", lease_seconds=0.3)
try:
    say("published", take(main, "here:sleeper:1:1", progress=Stops())["snapshot_id"])
except HoldfastError as error:
    say("refused", error.code)
    sys.exit(4)
"""


def test_a_stopped_holder_whose_lock_was_stolen_publishes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write("x", "one")
    with Crowd(tmp_path) as crowd:
        child = crowd.start(HOLDER, world.root)
        until(lambda: child.said.read_text().startswith("middle"), "the holder is in the middle")
        child.wait_until_stopped()
        until(lambda: status(world.main).state == "expired", "its lease has run out")
        steal(world.main, BOB)
        id = world.take("by bob", holder=BOB)
        child.resume()
        assert child.join() == 4
        assert child.lines()[-1].split()[1] in ("E_FENCING_MISMATCH", "E_LOCK_EXPIRED")
    assert world.snapshots() == [id]
    assert world.main.head() == id
    assert world.leftovers() == []
    assert world.codes() == []


INSIDE = """
import sys
from holdfast.trees import *
armed = []
def hook(event, arguments):
    if event == "os.rename" and armed and str(arguments[0]).endswith(".tmp") \\
            and "/snapshots/" in str(arguments[0]):
        armed.clear()
        say("inside")
        os.kill(os.getpid(), signal.SIGSTOP)
sys.addaudithook(hook)
main = find(Repository.open(sys.argv[1]), "main")
acquire(main, "here:sleeper:1:1", lease_seconds=0.5)
armed.append(True)
say("published", take(main, "here:sleeper:1:1")["snapshot_id"])
"""


def test_a_holder_stopped_inside_the_guard_delays_a_thief_until_it_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "holdfast.trees.locking.operation_guard.Guard.__init__.__defaults__", (0.2,)
    )
    world = World(tmp_path)
    world.write("x", "one")
    with Crowd(tmp_path) as crowd:
        child = crowd.start(INSIDE, world.root)
        until(lambda: "inside" in child.said.read_text(), "the holder is inside")
        child.wait_until_stopped()
        until(lambda: status(world.main).state == "expired", "its lease has run out")
        with pytest.raises(StoreBusyError) as caught:
            steal(world.main, BOB)
        assert caught.value.fields["pid"] == child.pid
        child.resume()
        child.done()
    stolen = steal(world.main, BOB)
    assert stolen.fencing_token > 0
    assert len(world.snapshots()) == 1
    assert world.main.head() == world.snapshots()[0]


def test_a_thief_gets_in_when_a_holder_inside_the_guard_is_killed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write("x", "one")
    with Crowd(tmp_path) as crowd:
        child = crowd.start(INSIDE, world.root)
        until(lambda: "inside" in child.said.read_text(), "the holder is inside")
        child.wait_until_stopped()
        until(lambda: status(world.main).state == "expired", "its lease has run out")
        child.kill()
    steal(world.main, BOB)
    assert world.snapshots() == []
    world.take(holder=BOB)
    assert world.leftovers() == []


def test_of_many_thieves_one_wins_and_tokens_grow(tmp_path: Path) -> None:
    thieves(tmp_path, rounds=4)


# Signals that end a command

SLOW = """
import os, sys
from holdfast.cli import main
first = []
def hook(event, arguments):
    if event == "os.utime" and not first:
        first.append(1)
        print("middle", flush=True)
        os.kill(os.getpid(), int(sys.argv[1]))
sys.addaudithook(hook)
sys.exit(main(["tree", "snapshot", "--holder", "ann"]))
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_ctrl_c_and_its_like_leave_nothing_half_done(
    tmp_path: Path, number: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    for count in range(20):
        world.write(f"f{count}")
    monkeypatch.chdir(world.payload)
    assert tree("lock", "acquire") == 0
    done = subprocess.run(
        [sys.executable, "-c", SLOW, str(int(number))], cwd=world.payload, timeout=60,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    assert world.snapshots() == []
    assert world.leftovers() == []


def test_ctrl_c_at_the_commit_waits_until_it_is_over(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write("x")
    world.lock()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.rename" and "/descriptors/" in str(arguments[0]):
            os.kill(os.getpid(), signal.SIGINT)

    def work() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            world.take()
        except KeyboardInterrupt:
            os._exit(130)

    assert in_child(work, hook=hook) == 130
    (id,) = world.snapshots()
    assert world.main.head() == id
    world.codes(clean=True)
    assert world.codes() == []


# Other processes at the same time


def test_a_doctor_that_keeps_cleaning_removes_no_work_in_progress(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.lock()
    over, found = Event(), []

    def clean() -> None:
        while not over.is_set():
            found.extend(world.codes(strict=False, clean=True))

    thread = Thread(target=clean)
    thread.start()
    try:
        for number in range(12):
            world.write(f"f{number}")
            id = world.take()
            made = world.restore(id, f"w{number}").worktree
            acquire(made, ANN)
            if number % 3 == 0:
                world.in_place(id)
            if number % 2 == 0:
                remove(made, ANN)
    finally:
        over.set()
        thread.join(60)
    assert set(found) <= {"E_ORPHAN_TMP"}  # a probe for the engine, which is not needed
    assert len(world.snapshots()) == 12
    assert world.codes() == []
    assert world.leftovers() == []


def test_a_process_that_waited_for_a_removed_guard_takes_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "one.guard"
    inside = []

    def enter() -> None:
        with Guard(str(path), "it", 30) as guard:
            assert guard._gate is not None
            inside.append((guard._gate.inode[1], path.stat().st_ino))

    def opened() -> int:
        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        return sum(os.path.lexists(one) and os.readlink(one) == str(path) for one in links)

    with Guard(str(path), "it"):
        thread = Thread(target=enter)
        thread.start()
        until(lambda: opened() == 2, "the other waits")
        path.unlink()
    thread.join(60)
    ((held, there),) = inside
    assert held == there
