"""One process acquires and releases one path, as often as it can."""

from __future__ import annotations

from pathlib import Path

from bench import locks
from bench.harness import Row, Seat, Target, at_least, compare, in_turns

TARGETS: dict[str, Target | None] = {
    locks.DISKCACHE: at_least(1.0),
    locks.LEASE: at_least(4.0),
    locks.FILELOCK: at_least(0.7),
    locks.FASTENERS: None,
    locks.PORTALOCKER: None,
    locks.FLOCK: None,
}


def run(scratch: Path, quick: bool) -> list[Row]:
    rounds, seconds = (3, 0.2) if quick else (9, 0.5)
    folder = locks.repository(scratch / "repository")
    seats = {name: Seat() for name in (locks.OURS, *TARGETS)}
    work: dict[str, list[float]] = {name: [] for name in seats}

    def measure(name: str) -> float:
        per_second, microseconds = seats[name].ask(locks.cycles, name, seconds)
        work[name].append(microseconds)
        return float(per_second)

    try:
        for name, seat in seats.items():
            seat.ask(locks.open_lock, name, folder, "agent-1")
        samples = in_turns(seats, rounds, measure)
        for name, seat in seats.items():
            seat.ask(locks.close_lock, name)
    finally:
        for seat in seats.values():
            seat.close()
    return [
        compare("cycle, one process", "/s", samples, locks.OURS, rival, target)
        for rival, target in TARGETS.items()
    ] + [
        compare("cycle, processor time", "µs", work, locks.OURS, rival)
        for rival in (locks.DISKCACHE, locks.LEASE, locks.FILELOCK)
    ]
