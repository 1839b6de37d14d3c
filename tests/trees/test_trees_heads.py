"""A head that is not whole: history, info, snapshots, tags and gc fall back to the one before."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers_trees import ANN, World, told, tree
from holdfast.trees import Settings, plan_gc
from holdfast.trees.snapshots import descriptors
from holdfast.trees.snapshots.retention import change_settings

NOTHING = {"keep_ancestors": False, "keep_last": 0, "keep_days": 0}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    monkeypatch.chdir(made.payload)
    made.lock()
    return made


def lose(world: World, id: str, what: str) -> None:
    """Remove a part of a snapshot, as a careless user or a bad disk does."""
    if what == "mark":
        (world.snapshot(id) / ".READY").unlink()
    elif what == "descriptor":
        world.descriptor(id).unlink()
    else:
        world.descriptor(id).write_text("{")
        (world.snapshot(id) / ".READY").unlink()


@pytest.mark.parametrize("what", ["mark", "descriptor", "both"])
def test_older_snapshots_are_still_shown_and_the_loss_is_reported(
    world: World, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = (_taken(world, number) for number in range(3))
    lose(world, third, what)
    capsys.readouterr()
    assert tree("history", "--json", holder=None) == 0
    shown = told(capsys)
    assert [one["snapshot_id"] for one in shown["snapshots"]] == [second, first]
    assert third in shown["warnings"][0]
    assert tree("history", holder=None) == 0
    both = capsys.readouterr()
    assert "no snapshots yet" not in both.err
    assert f"{third} is not whole" in both.err
    assert second[:8] in both.out
    assert tree("info", "--json", holder=None) == 0
    info = told(capsys)
    assert info["worktree"]["head"]["snapshot_id"] == second
    assert info["worktree"]["head_snapshot"] == third
    assert info["warning"] is True
    lose(world, second, what)
    assert tree("history", "--json", holder=None) == 0
    assert [one["snapshot_id"] for one in told(capsys)["snapshots"]] == [first]


@pytest.mark.parametrize("what", ["mark", "descriptor"])
def test_the_next_snapshot_comes_after_the_latest_whole_one_and_shares_its_files(
    world: World, what: str
) -> None:
    world.write("large", b"x" * 100_000)
    first, second = _taken(world, 0), _taken(world, 1)
    lose(world, second, what)
    third = _taken(world, 2)
    fields = descriptors.read(world.repository, third)
    assert fields["parent_snapshot_id"] == first
    assert fields["files_linked"] == 1
    assert world.main.head() == third
    seen = [one["snapshot_id"] for one in descriptors.lineage(world.repository, third)]
    assert seen == [third, first]


def test_gc_keeps_the_latest_whole_snapshot_of_a_damaged_head(world: World) -> None:
    first, second, third = (_taken(world, number) for number in range(3))
    lose(world, third, "mark")
    change_settings(world.repository, **NOTHING)
    plan = plan_gc(world.repository)
    assert [one["snapshot_id"] for one in plan.remove] == [first]
    assert plan.kept == {second: "the latest whole snapshot of main"}
    assert plan_gc(world.repository, Settings(keep_last=0, keep_days=0)).remove == []


def _taken(world: World, number: int) -> str:
    world.write("x", f"{number}\n")
    return world.take(f"number {number}", holder=ANN)
