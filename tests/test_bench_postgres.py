"""What the benchmarks of the store on a server rely on: their server, their rivals, their store."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import locks, postgres, postgres_locks
from bench.database import Database

from helpers_postgres import Server, missing, running_server
from helpers_processes import LINUX_ONLY, until
from holdfast import LockManager
from holdfast.core import rules
from holdfast.core.model import Decision, Grant, Holder, Request
from holdfast.manager import transactions

ROOT = Path(__file__).parent.parent
OWNER = """
import sys
from bench.database import Database
database = Database()
print(database.folder, flush=True)
sys.stdin.read()
"""


def test_without_a_server_nothing_is_measured_and_the_reason_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "missing", lambda: "PostgreSQL is not installed")
    [row] = postgres.run(tmp_path, True)
    assert (row.ours, row.ok, row.note) == (None, None, "not run: PostgreSQL is not installed")


def test_the_server_of_the_benchmarks_commits_durably_and_leaves_nothing() -> None:
    if reason := missing():
        pytest.skip(reason)
    with Database() as database:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert database.run(f"show {setting}") == [("on",)]
        assert database.password not in database.place
        with LockManager.open(ROOT, store=f"{database.url}#rig") as manager:
            assert manager.try_acquire(holder="ann", write_paths=["a.py"])
            assert database.connections() == 1
        assert database.settled_connections() == 0
        assert running_server(database.folder / "data")
    assert not database.folder.exists()


@LINUX_ONLY
def test_the_server_of_the_benchmarks_ends_with_a_process_that_is_killed() -> None:
    if reason := missing():
        pytest.skip(reason)
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    with owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert running_server(folder / "data")
        owner.send_signal(signal.SIGKILL)
    until(lambda: not folder.exists(), "its folder was deleted")


def test_a_cycle_of_each_rival_leaves_what_its_name_says(postgres_server: Server) -> None:
    url = postgres_server.admin_url(postgres_server.make_database("bench_rivals"))
    for text in postgres_locks.TABLES:
        postgres_server.run(text, database="bench_rivals")

    def left() -> tuple[int, int]:
        [[rows, number]] = postgres_server.run(
            "select (select count(*) from plain.rows), (select number from plain.numbers)",
            database="bench_rivals",
        )
        return rows, number

    expected = {
        postgres_locks.COMMITS: (2, 0),
        postgres_locks.AUTOCOMMITS: (2, 0),
        postgres_locks.SHARED_ROW: (0, 2),
        postgres_locks.ADVISORY: (0, 0),
        postgres_locks.ADVISORY_AND_ROWS: (2, 0),
    }
    for name, (rows, number) in expected.items():
        before = left()
        postgres_locks.open_plain(name, url)  # a cycle
        assert left() == (before[0] + rows, before[1] + number), name
        locks.close_lock(name)


def test_a_serializable_decision_that_another_overtook_is_repeated_on_the_new_state(
    postgres_server: Server, tmp_path: Path
) -> None:
    from bench.postgres_serializable import repeating_manager

    store = postgres_server.url("bench-serializable")
    first, second = (repeating_manager(tmp_path, store) for _ in range(2))
    holder = Holder(id="ann", key="ann")
    seen: list[int] = []

    def decide(view: Any) -> Decision[Any]:
        seen.append(view.head)
        if len(seen) == 1:
            assert second.try_acquire(holder="bob", write_paths=["b.py"])
        return rules.acquire(view, Request("one", holder, ("a.py",), "w"), wait=False)

    assert isinstance(transactions.decide(first, decide), Grant)
    assert seen == [0, 1]
    repeated: list[Any] = [first.store, second.store]
    assert [store.repeats for store in repeated] == [1, 0]
    assert [event.seq for event in first.events()] == [1, 2]
    for manager in (first, second):
        manager.close()
