"""gc that is killed: short in the fast suite, long in tests/fights."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

from helpers_trees import ANN, World, killed_at, picture, steps_of, telling
from helpers_trees_crash import killed_after, spotless
from holdfast.trees import (
    Settings,
    acquire,
    create,
    find,
    plan_gc,
    remove,
    run_gc,
    take,
)
from holdfast.trees.snapshots import tags

#: Only needed snapshots are kept.
STRICT = Settings(keep_ancestors=False, keep_last=0, keep_days=0)


class Orchard:
    """A repository with two heads, a tag, and snapshots that nothing needs."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self._count = 0
        world = self.world
        world.write("app/deep/y", "two\n" * 100)
        world.lock(lease=3600)
        self.tagged = self.grow(1)[0]
        tags.add(world.repository, "kept", self.tagged)
        self.other = self.grow(1)[0]
        create(world.repository, "other", snapshot_id=self.other)
        self.grow(3)

    def grow(self, count: int) -> list[str]:
        """Take more snapshots of main, each with a file of its own."""
        ids = []
        for _ in range(count):
            self._count += 1
            self.world.write("app/x", f"{self._count}\n")
            self.world.write("more/z", f"{self._count}\n")
            ids.append(self.world.take(f"number {self._count}"))
        return ids

    def needed(self) -> set[str]:
        """The snapshots that no gc may remove."""
        return {self.tagged, self.other, self.world.main.head()}

    def check(self, before: set[str]) -> None:
        """All needed snapshots exist, and all existing ones are whole."""
        world = self.world
        there = set(world.snapshots())
        assert self.needed() <= there <= before
        world.check_all()

    def finish(self) -> None:
        """The next gc does the rest: only needed snapshots remain, and no leftovers."""
        world = self.world
        run_gc(world.repository, plan_gc(world.repository, STRICT).id)
        assert set(world.snapshots()) == self.needed()
        world.check_all()
        left = world.leftovers()
        assert left in ([], [str(world.control / "audit/head.json.tmp")]), left
        spotless(world)


def crash_gc(folder: Path, *, every: int) -> set[int]:
    """Kill a gc at every n-th step, at all renames, and once not at all; how many were left."""
    orchard = Orchard(folder)
    world = orchard.world
    loose(world)

    def collect() -> None:
        run_gc(world.repository, plan_gc(world.repository, STRICT).id)

    collect()
    orchard.grow(3)
    steps = telling(steps_of(collect, folder / "steps"), every)
    counts = set()
    for step in steps:
        orchard.grow(3)
        before = set(world.snapshots())
        dead = killed_at(step, collect)
        orchard.check(before)
        counts.add(len(world.snapshots()))
        orchard.finish()
    assert not dead
    assert picture(world.restore(orchard.tagged).worktree.path)
    return counts


def crash_gc_at_random(folder: Path, *, times: int, seed: int) -> None:
    """Kill a gc at random moments, by the clock, while worktrees come and go."""
    chance = random.Random(seed)
    orchard = Orchard(folder)
    world = orchard.world
    loose(world)
    for number in range(times):
        orchard.grow(chance.randrange(2, 5))
        before = set(world.snapshots())
        plan = plan_gc(world.repository, STRICT)
        killed_after(chance.uniform(0.0, 0.02), partial(run_gc, world.repository, plan.id))
        orchard.check(before)
        if number % 10 == 0:
            made = create(world.repository, f"w{number}", snapshot_id=world.main.head()).worktree
            acquire(made, ANN)
            take(made, ANN)
            remove(find(world.repository, made.name), ANN)
        orchard.finish()
    assert world.codes() == []


def loose(world: World) -> None:
    """Make the repository keep only needed snapshots."""
    from holdfast.trees.snapshots import retention

    retention.change_settings(world.repository, **STRICT.to_dict())
