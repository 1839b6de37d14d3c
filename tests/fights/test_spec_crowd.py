"""Four of our processes, killed again and again, and four of an independent client, on one spec."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from helpers_kse import made
from helpers_processes import LINUX_ONLY
from helpers_specs_crowd import fight, kse_fight, wander

pytestmark = LINUX_ONLY

SECONDS = 10.0


def test_a_mixed_crowd_never_has_the_lock_twice_and_nobody_is_stuck(tmp_path: Path) -> None:
    counts = fight(tmp_path / "workspace", SECONDS, random.Random())
    print(counts)
    assert counts.pop("kills") >= 10
    assert len(counts) == 8
    assert all(turns > 0 for turns in counts.values()), counts


def test_ours_beside_kse_for_a_thousand_holds_are_never_granted_twice(tmp_path: Path) -> None:
    counts = kse_fight(tmp_path / "workspace", 60, random.Random(), specs=6)
    print(counts)
    assert counts["kills"] >= 60
    assert counts["ours"] >= 100
    assert counts["ours"] + counts["theirs"] >= 1000


@pytest.mark.parametrize("homes", [(".kiro",), (".sce", ".kiro")], ids="-".join)
def test_no_order_of_commands_wedges_ours_or_kse_in_500(
    tmp_path: Path, homes: tuple[str, ...]
) -> None:
    dice = random.Random()
    for number in range(500):
        wander(made(tmp_path / str(number), *homes), homes, dice)
