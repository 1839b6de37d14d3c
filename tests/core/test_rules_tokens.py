"""Fencing tokens: they grow for the life of a repository, whatever happens to its ledger."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conftest import opener
from holdfast import LockManager
from holdfast.core.model import Grant
from holdfast.testing.conformance import Scene


def put_back(ledger: Path, copy: Path) -> None:
    """Restore a backup as people do it: the log of later commits goes too."""
    for rest in ledger.parent.glob("ledger.db-*"):
        rest.unlink()
    shutil.copyfile(copy, ledger)


def test_tokens_grow_across_release(scene: Scene) -> None:
    tokens = []
    for _ in range(20):
        grant = scene.take("ann", writes=["x"])
        tokens.append(grant.token)
        scene.release(grant)
    assert tokens == sorted(set(tokens))


def test_tokens_grow_across_paths_and_holders(scene: Scene) -> None:
    tokens = [scene.take(f"agent-{n}", reads=["r"], writes=[f"w{n}"]).token for n in range(20)]
    assert tokens == sorted(set(tokens))


def test_tokens_grow_across_a_steal_and_a_force(scene: Scene) -> None:
    first = scene.take("ann", writes=["x"], ttl=10)
    scene.clock.advance(10)
    second = scene.steal(scene.request("bob", [], ["x"]))
    assert isinstance(second, Grant)
    scene.force(second, scene.holder("operator"))
    third = scene.take("cid", writes=["x"])
    assert first.token < second.token < third.token


def test_tokens_grow_when_a_crowd_is_served_in_one_step(scene: Scene) -> None:
    held = scene.take("ann", writes=["a/x"])
    for number in range(5):
        scene.queue_up(f"reader-{number}", reads=["a/"])
    scene.release(held)
    tokens = [held.token, *(grant.token for grant in scene.state()[2])]
    assert len(tokens) == 6
    assert tokens == sorted(set(tokens))


def test_tokens_grow_while_the_wall_clock_goes_back(scene: Scene) -> None:
    tokens = []
    for _ in range(5):
        tokens.append(scene.take("ann", writes=["x"]).token)
        scene.clock.step_wall(-86_400)
    assert tokens == sorted(set(tokens))


def test_tokens_grow_across_a_restart_and_a_reboot(embedded: Scene) -> None:
    tokens = []
    for number in range(6):
        grant = embedded.take("ann", writes=["x"])
        tokens.append(grant.token)
        embedded.release(grant)
        if number % 2:
            embedded.clock.step_wall(-60)
            embedded.clock.reboot()
        embedded.reopen()
    assert tokens == sorted(set(tokens))


def test_tokens_grow_across_a_trim_of_all_history(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"])
    scene.release(grant)
    scene.clock.step_wall(-86_400)
    scene.store.trim(1000)
    assert scene.take("ann", writes=["x"]).token > grant.token


def test_tokens_grow_over_a_backup_that_was_restored(tmp_path: Path) -> None:
    ledger, copy = tmp_path / "ledger" / "ledger.db", tmp_path / "backup"
    with Scene(opener("sqlite", tmp_path)) as scene:
        kept = scene.take("ann", writes=["x"])
        scene.store.close()
        shutil.copyfile(ledger, copy)
        scene.store = scene.open()
        lost = []
        for _ in range(5):
            scene.clock.advance(0.001)
            lost.append(scene.take("bob", writes=["y"]))
        scene.store.close()
        put_back(ledger, copy)
        scene.store = scene.open()
        scene.clock.advance(0.001)
        assert [grant.id for grant in scene.state()[2]] == [kept.id]
        assert scene.take("cid", writes=["y"]).token > max(grant.token for grant in lost)
        for grant in lost:  # a holder from before the restore is refused
            assert not scene.verify(grant, "y")


def test_tokens_grow_over_transactions_that_a_power_cut_took(tmp_path: Path) -> None:
    ledger, copy = tmp_path / "ledger" / "ledger.db", tmp_path / "copy"
    with Scene(opener("sqlite", tmp_path)) as scene:
        scene.take("ann", writes=["x"])
        scene.store.close()
        shutil.copyfile(ledger, copy)
        scene.store = scene.open()
        vanished = scene.take("bob", writes=["y"])
        scene.store.close()
        put_back(ledger, copy)
        scene.clock.reboot(down_seconds=5)
        scene.store = scene.open()
        again = scene.take("cid", writes=["y"])
        assert again.token > vanished.token
        assert not scene.verify(vanished, "y")


def test_an_open_store_notices_that_a_backup_was_put_in_its_place(tmp_path: Path) -> None:
    ledger, copy = tmp_path / "ledger" / "ledger.db", tmp_path / "copy"
    with Scene(opener("sqlite", tmp_path)) as scene:
        scene.take("ann", writes=["x"])
        scene.store.close()
        shutil.copyfile(ledger, copy)
        scene.store = scene.open()
        lost = scene.take("bob", writes=["y"])
        for rest in ledger.parent.glob("ledger.db-*"):
            rest.unlink()
        copy.replace(ledger)
        scene.clock.advance(0.001)
        assert scene.take("cid", writes=["y"]).token > lost.token
        with Scene(opener("sqlite", tmp_path), clock=scene.clock) as other:
            assert [grant.holder.id for grant in other.state()[2]] == ["ann", "cid"]


def test_tokens_grow_over_a_ledger_that_was_wiped(tmp_path: Path) -> None:
    with Scene(opener("sqlite", tmp_path)) as scene:
        before = scene.take("ann", writes=["x"]).token
        scene.store.close()
        shutil.rmtree(tmp_path / "ledger")
        scene.clock.advance(0.001)
        scene.store = scene.open()
        assert scene.take("bob", writes=["x"]).token > before


def test_tokens_are_whole_numbers_that_other_programs_can_read(
    scene: Scene, manager: LockManager
) -> None:
    grant = manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"])
    assert grant is not None
    assert type(grant.token) is int
    assert 0 < grant.token < 2**53  # also exact where all numbers are floating point


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
def test_tokens_of_real_managers_follow_the_real_clock(store: str, tmp_path: Path) -> None:
    import time

    url = f"sqlite://{tmp_path}/ledger.db" if store == "sqlite" else store
    before = time.time_ns() // 1000
    with LockManager.open(store=url) as manager:
        grant = manager.try_acquire(holder="ann", write_paths=["x"])
        assert grant is not None
        assert before <= grant.token <= time.time_ns() // 1000
