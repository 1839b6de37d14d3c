"""docs/CONFORMANCE.md tells the truth: every promise is there, and every test it names passes."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache

import pytest

from promises import NAMED, ROOT, ROWS, TEST, TEXT, promises
from run import APART

LATER = re.compile(r"not yet built \(([^)]+)\)")
PARTS: tuple[str, ...] = ()


def test_every_promise_is_there_once() -> None:
    ids = [id for id, _promise, _shown in ROWS]
    assert [id for id, count in Counter(ids).items() if count > 1] == []
    assert sorted(ids) == sorted(promises())


def test_every_row_of_the_tables_was_understood() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| 0")]
    assert len(rows) == len(ROWS)


def test_every_promise_has_a_test_or_is_said_to_come_later() -> None:
    for id, promise, shown in ROWS:
        assert promise.strip(), id
        left = LATER.sub("", TEST.sub("", shown)).replace("<br>", "").replace("the rest:", "")
        assert not left.strip(), f"{id}: {left!r} is neither a test nor a part"
        assert TEST.search(shown) or LATER.search(shown), id


def test_what_comes_later_is_listed_once_more() -> None:
    rows: dict[str, list[str]] = {part: [] for part in PARTS}
    for id, _promise, shown in ROWS:
        for part in LATER.findall(shown):
            rows[part].append(id)
    section = TEXT.partition("## Not yet built")[2]
    listed = dict(re.findall(r"^- ([a-z ]+): ((?:[\dP, -]|\n  )+)$", section, re.MULTILINE))
    assert {part: re.findall(r"\d{3}-P?\d+", ids) for part, ids in listed.items()} == rows


@pytest.mark.parametrize("test", NAMED)
def test_a_test_that_is_named_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert name in functions(file)


@cache
def functions(file: str) -> frozenset[str]:
    """The names of the functions at the top of a file."""
    body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef))


def test_tests_are_only_where_continuous_integration_runs_them() -> None:
    """Those in folders that stand apart have a stage each; all others are run by `./check`."""
    folders = {file.parent.name for file in (ROOT / "tests").rglob("test_*.py")}
    assert set(APART) < folders
    deep = list((ROOT / "tests").glob("*/*/**/test_*.py"))
    assert deep == []
    script = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    for name in APART:
        assert f"stage '{name}' apart {name}" in script
