"""The simulator: many steps break nothing, and every seeded bug is caught.

`fights/test_long_simulation.py` runs ten times as many in `./check fights`, and a million in
`./check long`.

The bugs that it found in the real rules are at the end, each with the fewest steps that show it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.core import rules
from holdfast.core.model import SECOND, Decision, Event, Grant, Holder, Refusal, Request, Waiting
from holdfast.core.model import Witness as Process
from holdfast.manager.clock import FakeClock
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite.sqlite_store import SqliteStore
from holdfast.testing import simulate
from holdfast.testing.simulator.sim_faults import (
    FOR_EVER,
    FaultyStore,
    Interrupted,
)
from holdfast.testing.simulator.sim_progress import WAIT_MAX, Progress
from holdfast.testing.simulator.sim_run import Simulation
from holdfast.testing.simulator.sim_state import Broken
from mutants.sim_mutants import MUTANTS

#: Seeds that have covered everything after little more than half of these steps.
SEEDS = (53, 52, 48, 50, 35, 4)
STEPS = 4_000

#: A seeded bug must show within this many steps of one of these seeds, which the real code passes.
BUG_STEPS = STEPS

#: What a run must have covered, or it proves less than it claims.
MET = (
    "lock_acquired", "lock_refused", "lock_stolen", "lock_forced", "hand-overs",
    "ticket_reserved", "reservations passed", "circles refused", "dead waiters", "crashes",
    "pauses", "reaped: expired", "reaped: idle", "reaped: owner dead", "restores", "reboots",
    "clock steps", "machine sleeps", "lost before the commit", "lost inside the commit",
    "lost after the commit", "refusals counted, not written",
)  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_thousands_of_steps_break_no_invariant(seed: int) -> None:
    run = Simulation(seed)
    run.run(STEPS)
    assert [what for what in MET if not run.model.counts.get(what)] == []


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_the_embedded_store_breaks_no_invariant(seed: int, tmp_path: Path) -> None:
    run = Simulation(seed, store="sqlite", folder=str(tmp_path))
    try:
        run.run(2_500)
    finally:
        run.close()
    assert run.model.counts["restores"] > 0


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_each_seeded_bug_is_caught(name: str) -> None:
    for seed in SEEDS:
        with MUTANTS[name].applied():
            run = Simulation(seed)
            try:
                run.run(BUG_STEPS)
            except Broken:
                return
    pytest.fail(f"{name} was not caught: {MUTANTS[name].about}")


def test_a_seeded_bug_is_gone_after_its_block() -> None:
    for bug in MUTANTS.values():
        with bug.applied():
            pass
    Simulation(1).run(2_000)


def test_no_request_starves_as_long_as_grants_end() -> None:
    for seed in (1, 2, 3):
        run = Progress(seed)
        run.run(2_500)
        assert run.model.counts["ticket_reserved"] > 0
        assert run.model.longest_wait <= WAIT_MAX


def test_no_request_starves_on_the_embedded_store(tmp_path: Path) -> None:
    run = Progress(1, store="sqlite", folder=str(tmp_path))
    try:
        run.run(1_000)
    finally:
        run.close()


def test_a_wide_request_starves_without_reservations() -> None:
    run = Progress(1, patience=simulate.FOR_EVER)
    with pytest.raises(Broken, match=r"progress: .* for 8 files"):
        run.run(10_000)


# The command


#: The same command with the seeded bugs, which are only in the tests.
WITH_BUGS = Path(__file__).parents[1] / "simulate_bug.py"


def simulated(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    """Run the command; if a bug is named, the variant that has the bugs."""
    program = [str(WITH_BUGS)] if "--bug" in arguments else ["-m", "holdfast.testing.simulate"]
    return subprocess.run(
        [sys.executable, *program, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=False,
    )


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_the_same_seed_is_the_same_run_byte_for_byte(store: str) -> None:
    arguments = ("--seed", "7", "--steps", "1500", "--store", store, "--trace")
    first = simulated(*arguments, hash_seed="1")
    assert first.returncode == 0, first.stdout + first.stderr
    assert simulated(*arguments, hash_seed="2").stdout == first.stdout


def test_another_seed_is_another_run() -> None:
    runs = [Simulation(seed) for seed in (1, 2)]
    for run in runs:
        run.run(500)
    assert simulate.digest(runs[0]) != simulate.digest(runs[1])


def test_a_broken_invariant_is_reported_with_its_step_and_its_replay() -> None:
    found = simulated("--seed", "3", "--steps", "5000", "--bug", "skip_liveness")
    assert found.returncode == 1
    told, replay = found.stdout.split("Replay: python tests/simulate_bug.py ")
    assert "BROKEN at step " in told
    assert "only the living block (6)" in told
    again = simulated(*replay.split())
    assert again.returncode == 1
    assert again.stdout.endswith(found.stdout[found.stdout.index("The last steps:") :])


def test_an_exception_of_the_code_is_a_failure_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rules, "release", lambda *_: 1 / 0)
    assert simulate.main(["--steps", "2000"]) == 1
    assert "the code raised ZeroDivisionError" in capsys.readouterr().out


# The faults


class Always(FaultyStore):
    """A store whose every call fails in one way."""

    where = ""

    def _fate(self) -> str:
        return self.where


class Watcher:
    """Counts what was committed."""

    def __init__(self) -> None:
        self.seen = 0

    def looking(self, view: object) -> None:
        pass

    def committed(self, decision: Decision[Any], now: int, *, repeated: bool) -> None:
        self.seen += len(decision.events)

    def woken(self, addresses: tuple[str, ...], hints: tuple[str, ...]) -> None:
        pass


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize(
    ("where", "committed"), [("before", 0), ("inside", 0), ("after", 1), ("", 1)]
)
def test_a_fault_leaves_all_or_nothing(
    kind: str, where: str, committed: int, tmp_path: Path
) -> None:
    clock = FakeClock()
    store: Any
    if kind == "memory":
        store = MemoryStore(clock=clock, is_dead=lambda witness, marks: False)
    else:
        path = str(tmp_path / "ledger.db")
        store = SqliteStore(path, clock=clock, is_dead=lambda witness, marks: False)
    watcher = Watcher()
    faulty = Always(
        [store], random=Random(1), watcher=watcher, fault_rate=1, survives_tearing=kind == "sqlite"
    )
    faulty.where = where
    request = Request(id="g1", holder=Holder(id="a"), keys=("app/x",), modes="w")
    with pytest.raises(Interrupted, match=where) if where else nullcontext():
        faulty.transact(lambda view: rules.acquire(view, request, wait=False))
    assert watcher.seen == len(list(store.events())) == committed
    store.close()


# Bugs that it found


class Ledger:
    """A ledger in memory, with a clock and a process table that the test controls."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.dead: set[int] = set()
        self.orphans: set[str] = set()
        self.store = MemoryStore(clock=self.clock, is_dead=self._is_dead)

    def _is_dead(self, witness: Process, marks: tuple[str, ...]) -> bool:
        return witness.pid in self.dead and self.orphans.isdisjoint(marks)

    def do(self, rule: Any, *arguments: Any, **options: Any) -> Any:
        return self.store.transact(
            lambda view: rule(view, *arguments, **options), deadline=FOR_EVER
        )

    def take(self, id: str, who: Holder, wanted: str, *, wait: bool = False, **more: Any) -> Any:
        return self.do(rules.acquire, asked(id, who, wanted, **more), wait=wait)

    def events(self, after: int = 0) -> list[tuple[str, str]]:
        return [(event.type, about(event)) for event in self.store.events(after)]


