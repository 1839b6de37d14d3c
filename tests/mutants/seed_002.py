"""File leases of living owners: a mutant for every promise of 002."""

from __future__ import annotations

from mutants.table import Mutant

MUTANTS: list[Mutant] = []
