"""What is in a tree comes back: links, modes, times, attributes, holes, odd names; or is named."""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import LINUX_ONLY
from helpers_trees import ANN, World, grow, old_enough, picture
from helpers_trees_property import round_trips
from holdfast.trees import create, engines, take, verify

pytestmark = LINUX_ONLY


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.lock()
    return made


def snapshot(world: World, **more: Any) -> dict[str, Any]:
    id = world.take(**more)
    descriptor: dict[str, Any] = json.loads(world.descriptor(id).read_text())
    return descriptor


def test_some_random_trees_come_back_in_bytes_and_metadata(tmp_path: Path) -> None:
    round_trips(tmp_path, trees=25, seed=int.from_bytes(os.urandom(4)))


def test_a_snapshot_is_a_plain_complete_folder_that_is_read_only(world: World) -> None:
    world.write("app/x", "one\n")
    os.chmod(world.write("app/tool", "#!/bin/sh\n"), 0o4755)
    id = world.take()
    copy = world.snapshot(id) / "payload"
    assert (copy / "app/x").read_text() == "one\n"
    for path in (copy, *copy.rglob("*")):
        assert not path.stat().st_mode & 0o7222, path
    made = world.restore(id).worktree
    assert stat.S_IMODE(os.stat(f"{made.path}/app/tool").st_mode) == 0o4755


def test_unchanged_files_are_linked_to_the_snapshot_before_and_never_to_the_live_tree(
    world: World,
) -> None:
    same, other = world.write("same", "x" * 100), world.write("other", "y")
    large = world.write("large", b"z" * (3 << 20))
    old_enough()
    first = world.take()
    other.write_text("changed")
    second = world.take()
    one, two = world.snapshot(first) / "payload", world.snapshot(second) / "payload"
    for name in ("same", "large"):
        assert (one / name).stat().st_ino == (two / name).stat().st_ino
    assert (one / "other").stat().st_ino != (two / "other").stat().st_ino
    for live in (same, other, large):
        assert live.stat().st_nlink == 1
    assert [*verify(world.repository, second)] == []


def test_a_file_that_was_touched_or_restored_is_still_linked(world: World) -> None:
    world.write("same", "x" * 100)
    world.write("large", b"z" * (3 << 20))
    first = world.take()
    world.in_place(first)
    os.utime(world.payload / "same")
    fields = snapshot(world)
    assert fields["files_linked"] == 2


def test_a_change_that_keeps_size_and_time_is_seen_by_the_next_snapshot(world: World) -> None:
    place = world.write("x", "one")
    os.utime(place, ns=(10**18, 10**18))
    old_enough()
    world.take()
    place.write_text("two")
    os.utime(place, ns=(10**18, 10**18))
    id = world.take()
    assert (world.snapshot(id) / "payload" / "x").read_text() == "two"


def test_a_change_just_after_a_snapshot_is_seen_by_the_next(world: World) -> None:
    for number in range(30):
        place = world.write("x", f"{number:03d}")
        id = world.take()
        assert (world.snapshot(id) / "payload" / "x").read_text() == place.read_text()


def test_what_changed_within_the_last_tick_of_the_clock_is_not_trusted(world: World) -> None:
    world.write("old")
    old_enough()
    world.write("new")
    id = world.take()
    lines = (world.snapshot(id) / "sources").read_text().splitlines()
    assert [line[0] for line in lines if '"old"' in line] == ["+"]
    assert [line[0] for line in lines if '"new"' in line] == ["?"]


def test_links_are_kept_and_never_followed(world: World, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (world.payload / "out").symlink_to(tmp_path / "outside")
    (world.payload / "dangling").symlink_to("nowhere")
    world.write("a/one", "shared")
    os.link(world.payload / "a/one", world.payload / "z")
    fields = snapshot(world)
    made = world.restore(fields["snapshot_id"]).worktree
    assert picture(made.path) == picture(world.payload)
    assert os.stat(f"{made.path}/z").st_ino == os.stat(f"{made.path}/a/one").st_ino
    assert b"secret" not in b"".join(
        path.read_bytes() for path in world.snapshot(fields["snapshot_id"]).rglob("*")
        if path.is_file() and not path.is_symlink()
    )  # fmt: skip


def test_access_lists_and_attributes_are_kept(world: World) -> None:
    place = world.write("x")
    folder = world.payload / "folder"
    folder.mkdir()
    access = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tag, rights, who)
        for tag, rights, who in (
            (1, 6, 0xFFFFFFFF), (2, 4, 65534), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF),
            (32, 0, 0xFFFFFFFF),
        )
    )  # fmt: skip
    os.setxattr(place, "system.posix_acl_access", access)
    os.setxattr(place, "user.note", b"\0\xff binary")
    os.setxattr(folder, "user.note", b"on a folder")
    made = world.restore(world.take()).worktree
    assert os.getxattr(f"{made.path}/x", "system.posix_acl_access") == access
    assert picture(made.path) == picture(world.payload)


