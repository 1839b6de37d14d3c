"""The simulator of the gate for a hundred thousand steps, or half of them as a sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.gate_simulator.sim_gate import GateSimulation
from lengths import length

SEEDS = range(1, 6)
STEPS = length(20_000, sample=10_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_hundred_thousand_steps_break_no_promise(seed: int) -> None:
    run = GateSimulation(seed)
    run.run(STEPS)
    assert run.model.counts["hand-overs"] > 0


@pytest.mark.parametrize("seed", [6, 8])
def test_the_embedded_store_breaks_no_promise_for_long(seed: int, tmp_path: Path) -> None:
    run = GateSimulation(seed, store="sqlite", folder=str(tmp_path))
    try:
        run.run(length(5_000, sample=2_000))
    finally:
        run.close()
    assert run.model.counts["hand-overs"] > 0
