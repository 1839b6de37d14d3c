"""A process that moves a ledger is killed at any moment: there are never two ledgers that can be
used, the same command completes the move, and the way back undoes it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers_moving import (
    STEPS,
    WAYS,
    Place,
    add_events,
    begun,
    eventful,
    history,
    is_usable,
    killed_at,
    places,
    told,
)
from helpers_postgres import own_server
from holdfast.core.errors import StoreError
from holdfast.manager import ledger_move
from holdfast.manager.ledger_move import COPIED, UNDONE
from holdfast.manager.manager import LockManager
from holdfast.store.sqlite.sqlite_mover import SqliteMover

if TYPE_CHECKING:
    from holdfast.store.contract import Page

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'holdfast[postgres]'")

#: How many times a move is killed at a random moment, for each pair of stores.
TIMES = 6


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return places(request, tmp_path)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("kind", "other"), WAYS)
def test_a_move_that_was_killed_is_completed_by_the_same_command(
    place: Place, kind: str, other: str, step: str
) -> None:
    source, target = place(kind, "old"), place(other, "new")
    eventful(source)
    events, notes = history(source), told(source)
    killed_at(step, source, target)
    assert is_usable(source) == (step == "before mark 1")
    assert is_usable(target) == (step in ("filled", "after mark 2"))
    ledger_move.copy(source, target)
    assert not is_usable(source)
    assert (history(target), told(target)) == (events, notes)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("kind", "other"), WAYS)
def test_a_move_that_was_killed_is_undone_by_the_way_back(
    place: Place, kind: str, other: str, step: str
) -> None:
    source, target = place(kind, "old"), place(other, "new")
    eventful(source)
    events, notes = history(source), told(source)
    killed_at(step, source, target)
    if step == "before mark 1":
        return
    done = ledger_move.copy(target, source)
    assert done.outcome == (COPIED if step in ("filled", "after mark 2") else UNDONE)
    assert not is_usable(target)
    assert (history(source), told(source)) == (events, notes)
    # And then it can be moved again.
    ledger_move.copy(source, target)
    assert history(target) == events
    assert not is_usable(source)


@pytest.mark.parametrize("step", STEPS)
def test_a_way_back_that_was_killed_is_completed_or_undone(place: Place, step: str) -> None:
    first, second = place("sqlite", "old"), place("postgres", "new")
    eventful(first)
    ledger_move.copy(first, second)
    eventful(second)
    events = history(second)
    killed_at(step, second, first)
    assert (is_usable(first), is_usable(second)) == (
        step in ("filled", "after mark 2"), step == "before mark 1",
    )  # fmt: skip
    if step == "before page 2":
        assert ledger_move.copy(first, second).outcome == UNDONE
        assert history(second) == events
        assert not is_usable(first)
    ledger_move.copy(second, first)
    assert history(first) == events
    assert not is_usable(second)


@pytest.mark.parametrize(("kind", "other"), WAYS)
def test_a_move_that_is_killed_at_any_moment_leaves_one_ledger(
    place: Place, kind: str, other: str
) -> None:
    url, old = place(kind, "0"), ""
    eventful(url)
    add_events(url, 12_000)
    events = history(url)
    length = 1.0
    for number in range(1, TIMES + 1):
        old, url = url, place(other if number % 2 else kind, str(number))
        mover = begun(old, url)
        begin = time.monotonic()
        try:
            mover.wait(timeout=length * number / TIMES)
            length = time.monotonic() - begin
        except Exception:
            mover.send_signal(signal.SIGKILL)
            mover.wait()
        assert [is_usable(old), is_usable(url)].count(True) <= 1
        ledger_move.copy(old, url)
        assert not is_usable(old)
        assert history(url) == events


def test_two_that_move_a_ledger_at_once_make_one(place: Place) -> None:
    source, target = place("sqlite", "old"), place("postgres", "new")
    eventful(source)
    add_events(source, 12_000)
    events = history(source)
    movers = [begun(source, target) for _ in range(3)]
    assert 0 in [mover.wait(timeout=60) for mover in movers]
    assert history(target) == events
    assert not is_usable(source)


def test_two_that_move_a_ledger_to_different_places_make_one(place: Place) -> None:
    source = place("postgres", "old")
    targets = [place("sqlite", "a"), place("postgres", "b")]
    eventful(source)
    add_events(source, 12_000)
    events = history(source)
    movers = [begun(source, target) for target in targets]
    codes = [mover.wait(timeout=60) for mover in movers]
    assert sorted(codes) == [0, 1]
    assert history(targets[codes.index(0)]) == events
    assert not is_usable(targets[codes.index(1)])
    assert not is_usable(source)


def test_no_decision_is_lost_that_was_made_while_a_ledger_moves(place: Place) -> None:
    source, target = place("sqlite", "old"), place("postgres", "new")
    eventful(source)
    made: list[str] = []
    mover = begun(source, target)
    with LockManager.open(source) as manager, suppress(StoreError):
        while mover.poll() is None:
            grant = manager.try_acquire(holder="ann", write_paths=["x"])
            assert grant is not None
            made.append(grant.id)
            manager.release(grant.id, holder="ann")
    if mover.wait(timeout=60) != 0:  # it came while the lock was held
        ledger_move.copy(source, target)
    acquired = [event.data["id"] for event in history(target) if event.type == "lock_acquired"]
    assert set(made) <= set(acquired)


def test_a_server_that_is_killed_in_the_middle_of_a_copy_is_filled_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_server() as server:
        source, target = f"sqlite://{tmp_path}/ledger.db", server.url("app")
        eventful(source)
        add_events(source, 12_000)
        events = history(source)
        pages = SqliteMover.pages

        def cut(self: SqliteMover) -> Iterator[Page]:
            for number, page in enumerate(pages(self)):
                if number == 2:
                    server.kill()
                yield page

        with monkeypatch.context() as patch:
            patch.setattr(SqliteMover, "pages", cut)
            patch.setattr(ledger_move, "DEADLINE_SECONDS", 1.0)
            with pytest.raises(StoreError) as error:
                ledger_move.copy(source, target)
        assert "nothing can be used until the copy is complete: holdfast store copy" in str(
            error.value.hint
        )
        assert server.password not in error.value.message + error.value.hint
        assert not is_usable(source)
        server.start()
        assert not is_usable(target)
        assert ledger_move.copy(source, target).events == len(events)
        assert history(target) == events
