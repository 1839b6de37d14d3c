"""Hundreds of deaths at random moments, each followed by a check of the whole ledger."""

from __future__ import annotations

from pathlib import Path

from helpers_processes import LINUX_ONLY, Crowd
from test_crashes import die_at_random_moments

pytestmark = LINUX_ONLY


def test_after_hundreds_of_kills_the_next_process_still_trusts_the_ledger(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    (root / ".holdfast").mkdir(parents=True)
    with Crowd(tmp_path) as crowd:
        die_at_random_moments(crowd, root, kills=300)