def about(event: Event) -> str:
    data = event.data
    return str(data.get("grant") or data.get("id") or data.get("ticket") or data.get("code"))


def process(pid: int) -> Process:
    return Process(host="here", boot="1", namespace="", pid=pid, start=pid)


def holder(name: str, pid: int, mark: str = "") -> Holder:
    return Holder(id=name, key=f"{name}#{pid}", witness=process(pid), marks=(mark,) if mark else ())


def asked(id: str, who: Holder, wanted: str, **more: Any) -> Request:
    pairs = [part.split(":", 1) for part in wanted.split()]
    return Request(
        id=id, holder=who, keys=tuple(key for _, key in pairs),
        modes="".join(mode for mode, _ in pairs), **more,
    )  # fmt: skip


A, B, C, D = (holder(name, pid) for pid, name in enumerate("abcd", 1))


def test_a_short_renewal_after_a_sleep_does_not_shorten_the_lease() -> None:
    ledger = Ledger()
    ledger.take("g1", A, "w:x", ttl=1800 * SECOND)
    ledger.clock.sleep_machine(3600)
    assert isinstance(ledger.do(rules.renew, "g1", holder_key=A.key, ttl=SECOND), Grant)
    ledger.clock.advance(1700)
    assert isinstance(ledger.take("g2", B, "w:x"), Refusal)


def test_two_holders_of_one_process_do_not_die_together() -> None:
    ledger = Ledger()
    one, two = holder("one", 7, "MARK=1"), holder("two", 7, "MARK=2")
    ledger.take("g1", one, "r:x", ttl=None)
    ledger.take("g2", two, "r:x", ttl=None)
    ledger.dead.add(7)
    ledger.orphans.add("MARK=2")
    refusal = ledger.take("g3", A, "w:x")
    assert [conflict.grant_id for conflict in refusal.conflicts] == ["g2"]


