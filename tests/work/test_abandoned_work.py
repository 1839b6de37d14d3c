"""When work is abandoned, and that every part of Holdfast judges it by the same rule."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

import holdfast
from browser.task_scenes import dead_witness
from holdfast.core import codec
from holdfast.core.model import Event, Witness
from holdfast.manager.clock import FakeClock
from holdfast.manager.owners.liveness import own_witness
from holdfast.store.memory import MemoryStore
from holdfast.work import abandoned_work
from holdfast.work.abandoned_work import is_proven_dead, judge
from holdfast.work.screens.assignment import dispatchers_of


def is_abandoned(dispatchers: Iterable[Witness], launchers: Iterable[Witness | None] = ()) -> bool:
    """The rule, for a machine's own ledger."""
    return abandoned_work.is_abandoned(dispatchers, launchers, is_dead=is_proven_dead)


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
    assert not abandoned_work.is_abandoned([dead], is_dead=lambda _process: None)


def test_a_process_of_another_boot_is_dead_on_a_machines_own_ledger_only(
    alive: Witness, dead: Witness
) -> None:
    """Two machines that were made from one image have the same id."""
    before = Witness(
        host=alive.host, boot="another", namespace=alive.namespace, pid=alive.pid, start=alive.start
    )
    own = MemoryStore(clock=FakeClock(), is_dead=lambda *_: None)
    shared = MemoryStore(clock=FakeClock(), is_dead=lambda *_: None, lease=1)
    assert judge(own)(before) is True
    assert judge(shared)(before) is False
    assert judge(shared)(dead) is judge(own)(dead) is True
    assert judge(shared)(alive) is judge(own)(alive) is False


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
