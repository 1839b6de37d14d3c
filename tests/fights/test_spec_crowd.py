"""Four of our processes, killed again and again, and four of an independent client, on one spec."""

from __future__ import annotations

import random
from pathlib import Path

from helpers_processes import LINUX_ONLY
from helpers_specs_crowd import fight

pytestmark = LINUX_ONLY

SECONDS = 10.0


def test_a_mixed_crowd_never_has_the_lock_twice_and_nobody_is_stuck(tmp_path: Path) -> None:
    counts = fight(tmp_path / "workspace", SECONDS, random.Random())
    print(counts)
    assert counts.pop("kills") >= 10
    assert len(counts) == 8
    assert all(turns > 0 for turns in counts.values()), counts