def test_a_dead_waiter_is_dead_though_its_descendants_hold_something() -> None:
    ledger = Ledger()
    waiter, owner = process(8), holder("owner", 8, "MARK=8")
    ledger.take("g1", A, "w:x", ttl=None)
    ledger.take("g2", B, "w:x", wait=True, waiter=waiter, patience=0)
    ledger.take("g3", owner, "w:y", ttl=None)
    ledger.dead.add(8)
    ledger.orphans.add("MARK=8")
    refusal = ledger.take("g4", C, "w:x w:y")
    assert [conflict.grant_id for conflict in refusal.conflicts] == ["g1", "g3"]


def test_a_refusal_hands_over_what_it_found_to_be_free() -> None:
    ledger = Ledger()
    ledger.take("g1", A, "w:x", ttl=None)
    ledger.take("g2", B, "w:y", ttl=None)
    ledger.take("g3", C, "w:z", ttl=SECOND)
    ledger.take("g4", A, "w:y", wait=True)
    ledger.take("g5", A, "w:z", wait=True)
    ledger.clock.advance(2)
    refusal = ledger.take("g6", B, "w:x", wait=True)
    assert refusal.code == "E_LOCK_CYCLE"
    assert ("lock_reaped", "g3") in ledger.events()
    assert ("lock_acquired", "g5") in ledger.events()


def test_a_request_in_the_name_of_a_dead_holder_is_refused() -> None:
    ledger = Ledger()
    client = holder("client", 9)
    ledger.take("g1", A, "w:x", ttl=None)
    ledger.take("g2", client, "w:x", wait=True, waiter=process(10), patience=0)
    ledger.take("g3", B, "w:y", ttl=None)
    ledger.take("g4", A, "w:x w:y", wait=True)
    ledger.dead.add(9)
    refusal = ledger.take("g2", client, "w:x", wait=True, waiter=process(10), patience=0)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "E_LOCK_NOT_HELD"


def test_the_ticket_of_a_dead_waiter_closes_no_circle() -> None:
    ledger = Ledger()
    ledger.take("g1", A, "w:x", ttl=None)
    ledger.take("g2", B, "w:y", ttl=None)
    ledger.take("g3", A, "w:y", wait=True, waiter=process(11))
    ledger.dead.add(11)
    assert isinstance(ledger.take("g4", B, "w:x", wait=True), Waiting)


def test_no_request_overtakes_a_reservation_with_the_ticket_of_a_dead_waiter() -> None:
    ledger = Ledger()
    ledger.take("g1", A, "r:x", ttl=None)
    ledger.take("g2", B, "w:y", ttl=None)
    ledger.take("g3", C, "w:x", wait=True, patience=0)
    ledger.take("g4", A, "w:y", wait=True, waiter=process(12))
    ledger.dead.add(12)
    ledger.clock.advance(1)
    refusal = ledger.take("g5", B, "r:x")
    assert [conflict.grant_id for conflict in refusal.conflicts] == ["g3"]


def test_a_file_that_a_look_finds_free_goes_to_the_first_in_the_queue() -> None:
    ledger = Ledger()
    ledger.take("g1", A, "w:x w:y", ttl=SECOND)
    ledger.take("g2", D, "w:z", ttl=None)
    ledger.take("g3", B, "w:x w:z", wait=True)
    ledger.take("g4", C, "w:x", wait=True, priority=5)
    ledger.clock.advance(2)
    ledger.do(rules.release, "g2", D.key)  # a look at g3 finds that g1 has expired
    assert isinstance(ledger.store._table.grant("g4"), Grant)


def test_a_steal_that_is_repeated_after_its_end_makes_no_second_grant() -> None:
    ledger = Ledger()
    ledger.take("g1", A, "w:x", ttl=SECOND)
    ledger.clock.advance(2)
    request = asked("g2", B, "w:x")
    assert isinstance(ledger.do(rules.steal, request), Grant)
    ledger.do(rules.force, "g2", by=C, reason="test")
    ledger.take("g3", C, "w:x", ttl=SECOND)
    ledger.clock.advance(2)
    refusal = ledger.do(rules.steal, request)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "E_FENCING_MISMATCH"


def test_a_link_that_is_made_during_a_wait_is_seen() -> None:
    ledger = Ledger()
    ledger.take("g1", A, "r:x r:inode:1:7", silent=("inode:1:7",))
    ledger.take("g2", B, "w:x w:inode:1:7", silent=("inode:1:7",), wait=True)
    ledger.take("g3", C, "r:link r:inode:1:7")
    ledger.do(rules.release, "g1", A.key)
    assert ("lock_acquired", "g2") not in ledger.events()
    ledger.do(rules.release, "g3", C.key)
    assert ("lock_acquired", "g2") in ledger.events()
