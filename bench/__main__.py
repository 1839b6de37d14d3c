"""Runs the benchmarks, prints one table and writes one JSON file.

Exit codes: 0 every target is met, 1 one is missed or a benchmark failed, 2 usage.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import holdfast
from bench import (
    commands,
    crowd,
    cycle,
    dispatch,
    handover,
    herd,
    history,
    hook,
    lease,
    ledger,
    memory,
    page,
    postgres,
    proof,
    shell,
    sizes,
    specs,
    tasks,
    trees,
)
from bench.figures import Figures, MissingFigureError
from bench.harness import Row, surroundings, table

BENCHMARKS: dict[str, Callable[[Path, bool], list[Row]]] = {
    "cycle": cycle.run,
    "crowd": crowd.run,
    "herd": herd.run,
    "handover": handover.run,
    "memory": memory.run,
    "ledger": ledger.run,
    "sizes": sizes.run,
    "postgres": postgres.run,
    "shell": shell.run,
    "hook": hook.run,
    "lease": lease.run,
    "commands": commands.run,
    "specs": specs.run,
    "proof": proof.run,
    "trees": trees.run,
    "history": history.run,
    "dispatch": dispatch.run,
    "tasks": tasks.run,
    "page": page.run,
}

RESULTS = Path(__file__).resolve().parent / "results.json"


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    if options.write_docs:
        return _write_docs(Figures())
    _compile()
    scratch = Path(tempfile.mkdtemp(prefix="holdfast-bench-")).resolve()
    before = surroundings(scratch)
    _say(
        f"Python {before['python']}, SQLite {before['sqlite']}, {before['cores']} cores, "
        f"{before['file_system']}, load {before['load']}"
    )
    begun = time.perf_counter()
    results: dict[str, list[Row]] = {}
    failures: dict[str, str] = {}
    try:
        for name in options.only:
            _say(f"{name} ...")
            _run(name, scratch / name, options.quick, results, failures)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    rows = [row for found in results.values() for row in found]
    report = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "seconds": round(time.perf_counter() - begun, 1),
        "surroundings": before,
        "load_after": list(os.getloadavg()),
        "benchmarks": {name: [row.as_data() for row in found] for name, found in results.items()},
        "failures": failures,
    }
    options.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    print(table(rows))
    for name in failures:
        print(f"{name}: failed, see above")
    is_written = True
    if options.write:
        figures = Figures()
        figures.keep(report)
        is_written = _write_docs(figures) == 0
    missed = [row for row in rows if row.ok is False]
    _say(f"{len(missed)} targets missed, {len(failures)} benchmarks failed; {options.json}")
    return 1 if missed or failures or not is_written else 0


def _write_docs(figures: Figures) -> int:
    try:
        figures.write_docs()
    except MissingFigureError as error:
        _say(f"{error}; the documents are as they were")
        return 1
    return 0


def _compile() -> None:
    """Compile the package as pip does when it installs; otherwise every timed command would."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir(Path(holdfast.__file__).parent, quiet=2)


def _run(
    name: str,
    scratch: Path,
    quick: bool,
    results: dict[str, list[Row]],
    failures: dict[str, str],
) -> None:
    """Run one benchmark. Its failure is reported at the end and does not affect the others."""
    scratch.mkdir()
    begun = time.perf_counter()
    try:
        results[name] = BENCHMARKS[name](scratch, quick)
    except Exception as trouble:
        failures[name] = f"{type(trouble).__name__}: {trouble}"
        traceback.print_exc()
    _say(f"{name}: {time.perf_counter() - begun:.0f} s")
    shutil.rmtree(scratch, ignore_errors=True)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only",
        type=_names,
        default=list(BENCHMARKS),
        metavar="NAME,...",
        help=f"some of: {', '.join(BENCHMARKS)}",
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller sizes")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument(
        "--write",
        action="store_true",
        help="keep the figures in docs/benchmarks.json, and write the tables of docs/benchmarks.md "
        "and README.md from them",
    )
    parser.add_argument(
        "--write-docs",
        action="store_true",
        help="write these tables from the figures that are kept, and measure nothing",
    )
    options = parser.parse_args(arguments)
    if options.quick and options.write:
        parser.error("figures of a quick run are not kept: leave out --quick or --write")
    return options


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in BENCHMARKS:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(BENCHMARKS)}")
    return names


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
