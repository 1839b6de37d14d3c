"""Hundreds of processes at the gate in the same instant, and two hundred commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from helpers_herd import stampede
from helpers_processes import LINUX_ONLY, Crowd

pytestmark = LINUX_ONLY


def test_four_hundred_processes_are_served_at_twice_the_price_of_fifty(tmp_path: Path) -> None:
    with Crowd(tmp_path) as crowd:
        few = min(stampede(crowd, tmp_path / f"few-{n}", 50).seconds for n in range(3))
        many = min(stampede(crowd, tmp_path / f"many-{n}", 400).seconds for n in range(2))
    assert many <= 2 * few


def test_two_hundred_commands_at_once_all_get_their_locks(tmp_path: Path) -> None:
    (tmp_path / ".holdfast").mkdir()
    commands = [
        subprocess.Popen(
            [sys.executable, "-m", "holdfast", "lock", f"f{number}", "--holder", f"h{number}"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for number in range(200)
    ]
    told = [command.communicate(timeout=300)[1] for command in commands]
    assert [command.returncode for command in commands] == [0] * 200, set(told)
