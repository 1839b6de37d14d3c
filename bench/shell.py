"""`holdfast lock` and `holdfast unlock`, started as a shell starts them.

The command is the console script of a fresh virtual environment into which the project was
installed as a user would install it: an editable install pays for its import hook at every start.
The rival is that environment's own interpreter doing nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench import locks
from bench.harness import Row, at_most, compare

PROJECT = Path(__file__).resolve().parent.parent
BARE = "python -c pass"

#: Beside `src`: what a build of the project reads.
BUILD_FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")


def install(into: Path, extra: str = "") -> Path:
    """A virtual environment with the project in it, and what an extra of it needs (`[postgres]`);
    the folder of its commands."""
    source = into / "source"
    source.mkdir(parents=True)
    # A copy, because building writes into the tree that it builds.
    for name in BUILD_FILES:
        shutil.copy(PROJECT / name, source / name)
    shutil.copytree(
        PROJECT / "src",
        source / "src",
        ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
    )
    environment = into / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    commands = environment / "bin"
    subprocess.run(
        [commands / "python", "-m", "pip", "install", "--quiet", f"{source}{extra}"],
        check=True,
        stdout=sys.stderr,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    return commands


def milliseconds(
    command: list[str],
    complaints: Path,
    told: str = os.devnull,
    variables: Mapping[str, str] | None = None,
) -> tuple[float, float]:
    """The wall-clock and the processor time of a command, which must succeed."""
    quiet = [
        (os.POSIX_SPAWN_OPEN, 0, told, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, str(complaints), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
    ]
    # PYTHONPATH would select another copy of the package than the installed one.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOLDFAST_", "PYTHON"))
    } | dict(variables or {})
    begun = time.perf_counter()
    process = os.posix_spawn(command[0], command, environment, file_actions=quiet)
    _, status, used = os.wait4(process, 0)
    spent = (time.perf_counter() - begun) * 1e3
    if (code := os.waitstatus_to_exitcode(status)) != 0:
        said = complaints.read_text(errors="replace").strip()
        raise RuntimeError(f"{' '.join(command)} ended with {code}: {said}")
    return spent, (used.ru_utime + used.ru_stime) * 1e3


def run(scratch: Path, quick: bool) -> list[Row]:
    rounds = 10 if quick else 60
    commands = install(scratch / "installed")
    folder = locks.repository(scratch / "repository")
    script = str(commands / "holdfast")
    lines = {
        BARE: [str(commands / "python"), "-c", "pass"],
        "lock": [script, "lock", locks.PATH],
        "unlock": [script, "unlock", locks.PATH],
    }
    complaints = scratch / "complaints"
    with contextlib.chdir(folder):
        for line in lines.values():
            milliseconds(line, complaints)
        samples, work = _in_order(lines, rounds, complaints)
    return [
        compare(f"holdfast {verb}, from a shell", "ms", samples, verb, BARE, at_most(5))
        for verb in ("lock", "unlock")
    ] + [
        compare(f"holdfast {verb}, processor time", "ms", work, verb, BARE)
        for verb in ("lock", "unlock")
    ]


def _in_order(
    lines: dict[str, list[str]], rounds: int, complaints: Path
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Bare, lock, unlock, and again: the order stays, because an unlock needs its lock."""
    samples: dict[str, list[float]] = {name: [] for name in lines}
    work: dict[str, list[float]] = {name: [] for name in lines}
    for _ in range(rounds):
        for name, line in lines.items():
            spent, worked = milliseconds(line, complaints)
            samples[name].append(spent)
            work[name].append(worked)
    return samples, work
