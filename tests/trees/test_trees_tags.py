"""Tags and notes: names for snapshots that history, restore and create accept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers_trees import World, picture, told, tree
from holdfast.trees import (
    BadTreeError,
    NoTreeError,
    PartialSnapshotError,
    TreeExistsError,
    audit_log,
)
from holdfast.trees.locking.worktree_holders import caller
from holdfast.trees.snapshots import tags
from holdfast.trees.snapshots.references import find

#: The holder id of `--holder ann`.
ME = caller({}, holder="ann").id


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    monkeypatch.chdir(made.payload)
    made.lock(ME)
    return made


def take(world: World, note: str) -> str:
    world.write("x", note)
    return world.take(note, holder=ME)


def test_a_tag_names_a_snapshot_for_restore_create_history_and_verify(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = take(world, "one"), take(world, "two")
    assert tree("tag", "add", "v1.0", first[:9], holder=None) == 0
    assert tree("restore", "v1.0", "--name", "a", holder=None) == 0
    assert tree("create", "b", "--from", "v1.0", holder=None) == 0
    for name in "ab":
        assert (world.root / "worktrees" / name / "x").read_text() == "one"
    capsys.readouterr()
    assert tree("history", "v1.0", "--json", holder=None) == 0
    (shown,) = told(capsys)["snapshots"]
    assert (shown["snapshot_id"], shown["tags"]) == (first, ["v1.0"])
    assert tree("history", "--json", holder=None) == 0
    assert [one["tags"] for one in told(capsys)["snapshots"]] == [[], ["v1.0"]]
    assert tree("history", holder=None) == 0
    assert "v1.0" in capsys.readouterr().out
    assert tree("verify", "v1.0", holder=None) == 0
    assert tree("restore", "v1.0", "--inplace", "--force", "--reason", "back") == 0
    assert (world.payload / "x").read_text() == "one"
    assert second in world.snapshots()


def test_a_note_names_a_snapshot_if_only_one_has_it(world: World) -> None:
    first, second, third = (take(world, note) for note in ("the first", "the second", "last one"))
    repository = world.repository
    assert find(repository, "the first") == first
    assert find(repository, "the s") == second
    assert find(repository, "last") == third
    with pytest.raises(NoTreeError, match="2 snapshots have a note like") as caught:
        find(repository, "the")
    assert {*caught.value.fields["snapshot_ids"]} == {first, second}
    again = take(world, "the first and more")
    assert find(repository, "the first") == first
    assert find(repository, "the first and") == again
    for text in ("", " ", "nothing like it", "first"):
        with pytest.raises(NoTreeError):
            find(repository, text)


def test_a_note_that_looks_like_an_id_is_found_if_no_id_begins_so(world: World) -> None:
    id = take(world, "cafe")
    others = [one for one in world.snapshots() if one.startswith("cafe")]
    assert others == []
    assert find(world.repository, "cafe") == id
    assert find(world.repository, id[:8]) == id


def test_a_tag_is_never_moved_by_accident(world: World) -> None:
    first, second = take(world, "one"), take(world, "two")
    tags.add(world.repository, "v1.0", first)
    assert tags.add(world.repository, "v1.0", first).snapshot_id == first
    with pytest.raises(TreeExistsError):
        tags.add(world.repository, "v1.0", second)
    assert find(world.repository, "v1.0") == first
    tags.add(world.repository, "v1.0", second, move=True)
    assert find(world.repository, "v1.0") == second
    tags.remove(world.repository, "v1.0")
    with pytest.raises(NoTreeError):
        find(world.repository, "v1.0")
    events = [one["event"] for one in audit_log.records(world.repository) if "tag" in one]
    assert events == ["tag_added", "tag_moved", "tag_removed"]
    assert world.codes() == []


@pytest.mark.parametrize("name", ["", "a", "beef", "0", "../x", "a/b", ".x", "-x", "x.tmp", "x y",
                                  "x" * 101, "ü"])  # fmt: skip
def test_a_name_that_could_mean_something_else_is_refused(world: World, name: str) -> None:
    id = take(world, "one")
    before = picture(world.root)
    with pytest.raises(BadTreeError):
        tags.add(world.repository, name, id)
    assert picture(world.root) == before


def test_only_existing_snapshots_are_tagged(world: World) -> None:
    id = take(world, "one")
    for wrong in ("0" * 20, ""):
        with pytest.raises(PartialSnapshotError):
            tags.add(world.repository, "v1.0", wrong)
    (world.snapshot(id) / ".READY").unlink()
    with pytest.raises(PartialSnapshotError):
        tags.add(world.repository, "v1.0", id)
    assert tags.names(world.repository) == []


def test_a_snapshot_is_tagged_as_it_is_taken(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.write("x")
    assert tree("snapshot", "nightly", "--tag", "v1.0") == 0
    (id,) = world.snapshots()
    assert find(world.repository, "v1.0") == id
    assert tree("snapshot", "--tag", "v1.0") == 3
    assert tree("snapshot", "--tag", "../x") == 2
    assert world.snapshots() == [id]
    capsys.readouterr()
    assert tree("tag", "list", "--json", holder=None) == 0
    (shown,) = told(capsys)["tags"]
    assert (shown["name"], shown["snapshot_id"]) == ("v1.0", id)
    assert tree("tag", "add", "latest-one", holder=None) == 0
    assert find(world.repository, "latest-one") == id
    assert tree("tag", "list", holder=None) == 0
    assert "nightly" in capsys.readouterr().out
    assert tree("tag", "remove", "v1.0", holder=None) == 0
    assert tags.names(world.repository) == ["latest-one"]


def test_a_damaged_tag_is_shown_found_and_removed(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    id = take(world, "one")
    tags.add(world.repository, "v1.0", id)
    path = world.control / "refs" / "v1.0.json"
    for text in ("{", '{"snapshot_id": "../../x"}', '{"name": "v1.0", "target_id": "1"}'):
        path.write_text(text)
        assert world.codes() == ["E_BAD_TAG"]
        capsys.readouterr()
        assert tree("tag", "list", "--json", holder=None) == 0
        assert told(capsys)["damaged"] == ["v1.0"]
        assert tree("restore", "v1.0", holder=None) == 1
    path.write_text(json.dumps({"name": "v1.0", "snapshot_id": "0" * 20}))
    assert world.codes() == ["E_BAD_TAG"]
    assert tree("tag", "remove", "v1.0", holder=None) == 0
    assert world.codes() == []
