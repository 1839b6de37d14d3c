"""Proof ledgers and claims: a mutant for every promise of 003."""

from __future__ import annotations

from mutants.table import Mutant

MUTANTS: list[Mutant] = []
