"""Fights are recorded, and their histories are legal; with a bug in the code they are not.

`fights/test_history_fights.py` goes on for longer. The bugs show that the checker can fail: one in
how the store keeps its files, one in a rule, one in when an answer is given, and some more.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers_histories import MET, ProcessFight, ThreadFight, kinds
from helpers_processes import LINUX_ONLY
from history_bugs import BUGS
from holdfast.testing.histories import History, Judgement, check
from holdfast.testing.histories.model import clash

pytestmark = LINUX_ONLY

#: How often a fight with a bug is repeated before the bug counts as not found.
ATTEMPTS = 8
TOUCHING = ("walks", "walks", "opens", "opens")


def assert_legal(history: History) -> None:
    judgement = check(history)
    assert judgement, str(judgement)


def test_processes_that_walk_fork_daemonise_are_stopped_and_killed_have_a_legal_history(
    tmp_path: Path,
) -> None:
    fight = ProcessFight(tmp_path, seconds=6)
    history = fight.run()
    assert fight.troubles() == ""
    assert_legal(history)
    assert len(history.operations) > 200
    for what in ("walked", "opened", "forked", "daemonised", "stopped", "killed"):
        assert fight.counts[what], f"nothing {what}: that proves less than it says"


def test_threads_on_the_memory_store_have_a_legal_history(tmp_path: Path) -> None:
    fight = ThreadFight(tmp_path, seconds=3)
    history = fight.run(8)
    assert_legal(history)
    assert len(history.operations) > 500
    assert fight.counts["died"] > 8
    assert [met for met in MET if not kinds(history)[met]] == []


# Bugs


def found(folder: Path, bug: str, habits: tuple[str, ...]) -> Judgement | None:
    """The judgement on a fight of programs with a bug, if it is illegal."""
    fight = ProcessFight(folder, seconds=1.5, bug=bug)
    judgement = check(fight.run(habits, gently=True))
    assert judgement.name != "undecided", str(judgement)
    return None if judgement else judgement


def two_holders(judgement: Judgement) -> bool:
    """Whether two grants that exclude each other are among what is illegal."""
    grants = [operation for operation in judgement.core if operation.asks and operation.outcome]
    return any(
        one.holder != other.holder and clash(one.wants, other.wants)
        for one in grants
        for other in grants
    )


def test_two_holders_are_found_when_closing_a_file_drops_the_ledgers_locks(tmp_path: Path) -> None:
    """Programs that read their own tree, among others that open and close the ledger."""
    for attempt in range(ATTEMPTS):
        judgement = found(tmp_path / str(attempt), "droppable_locks", TOUCHING)
        if judgement is not None and two_holders(judgement):
            return
    pytest.fail("the lost locks were not found")


def test_the_same_programs_without_the_bug_have_a_legal_history(tmp_path: Path) -> None:
    fight = ProcessFight(tmp_path, seconds=2)
    history = fight.run(TOUCHING, gently=True)
    assert fight.troubles() == ""
    assert fight.counts["walked"] > 3
    assert fight.counts["opened"] > 3
    assert_legal(history)


@pytest.mark.parametrize(
    ("bug", "habits"),
    [
        ("forget_ancestors", ("plays",) * 4),
        ("answer_before_commit", ("plays",) * 4),
        ("blind_to_forks", ("is_signalled",) * 4),
        ("verify_without_token", ("plays",) * 2),
        ("never_expires", ("forgets", "forgets", "plays", "plays")),
    ],
)
def test_each_seeded_bug_is_found(tmp_path: Path, bug: str, habits: tuple[str, ...]) -> None:
    for attempt in range(ATTEMPTS):
        if found(tmp_path / str(attempt), bug, habits) is not None:
            return
    pytest.fail(f"{bug} was not found")


@pytest.mark.parametrize("bug", ["forget_ancestors", "never_expires", "skip_liveness"])
def test_each_seeded_bug_is_found_on_the_memory_store(tmp_path: Path, bug: str) -> None:
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with BUGS[bug]():
            history = ThreadFight(folder, seconds=1.5).run(6)
        judgement = check(history)
        assert judgement.name != "undecided", str(judgement)
        if not judgement:
            return
    pytest.fail(f"{bug} was not found")
