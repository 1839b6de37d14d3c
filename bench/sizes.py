"""Calls while much is held: 100,000 grants against 10, and 10,000 paths against 10,000.

The rival is Holdfast itself with ten grants, measured in the same rounds. A cost that does not
depend on how much is held shows as a ratio near one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness import Row, at_most, compare, in_turns
from holdfast import LockManager
from holdfast.core.draft import Draft
from holdfast.core.model import Decision, Holder, Request
from holdfast.manager import transactions

if TYPE_CHECKING:
    from holdfast.core.view import View

FEW, MANY = 10, 100_000
AT_ONCE = 1000
WIDE = 10_000


def fill(manager: LockManager, count: int) -> None:
    """So many grants, one for each file of a tree."""
    for begin in range(0, count, AT_ONCE):
        numbers = range(begin, min(count, begin + AT_ONCE))

        def grant(view: View, numbers: range = numbers) -> Decision[None]:
            draft = Draft(view)
            for number in numbers:
                holder = Holder(id=f"agent-{number % 97}", key=f"agent-{number % 97}")
                path = f"held/{number % 100}/{number}"
                draft.admit(Request(f"filler-{number}", holder, (path,), "w"), ticket=False)
            return draft.done(None)

        transactions.decide(manager, grant, time.monotonic() + 600)


class Ledger:
    """A repository, with some files besides those that are held."""

    def __init__(self, folder: Path, held: int) -> None:
        folder.mkdir(parents=True)
        (folder / ".git").mkdir()
        for name in ("free", "taken", "linked"):
            (folder / name).write_text("")
        os.link(folder / "linked", folder / "second name")
        (folder / "elsewhere").mkdir()
        self.manager = LockManager.open(folder)
        fill(self.manager, held)
        for name in ("taken", "linked"):
            assert self.manager.try_acquire(holder="ann", write_paths=[name])

    def take(self) -> None:
        grant = self.manager.try_acquire(holder="bob", write_paths=["free"])
        assert grant is not None
        self.manager.release(grant.id)

    def read_folder(self) -> None:
        grant = self.manager.try_acquire(holder="bob", read_paths=["elsewhere/"])
        assert grant is not None
        self.manager.release(grant.id)

    def be_refused(self) -> None:
        assert self.manager.try_acquire(holder="bob", write_paths=["taken"]) is None

    def be_refused_everything(self) -> None:
        assert self.manager.try_acquire(holder="bob", read_paths=["."]) is None

    def be_refused_by_another_name(self) -> None:
        assert self.manager.try_acquire(holder="bob", write_paths=["second name"]) is None

    def look_at_the_first(self) -> None:
        next(iter(self.manager.active_grants()))


WHAT: list[tuple[str, Callable[[Ledger], None], float | None]] = [
    ("take and give back a file", Ledger.take, 2.0),
    ("take and give back a folder to read", Ledger.read_folder, 2.0),
    ("a refusal", Ledger.be_refused, 2.0),
    ("a refusal by another name of the file", Ledger.be_refused_by_another_name, 2.0),
    ("a refused read of everything", Ledger.be_refused_everything, 2.0),
    ("the first of active_grants()", Ledger.look_at_the_first, None),
]
TIMES = 50


def run(scratch: Path, quick: bool) -> list[Row]:
    many = MANY // 10 if quick else MANY
    rounds = 3 if quick else 7
    few_name, many_name = f"{FEW} held", f"{many} held"
    ledgers = {
        few_name: Ledger(scratch / "few", FEW),
        many_name: Ledger(scratch / "many", many),
    }
    rows = []
    for what, do, limit in WHAT:

        def measure(name: str, do: Callable[[Ledger], None] = do) -> float:
            return _each(ledgers[name], do)

        samples = in_turns((few_name, many_name), rounds, measure)
        target = None if limit is None else at_most(limit)
        rows.append(compare(f"{what}, {many:,} held", "ms", samples, many_name, few_name, target))
    for ledger in ledgers.values():
        ledger.manager.close()
    wide = [_wide(scratch / f"wide-{number}", WIDE) for number in range(2 if quick else 5)]
    rows.append(
        Row(
            f"{WIDE:,} files against {WIDE:,} held", "s", sorted(wide)[len(wide) // 2],
            target=at_most(2.0, of="ours"), samples={"holdfast": wide},
        )
    )  # fmt: skip
    return rows


def _each(ledger: Ledger, do: Callable[[Ledger], None]) -> float:
    do(ledger)
    begin = time.perf_counter()
    for _ in range(TIMES):
        do(ledger)
    return (time.perf_counter() - begin) / TIMES * 1000


def _wide(folder: Path, size: int) -> float:
    """Seconds for the refusal of all files that another holder has."""
    (folder / ".git").mkdir(parents=True)
    names = [f"f{number}" for number in range(size)]
    for name in names:
        (folder / name).write_text("")
    with LockManager.open(folder) as manager:
        assert manager.try_acquire(holder="ann", write_paths=names)
        begin = time.perf_counter()
        assert manager.try_acquire(holder="bob", write_paths=names) is None
        return time.perf_counter() - begin
