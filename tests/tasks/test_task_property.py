"""Over random sets of tasks: the result is what some serial order of the tasks that succeeded would
have made, and nothing else is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers_task_sets import CANNOT, InMemory, Program, problems, random_set, serial_order
from task_set_agent import IN_PLACE, Player

SEEDS = 16

needs_broker = pytest.mark.skipif(bool(CANNOT), reason=f"no broker here: {CANNOT}")


@needs_broker
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_result_is_that_of_some_serial_order(tmp_path: Path, seed: int) -> None:
    made = random_set(tmp_path, seed)
    made.dispatch()
    wrong = problems(made)
    assert not wrong, "\n".join(wrong)


# The checker itself


def _edits(name: str, *paths: str) -> Program:
    return Program(name, "retries", [["edit", path, IN_PLACE] for path in paths])


def test_a_serial_order_is_found_without_a_hint() -> None:
    programs = {name: _edits(name, "a", "b") for name in ("t0", "t1", "t2", "t3")}
    after: dict[str, tuple[int, bytes]] = {}
    for name in ("t2", "t0", "t3", "t1"):
        programs[name].play(after)
    guess = ["t0", "t1", "t2", "t3"]
    assert serial_order({}, programs, after, guess) == ["t2", "t0", "t3", "t1"]


def test_two_tasks_that_came_in_another_order_in_each_file_have_no_serial_order() -> None:
    programs = {"t0": _edits("t0", "a", "b"), "t1": _edits("t1", "a", "b")}
    tree: dict[str, tuple[int, bytes]] = {}
    players = {name: Player(name, InMemory(tree)) for name in programs}
    for name, path in (("t0", "a"), ("t1", "a"), ("t1", "b"), ("t0", "b")):
        players[name].play(["edit", path, IN_PLACE])
    assert serial_order({}, programs, tree, ["t0", "t1"]) is None
