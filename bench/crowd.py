"""Eight processes contend for the same path all the time.

Inside the lock each increments a shared number by reading it and writing it back, which goes wrong
as soon as two are inside: a lock that does not exclude cannot win here.
"""

from __future__ import annotations

import mmap
import statistics
import struct
import time
from pathlib import Path

from bench import locks
from bench.harness import Row, Seat, Target, at_least, compare, in_turns

PROCESSES = 8
_NUMBER = struct.Struct("q")


def fight(name: str, tally: Path, start_at: float, seconds: float) -> int:
    """In a child: acquires and releases until the time is over; the number of cycles."""
    lock = locks.opened(name)
    acquire, release, clock = lock.acquire, lock.release, time.monotonic
    count = 0
    with open(tally, "r+b") as file, mmap.mmap(file.fileno(), _NUMBER.size) as shared:
        while (wait := start_at - clock()) > 0:
            time.sleep(wait)
        end = start_at + seconds
        while clock() < end:
            acquire()
            (number,) = _NUMBER.unpack_from(shared)
            _NUMBER.pack_into(shared, 0, number + 1)
            release()
            count += 1
    return count


def run(scratch: Path, quick: bool) -> list[Row]:
    rounds, seconds = (2, 1.0) if quick else (5, 4.0)
    folder = locks.repository(scratch / "repository")
    tally = scratch / "tally"
    contestants = (locks.OURS, locks.FILELOCK, locks.DISKCACHE)
    shares: dict[str, list[float]] = {name: [] for name in contestants}
    seats = [Seat() for _ in range(PROCESSES)]

    def total(name: str) -> float:
        tally.write_bytes(_NUMBER.pack(0))
        start_at = time.monotonic() + 0.2
        for seat in seats:
            seat.begin(fight, name, tally, start_at, seconds)
        counts: list[int] = [seat.answer() for seat in seats]
        (seen,) = _NUMBER.unpack(tally.read_bytes())
        if seen != sum(counts):
            raise AssertionError(f"{name} let two in at once: {sum(counts) - seen} lost updates")
        shares[name].append(min(counts) / max(counts))
        return sum(counts) / seconds

    try:
        for name in contestants:
            for number, seat in enumerate(seats):
                seat.ask(locks.open_lock, name, folder, f"agent-{number}")
        totals = in_turns(contestants, rounds, total)
        for name in contestants:
            for seat in seats:
                seat.ask(locks.close_lock, name)
    finally:
        for seat in seats:
            seat.close()
    return [
        compare("crowd of 8, total", "/s", totals, locks.OURS, locks.FILELOCK, at_least(0.7)),
        compare("crowd of 8, total", "/s", totals, locks.OURS, locks.DISKCACHE),
        _poorest(shares, locks.FILELOCK, at_least(0.5, of="ours")),
        _poorest(shares, locks.DISKCACHE),
    ]


def _poorest(shares: dict[str, list[float]], rival: str, target: Target | None = None) -> Row:
    """The share of the poorest. Only ours has a target: no rival promises fairness."""
    return Row(
        "crowd of 8, poorest / richest",
        "",
        statistics.median(shares[locks.OURS]),
        rival,
        statistics.median(shares[rival]),
        None,
        target,
        samples={locks.OURS: shares[locks.OURS], rival: shares[rival]},
    )
