"""Links to the previous snapshot: made immediately, or by another process if there are many."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import LINUX_ONLY, until
from helpers_trees import World, grow, old_enough, picture
from holdfast.core.errors import HoldfastError
from holdfast.manager import helper_process
from holdfast.trees import ConsistencyError, tree_files, verify
from holdfast.trees.payload import entry_lists, hard_links, linker

pytestmark = LINUX_ONLY


@pytest.fixture(params=["at once", "by another process"])
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    if request.param == "by another process":
        monkeypatch.setattr(hard_links, "MANY_BYTES", 0)
    made = World(tmp_path)
    made.lock()
    return made


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """One whose links are made by another process."""
    monkeypatch.setattr(hard_links, "MANY_BYTES", 0)
    made = World(tmp_path)
    made.lock()
    return made


def linked(world: World, id: str) -> int:
    return int(json.loads(world.descriptor(id).read_text())["files_linked"])


def inode(world: World, id: str, path: str) -> int:
    return (world.snapshot(id) / "payload" / path).stat().st_ino


def is_sound(world: World, id: str) -> bool:
    """Whether it matches its lists and the live tree, and is read-only."""
    payload = world.snapshot(id) / "payload"
    modes = [path.lstat().st_mode for path in (payload, *payload.rglob("*"))]
    assert not any(mode & 0o222 for mode in modes if mode & 0o170000 != 0o120000)
    assert [*verify(world.repository, id)] == []
    made = world.restore(id, f"r{id[:8]}").worktree
    return picture(made.path) == picture(world.payload)


def test_a_random_tree_is_the_same_after_its_second_snapshot(world: World) -> None:
    chance = random.Random(int.from_bytes(os.urandom(4)))
    grow(world.payload, chance, entries=60)
    world.write("plain", "at least one file that can be linked")
    old_enough()
    world.take()
    world.write("one-more", "x")
    id = world.take()
    assert linked(world, id) > 0
    assert is_sound(world, id)


def test_changed_files_are_copied_and_all_others_are_linked(world: World) -> None:
    for number in range(40):
        world.write(f"d{number % 4}/deep/f{number}", f"{number}")
    old_enough()
    first = world.take()
    world.write("d0/deep/f0", "other")
    (world.payload / "d1/deep/f1").unlink()
    world.write("d2/deep/new", "new")
    second = world.take()
    assert linked(world, second) == 38
    assert inode(world, first, "d3/deep/f3") == inode(world, second, "d3/deep/f3")
    assert inode(world, first, "d0/deep/f0") != inode(world, second, "d0/deep/f0")
    assert (world.payload / "d3/deep/f3").stat().st_nlink == 1, "never to the live tree"
    assert is_sound(world, second)


def test_a_folder_with_more_files_than_are_handed_over_at_once(
    many: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hard_links, "_BATCH_MAX", 7)
    for number in range(40):
        many.write(f"app/f{number}", f"{number}")
    old_enough()
    many.take()
    id = many.take()
    assert linked(many, id) == 40
    assert is_sound(many, id)


def _longer(place: Path) -> None:
    place.chmod(0o600)
    place.write_text("longer than it was")
    place.chmod(0o444)


def _writable(place: Path) -> None:
    place.chmod(0o600)


def _gone(place: Path) -> None:
    place.parent.chmod(0o700)
    place.unlink()


def _link(place: Path) -> None:
    _gone(place)
    place.symlink_to("/etc/passwd")


@pytest.mark.parametrize("spoil", [_longer, _writable, _gone, _link])
def test_a_changed_copy_is_made_again(world: World, spoil: Callable[[Path], None]) -> None:
    for name in ("app/x", "app/y", "z"):
        world.write(name, "text")
    world.write("app/large", b"l" * (3 << 20))
    old_enough()
    first = world.take()
    for name in ("app/x", "app/large"):
        spoil(world.snapshot(first) / "payload" / name)
    second = world.take()
    assert linked(world, second) == 2
    assert is_sound(world, second)


def test_further_names_of_one_file_stay_so(world: World) -> None:
    world.write("a/one", "text")
    (world.payload / "b").mkdir()
    os.link(world.payload / "a/one", world.payload / "b/two")
    old_enough()
    world.take()
    second = world.take()
    assert inode(world, second, "a/one") == inode(world, second, "b/two")
    assert is_sound(world, second)


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_a_file_that_is_not_what_its_times_say_makes_no_snapshot(
    many: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its copy cannot be linked, and the new copy does not match the lists."""
    place = many.write("app/x", "text")
    old_enough()
    first = many.take()
    _longer(many.snapshot(first) / "payload/app/x")
    whole = entry_lists.manifest

    def read(folder: str) -> Iterator[dict[str, Any]]:
        if how == "gone":
            place.unlink()
        for fields in whole(folder):
            yield {**fields, "sha256": "0" * 64}

    monkeypatch.setattr(entry_lists, "manifest", read)
    with pytest.raises(ConsistencyError, match="app/x"):
        many.take(consistency="best_effort")
    assert many.snapshots() == [first]
    assert many.leftovers() == []


