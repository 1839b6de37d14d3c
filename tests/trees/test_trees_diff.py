"""`tree diff`: what was added, removed and changed from one snapshot to another."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import LINUX_ONLY
from helpers_trees import World, grow, picture, told, tree
from holdfast.trees import TreeDamagedError, between

pytestmark = LINUX_ONLY


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    monkeypatch.chdir(made.payload)
    made.lock()
    return made


def found(world: World, before: str, after: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {
        one.path: (one.how, one.aspects) for one in between(world.repository, before, after)
    }  # fmt: skip


def test_every_kind_of_change_is_reported(world: World) -> None:
    for name in ("content", "mode", "gone", "kind", "times", "same", "attributes"):
        world.write(name, f"{name}\n")
    (world.payload / "link").symlink_to("same")
    (world.payload / "folder").mkdir()
    before = world.take()
    world.write("content", "other\n")
    os.chmod(world.payload / "mode", 0o755)
    (world.payload / "gone").unlink()
    (world.payload / "kind").unlink()
    (world.payload / "kind").mkdir()
    os.utime(world.payload / "times", ns=(1, 1))
    os.setxattr(world.payload / "attributes", "user.note", b"x")
    (world.payload / "link").unlink()
    (world.payload / "link").symlink_to("other")
    world.write("new/deep", "x")
    after = world.take()
    assert found(world, before, after) == {
        "attributes": ("changed", ("attributes",)),
        "content": ("changed", ("content",)),
        "gone": ("removed", ()),
        "kind": ("changed", ("kind",)),
        "link": ("changed", ("target",)),
        "mode": ("changed", ("mode",)),
        "new": ("added", ()),
        "new/deep": ("added", ()),
    }
    back = found(world, after, before)
    assert (back["gone"], back["new"]) == (("added", ()), ("removed", ()))
    assert found(world, before, before) == {}


def test_every_name_of_a_hard_linked_file_changes_with_it(world: World) -> None:
    world.write("a", "one\n")
    os.link(world.payload / "a", world.payload / "b")
    os.link(world.payload / "a", world.payload / "c")
    before = world.take()
    (world.payload / "a").write_text("two\n")
    (world.payload / "c").unlink()
    world.write("c", "two\n")
    middle = world.take()
    assert {*found(world, before, middle)} == {"a", "b", "c"}
    (world.payload / "b").unlink()
    world.write("b", "two\n")
    after = world.take()
    assert found(world, middle, after) == {}


def test_a_thousand_random_changes_are_those_that_pictures_show(tmp_path: Path) -> None:
    chance = random.Random(22)
    for number in range(30):
        world = World(tmp_path / str(number))
        world.lock()
        grow(world.payload, chance, entries=40)
        before, seen = world.take(), _facts(world)
        _disturb(world.payload, chance)
        grow(world.payload, chance, entries=10)
        after, now = world.take(), _facts(world)
        expected = {path for path in {*seen, *now} if seen.get(path) != now.get(path)}
        told = {one.path for one in between(world.repository, before, after)} - {"."}
        assert told == expected, number


def _facts(world: World) -> dict[str, tuple[Any, ...]]:
    """Everything but times, and which name of a file is its first."""
    found = {}
    for path, fact in picture(world.payload, mtimes=False).items():
        if path != ".":
            found[path] = (*fact[:5], *fact[6:]) if len(fact) > 6 else fact
    return found


def _disturb(root: Path, chance: random.Random) -> None:
    paths = sorted(path for path in root.rglob("*") if ".jvs-worktree" not in path.parts)
    for path in paths:
        if not os.path.lexists(path) or chance.random() < 0.6:
            continue
        os.chmod(path.parent, 0o755)
        if path.is_dir() and not path.is_symlink():
            for below in path.rglob("*"):
                if below.is_dir() and not below.is_symlink():
                    os.chmod(below, 0o755)
            shutil.rmtree(path)
        elif chance.random() < 0.5:
            path.unlink()
        elif path.is_file() and not path.is_symlink():
            os.chmod(path, 0o644)
            path.write_bytes(chance.randbytes(5))


def test_the_command_shows_lines_of_texts_and_only_names_with_stat(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.write("text", "one\ntwo\nthree\n")
    world.write("data", b"\0\1")
    before = world.take("before")
    world.write("text", "one\n2\nthree\n")
    world.write("data", b"\0\2\3")
    world.write("new\x1b[31m", "x\n")
    world.take("after")
    capsys.readouterr()
    assert tree("diff", "before", "after", holder=None) == 0
    shown = capsys.readouterr().out
    assert "-two\n+2\n" in shown
    assert "~ data  (content, 2 B -> 3 B)" in shown
    assert "3 paths: 1 added, 2 changed; +3 B, -2 B" in shown
    assert "\x1b" not in shown
    assert tree("diff", "--stat", before[:10], "after", holder=None) == 0
    shown = capsys.readouterr().out
    assert "-two" not in shown
    assert "~ text  (content, 14 B -> 12 B)" in shown
    assert tree("diff", "before", "after", "--json", holder=None) == 0
    data = told(capsys)
    assert data["totals"] == {
        "added": 1, "removed": 0, "changed": 2, "bytes_added": 3, "bytes_removed": 2,
    }  # fmt: skip
    assert [one["path"] for one in data["changes"]] == ["data", "new\x1b[31m", "text"]
    assert tree("diff", "before", "before", holder=None) == 0
    assert capsys.readouterr().out == "no difference\n"


def test_a_changed_manifest_is_not_compared(world: World) -> None:
    world.write("x")
    one, two = world.take(), world.take()
    manifest = world.snapshot(one) / "manifest.jsonl"
    os.chmod(manifest, 0o644)
    manifest.write_bytes(manifest.read_bytes().replace(b"x", b"y"))
    with pytest.raises(TreeDamagedError):
        [*between(world.repository, one, two)]
