"""The store on a PostgreSQL server, beside the least that the same server can do.

The benchmark starts a server of its own on a disk, with fsync on. The plain uses of the server are
in `postgres_locks`. Contestants of one row use the same server in turn, so that a slow moment of
the disk, of the server's checkpoints or of another program affects all of them.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

from bench import handover, locks, postgres_locks, sizes
from bench.database import Database, missing
from bench.harness import Row, Seat, Target, at_least, at_most, compare, in_turns, percentile
from bench.locks import OURS
from bench.postgres_commands import commands
from bench.postgres_crowd import crowds
from bench.postgres_locks import ADVISORY, ADVISORY_AND_ROWS, AUTOCOMMITS, COMMITS

FEW, MANY = 10, 100_000

_manager: Any = None


def run(scratch: Path, quick: bool) -> list[Row]:
    if lack := missing():
        return [Row("store on PostgreSQL", "", None, note=f"not run: {lack}")]
    with Database() as database:
        for text in postgres_locks.TABLES:
            database.run(text)
        folder = locks.repository(scratch / "repository")
        return [
            *_cycle(database, folder, quick),
            *_handover(database, folder, quick),
            *crowds(database, folder, quick),
            *_held(database, folder, quick),
            *commands(database, scratch, quick),
        ]


def _cycle(database: Database, folder: Path, quick: bool) -> list[Row]:
    """One process acquires and releases one path, as often as it can."""
    rounds, seconds = (3, 0.3) if quick else (15, 0.7)
    work: dict[str, list[float]] = {name: [] for name in (OURS, COMMITS, AUTOCOMMITS)}
    seats = {name: Seat() for name in work}

    def measure(name: str) -> float:
        per_second, microseconds = seats[name].ask(locks.cycles, name, seconds)
        work[name].append(microseconds)
        return float(per_second)

    try:
        store = f"{database.url}#cycle"
        seats[OURS].ask(postgres_locks.open_ours, OURS, folder, store, "agent-1", locks.PATH)
        for name in (COMMITS, AUTOCOMMITS):
            seats[name].ask(postgres_locks.open_plain, name, database.url)
        connections = database.settled_connections()
        samples = in_turns(seats, rounds, measure)
    finally:
        for seat in seats.values():
            seat.close()
    what, note = "cycle on a server, one process", database.described()
    return [
        compare(what, "/s", samples, OURS, COMMITS, at_least(0.6), note=note),
        compare(what, "/s", samples, OURS, AUTOCOMMITS),
        compare("cycle on a server, processor time of the client", "µs", work, OURS, COMMITS),
        Row("connections of a process that acquires and releases", "", connections),
    ]


def _handover(database: Database, folder: Path, quick: bool) -> list[Row]:
    """As in `handover`, between two sessions of the server."""
    rounds = 20 if quick else 200
    plain = (ADVISORY, ADVISORY_AND_ROWS)
    samples: dict[str, list[float]] = {name: [] for name in (OURS, *plain)}
    chance = random.Random(7)
    with Seat() as holder, Seat() as waiter:
        for who, seat in (("holder", holder), ("waiter", waiter)):
            store = f"{database.url}#handover"
            seat.ask(postgres_locks.open_ours, OURS, folder, store, who, locks.PATH)
            for name in plain:
                seat.ask(postgres_locks.open_plain, name, database.url)
        for _ in range(rounds):
            for name in samples:
                delay = chance.uniform(0.04, 0.11)
                handover.one_round(holder, waiter, name, delay, samples[name])
        connections = database.settled_connections() - 1  # the holder's
    return [
        _moment(samples, 50, ADVISORY, at_most(2)),
        _moment(samples, 50, ADVISORY_AND_ROWS, at_most(2)),
        _moment(samples, 99, ADVISORY_AND_ROWS),
        Row("connections of a process that has waited", "", connections),
    ]


def _moment(
    samples: dict[str, list[float]], percent: int, rival: str, target: Target | None = None
) -> Row:
    ours, theirs = (percentile(samples[name], percent) for name in (OURS, rival))
    what = f"hand-over on a server, p{percent}"
    used = {name: samples[name] for name in (OURS, rival)}
    return Row(what, "ms", ours, rival, theirs, ours / theirs, target, samples=used)


# With much held


def fill(folder: Path, store: str, count: int) -> float:
    """In a child: so many grants; the seconds that it took."""
    global _manager
    from holdfast import LockManager

    _manager = LockManager.open(folder, store=store)
    begun = time.perf_counter()
    sizes.fill(_manager, count)
    return time.perf_counter() - begun


def _held(database: Database, folder: Path, quick: bool) -> list[Row]:
    """A cycle among many grants, and among few."""
    rounds, seconds, many = (3, 0.3, MANY // 10) if quick else (11, 0.7, MANY)
    names = {f"{FEW} held": FEW, f"{many:,} held": many}
    with Seat() as keeper, Seat() as user:
        spent = 0.0
        for name, count in names.items():
            store = f"{database.url}#{count}"
            spent = keeper.ask(fill, folder, store, count)
            _require(database, str(count), count)
            user.ask(postgres_locks.open_ours, name, folder, store, "agent-1", locks.PATH)
        database.run("vacuum analyze")  # or the server would do so at some moment of the rounds
        samples = in_turns(
            names, rounds, lambda name: 1e6 / user.ask(locks.cycles, name, seconds)[0]
        )
    few_name, many_name = names
    return [
        compare(
            f"cycle on a server, {many:,} held", "µs", samples, many_name, few_name, at_most(2)
        ),
        Row("grants on a server while filling, many to a decision", "/s", many / spent),
    ]


def _require(database: Database, repository: str, count: int) -> None:
    """A ledger that is not as full as it should be would measure nothing."""
    [[found]] = database.run(
        "select count(*) from holdfast.live join holdfast.repositories r on r.id = repository"
        " where r.name = %s and seq is not null"
        " and expires_at > extract(epoch from clock_timestamp()) * 1000000",
        repository,
    )
    if found != count:
        raise AssertionError(f"{found} grants are held and should be {count}")
