"""Runs the tests of one stage of `./check`, in parallel unless they measure something.

    python tests/run.py tests                 the tests of every day
    python tests/run.py tests gate cli        the tests of two rooms
    python tests/run.py tests -k wake -n0     further options for pytest; here in one process
    python tests/run.py fights                a separate stage
    python tests/run.py again fights          the failed tests of a stage again, in one process

A test that fails and then passes is reported as flaky: that is a defect, in the test or in the code
that it tests. The exit code is pytest's, or 0 if all failed tests have passed now.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import takewhile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: Pytest's record of the failures of the last run.
FAILED = HERE.parent / ".pytest_cache/v/cache/lastfailed"

#: One more than there are processors, since many tests wait for others.
PROCESSORS = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
MANY = min(PROCESSORS + 1, 9)
#: For every stage: its tests, its processes, and its minutes on two quiet cores.
STAGES: dict[str, tuple[list[str], int, int]] = {
    "tests": (["tests"], MANY, 8),
    "fights": (["tests/fights"], PROCESSORS, 15),
    "long": (["tests/fights"], 1, 60),
    "clients": (["tests/clients"], MANY, 8),
    "browser": (["tests/browser"], 1, 1),
}
#: Folders with tests that take long, or need programs that not every machine has.
APART = ("browser", "clients", "fights")


def rooms() -> list[str]:
    """The folders of tests in the stage `tests`."""
    return sorted({file.parent.name for file in HERE.glob("*/test_*.py")} - {*APART})


def run(stage: str, words: list[str]) -> int:
    """Run the tests of a stage, or of the named rooms in it."""
    paths, processes, minutes = STAGES[stage]
    if not words:
        print(f"about {minutes} min on two quiet cores, processes: {processes}", flush=True)
    named = list(takewhile(lambda word: not word.startswith("-"), words))
    words = words[len(named) :]
    if named:
        known = rooms() if stage == "tests" else []
        paths = [f"tests/{word}" if word in known else word for word in named]
    in_parallel = ["-n", str(processes), "--dist", "worksteal"] if processes > 1 else []
    line = ["-p", "progress", "-o", "console_output_style=classic"]
    code = _pytest([*line, "--durations=20", *in_parallel, *paths, *words])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        FAILED.unlink(missing_ok=True)  # not all tests have run, so there is nothing to repeat
    return code


def again(stage: str) -> int:
    """Run the failed tests again, and report the flaky ones."""
    paths = STAGES[stage][0]
    before = {test for test in _failed() if _is_of(stage, test)}
    code = _pytest(["--last-failed", "--last-failed-no-failures=none", *paths])
    after = _failed()
    for test in sorted(before):
        print(f"{'FAILED TWICE' if test in after else 'FLAKY'} {test}")
    if before - after:
        print("A flaky test is a defect, in the test or in the code that it tests.")
    return code


def _is_of(stage: str, test: str) -> bool:
    folder = test.split("/")[1]
    return folder not in APART if stage == "tests" else test.startswith(STAGES[stage][0][0])


def _failed() -> set[str]:
    return set(json.loads(FAILED.read_text())) if FAILED.exists() else set()


def _pytest(words: list[str]) -> int:
    # A process in the background ignores interrupts, and so would all processes that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGHUP", "SIGQUIT"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    strictly = ["-p", "no_skips"] if os.environ.get("HOLDFAST_NO_SKIPS") == "1" else []
    return int(pytest.main([*strictly, "-rfEs", *words]))


def main(words: list[str]) -> int:
    match words:
        case ["again", stage] if stage in STAGES:
            return again(stage)
        case [stage, *more] if stage in STAGES:
            return run(stage, more)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
