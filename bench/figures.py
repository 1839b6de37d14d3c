"""The figures that are kept, and the tables of the documentation that are written from them.

docs/benchmarks.json has the rows of each benchmark as it was last measured in full, and for each
run its date and its machine. docs/benchmarks.md has all of them as tables; README.md has a few.
Samples are not kept: they are in the JSON file of a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import locks
from bench.harness import Row, Target, figure, table

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures -->", "<!-- /figures -->"


@dataclass(frozen=True)
class Line:
    """A line of the README's table: which row of which benchmark, beside which rivals."""

    label: str
    benchmark: str
    what: str
    rivals: tuple[str, ...]


#: How the README calls rivals whose names in the tables are shorter, or code.
README_NAMES = {
    "python -c pass": "`python -c pass`",
    "no dispatcher is quicker than": "no dispatcher can be quicker than",
    "cp -a + sync": "`cp -a` and `sync`",
    "git add + commit": "`git add` and `commit`",
    "tree snapshot": "the first one",
}

README_LINES = (
    Line("acquire and release, one process", "cycle", "cycle, one process",
         (locks.FILELOCK, locks.LEASE)),
    Line("8 processes on one path", "crowd", "crowd of 8, total", (locks.FILELOCK,)),
    Line("grants of the slowest of the 8, per grant of the fastest", "crowd",
         "crowd of 8, poorest / richest", (locks.FILELOCK,)),
    Line("from release to the next one's grant, p50", "handover", "hand-over p50",
         (locks.FILELOCK,)),
    Line("`holdfast lock` from a shell", "shell", "holdfast lock, from a shell",
         ("python -c pass",)),
    Line("1,000 tasks of 100 ms, each below a broker, on 8 slots", "dispatch",
         "1000 tasks of 100 ms below a broker on 8 slots", ("no dispatcher is quicker than",)),
    Line("200 tasks of 100 ms on 8 slots, 60 of which collide", "tasks",
         "200 tasks of 100 ms, 60 of which collide, on 8 slots", ("one after the other",)),
    Line("first snapshot of 20,000 files and 1 GB, flushed", "trees", "first snapshot",
         ("cp -a + sync", "git add + commit")),
    Line("the next one, after ten files changed", "trees", "second snapshot, ten files changed",
         ("tree snapshot",)),
)  # fmt: skip


class MissingFigureError(Exception):
    """A line of the README's table that no kept row has."""


class Figures:
    """The kept figures of one checkout, and its documents."""

    def __init__(self, root: Path = ROOT) -> None:
        self._kept = root / "docs/benchmarks.json"
        self._page = root / "docs/benchmarks.md"
        self._readme = root / "README.md"

    def keep(self, report: Mapping[str, Any]) -> None:
        """Replace the kept rows of every benchmark that a run has measured."""
        kept = self._read()
        for name, rows in report["benchmarks"].items():
            bare = [{**row, "samples": {}} for row in rows]
            kept["benchmarks"][name] = {"run": report["when"], "rows": bare}
        kept["runs"][report["when"]] = {
            key: report[key] for key in ("seconds", "surroundings", "load_after")
        }
        used = {one["run"] for one in kept["benchmarks"].values()}
        kept["runs"] = {when: run for when, run in sorted(kept["runs"].items()) if when in used}
        self._kept.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")

    def write_docs(self) -> None:
        """Write the tables of both documents from the kept figures."""
        for file, text in self.documents().items():
            file.write_text(text)

    def documents(self) -> dict[Path, str]:
        """Both documents as they are with the tables of the kept figures."""
        kept = self._read()
        return {
            self._page: _replaced(self._page.read_text(), _tables(kept)),
            self._readme: _replaced(self._readme.read_text(), _readme_table(kept)),
        }

    def _read(self) -> dict[str, Any]:
        if not self._kept.exists():
            return {"runs": {}, "benchmarks": {}}
        found: dict[str, Any] = json.loads(self._kept.read_text())
        return found


def _replaced(document: str, text: str) -> str:
    """A document with another text between its markers."""
    before, begin, rest = document.partition(f"{BEGIN}\n")
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the markers {BEGIN} and {END} are missing")
    return f"{before}{begin}{text}{end}{after}"


# docs/benchmarks.md


def _tables(kept: Mapping[str, Any]) -> str:
    """A table for each run, the latest first, below its date and its machine."""
    parts = []
    for when, run in reversed(kept["runs"].items()):
        own = {name: one["rows"] for name, one in kept["benchmarks"].items() if one["run"] == when}
        rows = [_row(data) for rows in own.values() for data in rows]
        names = ", ".join(f"`{name}`" for name in own)
        parts.append(f"\n{_machine(when, run)} {names}:\n\n{table(rows)}\n")
    return "".join([*parts, "\n"])


def _machine(when: str, run: Mapping[str, Any]) -> str:
    """When and where a run was made, as far as it is known."""
    around = run["surroundings"]
    versions = around.get("versions", {})
    said = [
        around.get("system", ""),
        f"{around['cores']} cores" if around.get("cores") else "",
        around.get("file_system", ""),
        f"Python {around['python']}" if around.get("python") else "",
        f"SQLite {around['sqlite']}" if around.get("sqlite") else "",
        *(f"{name} {number}" for name, number in versions.items()),
        f"load {around['load'][0]:.1f} before and {run['load_after'][0]:.1f} after"
        if around.get("load") and run.get("load_after")
        else "",
    ]
    return f"**{when[:10]}**, {', '.join(filter(None, said))}."


def _row(data: Mapping[str, Any]) -> Row:
    """A row from how it is kept."""
    target = data["target"]
    fields = {key: value for key, value in data.items() if key not in ("ok", "target")}
    return Row(**fields, target=None if target is None else Target(**target))


# README.md


def _readme_table(kept: Mapping[str, Any]) -> str:
    lines = ["| what | Holdfast | rival | ratio |", "|---|---|---|---|"]
    for line in README_LINES:
        rows = [_found(kept, line, rival) for rival in line.rivals]
        rivals = "; ".join(_rival(row) for row in rows)
        ratios = "; ".join(_short(row.ratio, "") for row in rows if row.ratio is not None)
        cells = [line.label, _short(rows[0].ours, rows[0].unit), rivals, ratios]
        lines.append(f"| {' | '.join(cells)} |")
    return "".join(f"{line}\n" for line in lines)


def _found(kept: Mapping[str, Any], line: Line, rival: str) -> Row:
    rows: Sequence[Mapping[str, Any]] = kept["benchmarks"].get(line.benchmark, {}).get("rows", ())
    for data in rows:
        if (data["what"], data["rival"]) == (line.what, rival):
            return _row(data)
    raise MissingFigureError(
        f"README.md shows {line.what!r} of {line.benchmark} beside {rival!r}, which is not kept"
    )


def _rival(row: Row) -> str:
    return f"{README_NAMES.get(row.rival, row.rival)} {_short(row.theirs, row.unit)}"


def _short(value: float | None, unit: str) -> str:
    """A figure without zeros at its end."""
    return re.sub(
        r"\.(\d*?)0+(?=\D|$)", lambda found: found[1] and f".{found[1]}", figure(value, unit)
    )
