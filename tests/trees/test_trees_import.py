"""`tree import`: the snapshots of jvs repositories of both versions, verified, and only read."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from helpers_jvs import LAYOUTS, Jvs
from helpers_processes import LINUX_ONLY
from helpers_trees import World, killed_at, picture, steps_of, telling, told, tree
from holdfast.trees import BadTreeError, NoTreeError, TreeVersionError, bring
from holdfast.trees.snapshots import descriptors, tags
from holdfast.trees.snapshots.references import find as named

pytestmark = LINUX_ONLY


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(params=LAYOUTS)
def jvs(tmp_path: Path, request: pytest.FixtureRequest) -> Jvs:
    made = Jvs(tmp_path / "theirs", request.param)
    made.write("app/x", "one\n")
    made.write("run.sh", "#!/bin/sh\n", mode=0o755)
    made.write("café/ü", b"\0\1\2")
    (made.payload / "link").symlink_to("app/x")
    (made.payload / "empty").mkdir()
    return made


def there(jvs: Jvs, id: str) -> dict[str, tuple[Any, ...]]:
    """The content of a jvs snapshot, with the mode and times that a restore must set."""
    found = picture(jvs.snapshot(id))
    del found["."]
    found.pop(".READY", None)
    return found


def restored(world: World, id: str, name: str) -> dict[str, tuple[Any, ...]]:
    found = picture(world.restore(id, name).worktree.path)
    del found["."]
    return found


def test_every_snapshot_comes_over_as_it_was_and_nothing_is_touched_there(
    world: World, jvs: Jvs
) -> None:
    first = jvs.take("the <first> & é")
    jvs.write("app/x", "two\n")
    (jvs.payload / "run.sh").unlink()
    second = jvs.take("second", tags=["v2.0"] if jvs.layout != "with locks" else None)
    if jvs.layout == "with locks":
        jvs.ref("v2.0", second)
    before = picture(jvs.root)
    done = bring(world.repository, str(jvs.payload))
    assert done.failed == {}
    assert [*done.brought] == [first, second]
    assert picture(jvs.root) == before
    for number, id in enumerate((first, second)):
        assert restored(world, done.brought[id], f"w{number}") == there(jvs, id)
    mine = descriptors.read(world.repository, done.brought[second])
    assert mine["parent_snapshot_id"] == done.brought[first]
    assert mine["origin"]["snapshot_id"] == second
    assert mine["note"] == "second"
    assert mine["files_linked"] > 0
    level = "quiesced" if jvs.layout == "with locks" else "best_effort"
    assert mine["consistency_level"] == level
    assert named(world.repository, "v2.0") == done.brought[second]
    assert named(world.repository, "jvs-main") == done.brought[second]
    assert named(world.repository, first) == done.brought[first]
    assert world.codes() == []
    assert world.leftovers() == []
    world.check_all()


def test_a_second_import_brings_only_what_is_new(world: World, jvs: Jvs) -> None:
    first = jvs.take()
    once = bring(world.repository, str(jvs.root))
    jvs.write("new")
    second = jvs.take()
    again = bring(world.repository, str(jvs.root))
    assert again.already == once.brought
    assert [*again.brought] == [second]
    assert named(world.repository, "jvs-main") == again.brought[second]
    assert tags.names(world.repository) == ["jvs-main"]
    assert len(world.snapshots()) == 2
    assert first in once.brought


@pytest.mark.parametrize("damage", ["content", "mode", "added", "missing", "descriptor", "mark",
                                    "no mark", "link", "no folder"])  # fmt: skip
def test_a_snapshot_that_is_not_what_jvs_wrote_is_left_out_and_named(
    world: World, jvs: Jvs, damage: str
) -> None:
    bad = jvs.take("bad")
    jvs.write("app/x", "good\n")
    good = jvs.take("good")
    folder = jvs.snapshot(bad)
    if damage == "content":
        (folder / "app/x").write_text("oNe\n")
    elif damage == "mode":
        (folder / "app/x").chmod(0o600)
    elif damage == "added":
        (folder / "more").write_text("")
    elif damage == "missing":
        (folder / "run.sh").unlink()
    elif damage == "link":
        (folder / "link").unlink()
        (folder / "link").symlink_to("/etc/passwd")
    elif damage == "descriptor":
        text = jvs.descriptor(bad).read_text()
        jvs.descriptor(bad).write_text(text.replace('"note": "bad"', '"note": "bat"'))
    elif damage == "mark":
        mark = json.loads((folder / ".READY").read_text())
        mark["payload_root_hash"] = "0" * 64
        (folder / ".READY").write_text(json.dumps(mark))
    elif damage == "no mark":
        (folder / ".READY").unlink()
    else:
        shutil.rmtree(folder)
    done = bring(world.repository, str(jvs.root))
    assert [*done.failed] == [bad]
    assert [*done.brought] == [good]
    assert descriptors.read(world.repository, done.brought[good])["parent_snapshot_id"] is None
    assert world.codes() == []
    assert world.leftovers() == []


def test_if_the_latest_one_is_damaged_the_one_before_it_has_the_tag_of_its_worktree(
    world: World, jvs: Jvs
) -> None:
    good = jvs.take("good", worktree="side")
    other = jvs.take("other")
    bad = jvs.take("bad", worktree="side")
    (jvs.snapshot(bad) / "app/x").write_text("damaged")
    done = bring(world.repository, str(jvs.root))
    assert done.tags == {"jvs-main": done.brought[other], "jvs-side": done.brought[good]}


def test_a_file_that_is_called_like_the_mark_is_a_file(world: World, jvs: Jvs) -> None:
    jvs.write("app/.READY", "mine")
    id = jvs.take()
    done = bring(world.repository, str(jvs.root))
    assert done.failed == {}
    assert restored(world, done.brought[id], "w") == there(jvs, id)


def test_compressed_snapshots_are_unpacked(world: World, tmp_path: Path) -> None:
    jvs = Jvs(tmp_path / "theirs")
    jvs.write("app/x", "one\n" * 1000)
    jvs.write("kept.gz", b"mine")
    (jvs.payload / "link").symlink_to("app/x")
    id = jvs.take(compressed=True)
    assert (jvs.snapshot(id) / "app/x.gz").exists()
    done = bring(world.repository, str(jvs.root))
    assert done.failed == {}
    place = Path(world.restore(done.brought[id]).worktree.path)
    assert (place / "app/x").read_text() == "one\n" * 1000
    assert (place / "kept.gz").read_bytes() == b"mine"
    assert not (place / "app/x.gz").exists()
    assert world.leftovers() == []


@pytest.mark.parametrize("path", ["../out", "/etc/x", "app/../../out", ""])
def test_a_compressed_one_cannot_write_elsewhere(world: World, tmp_path: Path, path: str) -> None:
    jvs = Jvs(tmp_path / "theirs")
    jvs.write("app/x", "one\n")
    id = jvs.take(compressed=True)
    mark = json.loads((jvs.snapshot(id) / ".READY").read_text())
    mark["compression_manifest"]["files"][0]["path"] = path
    (jvs.snapshot(id) / ".READY").write_text(json.dumps(mark))
    before = {*tmp_path.rglob("out*")}
    assert [*bring(world.repository, str(jvs.root)).failed] == [id]
    assert {*tmp_path.rglob("out*")} == before
    assert world.leftovers() == []


def test_a_folder_without_a_jvs_repository_is_refused(world: World, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(NoTreeError):
        bring(world.repository, str(tmp_path / "plain"))
    with pytest.raises(BadTreeError):
        bring(world.repository, str(world.payload))
    jvs = Jvs(tmp_path / "theirs")
    (jvs.control / "format_version").write_text("2\n")
    with pytest.raises(TreeVersionError):
        bring(world.repository, str(jvs.root))
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / ".jvs").write_text("elsewhere")
    with pytest.raises(BadTreeError, match="elsewhere"):
        bring(world.repository, str(tmp_path / "outside"))


def test_a_tag_that_is_taken_here_is_not_moved(world: World, tmp_path: Path) -> None:
    world.write("x")
    world.lock()
    mine = world.take()
    tags.add(world.repository, "v1.0", mine)
    jvs = Jvs(tmp_path / "theirs")
    jvs.write("y")
    id = jvs.take(tags=["v1.0", "cafe"])
    done = bring(world.repository, str(jvs.root))
    assert named(world.repository, "v1.0") == mine
    assert {"jvs-v1.0", "jvs-cafe", "jvs-main"} == {*done.tags}
    assert {*done.tags.values()} == {done.brought[id]}


def test_an_import_that_is_killed_brings_whole_snapshots_and_the_next_one_the_rest(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    jvs = Jvs(tmp_path / "theirs")
    ids = []
    for number in range(2):
        jvs.write("app/x", f"{number}\n")
        ids.append(jvs.take())
    work = partial(bring, world.repository, str(jvs.root))
    steps = telling(steps_of(work, tmp_path / "steps"), 23)
    counts = set()
    for number, step in enumerate(steps):
        other = World(tmp_path / f"w{number}")
        killed_at(step, partial(bring, other.repository, str(jvs.root)))
        counts.add(len(other.snapshots()))
        other.check_all()
        done = bring(other.repository, str(jvs.root))
        assert {**done.already, **done.brought}.keys() == {*ids}
        assert done.failed == {}
        other.codes(strict=False, clean=True)
        assert other.codes() == []
        assert other.leftovers() == []
        shutil.rmtree(other.root, onerror=_by_force)
    assert counts == {0, 1, 2}


def _by_force(function: Any, path: str, _why: Any) -> None:
    os.chmod(os.path.dirname(path), 0o700)
    function(path)


def test_the_command_says_what_came_over_and_what_did_not(
    world: World, jvs: Jvs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = jvs.take("good")
    bad = jvs.take("bad")
    (jvs.snapshot(bad) / "app/x").write_text("damaged")
    monkeypatch.chdir(world.payload)
    capsys.readouterr()
    assert tree("import", str(jvs.root), "--json", holder=None) == 1
    shown = told(capsys)["imported"]
    assert [*shown["brought"]] == [good]
    assert [*shown["failed"]] == [bad]
    assert tree("import", os.path.relpath(jvs.root), holder=None) == 1
    assert "1 already here" in capsys.readouterr().out
    assert tree("create", "again", "--from", good, holder=None) == 0
    assert (world.root / "worktrees/again/app/x").read_text() == "one\n"
    assert tree("import", holder=None) == 2
