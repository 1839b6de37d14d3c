"""The promises in docs/CONFORMANCE.md, and the tests that it names for each."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/CONFORMANCE.md").read_text(encoding="utf-8")

ROW = re.compile(r"^\| (\d{3}-P?\d+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py::\w+)`")

#: The number of each promise, its text, and its evidence.
ROWS: list[tuple[str, str, str]] = ROW.findall(TEXT)
#: The tests that are named for each promise.
SHOWN_BY = {promise: TEST.findall(shown) for promise, _words, shown in ROWS}
#: Every test that is named for a promise.
NAMED = sorted({test for tests in SHOWN_BY.values() for test in tests})


def promises() -> list[str]:
    """The number of every promise."""
    counts = {"000": 26, "002": 29, "003": 17, "004": 36}
    found = [f"{seed}-{n:02d}" for seed, count in counts.items() for n in range(1, count + 1)]
    found += [f"001-P{n}" for n in range(1, 16)] + [f"001-{n}" for n in range(16, 23)]
    return found
