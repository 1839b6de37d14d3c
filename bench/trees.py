"""Snapshots and restores beside `cp -a` and git, on the same tree: many small files, a large one.

All contestants read from the page cache, and their work is on the disk when the clock stops, except
for `cp -a` alone, which a restore is compared with. Commands are started as a shell starts them, so
the interpreter's start is included.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.harness import Row, Samples, Target, at_most, compare

OURS = "tree snapshot"
SECOND = "tree snapshot, ten files changed"
RESTORE = "tree restore"
COPY = "cp -a"
COPY_SYNC = "cp -a + sync"
GIT = "git add + commit"
SHARE = "cp --reflink=always + sync"

HOLDFAST = (sys.executable, "-m", "holdfast", "--json", "tree")
_FOLDER_FILES = 200
_CHANGED_FILES = 10


def run(scratch: Path, quick: bool) -> list[Row]:
    rounds, files, large = (1, 4_000, 200 << 20) if quick else (3, 20_000, 1 << 30)
    source = scratch / "source"
    grow(source, files, large)
    samples: dict[str, list[float]] = {
        name: [] for name in (OURS, SECOND, RESTORE, COPY, COPY_SYNC, GIT)
    }
    for number in range(rounds):
        _round(scratch / f"round{number}", source, samples)
    # Not earlier: making files right after deleting many took two to three times as much work.
    for number in range(rounds):
        away(scratch / f"round{number}")
    # A small tree takes hardly more time than the interpreter's start.
    quicker = None if quick else at_most(0.1)
    size = f"{files:,} files and {large >> 20:,} MB"
    return [
        _row("first snapshot", samples, OURS, COPY_SYNC, at_most(2.0), size),
        _row("first snapshot", samples, OURS, GIT, at_most(0.5), size),
        _row("second snapshot, ten files changed", samples, SECOND, OURS, quicker, size),
        _row("restore", samples, RESTORE, COPY, at_most(2.0), size),
        *_memory(scratch / "memory", files),
        *_reflink(scratch / "reflink", quick),
    ]


def _row(
    what: str, samples: Samples, ours: str, rival: str, target: Target | None, note: str
) -> Row:
    return compare(what, "s", samples, ours, rival, target, note=note)


def _round(folder: Path, source: Path, samples: dict[str, list[float]]) -> None:
    """Measure each contestant once, on one tree, which is moved into a new repository."""
    folder.mkdir()
    main = repository(folder, source)
    sync()
    begun = time.perf_counter()
    do("cp", "-a", main, folder / "copy")
    samples[COPY].append(time.perf_counter() - begun)
    sync()
    samples[COPY_SYNC].append(time.perf_counter() - begun)
    samples[GIT].append(timed(lambda: _git(folder, main)))
    samples[OURS].append(timed(lambda: do(*HOLDFAST, "snapshot", "--holder", "b", at=main)))
    for number in range(_CHANGED_FILES):
        (main / f"d{number}" / "f0").write_bytes(os.urandom(3000))
    sync()
    samples[SECOND].append(timed(lambda: do(*HOLDFAST, "snapshot", "--holder", "b", at=main)))
    head = (main / ".jvs-worktree" / "head_snapshot").read_text().strip()
    sync()
    samples[RESTORE].append(
        timed(lambda: do(*HOLDFAST, "restore", head, "--name", "again", at=main))
    )
    for entry in [*main.iterdir()]:
        if entry.name != ".jvs-worktree":
            entry.rename(source / entry.name)


def _git(folder: Path, main: Path) -> None:
    """As people do, with the objects flushed as git does by itself."""
    work = (f"--git-dir={folder}/git", f"--work-tree={main}")
    name = ("-c", "user.name=b", "-c", "user.email=b@example.org", "-c", "gc.auto=0")
    do("git", *work, "init", "--quiet")
    (folder / "git" / "info" / "exclude").write_text(".jvs-worktree\n")
    do("git", *work, "add", "--all", at=main)
    do("git", *work, *name, "commit", "--quiet", "--message", "all", at=main)
    sync()


# Memory


def _memory(scratch: Path, files: int) -> list[Row]:
    """The peak of a snapshot's memory, of a tree and of one with a tenth of its files."""
    peaks = []
    for count in (files // 10, files):
        folder = scratch / str(count)
        grow(folder / "source", count, 0)
        main = repository(folder, folder / "source")
        peaks.append(_peak_bytes(main) / (1 << 20))
        away(folder)
    few, many = peaks
    return [
        Row("peak memory of a snapshot", "MB", many, f"with {files // 10:,} files", few,
            many / few, at_most(1.25), f"{files:,} files")
    ]  # fmt: skip


#: Starts a command from a small process, and reports its peak memory. A process that is started
#: from a large one counts as having been as large itself.
_STARTER = """
import os, sys
silence = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[silence])
_pid, status, usage = os.wait4(child, 0)
print(status, usage.ru_maxrss)
"""


def _peak_bytes(main: Path) -> int:
    words = [*HOLDFAST, "-C", str(main), "snapshot", "--holder", "b"]
    made = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _STARTER, *words],
        check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    status, peak = map(int, made.stdout.split())
    if status:
        raise RuntimeError("the snapshot failed")
    return peak * (1 if sys.platform == "darwin" else 1024)


