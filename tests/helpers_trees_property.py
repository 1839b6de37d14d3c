"""Random trees, snapshotted, changed, snapshotted again and restored."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from helpers_trees import ANN, World, grow, picture
from holdfast.trees import create, tree_files, verify


def round_trips(folder: Path, *, trees: int, seed: int) -> None:
    """restore(snapshot(t)) equals t, for trees that grow, change and shrink."""
    chance = random.Random(seed)
    world = World(folder)
    world.lock(lease=86400)
    for number in range(trees):
        where = f"tree {number} of seed {seed}"
        if chance.random() < 0.5:
            _clear(world.payload)
        else:
            _shrink(world.payload, chance)
        grow(world.payload, chance)
        expected = picture(world.payload)
        id = world.take(where)
        assert [*verify(world.repository, id)] == [], where
        if chance.random() < 0.7:
            made = create(world.repository, f"t{number}", snapshot_id=id).worktree
            assert picture(made.path) == expected, where
            tree_files.remove_tree(made.path)
        else:
            _clear(world.payload)
            world.in_place(id, holder=ANN)
            assert picture(world.payload) == expected, where
    assert world.leftovers() == []


def _clear(root: Path) -> None:
    for entry in [*os.scandir(root)]:
        if entry.name == ".jvs-worktree":
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _shrink(root: Path, chance: random.Random) -> None:
    """Remove some entries, and change others."""
    for base, _folders, names in os.walk(root):
        if ".jvs-worktree" in base:
            continue
        for name in names:
            path = Path(base, name)
            if chance.random() < 0.2:
                path.unlink()
            elif chance.random() < 0.2 and path.is_file() and not path.is_symlink():
                path.write_bytes(chance.randbytes(chance.randrange(5000)))
