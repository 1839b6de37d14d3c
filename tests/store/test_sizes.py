"""The cost of a call depends on its request, and not on the number of locks.

Work is counted, not timed: calls of Python functions, and steps of the
database (in fifties, which take about as long as a call).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from holdfast import LockManager
from holdfast.core.draft import Draft
from holdfast.core.keys import overlap
from holdfast.core.model import Decision, Holder, Request
from holdfast.core.overlaps import FEW, Overlaps
from holdfast.manager import all_grants, transactions
from holdfast.store.sqlite.sqlite_store import SCANNED_MAX, SqliteStore

if TYPE_CHECKING:
    from holdfast.core.view import View

HELD = 5000


def fill(manager: LockManager, count: int) -> None:
    """So many grants of many holders, one for each file."""

    def grant(view: View) -> Decision[None]:
        draft = Draft(view)
        for number in range(count):
            holder = Holder(id=f"agent-{number % 97}", key=f"agent-{number % 97}")
            key = f"held/{number % 10}/{number}"
            draft.admit(Request(f"filler-{number:06}", holder, (key,), "w"), ticket=False)
        return draft.done(None)

    transactions.decide(manager, grant, monotonic() + 300)


def opened(store: str, folder: Path) -> LockManager:
    if store == "memory":
        return LockManager()
    folder.mkdir()
    (folder / ".holdfast").mkdir()
    return LockManager.open(folder)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def work(manager: LockManager, do: Callable[[], object]) -> int:
    """How much a call does."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    def called(_frame: object, what: str, _argument: object) -> None:
        nonlocal count
        count += what in ("call", "c_call")

    do()  # work that is done only once is not counted
    if isinstance(manager.store, SqliteStore):
        manager.store.connection.set_progress_handler(step, 50)
    sys.setprofile(called)
    try:
        do()
    finally:
        sys.setprofile(None)
        if isinstance(manager.store, SqliteStore):
            manager.store.connection.set_progress_handler(None, 50)
    return count


def refused(manager: LockManager, **paths: list[str]) -> Callable[[], None]:
    def ask() -> None:
        assert manager.try_acquire(holder="bob", **paths) is None  # type: ignore[arg-type]

    return ask


def taken(manager: LockManager, **paths: list[str]) -> Callable[[], None]:
    def ask() -> None:
        grant = manager.try_acquire(holder="bob", **paths)  # type: ignore[arg-type]
        assert grant is not None
        manager.release(grant.id)

    return ask


# N against N


@pytest.mark.parametrize("mode", ["write_paths", "read_paths"])
def test_a_refusal_of_twice_as_many_paths_costs_twice_as_much(
    store: str, mode: str, tmp_path: Path
) -> None:
    costs = []
    for size in (200, 400, 800):
        with opened(store, tmp_path / f"{size}") as manager:
            files = [f"d{number % 7}/f{number}" for number in range(size)]
            if manager.tree is not None:
                for name in files:
                    path = Path(manager.tree.root) / name
                    path.parent.mkdir(exist_ok=True)
                    path.touch()
            assert manager.try_acquire(holder="ann", write_paths=files)
            costs.append(work(manager, refused(manager, **{mode: files})))
    assert costs[1] < 2.5 * costs[0]
    assert costs[2] < 2.5 * costs[1]


def test_ten_thousand_files_against_the_same_ten_thousand(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path / "repo") as manager:
        files = [f"f{number}" for number in range(10_000)]
        for name in files:
            (tmp_path / "repo" / name).touch()
        assert manager.try_acquire(holder="ann", write_paths=files)
        begin = monotonic()
        refusal = manager.ask("bob", [], files)
        assert monotonic() - begin < 20, "not about as long as it takes to look at each of them"
        assert (len(refusal.conflicts), refusal.more) == (20, 1001)  # type: ignore[union-attr]
        told = list(manager.events())[-1]
        assert len(str(told.data)) < 4000
        assert told.data["more_paths"] == 9990, "each of the first ten has its inode beside it"


def test_many_readers_of_a_folder_conflict_with_many_writers_inside_it() -> None:
    manager = LockManager()
    for number in range(30):
        assert manager.try_acquire(holder=f"reader-{number}", read_paths=["d/"])
    files = [f"d/f{number}" for number in range(300)]
    few, many = (work(manager, refused(manager, write_paths=files[:size])) for size in (150, 300))
    assert many < 2.5 * few


# 100,000 held, in small


def test_the_cost_of_a_call_does_not_depend_on_the_number_of_locks(
    store: str, tmp_path: Path
) -> None:
    costs: list[dict[str, int]] = []
    for size in (10, HELD):
        with opened(store, tmp_path / f"{size}") as manager:
            fill(manager, size)
            assert manager.try_acquire(holder="ann", write_paths=["taken"])
            costs.append(
                {
                    "take": work(manager, taken(manager, write_paths=["free"])),
                    "read a folder": work(manager, taken(manager, read_paths=["elsewhere/"])),
                    "a refusal": work(manager, refused(manager, write_paths=["taken"])),
                }
            )
    few, many = costs
    assert {name for name in few if many[name] > 1.3 * few[name]} == set(), costs


