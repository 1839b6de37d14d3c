"""The simulator for a million steps, or a fifth of them as a sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.simulator.sim_progress import WAIT_MAX, Progress
from holdfast.testing.simulator.sim_run import Simulation
from lengths import length
from test_simulation import MET

SEEDS = range(1, 11)
STEPS = length(1_000_000, sample=200_000) // len(SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_million_steps_break_no_invariant(seed: int) -> None:
    run = Simulation(seed)
    run.run(STEPS)
    assert [what for what in MET if not run.model.counts.get(what)] == []


@pytest.mark.parametrize("seed", [1, 2])
def test_the_embedded_store_breaks_no_invariant_for_long(seed: int, tmp_path: Path) -> None:
    run = Simulation(seed, store="sqlite", folder=str(tmp_path))
    try:
        run.run(length(30_000, sample=10_000))
    finally:
        run.close()
    assert run.model.counts["restores"] > 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nobody_starves_for_long(seed: int) -> None:
    run = Progress(seed)
    run.run(length(30_000, sample=10_000))
    assert run.model.counts["ticket_reserved"] > 0
    assert run.model.longest_wait <= WAIT_MAX


def test_nobody_starves_for_long_on_the_embedded_store(tmp_path: Path) -> None:
    run = Progress(1, store="sqlite", folder=str(tmp_path))
    try:
        run.run(length(6_000, sample=2_000))
    finally:
        run.close()
