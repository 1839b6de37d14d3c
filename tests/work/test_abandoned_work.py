"""When work is abandoned, and that every part of Holdfast judges it by the same rule."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import holdfast
from browser.task_scenes import dead_witness
from holdfast.core import codec
from holdfast.core.model import Event, Witness
from holdfast.manager.owners.liveness import own_witness
from holdfast.work.abandoned_work import is_abandoned, is_proven_dead
from holdfast.work.screens.assignment import dispatchers_of

SOURCE = Path(holdfast.__file__).parent
#: Modules that ask whether a process is dead for another reason than whether work is abandoned.
OTHER_REASONS = {
    "work/engine/item_store.py": "whose locks an item has",
    "work/tasks/list_start.py": "which dispatchers a list still names",
}


@pytest.fixture
def alive() -> Witness:
    found = own_witness()
    assert found is not None
    return found


@pytest.fixture
def dead() -> Witness:
    found: Witness = dead_witness()
    return found


def test_work_is_abandoned_when_every_process_that_has_it_is_proven_dead(
    alive: Witness, dead: Witness
) -> None:
    assert is_proven_dead(dead)
    assert not is_proven_dead(alive)
    assert is_abandoned([dead])
    assert is_abandoned([dead, dead], [dead])
    assert not is_abandoned([dead, alive])
    assert not is_abandoned([dead], [dead, alive])


def test_work_is_not_abandoned_where_that_cannot_be_told(dead: Witness) -> None:
    assert not is_abandoned([])
    assert not is_abandoned([dead], [None])
    assert not is_abandoned([dead], is_dead=lambda _process: None)


def test_work_belongs_to_its_first_dispatcher_and_to_the_last_that_took_it_up(
    alive: Witness, dead: Witness
) -> None:
    def event(process: Witness | None) -> Event:
        by = None if process is None else codec.witness_to_list(process)
        return Event(1, "work_assigned", 1, {"by": by})

    assert dispatchers_of(event(dead), None) == [dead]
    assert not is_abandoned(dispatchers_of(event(dead), event(alive)))
    assert not is_abandoned(dispatchers_of(event(alive), event(dead)))
    assert is_abandoned(dispatchers_of(event(dead), event(dead)))
    assert dispatchers_of(event(None), None) == []
    assert dispatchers_of(None, event(alive)) == []


def test_no_other_module_judges_dispatchers_by_itself() -> None:
    asking = set()
    for room in ("work", "server", "cli/dispatch", "cli/watching"):
        for file in (SOURCE / room).rglob("*.py"):
            calls = [node.func for node in ast.walk(ast.parse(file.read_text()))
                     if isinstance(node, ast.Call)]  # fmt: skip
            if any(isinstance(one, ast.Name) and one.id == "is_dead" for one in calls):
                asking.add(str(file.relative_to(SOURCE)))
    assert asking - {"work/abandoned_work.py"} == set(OTHER_REASONS)
