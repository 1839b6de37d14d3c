"""The definition of a mutant, and the table of all mutants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PACKAGE = "src/holdfast"


@dataclass(frozen=True)
class Mutant:
    """A change that breaks a promise, and the tests that must fail for it."""

    promise: str
    #: What the mutant breaks, in words.
    about: str
    #: Relative to the folder of the package.
    file: str
    #: Occurs exactly once in that file.
    old: str
    new: str
    #: Each of them must fail. docs/CONFORMANCE.md names all of them for the promise.
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of its run."""
        return f"{self.promise} {self.about}"

    def applied_to(self, source: str) -> str:
        """The file's text with the promise broken."""
        assert self.old != self.new, self.name
        assert source.count(self.old) == 1, (
            f"{self.name}: {source.count(self.old)} places in {self.file} have\n{self.old}"
        )
        return source.replace(self.old, self.new)


def all_mutants() -> list[Mutant]:
    """Every mutant, in the order of the promises."""
    from mutants import seed_000, seed_001, seed_002, seed_003, seed_004_01_18, seed_004_19_36

    tables = (seed_000, seed_001, seed_002, seed_003, seed_004_01_18, seed_004_19_36)
    return [mutant for table in tables for mutant in table.MUTANTS]
