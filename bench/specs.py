"""One process locks and releases one spec, as often as it can.

The rival is a lock file that does less: it names a process, is not synced, and guards nothing else.
Ours is synced to the disk, since it lasts for hours and over a power cut, and names its holder. The
cost of syncing depends on the disk, so there is a row without it.
"""

from __future__ import annotations

from pathlib import Path

from bench import locks
from bench.harness import Row, Seat, compare, in_turns


def run(scratch: Path, quick: bool) -> list[Row]:
    rounds, seconds = (3, 0.3) if quick else (9, 0.5)
    seats = {name: Seat() for name in (locks.SPECS, locks.SPECS_UNSYNCED, locks.SOFT)}
    work: dict[str, list[float]] = {name: [] for name in seats}

    def measure(name: str) -> float:
        per_second, microseconds = seats[name].ask(locks.cycles, name, seconds)
        work[name].append(microseconds)
        return float(per_second)

    try:
        for number, (name, seat) in enumerate(seats.items()):
            folder = locks.repository(scratch / f"workspace-{number}")
            seat.ask(locks.open_lock, name, folder, "agent-1")
        samples = in_turns(seats, rounds, measure)
    finally:
        for seat in seats.values():
            seat.close()
    unsynced = "without syncing"
    return [
        compare("spec lock cycle", "/s", samples, locks.SPECS, locks.SOFT),
        compare("spec lock cycle", "/s", samples, locks.SPECS_UNSYNCED, locks.SOFT, note=unsynced),
        compare("spec lock cycle, processor time", "µs", work, locks.SPECS, locks.SOFT),
    ]
