"""The order of the phases of a screen is in one place, and every other order is derived from it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import holdfast
from holdfast.server.state import controllers
from holdfast.work.engine.work_items import CHECKS, MERGE_PHASES, PHASES, LockRequest, WorkItem
from holdfast.work.screens import workflow_states
from holdfast.work.screens.phases import default_phases

SOURCE = Path(holdfast.__file__).parent
ORDER_FILE = SOURCE / "work/engine/work_items.py"
NAMES = {phase.upper() for phase in PHASES}
STATES = {"APPLYING", "TESTING", "FIXING", "IN_CI", "VERIFYING"}


def names_in(node: ast.expr) -> set[str]:
    """The names and texts among the elements of a literal, as a phase or a state is spelled."""
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.Attribute):
            found.add(each.attr)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            found.add(each.value.upper())
    return found


def orders_in(file: Path) -> list[int]:
    """The lines of tuples and lists that put phases, or their states, in an order."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load)
        and max(len(names_in(node) & NAMES), len(names_in(node) & STATES)) > 2
    ]  # fmt: skip


def test_the_order_of_the_phases_is_written_in_one_place() -> None:
    assert len(orders_in(ORDER_FILE)) == 1
    others = [file for file in SOURCE.rglob("*.py") if file != ORDER_FILE]
    assert [(str(file), orders_in(file)) for file in others if orders_in(file)] == []


def test_a_later_phase_is_never_less_urgent_than_an_earlier_one() -> None:
    items = [WorkItem("i", "blog/posts", phase, LockRequest(), 1, 1) for phase in PHASES]
    ranks = [item.rank for item in items]
    assert ranks == sorted(ranks, reverse=True)
    assert WorkItem("i", "blog/posts", "other", LockRequest(), 1, 1).rank > max(ranks)


def test_every_phase_has_its_settings_and_its_state_in_this_order() -> None:
    assert tuple(default_phases()) == PHASES
    assert tuple(workflow_states.OF_PHASE) == PHASES
    assert tuple(workflow_states.OF_PHASE[one] for one in MERGE_PHASES) == workflow_states.MERGING
    ranks = {controllers._RANKS[state] for state in workflow_states.MERGING}
    assert len(ranks) == 1


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_is_followed_by_later_checks_only(check: str) -> None:
    state = workflow_states.OF_PHASE[check]
    for other in CHECKS:
        later = CHECKS.index(other) > CHECKS.index(check)
        assert workflow_states.may_follow(state, workflow_states.OF_PHASE[other]) == later
        assert workflow_states.may_follow("fixing", workflow_states.OF_PHASE[other])
        assert workflow_states.may_follow("applying", workflow_states.OF_PHASE[other])