def test_holes_stay_holes(world: World) -> None:
    place = world.payload / "sparse"
    with place.open("wb") as file:
        file.seek(40 << 20)
        file.write(b"end")
        file.truncate(60 << 20)
    id = world.take()
    made = world.restore(id).worktree
    for copy in (world.snapshot(id) / "payload" / "sparse", Path(made.path, "sparse")):
        assert copy.stat().st_size == 60 << 20
        assert copy.stat().st_blocks * 512 < 1 << 20
        with copy.open("rb") as file:
            file.seek(40 << 20)
            assert file.read(4) == b"end\0"


def test_entries_that_cannot_be_kept_are_left_out_and_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("x")
    os.mkfifo(world.payload / "pipe")
    monkeypatch.chdir(world.payload)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("sock")
        fields = snapshot(world)
    assert fields["degraded"] == {
        "count": 1, "entries": [{"path": "sock", "what": "a socket was left out"}],
    }  # fmt: skip
    made = world.restore(fields["snapshot_id"]).worktree
    assert sorted(os.listdir(made.path)) == [".jvs-worktree", "pipe", "x"]
    assert stat.S_ISFIFO(os.stat(f"{made.path}/pipe").st_mode)


def test_a_very_deep_tree_is_kept(world: World) -> None:
    folder = os.open(world.payload, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("deep-folder-with-a-long-name", dir_fd=folder)
        below = os.open("deep-folder-with-a-long-name", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    id = world.take()
    assert [*verify(world.repository, id)] == []
    world.in_place(id)
    assert world.leftovers() == []


def test_an_empty_tree_is_a_snapshot_too(world: World) -> None:
    id = world.take()
    assert os.listdir(world.restore(id).worktree.path) == [".jvs-worktree"]


def test_two_trees_that_are_alike_have_the_same_hash(world: World) -> None:
    import random

    grow(world.payload, random.Random(7))
    one = snapshot(world)
    made = world.restore(one["snapshot_id"]).worktree
    from holdfast.trees import acquire

    acquire(made, ANN)
    other = take(made, ANN)
    assert other["payload_hash"] == one["payload_hash"]
    (Path(made.path) / "more").write_text("x")
    assert take(made, ANN)["payload_hash"] != one["payload_hash"]


# Engines


def test_the_engine_is_the_best_that_works_here_and_can_be_overridden(world: World) -> None:
    world.write("x", b"x" * (2 << 20))
    snapshots = world.control / "snapshots"
    best = "reflink-copy" if engines.can_share(world.main.path, str(snapshots)) else "copy"
    assert snapshot(world)["engine"] == best
    assert [*snapshots.glob("*.tmp")] == []
    for name in engines.names():
        id = world.take(engine=name)
        assert [*verify(world.repository, id)] == []
    with pytest.raises(Exception, match="unknown engine"):
        world.take(engine="magic")


def test_sharing_falls_back_to_copying_file_by_file(tmp_path: Path) -> None:
    """On a file system that can share and on one that cannot, the bytes are the same."""
    data = os.urandom((1 << 20) + 17)
    (tmp_path / "a").write_bytes(data)
    counted: list[int] = []
    with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("wb+") as target:
        engines.named("reflink-copy").copy(
            source.fileno(), target.fileno(), len(data), counted.append
        )
    assert (tmp_path / "b").read_bytes() == data
    assert sum(counted) == len(data)


def test_a_copy_between_file_systems_works_without_the_kernels_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "a").write_bytes(data)

    def refuse(*_: object) -> int:
        raise OSError(18, "another file system")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("wb+") as target:
        engines.named("copy").copy(source.fileno(), target.fileno(), len(data), lambda count: None)
    assert (tmp_path / "b").read_bytes() == data


def test_memory_does_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    import subprocess

    script = (
        "import resource, sys\nfrom holdfast.trees import *\n"
        "take(find(Repository.open(sys.argv[1]), 'main'), sys.argv[2])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    peaks = []
    for count in (100, 3000):
        (tmp_path / str(count)).mkdir()
        world = World(tmp_path / str(count))
        for number in range(count):
            place = world.payload / f"d{number // 100}"
            place.mkdir(exist_ok=True)
            (place / f"{number}").touch()
        world.lock()
        done = subprocess.run(
            [sys.executable, "-c", script, world.root, ANN], check=True, capture_output=True
        )
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] * 1.1


def test_many_snapshots_at_once_of_a_shared_worktree_have_one_line(tmp_path: Path) -> None:
    from threading import Thread

    from holdfast.trees import find
    from holdfast.trees.snapshots import descriptors

    world = World(tmp_path)
    shared = create(world.repository, "open", isolation="shared").worktree
    Path(shared.path, "x").write_text("x")
    threads = [Thread(target=take, args=(shared, f"here:t:{n}:1")) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    head = find(world.repository, "open").head()
    assert len([*descriptors.lineage(world.repository, head)]) == 6
    assert world.codes() == []
