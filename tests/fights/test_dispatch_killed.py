"""The dispatcher is killed at fifty random moments: alone, with its launchers, and beside another
dispatcher. Agents leave orphans behind that go on writing."""

from __future__ import annotations

from pathlib import Path

from helpers_processes import LINUX_ONLY
from test_dispatch_killed import kill_at_random_moments

pytestmark = LINUX_ONLY


def test_after_fifty_kills_everything_is_done_once_and_whole(tmp_path: Path) -> None:
    orphans = kill_at_random_moments(tmp_path, kills=50, seed=50, orphans=0.5)
    assert orphans, "no orphan ever wrote anything, so this proves nothing"
