"""Publishing and restoring, killed at every step and at 200 random moments; and many processes that
steal locks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY
from helpers_trees import World
from helpers_trees_crash import (
    Fate,
    crash_at_random,
    crash_restores,
    crash_snapshots,
    thieves,
)
from holdfast.trees.payload import hard_links

pytestmark = LINUX_ONLY


@pytest.mark.parametrize("links", ["at once", "by another process"])
def test_a_publish_killed_at_every_step_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: str
) -> None:
    if links == "by another process":
        monkeypatch.setattr(hard_links, "MANY_BYTES", 0)
    assert crash_snapshots(World(tmp_path), every=1) == {Fate.NOTHING, Fate.WHOLE}


def test_a_restore_in_place_killed_at_every_step_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    assert crash_restores(World(tmp_path), every=1) == {Fate.NOTHING, Fate.WHOLE}


def test_both_killed_at_200_random_moments(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    crash_at_random(World(tmp_path), times=200, seed=seed)


def test_fifty_rounds_of_six_thieves_have_growing_tokens(tmp_path: Path) -> None:
    thieves(tmp_path, rounds=50)
