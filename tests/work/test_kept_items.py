"""Items on a ledger that several hosts share: what keeps their locks while they are worked on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holder, LockManager
from holdfast.core.model import SECOND, Grant
from holdfast.gate import client_keeper
from holdfast.manager.clock import FakeClock
from holdfast.manager.files.keepsakes import marked
from holdfast.manager.files.paths import Tree
from holdfast.store.memory import MemoryStore
from holdfast.testing.conformance import Processes
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.work_items import LockRequest

LEASE = 120


class Desk:
    """The items of one repository, and the keepers that were started beside launchers."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (root / "app").mkdir(parents=True)
        (root / "app/x.rb").write_text("old\n")
        self.clock, self.processes = FakeClock(), Processes()
        store = MemoryStore(clock=self.clock, is_dead=self.processes.is_dead, lease=LEASE * SECOND)
        self.manager = LockManager(store, tree=Tree(str(root)), clock=self.clock)
        self.items = ItemStore(self.manager)
        self.keepers: list[str] = []

        def start(_root: str, key: str, *_rest: Any) -> int:
            self.keepers.append(key)
            return 1

        monkeypatch.setattr(client_keeper, "start", start)

    def launcher(self, name: str) -> Holder:
        return marked(Holder(id=name, key=f"{name}@1", witness=self.processes.start()))

    def live(self) -> list[str]:
        return [one.holder for one in self.manager.active_grants()]

    def beat(self) -> bool:
        heart = self.manager._heartbeat
        assert heart is not None
        return heart.renew()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path / "work", monkeypatch)
    yield made
    made.manager.close()


def test_the_lock_of_an_item_lasts_while_its_dispatcher_works(desk: Desk) -> None:
    """Its files are restored before they are released, so it has no ttl of its own."""
    item = desk.items.enqueue("w", "apply", LockRequest((), ("app/x.rb",)))
    launcher = desk.launcher("w")
    claimed = desk.items.claim(item, launcher)
    assert isinstance(claimed, tuple)
    assert claimed[1].ttl_seconds is None
    for _ in range(10):
        desk.clock.advance(40)
        assert desk.beat()
    assert desk.live() == ["w"]
    assert desk.keepers == [launcher.key]


def test_without_its_dispatcher_a_keeper_beside_the_launcher_keeps_it(desk: Desk) -> None:
    item = desk.items.enqueue("w", "apply", LockRequest((), ("app/x.rb",)))
    launcher = desk.launcher("w")
    assert launcher.witness is not None
    assert isinstance(desk.items.claim(item, launcher), tuple)
    witness = launcher.witness
    for _ in range(3):
        desk.clock.advance(40)
        desk.items.manager.store.transact(
            lambda view: client_keeper.renewal(view, launcher.key, witness, LEASE * SECOND),
            deadline=float("inf"),
        )
    assert desk.live() == ["w"]
    desk.clock.advance(LEASE)
    assert desk.live() == []


def test_a_process_that_cleans_up_keeps_the_locks_that_it_takes_over(desk: Desk) -> None:
    item = desk.items.enqueue("w", "apply", LockRequest((), ("app/x.rb",)))
    first, second = desk.launcher("w"), desk.launcher("cleaner")
    claimed = desk.items.claim(item, first)
    assert isinstance(claimed, tuple)
    desk.processes.end(first.witness)
    mine = desk.items.take_over(claimed[0], second)
    assert mine is not None
    assert desk.keepers == [first.key, second.key]
    desk.clock.advance(100)
    assert desk.beat()
    with desk.manager.store.view(deadline=float("inf")) as view:
        (held,) = view.held_by(second.key)
        assert isinstance(held, Grant)
        assert held.expires_at == view.now + LEASE * SECOND
