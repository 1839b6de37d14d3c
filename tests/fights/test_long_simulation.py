"""The simulator for a million steps, or a tenth of them as a sample."""

from __future__ import annotations

import pytest

from holdfast.testing.sim_run import Simulation
from lengths import FULL, length
from test_simulation import MET

SEEDS = range(1, 11)
STEPS = length(1_000_000, sample=100_000) // len(SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_million_steps_break_no_invariant(seed: int) -> None:
    run = Simulation(seed)
    run.run(STEPS)
    if FULL:
        assert [what for what in MET if not run.model.counts.get(what)] == []
