"""A restore in place lists the processes inside the payload, and writes to their terminals."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY, until
from helpers_trees import World, picture, told, tree
from holdfast.trees import occupants
from holdfast.trees.locking.worktree_holders import caller

pytestmark = LINUX_ONLY

#: The holder id of `--holder ann`.
ME = caller({}, holder="ann").id

#: Stays in its folder, or has a file open or mapped, until it is ended.
STANDS = "import time; print('there', flush=True); time.sleep(600)"
OPENS = "import time, sys; f = open(sys.argv[1]); print('there', flush=True); time.sleep(600)"
MAPS = (
    "import mmap, sys, time; f = open(sys.argv[1], 'rb'); "
    "m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); f.close(); "
    "print('there', flush=True); time.sleep(600)"
)


class Inside:
    """Processes that stay in a folder, until the test is over."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[str]] = []

    def start(self, code: str, at: Path, *words: str, terminal: int | None = None) -> int:
        child = subprocess.Popen(
            [sys.executable, "-c", code, *words], cwd=at, stdout=subprocess.PIPE, text=True,
            stdin=terminal if terminal is not None else subprocess.DEVNULL,
        )  # fmt: skip
        self._running.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "there\n"
        return child.pid

    def end(self) -> None:
        for child in self._running:
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()


@pytest.fixture
def inside() -> Iterator[Inside]:
    made = Inside()
    yield made
    made.end()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    made.write("app/x", "one\n")
    made.lock(ME)
    made.take("first", holder=ME)
    made.write("app/x", "two\n")
    monkeypatch.chdir(made.root)
    return made


RESTORE = ("restore", "first", "--inplace", "--force", "--reason", "back", "--worktree", "main")


def test_processes_with_a_folder_or_open_files_inside_are_listed(
    world: World, inside: Inside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mainly").mkdir()
    stands = inside.start(STANDS, world.payload / "app")
    opens = inside.start(OPENS, tmp_path, str(world.payload / "app/x"))
    maps = inside.start(MAPS, tmp_path, str(world.payload / "app/x"))
    outside = inside.start(STANDS, tmp_path / "mainly")
    capsys.readouterr()
    assert tree(*RESTORE, "--json") == 0
    shown = {one["pid"]: one for one in told(capsys)["inside"]}
    assert {stands, opens, maps} <= {*shown}
    assert not {outside, os.getpid()} & {*shown}
    assert shown[stands]["folder"] == str(world.payload / "app")
    assert shown[opens]["files"] == [str(world.payload / "app/x")]
    assert shown[opens]["folder"] is None
    assert shown[maps]["files_count"] == 1
    assert (world.payload / "app/x").read_text() == "one\n"


def test_they_are_listed_before_the_exchange(
    world: World,
    inside: Inside,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pid = inside.start(STANDS, world.payload)
    seen = []

    def exchange(_one: str, _other: str) -> None:
        seen.append(capsys.readouterr().err)
        raise OSError(5, "not now")

    monkeypatch.setattr("holdfast.trees.kernel_calls.exchange", exchange)
    before = picture(world.payload)
    assert tree(*RESTORE) == 1
    assert f"(pid {pid}) is in {world.payload}" in seen[0]
    assert picture(world.payload) == before
    assert world.leftovers() == []


def test_terminals_inside_get_a_line_unless_they_refuse_messages(
    world: World, inside: Inside, capsys: pytest.CaptureFixture[str]
) -> None:
    masters = []
    for mode in (0o620, 0o600):
        master, slave = pty.openpty()
        os.fchmod(slave, mode)
        inside.start(STANDS, world.payload, terminal=slave)
        masters.append(master)
        os.close(slave)
    capsys.readouterr()
    assert tree(*RESTORE, "--json") == 0
    assert [one["told"] for one in told(capsys)["inside"] if one["terminal"]] == [True, False]
    os.set_blocking(masters[0], False)
    until(lambda: b'cd "$PWD"' in os.read(masters[0], 4096), "it is told")
    os.set_blocking(masters[1], False)
    with pytest.raises(BlockingIOError):
        os.read(masters[1], 4096)
    for master in masters:
        os.close(master)


def test_without_processes_inside_nothing_is_written(tmp_path: Path) -> None:
    assert occupants.inside(str(tmp_path / "nothing")) == []
    assert occupants.tell([], "text") == set()
