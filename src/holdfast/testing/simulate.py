"""The simulator: `python -m holdfast.testing.simulate --seed 7 --steps 100000`.

Runs the real rules on a real store, with agents, crashes and clocks that follow a seed, checks the
invariants of `docs/simulation.md` after every step, and prints a summary. Exits with 1 and the
broken invariant, its step and the command that replays it.

The simulator of the rulebook is in `simulator`, that of the gate in `gate_simulator`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from holdfast.core.model import SECOND, Grant, Refusal, Waiting
from holdfast.testing.gate_simulator.sim_gate import GateSimulation
from holdfast.testing.simulator.sim_progress import PATIENCE, Progress
from holdfast.testing.simulator.sim_run import Simulation
from holdfast.testing.simulator.sim_state import Broken
from holdfast.testing.simulator.sim_world import Ask

FOR_EVER = 1 << 60

#: The lines of a summary, and the count of each.
TOLD = (
    ("grants", "lock_acquired"),
    ("refusals written", "lock_refused"),
    ("refusals counted", "refusals counted, not written"),
    ("waits", "ticket_added"),
    ("reservations", "ticket_reserved"),
    ("reservations passed", "reservations passed"),
    ("deadlocks refused", "circles refused"),
    ("hand-overs", "hand-overs"),
    ("waits ended by a look", "own looks that start"),
    ("waits abandoned", "ticket_dropped"),
    ("dead waiters", "dead waiters"),
    ("renewals", "lock_renewed"),
    ("releases", "lock_released"),
    ("reaped: expired", "reaped: expired"),
    ("reaped: idle", "reaped: idle"),
    ("reaped: owner dead", "reaped: owner dead"),
    ("steals", "lock_stolen"),
    ("forces", "lock_forced"),
    ("writes", "writes"),
    ("writes refused", "writes refused"),
    ("crashes", "crashes"),
    ("pauses", "pauses"),
    ("lost before the commit", "lost before the commit"),
    ("lost inside the commit", "lost inside the commit"),
    ("lost after the commit", "lost after the commit"),
    ("commands repeated", "commands repeated"),
    ("clock steps", "clock steps"),
    ("machine sleeps", "machine sleeps"),
    ("reboots", "reboots"),
    ("backups restored", "restores"),
)


class Bug(Protocol):
    """A bug that a run must catch, present during its `with` block."""

    def applied(self) -> AbstractContextManager[object]: ...


def main(
    arguments: Sequence[str] | None = None,
    *,
    bugs: Mapping[str, Mapping[str, Bug]] | None = None,
    program: str = "python -m holdfast.testing.simulate",
) -> int:
    """The command. Returns the exit code. `bugs` are the choices of `--bug`, by mode."""
    given = _parser(program, with_bugs=bugs is not None).parse_args(arguments)
    known = (bugs or {}).get("gate" if given.mode == "gate" else "safety", {})
    if given.bug and given.bug not in known:
        print(f"--bug {given.bug} is not one of --mode {given.mode}: {' '.join(sorted(known))}")
        return 2
    bug = known[given.bug].applied() if given.bug else nullcontext()
    broken: Exception | None = None
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, bug:
        run = make(given.mode, given.seed, store=given.store, folder=folder, hasty=given.hasty)
        if given.trace:
            run.trace = lambda facts: print(line(facts))
        try:
            run.run(given.steps)
        except Exception as error:  # any error is reported with its step and its seed
            broken = error
        finally:
            run.close()
    print(summary(run))
    if broken is None:
        return 0
    options = f"--seed {given.seed} --store {given.store} --mode {given.mode}"
    options += "" if given.hasty else " --no-reservations"
    options += f" --bug {given.bug}" if given.bug else ""
    if not isinstance(broken, Broken):
        traceback.print_exception(broken)
    print(failure(run, broken, f"{program} {options} --steps {run.steps} --trace"))
    return 1


def make(
    mode: str, seed: int, *, store: str = "memory", folder: str = "", hasty: bool = True
) -> Simulation | GateSimulation:
    """A run of one mode. In progress mode, without `hasty`, no waiting request ever reserves."""
    if mode == "gate":
        return GateSimulation(seed, store=store, folder=folder)
    if mode == "progress":
        patience = PATIENCE if hasty else FOR_EVER
        return Progress(seed, store=store, folder=folder, patience=patience)
    return Simulation(seed, store=store, folder=folder)


def _parser(program: str, *, with_bugs: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Run agents, crashes and clocks that follow a seed, and check every step.",
    )
    parser.add_argument("--seed", type=int, default=7, help="the same seed is the same run")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--store", choices=("memory", "sqlite"), default="memory")
    parser.add_argument(
        "--mode", choices=("safety", "progress", "gate"), default="safety",
        help="progress: only processes fail, and every request must be served; "
        "gate: agents of clients, their stops, prompts and commits",
    )  # fmt: skip
    parser.set_defaults(bug="")
    if with_bugs:
        parser.add_argument("--bug", metavar="NAME", help="run the code with this bug")
    parser.add_argument(
        "--no-reservations", dest="hasty", action="store_false",
        help="progress: no waiting request ever reserves, and wide requests must starve",
    )  # fmt: skip
    parser.add_argument("--trace", action="store_true", help="print every step")
    return parser


def summary(run: Simulation | GateSimulation) -> str:
    """The summary of a run, as one table."""
    counts = run.model.counts
    told = TOLD if isinstance(run, Simulation) else [(name, name) for name in sorted(counts)]
    rows = [(name, f"{counts[count]:,}") for name, count in told if counts.get(count)]
    rows.insert(0, ("steps", f"{run.steps:,}"))
    rows.append(("longest wait", f"{run.model.longest_wait / SECOND:.1f} s"))
    rows.append(("simulated time", f"{run.world.elapsed / SECOND / 3600:.1f} h"))
    rows.append(("seed", str(run.seed)))
    rows.append(("digest", digest(run)))
    return "\n".join(f"{name:36}{value:>34}" for name, value in rows)


def digest(run: Simulation | GateSimulation) -> str:
    """Identifies a run: two runs with the same digest were the same."""
    found = run.model.digest.copy()
    found.update(repr(sorted(run.model.counts.items())).encode())
    return found.hexdigest()


def failure(run: Simulation | GateSimulation, broken: Exception, replay: str) -> str:
    """The broken invariant, the steps before it, and the command that replays it."""
    name = broken.invariant if isinstance(broken, Broken) else f"the code raised {broken!r}"
    facts = broken.facts if isinstance(broken, Broken) else "see the traceback"
    return "\n".join(
        (
            "",
            "The last steps:",
            *(f"  {line(step)}" for step in run.recent),
            "",
            f"BROKEN at step {run.steps}: {name}",
            f"  {facts}",
            f"Replay: {replay}",
        )
    )


def line(facts: tuple[object, ...]) -> str:
    """One step as text."""
    return " ".join(_word(fact) for fact in facts)


def _word(fact: object) -> str:
    if isinstance(fact, Ask):
        wanted = zip(fact.footprint.keys, fact.footprint.modes, strict=True)
        return f"{fact.id} [{fact.holder}] " + " ".join(f"{mode}({key})" for key, mode in wanted)
    if isinstance(fact, Grant):
        return f"-> {fact.id} token {fact.token}"
    if isinstance(fact, Waiting | Refusal):
        told = " ".join(f"{conflict.kind} {conflict.grant_id}" for conflict in fact.conflicts)
        return f"-> {'waits' if isinstance(fact, Waiting) else fact.code} {told}".rstrip()
    return str(fact)


if __name__ == "__main__":
    sys.exit(main())
