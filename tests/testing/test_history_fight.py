"""Fights are recorded, and their histories are legal; with a bug in the code they are not.

`fights/test_history_fights.py` runs longer, and `fights/test_history_bugs.py` has the bugs of the
embedded store. The bugs show that the checker can fail.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers_histories import HAPPENS, MET, ProcessFight, ThreadFight, kinds
from helpers_processes import LINUX_ONLY
from histories import History, check
from history_bugs import BUGS

pytestmark = LINUX_ONLY

#: How often a fight with a bug is repeated before the bug counts as missed.
ATTEMPTS = 8


def assert_legal(history: History) -> None:
    judgement = check(history)
    assert judgement, str(judgement)


def test_processes_that_walk_fork_daemonise_are_stopped_and_killed_have_a_legal_history(
    tmp_path: Path,
) -> None:
    fight = ProcessFight(tmp_path, seconds=20)
    history = fight.run(operations=400)
    assert fight.troubles() == ""
    assert_legal(history)
    assert len(history.operations) > 200
    for what in HAPPENS:
        assert fight.counts[what], f"nothing {what}: that proves less than it says"


def test_threads_on_the_memory_store_have_a_legal_history(tmp_path: Path) -> None:
    fight = ThreadFight(tmp_path, seconds=2)
    history = fight.run(8)
    assert_legal(history)
    assert len(history.operations) > 500
    assert fight.counts["died"] > 8
    assert [met for met in MET if not kinds(history)[met]] == []


# Bugs


@pytest.mark.parametrize("bug", ["forget_ancestors", "never_expires", "skip_liveness"])
def test_each_seeded_bug_is_found_on_the_memory_store(tmp_path: Path, bug: str) -> None:
    for attempt in range(3 * ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with BUGS[bug]():
            history = ThreadFight(folder, seconds=0.5).run(6)
        judgement = check(history)
        assert judgement.name != "undecided", str(judgement)
        if not judgement:
            return
    pytest.fail(f"{bug} was not found")
