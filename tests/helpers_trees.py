"""Repositories of trees for tests, and processes that die in the middle of an operation."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from helpers_processes import until
from holdfast.cli import main
from holdfast.core import file_times
from holdfast.core.errors import HoldfastError
from holdfast.manager.clock import FakeClock
from holdfast.trees import (
    Repository,
    Restored,
    acquire,
    create,
    examine,
    find,
    in_place,
    take,
    verify,
)
from holdfast.trees.snapshots import descriptors

ANN = "here:ann:11:1"
BOB = "here:bob:12:1"
CID = "here:cid:13:1"

#: The exit code of a child that should have died and did not.
LIVED = 0


class World:
    """One repository with the worktree `main`, and a clock that the test moves."""

    def __init__(self, folder: Path, *, clock: FakeClock | None = None) -> None:
        self._clock = clock
        self.repository = Repository.init(str(folder / "repo"), clock=clock)
        self.main = find(self.repository, "main")
        self._whole: set[str] = set()

    @property
    def clock(self) -> FakeClock:
        assert self._clock is not None, "this one has the real clock"
        return self._clock

    @property
    def root(self) -> Path:
        return Path(self.repository.root)

    @property
    def control(self) -> Path:
        return Path(self.repository.control)

    @property
    def payload(self) -> Path:
        return Path(self.main.path)

    def write(self, path: str, text: str | bytes = "text\n") -> Path:
        """A file in the payload of main."""
        place = self.payload / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)
        return place

    def lock(self, holder: str = ANN, lease: float = 300) -> None:
        acquire(self.main, holder, lease_seconds=lease)

    def take(self, note: str = "", holder: str = ANN, **more: Any) -> str:
        """A snapshot of main; its id."""
        return str(take(self.main, holder, note, **more)["snapshot_id"])

    def restore(self, id: str, name: str = "restored") -> Restored:
        return create(self.repository, name, snapshot_id=id)

    def in_place(self, id: str, holder: str = ANN, **more: Any) -> Restored:
        return in_place(self.main, holder, id, reason="a test", **more)

    def snapshots(self) -> list[str]:
        """The ids that history shows, whatever worktree they are of."""
        return [one["snapshot_id"] for one in descriptors.history(self.repository)]

    def descriptor(self, id: str) -> Path:
        return self.control / "descriptors" / f"{id}.json"

    def snapshot(self, id: str) -> Path:
        return self.control / "snapshots" / id

    def codes(self, *, strict: bool = True, clean: bool = False) -> list[str]:
        """The codes of the doctor's findings."""
        return [one.code for one in examine(self.repository, strict=strict, clean=clean)]

    def check_all(self, *, again: bool = True) -> None:
        """All visible snapshots are whole; checked ones are checked again only on request."""
        for id in self.snapshots():
            if again or id not in self._whole:
                assert [*verify(self.repository, id)] == []
                self._whole.add(id)

    def leftovers(self) -> list[str]:
        """Leftovers that should not exist when no operation is running."""
        found = [path.name for path in (self.control / "staging").iterdir()]
        found += [path.name for path in (self.control / "intents").glob("*.json")]
        found += [str(path) for path in self.control.glob("*/*.tmp")]
        found += [str(path) for path in (self.payload / ".jvs-worktree").glob("*.tmp")]
        found += [
            path.name
            for path in (self.control / "snapshots").iterdir()
            if not self.descriptor(path.name).exists()
        ]
        return found