def test_a_refused_read_of_everything_stops_when_it_knows_enough(
    store: str, tmp_path: Path
) -> None:
    costs = []
    for size in (1500, HELD):
        with opened(store, tmp_path / f"{size}") as manager:
            fill(manager, size)
            costs.append(work(manager, refused(manager, read_paths=["."])))
            found = manager.check_conflicts(read_paths=["."])
            assert (len(found), found.more) == (20, 1001)
    assert costs[1] < 1.3 * costs[0], costs


def test_a_refused_read_of_everything_costs_little_more_than_with_ten(tmp_path: Path) -> None:
    costs = []
    for size in (10, HELD):
        with opened("sqlite", tmp_path / f"{size}") as manager:
            fill(manager, size)
            costs.append(work(manager, refused(manager, read_paths=["."])))
    # Twenty conflicts are named instead of ten, and the database counts a thousand more.
    assert costs[1] < 3 * costs[0], costs


def test_a_file_with_two_names_is_found_without_a_look_at_everything(tmp_path: Path) -> None:
    costs = []
    for size in (10, HELD):
        root = tmp_path / f"{size}"
        with opened("sqlite", root) as manager:
            (root / "one").touch()
            grant = manager.try_acquire(holder="ann", write_paths=["one"])
            assert grant is not None
            os.link(root / "one", root / "two")
            fill(manager, size)
            costs.append(work(manager, refused(manager, write_paths=["two"])))
    assert costs[1] < 1.3 * costs[0], costs


def test_the_index_of_inodes_is_made_when_it_is_needed(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    with opened("sqlite", root) as manager:
        assert isinstance(manager.store, SqliteStore)
        for name in ("one", "plain"):
            (root / name).touch()
        os.link(root / "one", root / "two")

        def indexes() -> list[str]:
            assert isinstance(manager.store, SqliteStore)
            rows = manager.store.connection.execute(
                "select name from sqlite_schema where type = 'index' and tbl_name = 'live'"
            )
            return [name for (name,) in rows if not name.startswith("sqlite_")]

        taken(manager, write_paths=["one"])()
        fill(manager, SCANNED_MAX)
        taken(manager, write_paths=["plain"])()
        assert indexes() == []
        taken(manager, write_paths=["one"])()
        assert indexes() == ["live_by_inode"]


# Which holders are counted


def test_the_dead_and_the_own_are_not_named(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path / "repo") as manager:
        fill(manager, 200)
        for number in range(25):
            assert manager.try_acquire(holder="bob", write_paths=[f"a/{number}"])
            assert manager.try_acquire(holder="late", write_paths=[f"b/{number}"], ttl=0.000001)
        refusal = manager.ask("bob", ["."], [])
        named = {one.holder for one in refusal.conflicts}  # type: ignore[union-attr]
        assert len(named) == 20
        assert not named & {"bob", "late"}
        assert [event.type for event in manager.events()].count("lock_reaped") == 25


# Listing


def test_active_grants_are_read_page_by_page(store: str, tmp_path: Path) -> None:
    with opened(store, tmp_path / "repo") as manager:
        fill(manager, HELD)
        pages: list[int] = []
        live = all_grants._live

        def counted(view: View, numbers: list[tuple[int, str]], **rest: bool) -> object:
            pages.append(len(numbers))
            return live(view, numbers, **rest)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(all_grants, "_live", counted)
            found = manager.active_grants()
            assert pages == [all_grants.PAGE]
            stream = iter(found)
            for _ in range(all_grants.PAGE + 1):
                next(stream)
            assert pages == [all_grants.PAGE] * 2
            # The ledger is free meanwhile, also for this very process.
            grant = manager.try_acquire(holder="ann", write_paths=["x"])
            assert grant is not None
            rest = list(stream)
        assert len(rest) == HELD - all_grants.PAGE - 1
        tokens = [one.token for one in found]
        assert tokens == sorted(set(tokens))


def test_a_short_list_of_active_grants_is_that_of_one_moment(store: str, tmp_path: Path) -> None:
    with opened(store, tmp_path / "repo") as manager:
        assert manager.active_grants() == []
        assert not manager.active_grants()
        first = manager.try_acquire(holder="ann", write_paths=["a"])
        assert first is not None
        held = manager.active_grants()
        assert manager.release(first.id)
        assert [one.id for one in held] == [first.id] == [held[0].id] == [held[-1].id]
        assert (len(held), bool(held), held[1:]) == (1, True, [])
        assert held != []
        with pytest.raises(IndexError):
            held[1]
        assert first.id in repr(held)
        assert manager.active_grants() == []


def test_a_long_list_has_a_length_and_can_be_gone_through_twice(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path / "repo") as manager:
        fill(manager, 450)
        held = manager.active_grants()
        assert len(held) == len(list(held)) == len(list(held)) == 450
        assert held[449].id == held[-1].id
        assert manager.reap() == []


# Overlaps


KEYS = ["a", "a/b", "a-b", "a/b/c", ".", "port:1", "./port:1", "b/c", "ab", "inode:1-2"]


def test_overlaps_are_those_that_a_comparison_with_each_key_finds() -> None:
    assert len(KEYS) > FEW
    for some in (KEYS, KEYS[:FEW], [*KEYS, "a", "a"]):
        index = Overlaps([None if key == "ab" else key for key in some])
        for key in [*KEYS, "a/b/c/d", "c", "port:2"]:
            compared = [
                place for place, one in enumerate(some) if one != "ab" and overlap(one, key)
            ]
            assert index.of(key) == compared
