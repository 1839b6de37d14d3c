"""docs/CONFORMANCE.md has every promise once, and every test that it names exists.

`record.py` checks at the end of a session that they passed.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache

import pytest

from promises import NAMED, ROOT, ROWS, TEST, TEXT, promises
from run import APART


def test_every_promise_is_there_once() -> None:
    ids = [id for id, _promise, _shown in ROWS]
    assert [id for id, count in Counter(ids).items() if count > 1] == []
    assert sorted(ids) == sorted(promises())


def test_every_row_of_the_tables_was_understood() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| 0")]
    assert len(rows) == len(ROWS)


def test_every_promise_has_tests_and_nothing_else_beside_it() -> None:
    for id, promise, shown in ROWS:
        assert promise.strip(), id
        left = TEST.sub("", shown).replace("<br>", "")
        assert not left.strip(), f"{id}: {left!r} is not a test"
        assert TEST.search(shown), id


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
    """Each separate folder has a stage of its own; `./check` runs all other tests."""
    folders = {file.parent.name for file in (ROOT / "tests").rglob("test_*.py")}
    assert set(APART) < folders
    deep = list((ROOT / "tests").glob("*/*/**/test_*.py"))
    assert deep == []
    script = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    for name in APART:
        assert f"stage '{name}' apart {name}" in script
