"""gc, killed at every step and at 200 random moments: nothing needed is lost, the next finishes."""

from __future__ import annotations

import random
from pathlib import Path

from helpers_processes import LINUX_ONLY
from helpers_trees_gc import crash_gc, crash_gc_at_random

pytestmark = LINUX_ONLY


def test_a_gc_killed_at_every_step_loses_nothing_needed_and_the_next_one_finishes(
    tmp_path: Path,
) -> None:
    assert {3, 6} <= crash_gc(tmp_path, every=1)


def test_a_gc_killed_at_200_random_moments(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    crash_gc_at_random(tmp_path, times=200, seed=seed)
