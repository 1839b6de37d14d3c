"""Lists of tasks in a repository whose ledger is on a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from helpers_cli import COMMAND
from helpers_task_commands import why_no_broker
from helpers_tasks import Checkout
from holdfast.manager.manager import LockManager
from holdfast.work.tasks import task_states

if TYPE_CHECKING:
    from helpers_postgres import Server

pytestmark = pytest.mark.skipif(bool(why_no_broker()), reason=f"no broker here: {why_no_broker()}")


@pytest.fixture
def checkout(tmp_path: Path, postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    monkeypatch.setenv("HOLDFAST_STORE", postgres_server.url(f"tasks/{uuid4()}"))
    return Checkout(tmp_path)


def test_tasks_lease_their_files_on_the_server_and_know_nothing_of_it(checkout: Checkout) -> None:
    status = " ".join([*COMMAND, "status"])
    found = checkout.dispatch(
        checkout.task("one", "env > b.txt; echo one >> a.txt; sleep 0.3"),
        checkout.task("two", f"sleep 0.1; {status} > c.txt; echo two >> a.txt"),
    )
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert sorted(checkout.read("a.txt").split()) == ["a0", "one", "two"]
    assert "HOLDFAST_STORE" not in checkout.read("b.txt")
    assert "locks in" in checkout.read("c.txt") or "lock in" in checkout.read("c.txt")
    with LockManager.open(checkout.root) as manager:
        assert manager.store.url.startswith("postgresql://")
        assert list(manager.active_grants()) == []
    assert not (Path(checkout.root) / ".holdfast/ledger.db").exists()


def test_a_failed_task_is_undone(checkout: Checkout) -> None:
    found = checkout.dispatch(checkout.task("one", "echo one >> a.txt; exit 3"))
    assert found["one"].state == task_states.FAILED
    assert checkout.read("a.txt") == "a0\n"
