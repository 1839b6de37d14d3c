"""Where the time of one acquire and release goes.

    python -m bench.hotspots [--memory] [--cycles N] [--by tottime|cumtime]

A profiler slows small functions down more than large ones: trust the order, not the figures.
The line above the table is measured without it.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from pathlib import Path

from bench import locks


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.hotspots")
    parser.add_argument("--memory", action="store_true", help="the memory store")
    parser.add_argument("--cycles", type=int, default=5_000)
    parser.add_argument("--by", choices=("tottime", "cumtime"), default="tottime")
    parser.add_argument("--lines", type=int, default=30)
    options = parser.parse_args()
    name = locks.OURS_MEMORY if options.memory else locks.OURS
    with tempfile.TemporaryDirectory(prefix="holdfast-hotspots-") as scratch:
        locks.open_lock(name, locks.repository(Path(scratch)), "agent-1")
        _parts(name, options.cycles)
        lock = locks.opened(name)
        profile = cProfile.Profile()
        profile.enable()
        for _ in range(options.cycles):
            lock.acquire()
            lock.release()
        profile.disable()
        locks.close_lock(name)
    pstats.Stats(profile).sort_stats(options.by).print_stats(options.lines)


def _parts(name: str, cycles: int) -> None:
    """The two halves of a cycle, by the clock."""
    lock, clock = locks.opened(name), time.perf_counter
    taking = giving = 0.0
    for _ in range(cycles):
        begun = clock()
        lock.acquire()
        between = clock()
        lock.release()
        giving += clock() - between
        taking += between - begun
    print(
        f"{name}: acquire {taking / cycles * 1e6:.1f} µs, release {giving / cycles * 1e6:.1f} µs, "
        f"{cycles / (taking + giving):,.0f} cycles/s"
    )


if __name__ == "__main__":
    main()