def test_if_the_other_process_is_killed_there_is_no_snapshot_and_nothing_is_left(
    many: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        many.write(f"d{number}/x", "text")
    old_enough()
    first = many.take()

    class Doomed(helper_process.Helper):
        __slots__ = ()

        def __init__(self, program: str) -> None:
            super().__init__(program)
            os.kill(self.pid, signal.SIGKILL)

    monkeypatch.setattr(hard_links, "Helper", Doomed)
    with pytest.raises(HoldfastError, match="gone"):
        many.take()
    assert many.snapshots() == [first]
    assert many.leftovers() == []


def test_an_error_of_the_other_process_is_reported(
    many: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    many.write("app/x", "text")
    old_enough()
    first = many.take()

    class Confused(helper_process.Helper):
        __slots__ = ()

        def tell(self, data: object, descriptors: object = ()) -> None:
            if isinstance(data, tuple) and data and data[0] == "app":
                data = ("app", [("x" * 300, 1)], -1)  # no name can be as long
            super().tell(data, descriptors)  # type: ignore[arg-type]

    monkeypatch.setattr(hard_links, "Helper", Confused)
    with pytest.raises(HoldfastError, match="too long"):
        many.take()
    assert many.snapshots() == [first]
    assert many.leftovers() == []


def test_a_snapshot_that_was_killed_is_removed_while_the_other_process_still_links(
    many: World, tmp_path: Path
) -> None:
    for number in range(2000):
        many.write(f"d{number % 20}/f{number}")
    old_enough()
    payload = many.snapshot(many.take()) / "payload"
    building = tmp_path / "building"
    for number in range(20):
        (building / f"d{number}").mkdir(parents=True)
    helper = helper_process.Helper(str(linker.__file__))
    for number in range(20):
        before, copy = (os.open(one / f"d{number}", os.O_RDONLY) for one in (payload, building))
        wanted = [(path.name, 5) for path in (payload / f"d{number}").iterdir()]
        helper.tell((f"d{number}", wanted, 0o555), (before, copy))
        os.close(before)
        os.close(copy)
    assert tree_files.remove_tree(str(building))
    helper.close()
    assert not building.exists()


def test_removing_a_folder_that_keeps_being_filled_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_files, "_REFILLED_MAX", 3)
    place = tmp_path / "place"
    place.mkdir()
    clear = tree_files._clear

    def fill(folder: int) -> str | None:
        found = clear(folder)
        (place / "again").touch()
        return found

    monkeypatch.setattr(tree_files, "_clear", fill)
    with pytest.raises(OSError, match="not empty"):
        tree_files.remove_tree(str(place))


def test_the_other_process_ends_when_its_orders_end() -> None:
    helper = helper_process.Helper(str(linker.__file__))
    helper.tell(())
    assert helper.hear() == ([], 0, "")
    pid = helper.pid
    helper.close()
    until(lambda: not Path(f"/proc/{pid}").exists(), "it has gone")


def test_an_order_arrives_whole_whatever_its_length(tmp_path: Path) -> None:
    import _socket
    import threading

    ours, theirs = _socket.socketpair()
    data = {"names": [f"name-{number}\udc80" for number in range(50_000)]}
    heard: list[Any] = []
    listener = threading.Thread(target=lambda: heard.append(helper_process.hear(theirs)))
    listener.start()
    with open(tmp_path / "file", "w+") as file:
        helper_process.tell(ours, data, (file.fileno(),))
        listener.join(30)
        [(found, [descriptor])] = heard
        assert found == data
        assert os.fstat(descriptor).st_ino == os.fstat(file.fileno()).st_ino
        assert not os.get_inheritable(descriptor)
        os.close(descriptor)
    helper_process.tell(ours, {"last": True})
    ours.close()
    assert helper_process.hear(theirs) == ({"last": True}, [])
    assert helper_process.hear(theirs) is None
    theirs.close()
