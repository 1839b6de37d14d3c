"""The simulator of the gate: many steps break no promise, and every seeded bug is caught.

`fights/test_long_gate_simulation.py` runs more steps. The bugs that it found in the rulebook are in
`gate/test_gate_found.py`, each with the fewest steps that show it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing import simulate
from holdfast.testing.gate_simulator.sim_gate import GateSimulation
from holdfast.testing.simulator.sim_state import Broken
from mutants.sim_gate_mutants import GATE_MUTANTS

#: Seeds that four divides run without hand-overs (`wake = false`).
SEEDS = (1, 2, 3, 4)
STEPS = 2_500

#: A seeded bug must show within this many steps of one of these seeds, which the real code passes.
BUG_SEEDS = (14, 34, 25, 7, 12, 1, 2, 3)
BUG_STEPS = 2_000

#: What the runs together must have covered, or they prove less than they claim.
MET = (
    "edit: Passed", "edit: Denied", "edit: Halted", "wait_on: Denied", "wait_on: Passed",
    "stop: Passed", "stop: Held", "stop: Halted", "stop: Rested", "hold_on: Held",
    "hold_on: Halted", "hold_on: Passed", "hold_on: NoneType", "leave: NoneType",
    "live_on: Passed", "prompt: Passed", "session_start: Passed", "session_end: list",
    "agent_call: Passed", "agent_call: Halted", "halted for one above", "agent_start: Passed",
    "commit: list", "fail: NoneType",
    "resume: list", "force: Grant", "writes", "edits repeated", "hand-overs",
    "moved by edit", "moved by stop", "moved by session_start", "leases of those abroad",
    "reaped: owner dead", "reaped: idle", "reaped: expired", "agent_blocked", "agent_resumed",
    "blocker_free", "blocker_free_told", "blocker_free_over", "look_out: list",
    "back_in_line", "clients killed", "sessions resumed", "clock steps",
    "files that a person saved", "hooks killed before their decision",
    "hooks killed before their answer", "hooks of agents that had ended",
    "files of those whose session had ended", "second windows",
)  # fmt: skip


def counted(seeds: tuple[int, ...], steps: int) -> dict[str, int]:
    """The counts of some runs that broke nothing."""
    found: dict[str, int] = {}
    for seed in seeds:
        run = GateSimulation(seed)
        run.run(steps)
        for what, count in run.model.counts.items():
            found[what] = found.get(what, 0) + count
    return found


def test_thousands_of_steps_break_no_promise_and_meet_everything() -> None:
    found = counted(SEEDS, STEPS)
    assert [what for what in MET if not found.get(what)] == []


def test_the_embedded_store_breaks_no_promise(tmp_path: Path) -> None:
    run = GateSimulation(5, store="sqlite", folder=str(tmp_path))
    try:
        run.run(800)
    finally:
        run.close()
    assert run.model.counts["writes"] > 0


@pytest.mark.parametrize("name", sorted(GATE_MUTANTS))
def test_each_seeded_bug_of_the_gate_is_caught(name: str) -> None:
    for seed in BUG_SEEDS:
        with GATE_MUTANTS[name].applied():
            run = GateSimulation(seed)
            try:
                run.run(BUG_STEPS)
            except Broken:
                return
    pytest.fail(f"{name} was not caught: {GATE_MUTANTS[name].about}")


def test_a_seeded_bug_is_gone_after_its_block() -> None:
    for bug in GATE_MUTANTS.values():
        with bug.applied():
            pass
    GateSimulation(1).run(500)


def test_another_seed_is_another_run() -> None:
    runs = [GateSimulation(seed) for seed in (7, 7, 8)]
    for run in runs:
        run.run(400)
    digests = [simulate.digest(run) for run in runs]
    assert digests[0] == digests[1] != digests[2]


#: The same command with the seeded bugs, which are only in the tests.
WITH_BUGS = Path(__file__).parents[1] / "simulate_bug.py"


def simulated(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Run the command; if a bug is named, the variant that has the bugs."""
    program = [str(WITH_BUGS)] if "--bug" in arguments else ["-m", "holdfast.testing.simulate"]
    return subprocess.run(
        [sys.executable, *program, "--mode", "gate", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=False,
    )


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_the_command_prints_the_same_run_byte_for_byte(store: str) -> None:
    arguments = ("--seed", "7", "--steps", "600", "--store", store, "--trace")
    first = simulated(*arguments, hash_seed="1")
    assert first.returncode == 0, first.stdout + first.stderr
    assert simulated(*arguments, hash_seed="2").stdout == first.stdout


def test_a_broken_promise_is_reported_with_its_step_and_its_replay() -> None:
    found = simulated("--seed", "1", "--steps", "2000", "--bug", "retry_after_179_seconds")
    assert found.returncode == 1
    told, replay = found.stdout.split("Replay: python tests/simulate_bug.py ")
    assert "BROKEN at step " in told
    assert "heartbeat (2)" in told
    again = simulated(*replay.split())
    assert again.stdout.endswith(found.stdout[found.stdout.index("The last steps:") :])


def test_a_bug_of_another_mode_is_refused() -> None:
    assert simulated("--bug", "skip_liveness").returncode == 2
