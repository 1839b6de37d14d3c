"""Rounds, medians, targets and child processes: what every benchmark shares.

Figures from two runs are not comparable on a busy machine; figures from one round are. So all
contestants are measured in turn, round after round, and a ratio is the median of the ratios
of the rounds, not the ratio of the medians.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import sqlite3
import statistics
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Samples = Mapping[str, Sequence[float]]

#: No single call to a child takes longer than this, unless the child is stuck.
ANSWER_SECONDS_MAX = 900.0


@dataclass(frozen=True)
class Target:
    """What a row must reach: its ratio to the rival, or our figure itself."""

    sign: str
    limit: float
    of: str = "ratio"

    def met(self, row: Row) -> bool:
        value = row.ratio if self.of == "ratio" else row.ours
        if value is None:
            return False
        return value >= self.limit if self.sign == ">=" else value <= self.limit


def at_least(limit: float, of: str = "ratio") -> Target:
    return Target(">=", limit, of)


def at_most(limit: float, of: str = "ratio") -> Target:
    return Target("<=", limit, of)


@dataclass(frozen=True)
class Row:
    """One line of the table. Without a target it is there for information."""

    what: str
    unit: str
    ours: float | None
    rival: str = ""
    theirs: float | None = None
    ratio: float | None = None
    target: Target | None = None
    note: str = ""
    samples: dict[str, list[float]] = field(default_factory=dict)

    @property
    def ok(self) -> bool | None:
        return None if self.target is None else self.target.met(self)

    def as_data(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}


def compare(
    what: str,
    unit: str,
    samples: Samples,
    ours: str,
    rival: str,
    target: Target | None = None,
    *,
    note: str = "",
) -> Row:
    """One row from the samples of two contestants, taken in the same rounds."""
    mine, theirs = samples[ours], samples[rival]
    ratios = [one / other for one, other in zip(mine, theirs, strict=True)]
    return Row(
        what,
        unit,
        statistics.median(mine),
        rival,
        statistics.median(theirs),
        statistics.median(ratios),
        target,
        note,
        {ours: list(mine), rival: list(theirs)},
    )


def in_turns(
    contestants: Iterable[str], rounds: int, measure: Callable[[str], float]
) -> dict[str, list[float]]:
    """Measure every contestant once per round. Each round starts with another one, so that none
    always has the quiet start."""
    names = list(contestants)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            samples[name].append(measure(name))
    return samples


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` of the values do not exceed."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * percent / 100))]


class Seat:
    """A child process that executes calls one after another and keeps its state in between.

    It is started fresh (`spawn`), so it shares no lock, descriptor or import with its parent.
    """

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def begin(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Start a call without waiting; `answer` must follow."""
        self._pipe.send((function, arguments))

    def answer(self, timeout: float = ANSWER_SECONDS_MAX) -> Any:
        if not self._pipe.poll(timeout):
            self._process.kill()
            raise TimeoutError(f"a child gave no answer within {timeout:.0f} s")
        try:
            done, result = self._pipe.recv()
        except EOFError:
            self._process.join(5)
            raise RuntimeError(f"a child ended with {self._process.exitcode}") from None
        if not done:
            raise RuntimeError(f"in a child process:\n{result}")
        return result

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.begin(function, *arguments)
        return self.answer()

    def close(self) -> None:
        """Let the child end by itself, and kill it if it does not."""
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(10)

    def __enter__(self) -> Seat:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _serve(pipe: Connection) -> None:
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = (True, function(*arguments))
        except BaseException:
            answer = (False, traceback.format_exc())
        pipe.send(answer)


def resident_bytes() -> int:
    """The resident memory of this process; its peak if the system reports only that."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def surroundings(scratch: Path) -> dict[str, Any]:
    """The conditions of a run: machine, file system, versions, load."""
    versions = {}
    for package in ("holdfast", "filelock", "diskcache", "fasteners", "portalocker", "psycopg"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "file_system": file_system(scratch),
        "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "versions": versions,
    }


def file_system(folder: Path) -> str:
    """The kind of file system that a folder is on."""
    best, found = "", "unknown"
    try:
        lines = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        _, place, kind = line.split()[:3]
        inside = str(folder) == place or str(folder).startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):
            best, found = place, kind
    return found


def table(rows: Sequence[Row]) -> str:
    """The rows as one Markdown table that also reads well in a terminal."""
    lines = [("what", "ours", "rival", "ratio", "target", "ok?")]
    lines += [_cells(row) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    texts = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    ]
    texts.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(texts)


def _cells(row: Row) -> tuple[str, str, str, str, str, str]:
    what = f"{row.what} ({row.note})" if row.note else row.what
    rival = f"{row.rival} {figure(row.theirs, row.unit)}".strip()
    ratio = "" if row.ratio is None else f"{row.ratio:.3g} x"
    target = ""
    if row.target is not None:
        value = f"{row.target.limit:g} x"
        if row.target.of != "ratio":
            value = figure(row.target.limit, row.unit)
        target = f"{row.target.sign} {value}"
    ok = {None: "", True: "yes", False: "NO"}[row.ok]
    return what, figure(row.ours, row.unit), rival, ratio, target, ok


def figure(value: float | None, unit: str) -> str:
    """A figure with its unit, as precise as figures are from one run to the next."""
    if value is None:
        return ""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    number = f"{value:,.{digits}f}"
    return number if not unit else f"{number}{unit}" if unit == "/s" else f"{number} {unit}"
