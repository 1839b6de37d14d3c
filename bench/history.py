"""A repository with a history: `tree diff --stat` beside git's, and gc beside `rm -rf`.

git compares the payloads of the same two snapshots, which are plain folders. `rm -rf` removes
copies of the same snapshots, with the same hard links, without checking whether they are needed.
Commands are started as a shell starts them.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from bench.harness import Row, at_most, compare
from bench.trees import HOLDFAST, away, do, grow, repository, sync, timed

DIFF = "tree diff --stat"
GIT = "git diff --no-index --stat"
GC = "tree gc run"
REMOVE = "rm -rf"

_CHANGED_FILES = 100
_SNAPSHOTS = 100


def run(scratch: Path, quick: bool) -> list[Row]:
    return [_diff(scratch / "diff", quick), _gc(scratch / "gc", quick)]


def _diff(scratch: Path, quick: bool) -> Row:
    files, rounds = (4_000, 2) if quick else (20_000, 5)
    grow(scratch / "source", files, 0)
    main = repository(scratch, scratch / "source")
    before = _take(main)
    for number in range(_CHANGED_FILES):
        path = main / f"d{number % (files // 200)}" / f"f{number}"
        path.write_text(f"changed {number}\n")
    after = _take(main)
    control = main.parent / ".jvs" / "snapshots"
    theirs = (control / before / "payload", control / after / "payload")
    samples: dict[str, list[float]] = {DIFF: [], GIT: []}
    for _ in range(rounds):
        samples[DIFF].append(timed(lambda: do(*HOLDFAST, "diff", "--stat", before, after, at=main)))
        samples[GIT].append(timed(lambda: _git_diff(*theirs)))
    away(scratch)
    note = f"{files:,} files, {_CHANGED_FILES} changed"
    return compare("difference of two snapshots", "s", samples, DIFF, GIT, at_most(1.0), note=note)


def _git_diff(one: Path, other: Path) -> None:
    """git ends with 1 if there are differences, as there are."""
    words = ["git", "diff", "--no-index", "--stat", str(one), str(other)]
    done = subprocess.run(words, check=False, stdout=subprocess.DEVNULL)
    if done.returncode != 1:
        raise RuntimeError(f"git ended with {done.returncode}")


def _gc(scratch: Path, quick: bool) -> Row:
    files = 200 if quick else 1_000
    grow(scratch / "source", files, 0)
    main = repository(scratch, scratch / "source")
    control = main.parent / ".jvs"
    for number in range(_SNAPSHOTS):
        (main / "d0" / f"f{number}").write_text(f"changed {number}\n")
        _take(main)
    half = _SNAPSHOTS // 2
    keep = ["keep_ancestors=false", f"keep_last={half}", "keep_days=0"]
    do(*HOLDFAST, "gc", "settings", *keep, at=main)
    plan = _asked(main, "gc", "plan")["plan"]
    if len(plan["remove"]) != half:
        raise RuntimeError(f"{len(plan['remove'])} snapshots are to go, not {half}")
    copies = scratch / "copies"
    copies.mkdir()
    for one in plan["remove"]:
        do("cp", "-al", control / "snapshots" / one["snapshot_id"], copies)
    sync()
    theirs = timed(lambda: do("rm", "-rf", copies))
    ours = timed(lambda: do(*HOLDFAST, "gc", "run", plan["plan_id"], at=main))
    away(scratch)
    note = f"{half} of {_SNAPSHOTS} snapshots of {files:,} files"
    samples = {GC: [ours], REMOVE: [theirs]}
    return compare("gc of half of the snapshots", "s", samples, GC, REMOVE, at_most(3.0), note=note)


def _take(main: Path) -> str:
    return str(_asked(main, "snapshot", "--holder", "b")["snapshot"]["snapshot_id"])


def _asked(main: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run([*HOLDFAST, *words], check=True, cwd=main, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
