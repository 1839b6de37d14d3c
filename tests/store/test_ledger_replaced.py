"""The ledger is replaced, or out of reach, while processes use it; and requests are given up."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY, Auditor, Child, Crowd, until
from helpers_replacing import Replace, delete, fight, move_away, restore
from holdfast import LockManager, StoreBusyError, StoreError
from holdfast.core.errors import Lost
from holdfast.core.ledger_time import Reading
from holdfast.core.model import SECOND
from holdfast.manager import ledger as manager_ledger
from holdfast.manager.clock import SystemClock
from holdfast.manager.owners.liveness import is_dead
from holdfast.store import open_store

pytestmark = LINUX_ONLY


def ledger(root: Path) -> Path:
    return root / ".holdfast/ledger.db"


# The ledger is replaced, or cannot be opened


def test_a_manager_whose_reopen_failed_works_again_when_the_ledger_can_be_opened(
    root: Path,
) -> None:
    with LockManager.open(root) as manager:
        gate = manager.store.gate.fd  # type: ignore[attr-defined]
        shutil.rmtree(root / ".holdfast")
        (root / ".holdfast").write_text("a file in the place of the folder")
        for _ in range(3):
            with pytest.raises(StoreError):
                manager.try_acquire(holder="program", write_paths=[root / "x"])
            with pytest.raises(StoreError):
                manager.active_grants()
            # Whatever the program opens next gets no number that the manager still uses.
            with (root / "own").open("w+b", buffering=0) as own:
                own.write(bytes(4096))
                assert own.fileno() != gate
                with pytest.raises(StoreError):
                    manager.try_acquire(holder="program", write_paths=[root / "x"])
                assert (root / "own").read_bytes() == bytes(4096)
        (root / ".holdfast").unlink()
        grant = manager.try_acquire(holder="program", write_paths=[root / "x"])
        assert grant is not None
        with manager.fenced(grant):
            pass
        with LockManager.open(root) as other:
            assert [held.id for held in other.active_grants()] == [grant.id]


def test_a_ledger_that_is_replaced_again_and_again_costs_no_descriptors(root: Path) -> None:
    with LockManager.open(root) as manager:
        manager.try_acquire(holder="program", write_paths=[root / "x"])
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            shutil.rmtree(root / ".holdfast")
            assert manager.try_acquire(holder="program", write_paths=[root / "x"]) is not None
        assert len(os.listdir("/proc/self/fd")) == before


def test_managers_that_are_forgotten_cost_no_descriptors(root: Path) -> None:
    LockManager.open(root).close()
    before = len(os.listdir("/proc/self/fd"))
    for number in range(10):
        manager = LockManager.open(root)
        assert manager.try_acquire(holder="program", write_paths=[root / f"{number}"])
        del manager
    assert len(os.listdir("/proc/self/fd")) == before
    with LockManager.open(root) as manager:
        assert len(manager.active_grants()) == 10
        Auditor().check(manager)


def test_a_ledger_restored_together_with_its_log_keeps_the_events_of_the_log(
    crowd: Crowd, root: Path
) -> None:
    """The log of a process that was killed has commits that the database has not."""
    child = crowd.start(KILLED, root)
    ids = child.wait_for("granted")
    child.kill()
    kept = root.parent / "kept"
    kept.mkdir()
    for name in ("ledger.db", "ledger.db-wal"):
        shutil.copy(root / ".holdfast" / name, kept / name)
    assert (kept / "ledger.db-wal").stat().st_size > 0
    with LockManager.open(root) as manager:
        for id in ids:
            manager.release(id)
        for name in ("ledger.db", "ledger.db-wal"):
            os.replace(kept / name, root / ".holdfast" / name)
        assert [grant.id for grant in manager.active_grants()] == ids
        Auditor().check(manager)
    with LockManager.open(root) as manager:
        assert [grant.id for grant in manager.active_grants()] == ids
    with closing(sqlite3.connect(ledger(root))) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("replace", [delete, move_away, restore])
def test_a_ledger_that_is_replaced_under_load_has_one_holder_and_growing_tokens(
    crowd: Crowd, root: Path, replace: Replace
) -> None:
    fight(crowd, root, replace, workers=3, rounds=3)


KILLED = """
import pathlib
from holdfast import LockManager
from holdfast.core.model import Holder
root = pathlib.Path(sys.argv[1])
manager = LockManager.open(root)
someone = Holder(id="someone")
grants = [manager.try_acquire(holder=someone, write_paths=[root / f"{n}"]) for n in range(12)]
say("granted", *(grant.id for grant in grants))
signal.pause()
"""


def test_tokens_grow_after_the_ledger_was_deleted_even_if_the_clock_was_set_back(
    root: Path,
) -> None:
    clock = SetClock()
    with LockManager(open_store(url(root), clock=clock, is_dead=is_dead)) as manager:
        grant = manager.try_acquire(holder="a", write_paths=["x"])
        assert grant is not None
        clock.back_seconds = 3600
        shutil.rmtree(root / ".holdfast")
        again = manager.try_acquire(holder="a", write_paths=["x"])
        assert again is not None
        assert again.token > grant.token
        with pytest.raises(Lost), manager.fenced(grant):
            pass
        with LockManager(open_store(url(root), clock=clock, is_dead=is_dead)) as other:
            third = other.try_acquire(holder="b", write_paths=["y"])
            assert third is not None
            assert third.token > again.token


class SetClock(SystemClock):
    """A wall clock that a person sets back."""

    back_seconds = 0

    def read(self) -> Reading:
        now = super().read()
        return Reading(now.wall - self.back_seconds * SECOND, now.boot, now.uptime, now.slept)


def url(root: Path) -> str:
    return f"sqlite://{ledger(root)}"


# Giving up


@pytest.mark.parametrize("way", ["busy", "interrupted"])
def test_a_request_that_was_given_up_while_the_ledger_was_busy_is_never_served(
    crowd: Crowd, root: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager_ledger, "DEADLINE_SECONDS", 0.3)
    with LockManager.open(root) as manager, LockManager.open(root) as other:
        held = other.try_acquire(holder="other", write_paths=[root / "x"])
        assert held is not None
        inside = crowd.start(STOPS_INSIDE, root)
        failed = give_up(manager, root, inside, way)
        assert isinstance(failed, (StoreBusyError, KeyboardInterrupt)), failed
        inside.resume()
        inside.tell()
        other.release(held.id)
        next_one = other.try_acquire(holder="next", write_paths=[root / "x"])
        assert next_one is not None, "it was handed to a request that no caller waits for"
        other.release(next_one.id)
        until(lambda: not other.queue(), "the ticket is gone")
        until(lambda: not other.active_grants(), "every grant was given back")


STOPS_INSIDE = """
import pathlib
from holdfast import LockManager
root = pathlib.Path(sys.argv[1])
manager = LockManager.open(root)
grant = manager.try_acquire(holder="inside", write_paths=[root / "other"])
say("ready")
go()
with manager.fenced(grant):
    say("inside")
    go()
manager.release(grant.id)
"""


def give_up(manager: LockManager, root: Path, inside: Child, way: str) -> BaseException | None:
    """Wait for a lock, and give up after another process has stopped inside the gate."""
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            manager.acquire(holder="waiter", write_paths=[root / "x"], timeout=20)
        except BaseException as error:
            failed.append(error)

    inside.wait_for("ready")
    if way == "interrupted":
        original = manager._served

        def interrupted(*args: object) -> None:
            original(*args)  # type: ignore[arg-type]
            if inside.words("inside"):
                raise KeyboardInterrupt

        manager._served = interrupted  # type: ignore[method-assign,assignment]
    waiting = threading.Thread(target=wait)
    waiting.start()
    until(manager.queue, "the waiter has a ticket")
    inside.tell()
    inside.wait_for("inside")
    inside.stop()
    waiting.join()
    return failed[0] if failed else None
