"""Many processes that decide at once: on one ledger, and on a ledger each.

On one ledger each process cycles a path of its own. No lock is wanted by two of them, so all that
they wait for is each other's decisions. A ledger on a server serializes these with an advisory
lock; the same decisions as serializable transactions are measured beside it.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from bench import postgres_locks
from bench.harness import Row, Seat, compare, in_turns
from bench.postgres_locks import COMMITS, SERIALIZABLE, SHARED_ROW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.database import Database

ONE_LEDGER = "one ledger"
OWN_LEDGERS = "a ledger each"
CROWDS = (1, 8, 64)
#: The crowd whose figures are those of a repository, and of as many repositories side by side.
TYPICAL = 8
#: A cycle is an acquire and a release.
DECISIONS = 2


def crowds(database: Database, folder: Path, quick: bool) -> list[Row]:
    rows = []
    for size in CROWDS:
        crowd = Crowd(database, folder, size)
        try:
            rows += crowd.rows(quick)
        finally:
            crowd.close()
    return rows


class Crowd:
    """So many processes, each of which has every contestant open."""

    def __init__(self, database: Database, folder: Path, size: int) -> None:
        self._size = size
        self._seats = [Seat() for _ in range(size)]
        self._repeated: list[float] = []
        self._shares: dict[str, list[float]] = {ONE_LEDGER: [], SERIALIZABLE: []}
        one, each = f"{database.url}#one-{size}", f"{database.url}#each-{size}"
        openings: dict[str, Callable[[int], tuple[object, ...]]] = {
            ONE_LEDGER: lambda n: (postgres_locks.open_ours, folder, one),
            OWN_LEDGERS: lambda n: (postgres_locks.open_ours, folder, f"{each}-{n}"),
            SERIALIZABLE: lambda n: (postgres_locks.open_repeating, folder, f"{one}-repeated"),
        }
        try:
            for name in (SHARED_ROW, COMMITS):
                for seat in self._seats:
                    seat.begin(postgres_locks.open_plain, name, database.url)
                self._answers()
            for name, opening in openings.items():
                for number, seat in enumerate(self._seats):
                    function, *words = opening(number)
                    who, path = f"agent-{number}", f"app/file{number}.rb"
                    seat.begin(function, name, *words, who, path)  # type: ignore[arg-type]
                self._answers()
        except BaseException:
            self.close()
            raise

    def _answers(self) -> list[tuple[int, float]]:
        return [seat.answer() for seat in self._seats]

    def _cycles(self, name: str, seconds: float) -> float:
        """The cycles of all in a second."""
        before = self._repeats() if name == SERIALIZABLE else 0
        start_at = time.monotonic() + 0.2
        for seat in self._seats:
            seat.begin(postgres_locks.cycles_together, name, start_at, seconds)
        answers = self._answers()
        if name in self._shares:
            rates = [count / spent for count, spent in answers]
            self._shares[name].append(min(rates) / max(rates))
        if name == SERIALIZABLE:
            decisions = DECISIONS * sum(count for count, _spent in answers)
            self._repeated.append((self._repeats() - before) / decisions)
        return sum(count / spent for count, spent in answers)

    def _repeats(self) -> int:
        return sum(seat.ask(postgres_locks.repeats, SERIALIZABLE) for seat in self._seats)

    def rows(self, quick: bool) -> list[Row]:
        rounds, seconds = (2, 0.5) if quick else (7, 3.0 if self._size > TYPICAL else 1.5)
        names = [ONE_LEDGER, OWN_LEDGERS, SHARED_ROW, COMMITS]
        if self._size > 1:
            names.append(SERIALIZABLE)
        samples = in_turns(names, rounds, lambda name: self._cycles(name, seconds))
        crowd = "one process" if self._size == 1 else f"{self._size} processes"
        rows = [
            compare(f"cycles of {crowd} on one ledger", "/s", samples, ONE_LEDGER, SHARED_ROW),
            compare(f"cycles of {crowd} on a ledger each", "/s", samples, OWN_LEDGERS, COMMITS),
        ]
        if self._size > 1:
            rows += self._serialized(samples, crowd)
        if self._size == TYPICAL:
            rows += [
                _decisions("decisions of one repository", samples[ONE_LEDGER]),
                _decisions(f"decisions of {TYPICAL} repositories", samples[OWN_LEDGERS]),
            ]
        return rows

    def _serialized(self, samples: dict[str, list[float]], crowd: str) -> list[Row]:
        """The ways to serialize decisions, beside each other."""
        decisions = {name: [DECISIONS * one for one in samples[name]] for name in samples}
        return [
            compare(
                f"decisions of {crowd} on one ledger", "/s", decisions, ONE_LEDGER, SERIALIZABLE
            ),
            Row(
                f"poorest / richest of {crowd} on one ledger", "",
                statistics.median(self._shares[ONE_LEDGER]), SERIALIZABLE,
                statistics.median(self._shares[SERIALIZABLE]), samples=self._shares,
            ),
            Row(
                f"repeats of a decision of {crowd}", "", None, SERIALIZABLE,
                statistics.median(self._repeated), samples={SERIALIZABLE: self._repeated},
            ),
        ]  # fmt: skip

    def close(self) -> None:
        for seat in self._seats:
            seat.close()


def _decisions(what: str, cycles: list[float]) -> Row:
    found = [DECISIONS * one for one in cycles]
    note = f"{TYPICAL} processes on this machine, which runs the server too"
    return Row(what, "/s", statistics.median(found), note=note, samples={what: found})
