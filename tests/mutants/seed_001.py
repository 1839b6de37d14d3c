"""Spec locks: a mutant for every promise of 001."""

from __future__ import annotations

from mutants.table import Mutant

MUTANTS: list[Mutant] = []
