"""Many crashes for trees: short in the fast suite, long in tests/fights."""

from __future__ import annotations

import enum
import random
import signal
from pathlib import Path

from helpers_processes import Crowd, until
from helpers_trees import ANN, World, in_child, killed_at, picture, steps_of, telling
from holdfast.trees import audit_log, status, steal


class Fate(enum.Enum):
    """The outcome of a killed operation."""

    NOTHING = "nothing"
    WHOLE = "whole"


def furnish(world: World) -> None:
    """A small payload with one entry of each kind."""
    world.write("app/x", "one\n")
    world.write("app/deep/y", "two\n" * 100)
    world.write("large", b"three" * 300_000)
    (world.payload / "link").symlink_to("app/x")
    (world.payload / "empty").mkdir()


def spotless(world: World) -> None:
    """Only whole snapshots are visible; a doctor cleans all, and a second one changes nothing."""
    world.check_all(again=False)
    world.codes(strict=False, clean=True)
    assert world.codes(strict=False, clean=True) == []
    assert [*audit_log.faults(world.repository)] == []
    assert world.leftovers() == []
    head = world.main.head()
    assert not head or head in world.snapshots()


def crash_snapshots(world: World, *, every: int) -> set[Fate]:
    """Kill a publish at every n-th step, at all renames, and once not at all."""
    furnish(world)
    world.lock(lease=3600)
    world.take()
    fates = set()
    steps = telling(steps_of(world.take, world.root.parent / "steps"), every)
    for step in steps:
        world.write("app/x", f"{step}\n")
        before, expected = set(world.snapshots()), picture(world.payload)
        dead = killed_at(step, world.take)
        fates.add(_published(world, before, expected))
        spotless(world)
        world.take("it still works")
    assert not dead
    assert world.codes() == []
    return fates


def _published(world: World, before: set[str], expected: object) -> Fate:
    new = set(world.snapshots()) - before
    assert len(new) <= 1
    assert picture(world.payload) == expected
    if not new:
        return Fate.NOTHING
    (id,) = new
    name = f"look-{id[:8]}"
    assert picture(world.restore(id, name).worktree.path) == expected
    return Fate.WHOLE


def crash_restores(world: World, *, every: int) -> set[Fate]:
    """Kill a restore in place at every n-th step, at all renames, and once not at all."""
    furnish(world)
    world.lock(lease=3600)
    old = world.take("old")
    picture_old = picture(world.payload)
    world.write("app/x", "new\n")
    world.write("more/z", "z")
    new = world.take("new")
    picture_new = picture(world.payload)
    fates = set()
    steps = steps_of(lambda: world.in_place(old), world.root.parent / "steps")
    world.in_place(new)
    for step in telling(steps, every):
        dead = killed_at(step, lambda: world.in_place(old))
        now = picture(world.payload)
        assert now in (picture_old, picture_new)
        done = now == picture_old
        assert world.main.head() == (old if done else new)
        fates.add(Fate.WHOLE if done else Fate.NOTHING)
        spotless(world)
        assert picture(world.payload) == now
        if done:
            world.in_place(new)
            assert picture(world.payload) == picture_new
    assert not dead
    world.take("it still works")
    assert world.codes() == []
    return fates


def crash_at_random(world: World, *, times: int, seed: int) -> None:
    """Kill publishes and restores at random moments, by the clock."""
    chance = random.Random(seed)
    furnish(world)
    world.lock(lease=3600)
    ids = [world.take("first")]
    kept = picture(world.payload)
    for number in range(times):
        world.write("app/x", f"{number}\n")
        old = picture(world.payload)
        before = set(world.snapshots())
        restores = chance.random() < 0.5
        work = (lambda: world.in_place(ids[0])) if restores else world.take
        killed_after(chance.uniform(0.0, 0.05), work)
        if restores:
            assert picture(world.payload) in (old, kept)
        else:
            assert _published(world, before, old) in Fate
        spotless(world)
    assert world.codes() == []


def killed_after(seconds: float, work: object) -> None:
    def timed() -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.0001))
        work()  # type: ignore[operator]

    # The timer's signal has no handler, so the kernel ends the process as abruptly as kill -9.
    code = in_child(timed, hook=lambda event, arguments: None)
    assert code in (0, -signal.SIGALRM), code


THIEF = """
import sys
from holdfast.trees import *
from holdfast.core.errors import HoldfastError
main = find(Repository.open(sys.argv[1]), "main")
me = f"here:thief:{os.getpid()}:1"
while True:
    go()
    try:
        record = steal(main, me, lease_seconds=0.15)
    except HoldfastError as error:
        say("lost", error.code)
        continue
    try:
        say("won", record.fencing_token, take(main, me, token=record.fencing_token)["snapshot_id"])
    except HoldfastError as error:
        say("won", record.fencing_token, error.code)
"""


def thieves(folder: Path, *, rounds: int, crowd_size: int = 6) -> None:
    """In every round a lease expires and all try to steal: one wins, and tokens grow."""
    world = World(folder)
    world.write("x", "one")
    world.lock(lease=0.15)
    record = status(world.main).record
    assert record is not None
    tokens = [record.fencing_token]
    published = []
    with Crowd(folder) as crowd:
        children = [crowd.start(THIEF, world.root) for _ in range(crowd_size)]
        for number in range(1, rounds + 1):
            until(lambda: status(world.main).state == "expired", "the lease has run out")
            for child in children:
                child.tell()
            until(
                lambda: all(len(child.lines()) == number for child in children),  # noqa: B023
                "everybody has tried",
            )
            answers = [child.lines()[-1].split() for child in children]
            winners = [answer for answer in answers if answer[0] == "won"]
            # A lease may expire while the slower ones are still trying: then it is stolen again.
            assert winners
            tokens += sorted(int(winner[1]) for winner in winners)
            published += [one[2] for one in winners if not one[2].startswith("E_")]
            for answer in answers:
                assert answer[0] == "won" or answer[1] in ("E_LOCK_CONFLICT", "E_LOCK_NOT_HELD")
    assert tokens == sorted(set(tokens))
    # Each expired lease was stolen by exactly one: the steals form one chain of tokens.
    thefts = [one for one in audit_log.records(world.repository) if one["event"] == "lock_stolen"]
    assert [one["stolen_from"]["fencing_token"] for one in thefts] == tokens[:-1]
    assert [one["fencing_token"] for one in thefts] == tokens[1:]
    assert set(world.snapshots()) == set(published)
    world.check_all()
    assert world.leftovers() == []
    until(lambda: status(world.main).state == "expired", "the lease has run out")
    steal(world.main, ANN)
    assert world.codes() == []
