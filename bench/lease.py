"""`run --lease -- X` beside the same X alone: the cost of leasing at the write.

The command is the console script of a fresh virtual environment, and the figures of whole commands
include its start. Single calls are measured inside a command that makes many of them, so their
figures exclude it. Processor time is that of the command, the broker and all processes that either
started; unlike the wall clock it is stable when other programs use the machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import lease_trees
from bench.harness import Row, Seat, Target, at_most, compare
from bench.shell import install, milliseconds

OURS = "run --lease"
ALONE = "alone"
_LOOP = Path(__file__).with_name("lease_loop.py")
_SUBREAPER = 36


@dataclass(frozen=True)
class Whole:
    """A command that is measured from start to end."""

    what: str
    target: Target | None
    make: lease_trees.Make
    rounds: int


def run(scratch: Path, quick: bool) -> list[Row]:
    commands = install(scratch / "installed")
    script = [str(commands / "holdfast"), "run", "--lease", "--"]
    temporary = scratch / "temporary"
    temporary.mkdir()
    with Seat() as seat:
        seat.ask(settle, temporary)
        rows = _calls(seat, script, scratch / "calls", quick)
        for number, whole in enumerate(_wholes(quick)):
            folder = scratch / f"whole{number}"
            steps = whole.make(folder)
            if steps is None:
                print(f"{whole.what}: its program is not installed", file=sys.stderr)
                continue
            rows += _compared(seat, script, folder, steps, whole)
    return rows


def _wholes(quick: bool) -> list[Whole]:
    rounds = 3 if quick else 9
    files = 500 if quick else 5_000
    return [
        Whole("true, from start to end", None, lease_trees.nothing, 2 * rounds),
        Whole("make of 60 C files", at_most(1.10), lease_trees.make_c, rounds),
        Whole("pytest, 800 tests", at_most(1.10), lease_trees.make_tests, rounds),
        Whole("npm install, nothing to do", at_most(1.10), lease_trees.make_npm, rounds),
        Whole("npm install, 40 local packages", None, lease_trees.make_npm_fresh, rounds),
        Whole(
            f"git checkout, {files:,} files differ", at_most(6),
            lease_trees.branches(files), 3 if quick else 5,
        ),
    ]  # fmt: skip


# Single calls


def _calls(seat: Seat, script: list[str], scratch: Path, quick: bool) -> list[Row]:
    """Calls of each kind in turn, each kind in commands of its own."""
    rounds, count = (3, 500) if quick else (9, 2_000)
    kinds = {
        "read": ("open and read of a file", None),
        "again": ("open of a leased file", 0.15),
        "first": ("first open of a tracked file", 0.4),
        "new": ("first open of a new file", None),
        "ignored": ("open of a new file that git ignores", None),
    }
    folder = lease_trees.tracked(scratch / "repository", count)
    figure = scratch / "figure"
    rows = []
    for kind, (what, limit) in kinds.items():
        clock: dict[str, list[float]] = {OURS: [], ALONE: []}
        work: dict[str, list[float]] = {OURS: [], ALONE: []}
        for number in range(rounds + 1):
            for name in (OURS, ALONE) if number % 2 else (ALONE, OURS):
                line = [sys.executable, "-IS", str(_LOOP), kind, str(count), name, str(figure)]
                seat.ask(spent, script + line if name == OURS else line, folder)
                lease_trees.git(folder, "clean", "-fdqx", "-e", ".holdfast")
                wall, worked = map(float, figure.read_text().split())
                if number:  # the first runs fill the system's caches
                    clock[name].append(wall)
                    work[name].append(worked)
        if kind == "read":
            # Equal, except for the difference between two runs of the same thing.
            rows.append(compare(f"{what}, processor time", "ms", work, OURS, ALONE, at_most(1.05)))
        else:
            rows += [_more(what, work, limit), compare(what, "ms", clock, OURS, ALONE)]
    return rows


def _more(what: str, work: dict[str, list[float]], limit: float | None) -> Row:
    """The extra processor time of one call."""
    more = [one - other for one, other in zip(work[OURS], work[ALONE], strict=True)]
    return Row(
        f"{what}, more processor time",
        "ms",
        statistics.median(more),
        ALONE,
        statistics.median(work[ALONE]),
        target=None if limit is None else at_most(limit, of="ours"),
        samples=work,
    )


# Whole commands


def _compared(
    seat: Seat, script: list[str], folder: Path, steps: lease_trees.Steps, whole: Whole
) -> list[Row]:
    clock: dict[str, list[float]] = {OURS: [], ALONE: []}
    work: dict[str, list[float]] = {OURS: [], ALONE: []}
    for number in range(whole.rounds + 1):
        for name in (OURS, ALONE) if number % 2 else (ALONE, OURS):
            for line in steps.before:
                subprocess.run(line, cwd=folder, check=True, stdout=sys.stderr)
            wall, worked = seat.ask(spent, (script if name == OURS else []) + steps.line, folder)
            for line in steps.after:
                subprocess.run(line, cwd=folder, check=True, stdout=sys.stderr)
            if number:
                clock[name].append(wall)
                work[name].append(worked)
    return [
        compare(whole.what, "ms", clock, OURS, ALONE, whole.target),
        compare(f"{whole.what}, processor time", "ms", work, OURS, ALONE),
    ]


# In the seat


def settle(temporary: Path) -> None:
    """What a command leaves becomes a child of this process: the broker, which ends after it. And
    temporary files do not lie on the way to the repository, just as they mostly do not."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    os.environ["TMPDIR"] = str(temporary)


def spent(line: Sequence[str], folder: Path) -> tuple[float, float]:
    """The wall-clock time of a command, and the processor time of it and of what it left behind."""
    command = [shutil.which(line[0]) or line[0], *line[1:]]
    with contextlib.chdir(folder):
        wall, worked = milliseconds(command, folder.parent / f"{folder.name}.complaints")
    while True:
        try:
            _pid, _status, used = os.wait4(-1, 0)
        except ChildProcessError:
            return wall, worked
        worked += (used.ru_utime + used.ru_stime) * 1e3
