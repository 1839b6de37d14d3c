"""Our processes and other programs on one proof, in both dialects; ours are killed again and
again."""

from __future__ import annotations

from pathlib import Path

from helpers_processes import LINUX_ONLY
from helpers_proof import af_fight, fight

pytestmark = LINUX_ONLY


def test_a_mixed_crowd_loses_doubles_and_wedges_nothing(tmp_path: Path) -> None:
    ring = fight(tmp_path, ours=4, shells=2, plains=2, seconds=10, between=0.4)
    assert ring.killed >= 10


def test_shells_alone_beside_ours_that_die_ten_times_a_second(tmp_path: Path) -> None:
    ring = fight(tmp_path, ours=4, shells=4, plains=0, seconds=10, between=0.1)
    assert ring.killed >= 30


def test_ours_beside_af_for_a_thousand_holds(tmp_path: Path) -> None:
    ring = af_fight(tmp_path, ours=4, theirs=3, seconds=60, between=0.3)
    print(ring.holds, ring.killed)
    assert ring.killed >= 30
    assert sum(ring.holds.values()) >= 1000, ring.holds