def picture(root: str | Path, *, mtimes: bool = True) -> dict[str, tuple[Any, ...]]:
    """Everything about a tree that a restore must reproduce, in bytes and in metadata."""
    seen: dict[str, tuple[Any, ...]] = {}
    inodes: dict[int, str] = {}
    for path in sorted([Path(root), *_below(Path(root))]):
        name = os.path.relpath(path, root)
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        fact: tuple[Any, ...] = (kind, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
        if mtimes:
            fact += (status.st_mtime_ns,)
        if stat.S_ISREG(kind):
            first = inodes.setdefault(status.st_ino, name)
            fact += (path.read_bytes(), first, _attributes(path))
        elif stat.S_ISLNK(kind):
            fact += (os.readlink(path),)
        elif stat.S_ISDIR(kind):
            fact += (_attributes(path),)
        seen[name] = fact
    return seen


def _below(root: Path) -> Iterator[Path]:
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.name == ".jvs-worktree":
                continue
            yield Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from _below(Path(entry.path))


def _attributes(path: Path) -> dict[str, bytes]:
    if not hasattr(os, "listxattr"):
        return {}
    return {
        name: os.getxattr(path, name)
        for name in os.listxattr(path)
        if name.startswith(("user.", "system.posix_acl"))
    }


def old_enough() -> None:
    """Times can be relied on once a tick of the clock has passed: wait for the clock."""
    begun = time.time_ns()
    until(lambda: time.time_ns() > begun + file_times.TICK_NS * 2, "a tick has passed")


NAMES = (
    "a", "b", "src", "ä", "日本", "with blank", " ", "-rf", "new\nline", "quote'\"", "x" * 60, "\\",
    ".hidden", ".READY", "*", "é", "é", "tab\t", "a.tmp", "payload",
)  # fmt: skip


def grow(root: Path, chance: random.Random, *, entries: int = 25) -> None:
    """A random tree: depth, names, links, modes, sizes, times, attributes."""
    folders = [root]
    made: list[Path] = []
    for number in range(chance.randrange(entries)):
        place = chance.choice(folders) / _name(chance)
        if os.path.lexists(place):
            continue
        kind = chance.choice(("file", "file", "file", "folder", "folder", "link", "hard", "fifo"))
        if kind == "folder":
            place.mkdir()
            folders.append(place)
        elif kind == "file":
            place.write_bytes(_content(chance, number))
            made.append(place)
        elif kind == "link":
            place.symlink_to(chance.choice(("a", "../..", "/etc/passwd", "nowhere", "\udcff")))
        elif kind == "hard" and made:
            os.link(chance.choice(made), place)
        elif kind == "fifo":
            os.mkfifo(place)
    _dress(folders[1:], made, chance)


def _name(chance: random.Random) -> str:
    if chance.random() < 0.1:
        return os.fsdecode(bytes([0xFF, 0xFE, 65 + chance.randrange(26)]))
    return chance.choice(NAMES) + chance.choice(("", "", str(chance.randrange(9))))


def _content(chance: random.Random, number: int) -> bytes:
    size = chance.choice((0, 1, 10, 4095, 4096, 4097, 70_000, (1 << 20) + number))
    return chance.randbytes(min(size, 100)) * (size // 100 + 1)


def _dress(folders: list[Path], made: list[Path], chance: random.Random) -> None:
    for path in made:
        os.chmod(path, chance.choice((0o644, 0o600, 0o755, 0o444, 0o4755, 0o000, 0o666)))
        if chance.random() < 0.2:
            os.setxattr(path, "user.note", chance.randbytes(8))
        _age(path, chance)
    for path in reversed(folders):
        os.chmod(path, chance.choice((0o755, 0o700, 0o775, 0o1777, 0o555)))
        _age(path, chance)


def _age(path: Path, chance: random.Random) -> None:
    moment = chance.randrange(1_000_000_000, 1_700_000_000) * 10**9 + chance.randrange(10**9)
    os.utime(path, ns=(moment, moment))


# The command


def tree(*words: str, holder: str | None = "ann") -> int:
    """Run `holdfast tree …` in this process for a holder; returns its exit code."""
    line = ["tree", *words]
    if holder is not None:
        at = line.index("--") if "--" in line else len(line)
        line[at:at] = ["--holder", holder]
    return main(line)


def told(capsys: Any) -> Any:
    """The JSON document that a command has just printed."""
    text = capsys.readouterr().out
    assert text.count("\n") == 1, text
    return json.loads(text)


# Processes that die


def in_child(work: Callable[[], object], *, hook: Callable[[str, tuple[Any, ...]], None]) -> int:
    """Call a function in a process of its own, with an audit hook; returns how it ended.

    The hook is called for every file that is opened, renamed, linked, created and removed, so it
    can end the process before any of them. The program itself does not know about it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        code = 1
        try:
            sys.addaudithook(hook)
            work()
            code = LIVED
        except HoldfastError as error:
            os.write(2, f"{error.code} {error.message}\n".encode())
            code = 3
        finally:
            os._exit(code)
    _pid, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


STEPS = frozenset(
    ("open", "os.rename", "os.link", "os.symlink", "os.mkdir", "os.remove", "os.rmdir",
     "os.truncate", "os.chmod", "os.utime", "os.listdir", "os.scandir", "fcntl.flock")
)  # fmt: skip


class Steps:
    """Counts the steps of a child, and kills it before one of them."""

    def __init__(self, die_at: int = -1) -> None:
        self._left = die_at

    def __call__(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if event in STEPS:
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1


def steps_of(work: Callable[[], object], note: Path) -> list[str]:
    """The names of the steps of an operation that is not killed."""
    seen: list[str] = []

    def count(event: str, _arguments: tuple[Any, ...]) -> None:
        if event in STEPS:
            seen.append(event)

    def whole() -> None:
        work()
        told = " ".join(seen)
        note.write_text(told)

    assert in_child(whole, hook=count) == LIVED
    return note.read_text().split()


def telling(steps: list[str], every: int) -> list[int]:
    """Every n-th step and all steps around a rename, by which results become visible."""
    renames = [at for at, name in enumerate(steps) if name == "os.rename"]
    around = {at + one for at in renames for one in (0, 1, 2)}
    return sorted({*range(0, len(steps), every), *around, len(steps) + 100})


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Call a function in a child that is killed before a step; returns whether it got that far."""
    code = in_child(work, hook=Steps(step))
    assert code in (-signal.SIGKILL, LIVED), code
    return code != LIVED
