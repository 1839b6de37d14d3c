"""The embedded store with many grants held and a long history, beside a nearly empty one.

Both ledgers are filled through the public interface, by processes that stay alive: a grant whose
owner is dead would be free, and the large ledger would not be large.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bench import locks
from bench.harness import Row, Seat, at_most, compare, in_turns
from bench.memory import FEW, file_name

_manager: Any = None
_managers: dict[str, Any] = {}


def fill(folder: Path, grants: int, events: int) -> float:
    """In a keeper: acquires the grants, then cycles until there are enough events."""
    global _manager
    from holdfast import LockManager

    _manager = LockManager.open(str(folder))
    begun = time.perf_counter()
    for number in range(grants):
        granted = _manager.try_acquire(
            holder=f"keeper-{number // 100}", write_paths=[file_name(number)], ttl=86_400
        )
        assert granted is not None, f"grant {number} was refused"
    for number in range((events - grants) // 2):
        granted = _manager.try_acquire(
            holder=f"passer-{number % 100}", write_paths=[f"passing/file{number % 5_000}.py"]
        )
        assert granted is not None, f"passing grant {number} was refused"
        _manager.release(granted.id)
    return time.perf_counter() - begun


def contents() -> tuple[int, int]:
    """In a keeper: how many grants the ledger really holds, and the number of its last event."""
    held, last = len(_manager.active_grants()), 0
    # In large steps, to find the number of the last event without reading a million of them.
    step = 1 << 24
    while step:
        if any(True for _ in _manager.events(after=last + step - 1, limit=1)):
            last += step
        else:
            step >>= 1
    return held, last


def open_manager(name: str, folder: Path) -> None:
    from holdfast import LockManager

    _managers[name] = LockManager.open(str(folder))


def acquire_microseconds(name: str, times: int) -> float:
    """The time of an acquire among the held files, without the release after it."""
    manager, clock = _managers[name], time.perf_counter
    spent = 0.0
    for number in range(times):
        path = [f"area0/part{number % 100}/new.py"]
        begun = clock()
        grant = manager.acquire(holder="agent-1", write_paths=path, timeout=30)
        spent += clock() - begun
        manager.release(grant.id)
    return spent / times * 1e6


def open_milliseconds(folder: Path, times: int) -> float:
    """The time to open the ledger and get a first answer."""
    from holdfast import LockManager

    spent = 0.0
    for _ in range(times):
        begun = time.perf_counter()
        manager = LockManager.open(str(folder))
        manager.check_conflicts(read_paths=[], write_paths=["area0/part0/new.py"])
        spent += time.perf_counter() - begun
        manager.close()
    return spent / times * 1e3


def run(scratch: Path, quick: bool) -> list[Row]:
    rounds, times, opens = (3, 100, 5) if quick else (9, 300, 20)
    grants, events = (5_000, 50_000) if quick else (100_000, 1_000_000)
    small, large = f"with {FEW} grants", f"with {grants:,} grants and {events:,} events"
    folders = {
        small: locks.repository(scratch / "small"),
        large: locks.repository(scratch / "large"),
    }
    with Seat() as few_keeper, Seat() as many_keeper, Seat() as user:
        few_keeper.ask(fill, folders[small], FEW, 2 * FEW)
        seconds = many_keeper.ask(fill, folders[large], grants, events)
        expected = ((few_keeper, (FEW, 2 * FEW)), (many_keeper, (grants, events)))
        for keeper, wanted in expected:
            if (found := keeper.ask(contents)) != wanted:
                raise AssertionError(f"grants and events are {found} and should be {wanted}")
        for name, folder in folders.items():
            user.ask(open_manager, name, folder)
        acquires = in_turns(
            folders, rounds, lambda name: user.ask(acquire_microseconds, name, times)
        )
        opening = in_turns(
            folders, rounds, lambda name: user.ask(open_milliseconds, folders[name], opens)
        )
    return [
        compare(f"sqlite acquire, {grants:,} grants", "µs", acquires, large, small, at_most(2)),
        compare(f"sqlite open, {events:,} events", "ms", opening, large, small, at_most(1.5)),
        Row("sqlite, events while filling", "/s", events / seconds),
    ]
