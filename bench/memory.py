"""The memory store: its cycle, and its conflict check with ten and with a million grants."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import locks
from bench.harness import Row, Seat, at_least, at_most, compare, in_turns, resident_bytes

FEW = 10
RESIDENT_GIGABYTES_MAX = 1.5

FREE = "free"
HELD = "held"
HELD_ANYWHERE = "held, cold"

_manager: Any = None


def file_name(number: int) -> str:
    """The name of one of many files, in a tree with 50 to a folder and 1,000 folders to an area."""
    return f"area{number // 50_000}/part{number // 50 % 1_000}/file{number % 50}.py"


def five(number: int) -> list[str]:
    """The five paths of a grant."""
    return [file_name(number * 5 + offset) for offset in range(5)]


def fill(grants: int) -> float:
    """In a child: acquires that many grants of two reads and three writes, and keeps them."""
    global _manager
    from holdfast import LockManager

    _manager = LockManager()
    begun = time.perf_counter()
    for number in range(grants):
        paths = five(number)
        granted = _manager.try_acquire(
            holder=f"agent-{number // 1_000}", read_paths=paths[:2], write_paths=paths[2:]
        )
        assert granted is not None, f"grant {number} was refused"
    return time.perf_counter() - begun


def check_microseconds(kind: str, checks: int, spread: int) -> float:
    """In the same child: the time of one check of five paths."""
    asked = list(_asked(kind, checks, spread))
    conflicts = 0
    begun = time.perf_counter()
    for paths in asked:
        found = _manager.check_conflicts(read_paths=paths[:2], write_paths=paths[2:])
        conflicts += bool(found)
    spent = time.perf_counter() - begun
    if conflicts != (0 if kind == FREE else checks):
        raise AssertionError(f"{conflicts} of {checks} checks of {kind} paths met a conflict")
    return spent / checks * 1e6


def _asked(kind: str, checks: int, spread: int) -> Iterator[list[str]]:
    """The questions: the same for both stores, or the small one would answer from warm caches."""
    for number in range(checks):
        paths = five(number % FEW if kind == HELD else number * spread // checks)
        yield [path.replace("/file", "/new") for path in paths] if kind == FREE else paths


def run(scratch: Path, quick: bool) -> list[Row]:
    return [*_cycle(scratch, quick), *_million(quick)]


def _cycle(scratch: Path, quick: bool) -> list[Row]:
    rounds, seconds = (3, 0.2) if quick else (9, 0.5)
    folder = locks.repository(scratch / "repository")
    seats = {name: Seat() for name in (locks.OURS_MEMORY, locks.FILELOCK)}
    try:
        for name, seat in seats.items():
            seat.ask(locks.open_lock, name, folder, "agent-1")
        samples = in_turns(
            seats,
            rounds,
            lambda name: seats[name].ask(locks.cycles, name, seconds)[0],
        )
    finally:
        for seat in seats.values():
            seat.close()
    return [
        compare(
            "memory store, cycle", "/s", samples, locks.OURS_MEMORY, locks.FILELOCK, at_least(5)
        )
    ]


def _million(quick: bool) -> list[Row]:
    rounds, checks, many = (3, 500, 50_000) if quick else (9, 2_000, 1_000_000)
    rows = []
    small, large = f"with {FEW} grants", f"with {many:,} grants"
    with Seat() as few_seat, Seat() as many_seat:
        seats = {small: few_seat, large: many_seat}
        few_seat.ask(fill, FEW)
        seconds = many_seat.ask(fill, many)
        for kind in (FREE, HELD):

            def measure(name: str, kind: str = kind) -> float:
                spent: float = seats[name].ask(check_microseconds, kind, checks, many)
                return spent

            samples = in_turns(seats, rounds, measure)
            what = f"memory store, check of 5 {kind} paths, {many:,} grants"
            rows.append(compare(what, "µs", samples, large, small, at_most(2)))
        everywhere = many_seat.ask(check_microseconds, HELD_ANYWHERE, checks, many)
        rows.append(Row(f"memory store, check of 5 {HELD_ANYWHERE} paths", "µs", everywhere))
        resident = many_seat.ask(resident_bytes) / 1e9
    # A tenth of a gigabyte is for the interpreter, which does not shrink with a smaller fill.
    limit = RESIDENT_GIGABYTES_MAX * many / 1_000_000 + (0.1 if quick else 0)
    rows.append(
        Row(
            f"memory store, resident with {many:,} grants of 5 paths",
            "GB",
            resident,
            target=at_most(limit, of="ours"),
        )
    )
    rows.append(Row("memory store, acquire of 5 paths while filling", "/s", many / seconds))
    return rows
