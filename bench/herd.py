"""Hundreds of processes open the ledger at the same moment, each for a lock of its own.

Each of them must be served within its default deadline, or the benchmark fails. The rival is a herd
of fifty: the cost for one process must not grow with the number of others that wait.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench import locks
from bench.harness import Row, Seat, at_most, compare, in_turns
from holdfast import LockManager

FEW, MANY = 50, 400


def stampede(folder: Path, size: int) -> tuple[float, float]:
    """In a child: how long a herd takes, and what each process spends, in milliseconds."""
    held, start = os.pipe()
    told, tell = os.pipe()
    for number in range(size):
        if not os.fork():
            os.close(start)
            os.read(held, 1)
            os.write(tell, f"{_spent(folder, number)}\n".encode())
            os._exit(0)
    os.close(tell)
    begin = time.perf_counter()
    os.close(start)
    with open(told) as lines:
        spent = [float(line) for line in lines]
    took = time.perf_counter() - begin
    for _ in range(size):
        os.wait()
    os.close(held)
    served = [one for one in spent if one > 0]
    if len(served) != size:
        raise AssertionError(f"{size - len(served)} of {size} were not served in time")
    return took * 1000, sum(served) / size * 1000


def _spent(folder: Path, number: int) -> float:
    begin = time.process_time()
    try:
        with LockManager.open(folder) as manager:
            taken = manager.try_acquire(holder=f"member-{number}", write_paths=[f"f{number}"])
        return time.process_time() - begin if taken is not None else -1
    except Exception:
        return -1


def run(scratch: Path, quick: bool) -> list[Row]:
    rounds = 2 if quick else 5
    names = {f"herd of {FEW}": FEW, f"herd of {MANY}": MANY}
    took: dict[str, list[float]] = {name: [] for name in names}
    with Seat() as seat:

        def spent(name: str) -> float:
            folder = locks.repository(scratch / f"{name}-{len(took[name])}")
            seconds, each = seat.ask(stampede, folder, names[name])
            took[name].append(seconds)
            return float(each)

        samples = in_turns(names, rounds, spent)
    few, many = names
    return [
        compare(f"{many}, processor time of each", "ms", samples, many, few, at_most(2.0)),
        compare(f"{many}, until the last is served", "ms", took, many, few),
    ]
