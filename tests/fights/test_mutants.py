"""Every promise is broken on purpose, and the tests that the table names for it fail."""

from __future__ import annotations

from datetime import date

import pytest

from lengths import length
from mutants.table import Mutant, all_mutants
from mutants.workshop import Workshop

ALL = all_mutants()
#: `./check fights` runs every twentieth mutant, and begins at another one each day.
STEP = length(1, sample=20)
RUN = ALL[date.today().toordinal() % STEP :: STEP]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"))


def test_without_a_mutant_every_test_in_the_table_passes(workshop: Workshop) -> None:
    """So a failure below is due to the mutant and not to the workshop."""
    named = tuple(sorted({test for mutant in RUN for test in mutant.tests}))
    outcomes = workshop.run(named)
    assert outcomes == dict.fromkeys(named, "PASSED"), workshop.said


@pytest.mark.parametrize("mutant", RUN, ids=lambda mutant: mutant.name)
def test_a_broken_promise_is_noticed_by_its_tests(workshop: Workshop, mutant: Mutant) -> None:
    with workshop.broken(mutant):
        outcomes = workshop.run(mutant.tests)
    assert outcomes == dict.fromkeys(mutant.tests, "FAILED"), workshop.said
