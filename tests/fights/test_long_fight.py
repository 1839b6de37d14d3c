"""The fight of eight processes over files, long enough for rare events to happen."""

from __future__ import annotations

from pathlib import Path

from helpers_processes import LINUX_ONLY, Crowd
from test_fight import FILES, Arena, eight_fight

pytestmark = LINUX_ONLY


def test_eight_processes_fight_on_while_others_are_stopped_and_killed(tmp_path: Path) -> None:
    with Crowd(tmp_path) as crowd:
        eight_fight(Arena(crowd, tmp_path / "repo", FILES, fence="fenced"), seconds=40)
