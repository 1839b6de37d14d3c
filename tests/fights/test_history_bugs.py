"""Bugs in the code of real processes make their recorded history illegal.

One is in how the store keeps its files, one in a rule, one in the moment of an answer, and there
are a few more. They show that the checker can fail.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers_histories import ProcessFight
from helpers_processes import LINUX_ONLY
from histories import Judgement, check
from histories.model import clash
from test_history_fight import ATTEMPTS, assert_legal

pytestmark = LINUX_ONLY

TOUCHING = ("walks", "walks", "opens", "opens")


def found(folder: Path, bug: str, habits: tuple[str, ...]) -> Judgement | None:
    """The checker's judgement on a fight of programs with a bug, if their history is illegal."""
    fight = ProcessFight(folder, seconds=1.5, bug=bug)
    judgement = check(fight.run(habits, gently=True))
    assert judgement.name != "undecided", str(judgement)
    return None if judgement else judgement


def two_holders(judgement: Judgement) -> bool:
    """Whether the judgement names two grants that exclude each other."""
    grants = [operation for operation in judgement.core if operation.asks and operation.outcome]
    return any(
        one.holder != other.holder and clash(one.wants, other.wants)
        for one in grants
        for other in grants
    )


def test_two_holders_are_found_when_closing_a_file_drops_the_ledgers_locks(tmp_path: Path) -> None:
    """Some programs read their own tree; others open and close the ledger."""
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
