"""From one process's release to the grant of the process that waits for it.

The holder notes the time just before its release, the waiter just after its acquire returned. Both
read the machine's monotonic clock, which all processes share. The holder keeps the lock for a
random time, so that the release falls on every point of a polling rival's interval. A round in
which the waiter had not waited long enough is discarded.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from bench import locks
from bench.harness import Row, Seat, at_most, percentile

#: The waiter must have been inside its acquire for at least this long.
WAITING_SECONDS_MIN = 0.02


def take(name: str) -> None:
    """In the holder."""
    locks.opened(name).acquire()


def give_back(name: str, after_seconds: float) -> int:
    """In the holder: keeps the lock for a while longer; the moment of the release."""
    lock = locks.opened(name)
    time.sleep(after_seconds)
    moment = time.monotonic_ns()
    lock.release()
    return moment


def wait(name: str) -> tuple[int, int]:
    """In the waiter: the moments at which it began to wait and acquired the lock."""
    lock = locks.opened(name)
    begun = time.monotonic_ns()
    lock.acquire()
    granted = time.monotonic_ns()
    lock.release()
    return begun, granted


def run(scratch: Path, quick: bool) -> list[Row]:
    rounds = 40 if quick else 300
    folder = locks.repository(scratch / "repository")
    contestants = (locks.OURS, locks.FILELOCK, locks.DISKCACHE, locks.FLOCK)
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    chance = random.Random(7)
    with Seat() as holder, Seat() as waiter:
        for name in contestants:
            holder.ask(locks.open_lock, name, folder, "holder")
            waiter.ask(locks.open_lock, name, folder, "waiter")
        for _ in range(rounds):
            for name in contestants:
                one_round(holder, waiter, name, chance.uniform(0.04, 0.11), samples[name])
        for name in contestants:
            holder.ask(locks.close_lock, name)
            waiter.ask(locks.close_lock, name)
    return [
        _row(samples, 50, locks.FILELOCK, at_most_ours=True),
        _row(samples, 50, locks.FILELOCK),
        _row(samples, 99, locks.FILELOCK),
        _row(samples, 50, locks.DISKCACHE),
        _row(samples, 50, locks.FLOCK),
    ]


def one_round(holder: Seat, waiter: Seat, name: str, delay: float, into: list[float]) -> None:
    """Adds the milliseconds of one hand-over, unless the waiter came too late."""
    holder.ask(take, name)
    waiter.begin(wait, name)
    holder.begin(give_back, name, delay)
    let_go = holder.answer(locks.WAIT_SECONDS_MAX)
    begun, granted = waiter.answer(locks.WAIT_SECONDS_MAX)
    if let_go - begun >= WAITING_SECONDS_MIN * 1e9:
        into.append((granted - let_go) / 1e6)


def _row(
    samples: dict[str, list[float]], percent: int, rival: str, *, at_most_ours: bool = False
) -> Row:
    what = f"hand-over p{percent}"
    ours, theirs = (percentile(samples[name], percent) for name in (locks.OURS, rival))
    if at_most_ours:
        return Row(what, "ms", ours, target=at_most(1.0, of="ours"), samples=dict(samples))
    target = at_most(0.1) if percent == 50 and rival == locks.FILELOCK else None
    return Row(what, "ms", ours, rival, theirs, ours / theirs, target)