# Sharing blocks


def _reflink(scratch: Path, quick: bool) -> list[Row]:
    """On a file system with shared blocks, in a file, if this machine allows making one."""
    rows: list[Row] = []
    scratch.mkdir(parents=True)
    for kind in ("btrfs", "xfs"):
        mkfs = shutil.which(f"mkfs.{kind}")
        if mkfs is None or os.geteuid() != 0:
            why = "no mkfs" if mkfs is None else "not root"
            rows.append(Row(f"snapshot on {kind}", "s", None, SHARE, note=f"not run: {why}"))
            continue
        try:
            rows += _reflink_on(kind, mkfs, scratch, quick)
        except (OSError, subprocess.CalledProcessError) as error:
            rows.append(Row(f"snapshot on {kind}", "s", None, SHARE, note=f"not run: {error}"))
    return rows


def _reflink_on(kind: str, mkfs: str, scratch: Path, quick: bool) -> list[Row]:
    image, mount = scratch / f"{kind}.img", scratch / kind
    with image.open("wb") as file:
        file.truncate(4 << 30)
    do(mkfs, image)
    mount.mkdir()
    do("mount", "-o", "loop", image, mount)
    try:
        files, large = (2_000, 64 << 20) if quick else (10_000, 512 << 20)
        grow(mount / "source", files, large)
        main = repository(mount, mount / "source")
        sync()
        shared = ("cp", "-a", "--reflink=always", main, mount / "copy")
        theirs = timed(lambda: _do_and_sync(*shared))
        ours = timed(lambda: do(*HOLDFAST, "snapshot", "--holder", "b", at=main))
        samples = {OURS: [ours], SHARE: [theirs]}
        note = f"{files:,} files and {large >> 20} MB; ours is hashed too"
        return [_row(f"snapshot on {kind}, shared blocks", samples, OURS, SHARE, None, note)]
    finally:
        do("umount", mount)
        image.unlink()


# Helpers


def grow(root: Path, files: int, large: int) -> None:
    root.mkdir(parents=True)
    for number in range(files):
        folder = root / f"d{number // _FOLDER_FILES}"
        if number % _FOLDER_FILES == 0:
            folder.mkdir()
        (folder / f"f{number % _FOLDER_FILES}").write_bytes(os.urandom(2000 + number % 4000))
    if large:
        with (root / "large").open("wb") as file:
            for _ in range(large >> 23):
                file.write(os.urandom(1 << 23))


def repository(folder: Path, source: Path) -> Path:
    """A repository around a tree that is moved into it, with its lock held."""
    do(*HOLDFAST, "init", "repository", at=folder)
    main = folder / "repository" / "main"
    for entry in [*source.iterdir()]:
        entry.rename(main / entry.name)
    do(*HOLDFAST, "lock", "acquire", "--holder", "b", "--lease", "1h", at=main)
    return main


def timed(work: Callable[[], object]) -> float:
    sync()
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def do(*words: object, at: Path | None = None) -> None:
    subprocess.run([*map(str, words)], check=True, cwd=at, stdout=subprocess.DEVNULL)


def _do_and_sync(*words: object) -> None:
    do(*words)
    sync()


def sync() -> None:
    os.sync()


def away(folder: Path) -> None:
    do("chmod", "-R", "u+w", folder)
    shutil.rmtree(folder)


def _main(words: Sequence[str]) -> None:
    """`python -m bench.trees [--quick]`: this benchmark alone."""
    from bench.harness import table

    scratch = Path(tempfile.mkdtemp(prefix="holdfast-trees-"))
    try:
        print(table(run(scratch, "--quick" in words)))
    finally:
        away(scratch)


if __name__ == "__main__":
    _main(sys.argv[1:])
