"""Long recorded fights: thousands of operations on both stores, which have a legal order."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers_histories import MET, ProcessFight, ThreadFight, kinds
from helpers_processes import LINUX_ONLY
from histories import check

pytestmark = LINUX_ONLY


def test_the_history_of_a_long_fight_of_processes_is_legal(tmp_path: Path) -> None:
    fight = ProcessFight(tmp_path, seconds=45)
    history = fight.run()
    assert fight.troubles() == ""
    judgement = check(history)
    assert judgement, str(judgement)
    assert len(history.operations) > 2_000
    assert [met for met in MET if not kinds(history)[met]] == []
    for what in ("walked", "opened", "forked", "daemonised", "stopped", "killed"):
        assert fight.counts[what] >= 5, f"only {fight.counts[what]} {what}"


def test_the_history_of_a_long_fight_of_threads_is_legal(tmp_path: Path) -> None:
    fight = ThreadFight(tmp_path, seconds=30)
    history = fight.run(12)
    judgement = check(history)
    assert judgement, str(judgement)
    assert len(history.operations) > 5_000
    assert [met for met in MET if not kinds(history)[met]] == []


def test_a_killed_owner_that_is_not_found_dead_is_found(tmp_path: Path) -> None:
    for attempt in range(5):
        fight = ProcessFight(tmp_path / str(attempt), seconds=8, bug="skip_liveness", seed=attempt)
        judgement = check(fight.run())
        assert judgement.name != "undecided", str(judgement)
        if not judgement:
            return
    pytest.fail("locks of the dead were kept, and nothing was found")
