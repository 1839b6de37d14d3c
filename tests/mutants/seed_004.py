"""Read and write locks, and the dispatcher: a mutant for every promise of 004."""

from __future__ import annotations

from mutants.table import Mutant

MUTANTS: list[Mutant] = []
