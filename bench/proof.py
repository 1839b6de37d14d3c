"""Proof ledgers, beside the plainest implementation of the protocol's text.

The plain one lists the folder for the next number, reads every event to find the holder of a node,
and polls every 10 ms for the lock. It does what the text requires and no more: it does not sync the
folder, its rename could replace an event, and waiters have no order.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from bench.harness import Row, Seat, Target, at_least, at_most, compare, in_turns
from holdfast.proof import Claims, ProofLedger, make_proof

OURS = "holdfast"
PLAIN = "the text's protocol, plainly"
CROWD = 8
STAMP = "2024-01-15T10:30:00Z"


class Plain:
    """The protocol's text, implemented with the standard library."""

    def __init__(self, root: str, *, sync: bool) -> None:
        self._ledger = os.path.join(root, "ledger")
        self._lock = os.path.join(self._ledger, "ledger.lock")
        self._sync = sync

    def acquire(self) -> None:
        content = json.dumps({"agent_id": str(os.getpid()), "acquired_at": STAMP})
        deadline = time.monotonic() + 30
        while True:
            try:
                file = os.open(self._lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            except FileExistsError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
                continue
            os.write(file, content.encode())
            os.close(file)
            return

    def append(self, event: dict[str, Any]) -> None:
        self.acquire()
        try:
            self._write(event)
        finally:
            os.remove(self._lock)

    def _write(self, event: dict[str, Any]) -> None:
        number = sum(name.startswith("event-") for name in os.listdir(self._ledger)) + 1
        temporary = f"{self._ledger}/.event-{os.getpid()}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"timestamp": STAMP, **event}, file)
            file.flush()
            if self._sync:
                os.fsync(file.fileno())
        os.rename(temporary, f"{self._ledger}/event-{number:06d}.json")

    def state(self) -> dict[str, str]:
        locks: dict[str, str] = {}
        for name in sorted(os.listdir(self._ledger)):
            if not name.startswith("event-"):
                continue
            with open(os.path.join(self._ledger, name), encoding="utf-8") as file:
                event = json.load(file)
            if event["type"] == "lock_acquired":
                locks[event["node_id"]] = event["owner"]
            elif event["type"] in ("lock_released", "lock_reaped"):
                locks.pop(event["node_id"], None)
        return locks

    def claim(self, node: str) -> None:
        self.acquire()
        try:
            if node not in self.state():
                self._write({"type": "lock_acquired", "node_id": node, "owner": "a",
                             "expires_at": "2099-01-01T00:00:00Z"})  # fmt: skip
        finally:
            os.remove(self._lock)


# What a child does

_open: dict[str, Any] = {}


def open_ledger(name: str, root: str, sync: bool) -> None:
    _open[name] = ProofLedger(root, sync=sync) if name == OURS else Plain(root, sync=sync)


def appends(name: str, seconds: float) -> tuple[int, float]:
    """How many in the given time, and how long it really took."""
    ledger, count = _open[name], 0
    begun = time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds:
        ledger.append({"type": "node_created", "node_id": "1.2.3", "text": "x" * 100})
        count += 1
    return count, spent


def some_appends(name: str, count: int) -> float:
    """The microseconds of one."""
    ledger = _open[name]
    begun = time.perf_counter()
    for _ in range(count):
        ledger.append({"type": "node_created", "node_id": "1.2.3", "text": "x" * 100})
    return (time.perf_counter() - begun) / count * 1e6


def claims(name: str, seconds: float) -> float:
    """Claims of one node after the other, in a second."""
    ledger, count = _open[name], 0
    taker = Claims(ledger) if name == OURS else None
    begun = time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds:
        count += 1
        if taker is not None:
            taker.claim(f"1.{count}", owner="a")
        else:
            ledger.claim(f"1.{count}")
    return count / spent


def replays(name: str, root: str) -> float:
    """How often per second a new process could read all claims."""
    begun = time.perf_counter()
    if name == OURS:
        found = len(Claims(ProofLedger(root)).known())
    else:
        found = len(Plain(root, sync=False).state())
    assert found, "there are claims in that ledger"
    return 1 / (time.perf_counter() - begun)


# What is measured


def run(scratch: Path, quick: bool) -> list[Row]:
    rounds, seconds, many = (3, 0.3, 10_000) if quick else (7, 0.5, 100_000)
    rows: list[Row] = []
    for sync in (False, True):
        rows.append(_alone(scratch, sync, rounds, seconds))
        rows += _crowd(scratch, sync, rounds, seconds)
    rows.append(_claims(scratch, rounds, seconds))
    long = scratch / "long"
    fill(long, many)
    rows.append(_growth(scratch, long, many, rounds))
    rows.append(_replay(long, many, rounds))
    return rows


def _fresh(scratch: Path) -> Path:
    root = scratch / "proof"
    shutil.rmtree(root, ignore_errors=True)
    make_proof(root)
    return root


def _said(sync: bool) -> str:
    return "with fsync" if sync else "without fsync"


def _alone(scratch: Path, sync: bool, rounds: int, seconds: float) -> Row:
    with Seat() as seat:

        def measure(name: str) -> float:
            seat.ask(open_ledger, name, str(_fresh(scratch)), sync)
            count, spent = seat.ask(appends, name, seconds)
            return float(count / spent)

        samples = in_turns((OURS, PLAIN), rounds, measure)
    return compare(f"proof append, one process, {_said(sync)}", "/s", samples, OURS, PLAIN)


def _crowd(scratch: Path, sync: bool, rounds: int, seconds: float) -> list[Row]:
    seats = [Seat() for _ in range(CROWD)]
    shares: dict[str, list[float]] = {OURS: [], PLAIN: []}

    def measure(name: str) -> float:
        root = _fresh(scratch)
        for seat in seats:
            seat.ask(open_ledger, name, str(root), sync)
        for seat in seats:
            seat.begin(appends, name, seconds * 2)
        answers = [seat.answer() for seat in seats]
        counts = [count for count, _ in answers]
        if ProofLedger(root).head != sum(counts):
            raise AssertionError(f"{name} lost events")
        shares[name].append(min(counts) / max(counts))
        return float(sum(counts) / max(spent for _, spent in answers))

    try:
        samples = in_turns((OURS, PLAIN), rounds, measure)
    finally:
        for seat in seats:
            seat.close()
    said = f"{CROWD} processes, {_said(sync)}"
    return [
        compare(f"proof append, {said}", "/s", samples, OURS, PLAIN),
        compare(f"its poorest over its richest, {said}", "", shares, OURS, PLAIN),
    ]


def _claims(scratch: Path, rounds: int, seconds: float) -> Row:
    with Seat() as seat:

        def measure(name: str) -> float:
            seat.ask(open_ledger, name, str(_fresh(scratch)), False)
            return float(seat.ask(claims, name, seconds))

        samples = in_turns((OURS, PLAIN), rounds, measure)
    return compare("proof claim, one process, without fsync", "/s", samples, OURS, PLAIN)


def fill(root: Path, count: int) -> None:
    """A proof with so many events, of which every tenth is a claim."""
    make_proof(root)
    for number in range(1, count + 1):
        event = {"type": "node_created", "timestamp": STAMP, "node_id": "1.2.3", "text": "x" * 100}
        if number % 10 == 0:
            node = f"1.{number % 999 + 1}"
            event = {"type": "lock_acquired", "timestamp": STAMP, "node_id": node,
                     "owner": "agent", "expires_at": "2099-01-01T00:00:00Z"}  # fmt: skip
        (root / f"ledger/event-{number:06d}.json").write_text(json.dumps(event))


def _growth(scratch: Path, long: Path, many: int, rounds: int) -> Row:
    """One append in a long ledger, beside one in a short one."""
    short = scratch / "short"
    fill(short, 100)
    few, lot = "at 100 events", f"at {many:,} events"
    with Seat() as small, Seat() as large:
        small.ask(open_ledger, OURS, str(short), False)
        large.ask(open_ledger, OURS, str(long), False)
        for seat in (small, large):  # from now on the tail is known
            seat.ask(some_appends, OURS, 100)

        def measure(name: str) -> float:
            return float((large if name == lot else small).ask(some_appends, OURS, 100))

        samples = in_turns((lot, few), rounds * 3, measure)
    limit: Target = at_most(1.5)
    return compare(f"proof append, {lot}", "µs", samples, lot, few, limit)


def _replay(long: Path, many: int, rounds: int) -> Row:
    """A new process that reads all claims, with the checkpoint of an earlier one."""
    with Seat() as seat:
        seat.ask(replays, OURS, str(long))

        def measure(name: str) -> float:
            return float(seat.ask(replays, name, str(long)))

        samples = in_turns((OURS, PLAIN), rounds, measure)
    what = f"proof replay of {many:,} events, cold"
    return compare(what, "/s", samples, OURS, PLAIN, at_least(1.5))
