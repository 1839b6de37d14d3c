"""Worktree locks and snapshots: a mutant for every promise of 000."""

from __future__ import annotations

from mutants.table import Mutant

MUTANTS: list[Mutant] = []
