"""The table of mutants: at least one for every promise, each with tests of that promise."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from mutants.table import PACKAGE, PROJECT, Mutant, all_mutants
from promises import SHOWN_BY, promises

MUTANTS = all_mutants()


def test_every_promise_has_a_mutant() -> None:
    assert sorted({mutant.promise for mutant in MUTANTS}) == sorted(promises())


def test_no_two_have_one_name() -> None:
    names = Counter(mutant.name for mutant in MUTANTS)
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_source_and_names_tests_of_its_promise(mutant: Mutant) -> None:
    source = (PROJECT / PACKAGE / mutant.file).read_text(encoding="utf-8")
    broken = mutant.applied_to(source)
    if mutant.file.endswith(".py"):
        ast.parse(broken)
    assert mutant.tests
    assert set(mutant.tests) <= set(SHOWN_BY[mutant.promise])
