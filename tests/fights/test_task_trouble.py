"""A ledger that fails at the very moment when an agent ends."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from helpers_processes import until
from helpers_task_commands import why_no_broker
from helpers_tasks import Checkout, shell, until_file
from holdfast.manager.ledger import DEADLINE_SECONDS
from holdfast.manager.manager import LockManager
from holdfast.work.tasks import task_states
from holdfast.work.tasks.task_records import TaskRecord

pytestmark = pytest.mark.skipif(bool(why_no_broker()), reason=f"no broker here: {why_no_broker()}")


def runs_with(word: str) -> bool:
    """Whether a process has this word on its command line."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if word.encode() in file.read_bytes():
                return True
    return False


def test_processes_that_an_agent_left_are_gone_before_its_files_are_restored(
    tmp_path: Path,
) -> None:
    """Even if the ledger fails: one process has a file open, another waits for one that a person
    has locked, and the agent ends."""
    checkout = Checkout(tmp_path)
    go, late = tmp_path / "go", tmp_path / "late"
    script = shell(
        "exec 7>a.txt",
        f"(setsid sh -c '{until_file(late)}; echo LATE >&7' &)",
        "(setsid sh -c 'echo x > b.txt' &)",
        until_file(go),
        "exit 3",
    )
    found: dict[str, TaskRecord] = {}
    with LockManager.open(str(checkout.root)) as manager:
        assert manager.try_acquire(holder="ann", write_paths=["b.txt"]) is not None
        task = checkout.task("one", script)
        work = threading.Thread(target=lambda: found.update(checkout.dispatch(task)))
        work.start()
        until(lambda: bool(manager.queue()), "a call stands in line")
    ledger = sqlite3.connect(checkout.root / ".holdfast/ledger.db", isolation_level=None)
    ledger.execute("begin immediate")
    go.touch()
    work.join(DEADLINE_SECONDS + 4)
    ledger.execute("rollback")
    ledger.close()
    work.join()
    late.touch()
    until(lambda: not runs_with(str(late)), "nothing of it runs any more")
    assert (found["one"].state, checkout.read("a.txt")) == (task_states.FAILED, "a0\n")
    assert checkout.status() == ""
