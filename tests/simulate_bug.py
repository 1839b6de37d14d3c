"""The simulator with a seeded bug: `python tests/simulate_bug.py --bug skip_liveness --seed 3`."""

from __future__ import annotations

import sys

from holdfast.testing.simulate import main
from mutants.sim_gate_mutants import GATE_MUTANTS
from mutants.sim_mutants import MUTANTS

BUGS = {"gate": GATE_MUTANTS, "safety": MUTANTS}

if __name__ == "__main__":
    sys.exit(main(bugs=BUGS, program="python tests/simulate_bug.py"))
