"""A ledger moves between two stores of any kind, and nothing of it is lost on the way."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import AbstractContextManager, closing
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from helpers_moving import (
    KINDS,
    WAYS,
    Place,
    add_events,
    eventful,
    found,
    history,
    is_usable,
    last_token,
    places,
    told,
)
from holdfast.core.errors import BadKeyError, LockConflictError, StoreError
from holdfast.core.model import Ending, Holder
from holdfast.manager import ledger_move, transactions
from holdfast.manager.clock import SystemClock
from holdfast.manager.ledger_move import ALREADY, COPIED
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import witness_of
from holdfast.store import move_marks, open_store
from holdfast.store.by_kind import has_ledger, mover
from holdfast.store.move_marks import Move
from holdfast.store.sqlite.schema import MOVED, VERSION

if TYPE_CHECKING:
    from holdfast.store.contract import Store

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'holdfast[postgres]'")


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return places(request, tmp_path)


@pytest.mark.parametrize(("kind", "other"), WAYS)
def test_a_move_keeps_every_event_its_repetitions_notes_and_lost_grants(
    place: Place, kind: str, other: str
) -> None:
    source, target = place(kind, "old"), place(other, "new")
    lost = eventful(source)
    events, notes, token = history(source), told(source), last_token(source)
    assert [event.repeats for event in events if event.type == "lock_refused"] == [2]
    ending = found(source, lost)
    assert isinstance(ending, Ending)
    done = ledger_move.copy(source, target)
    assert (done.outcome, done.events) == (COPIED, len(events))
    assert history(target) == events
    assert (told(target), last_token(target), found(target, lost)) == (notes, token, ending)
    assert len(notes) == 1


@pytest.mark.parametrize(("kind", "other"), WAYS)
def test_numbers_and_tokens_go_on_at_the_target(place: Place, kind: str, other: str) -> None:
    source, target = place(kind, "old"), place(other, "new")
    eventful(source)
    head, token = history(source)[-1].seq, last_token(source)
    ledger_move.copy(source, target)
    with LockManager.open(target) as manager:
        grant = manager.try_acquire(holder="ann", write_paths=["a.txt"])
        assert grant is not None
        assert grant.token > token
        assert [event.seq for event in manager.events(head)] == [head + 1]


def _refused_by(url: str, by: Holder) -> list[int]:
    """A visitor's request for what `by` holds under an id of its own; the repetitions so far."""
    with LockManager.open(url) as manager:
        assert manager.try_acquire(holder=Holder(id="bob"), write_paths=["a.txt"]) is None
        return [event.repeats for event in manager.events() if event.type == "lock_refused"]


@pytest.mark.parametrize("ways", [["postgres"], ["postgres", "sqlite"], ["sqlite", "postgres"]])
def test_a_refusal_that_was_counted_goes_on_being_counted(
    place: Place, monkeypatch: pytest.MonkeyPatch, ways: list[str]
) -> None:
    url = place("sqlite", "first")
    ann = Holder(id="ann")
    # The same grant must be in the way before and after the moves, although it has to end before.
    monkeypatch.setattr("holdfast.manager.manager.new_id", lambda: "same-id")
    counts = []
    for number, kind in enumerate(["", *ways]):
        if kind:
            url, old = place(kind, f"store-{number}"), url
            ledger_move.copy(old, url)
        with LockManager.open(url) as manager:
            grant = manager.try_acquire(holder=ann, write_paths=["a.txt"])
            assert grant is not None
            counts.append(_refused_by(url, ann))
            manager.release(grant.id, holder=ann)
    assert counts == [[at] for at in range(len(ways) + 1)]


@pytest.mark.parametrize(("kind", "other"), WAYS)
def test_every_process_that_has_the_source_open_is_told_where_it_went(
    place: Place, kind: str, other: str
) -> None:
    source, target = place(kind, "old"), place(other, "new")
    eventful(source)
    with LockManager.open(source) as open_before:
        held = open_before.try_acquire(holder="ann", write_paths=["x"])
        assert held is not None
        open_before.release(held.id, holder="ann")  # its head is cached now
        ledger_move.copy(source, target)
        new = open_store_url(target)
        tries: list[Any] = [
            lambda: open_before.try_acquire(holder="ann", write_paths=["x"]),
            lambda: open_before.active_grants(),
            lambda: list(open_before.events()),
            lambda: open_before.store.trim(2),
            lambda: open_before.store.fenced(held.id, held.token, deadline=soon()).__enter__(),
            lambda: open_before.store.wait(0, 0.1),
        ]
        for one in tries:
            with pytest.raises(StoreError, match="was moved to") as error:
                one()
            assert new in error.value.message
            assert new in error.value.hint
    with pytest.raises(StoreError, match="was moved to"), LockManager.open(source) as later:
        later.try_acquire(holder="ann", write_paths=["x"])
    assert is_usable(target)


def store_at(url: str) -> AbstractContextManager[Store]:
    """A store as a move opens it."""
    return closing(open_store(url, clock=SystemClock(), is_dead=lambda *_: None))


def open_store_url(url: str) -> str:
    with LockManager.open(url) as manager:
        return manager.store.url


def soon() -> float:
    return monotonic() + 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_ledger_in_use_is_not_moved_and_the_holder_is_named(place: Place, kind: str) -> None:
    source, target = place(kind, "old"), place("sqlite", "new")
    with LockManager.open(source) as manager:
        grant = manager.try_acquire(holder="ann", write_paths=["a.txt", "b.txt"])
        assert grant is not None
        request = manager.request("bob", (), ["a.txt"], None, "")
        transactions.queue(manager, request)
        with pytest.raises(LockConflictError, match=r"ann has held a\.txt and 1 more") as error:
            ledger_move.copy(source, target)
        assert "bob has waited for a.txt" in str(error.value)
        assert not has_ledger(target, end=soon()), "nothing was made"
        assert manager.try_acquire(holder="cid", write_paths=["c.txt"]) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_the_leases_of_dead_owners_do_not_keep_a_ledger(place: Place, kind: str) -> None:
    source, target = place(kind, "old"), place("sqlite", "new")
    sleeper = subprocess.Popen(["sleep", "60"])
    dead = witness_of(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    with LockManager.open(source) as manager:
        holder = Holder(id="ann", witness=dead)
        assert manager.try_acquire(holder=holder, write_paths=["a.txt"], ttl=None) is not None
    assert ledger_move.copy(source, target).outcome == COPIED
    assert history(target)[-1].type == "lock_reaped"


@pytest.mark.parametrize(("kind", "other"), WAYS)
def test_a_target_with_a_history_is_refused_and_the_source_stays(
    place: Place, kind: str, other: str
) -> None:
    source, target = place(kind, "old"), place(other, "new")
    for url in (source, target):
        eventful(url)
    before = history(target)
    with pytest.raises(LockConflictError, match="has a ledger already"):
        ledger_move.copy(source, target)
    assert is_usable(source)
    assert history(target) == before


def test_an_empty_ledger_moves_too(place: Place) -> None:
    source, target = place("sqlite", "old"), place("postgres", "new")
    LockManager.open(source).close()
    assert ledger_move.copy(source, target).events == 0
    with LockManager.open(source) as manager, pytest.raises(StoreError, match="was moved to"):
        manager.try_acquire(holder="ann", write_paths=["x"])
    with LockManager.open(target) as manager:
        assert manager.try_acquire(holder="ann", write_paths=["x"]) is not None


@pytest.mark.parametrize(("kind", "other"), WAYS)
def test_a_ledger_comes_back_with_all_that_happened_since(
    place: Place, kind: str, other: str
) -> None:
    source, target = place(kind, "old"), place(other, "new")
    eventful(source)
    assert ledger_move.copy(source, target).outcome == COPIED
    assert ledger_move.copy(source, target).outcome == ALREADY
    eventful(target)
    events, notes = history(target), told(target)
    assert ledger_move.copy(target, source).outcome == COPIED
    assert (history(source), told(source)) == (events, notes)
    assert not is_usable(target)
    eventful(source)
    events = history(source)
    assert ledger_move.copy(source, target).outcome == COPIED
    assert history(target) == events
    assert not is_usable(source)


def test_a_ledger_is_not_overwritten_by_one_that_does_not_come_from_it(place: Place) -> None:
    first, second, other = place("sqlite", "1"), place("sqlite", "2"), place("sqlite", "3")
    eventful(first)
    ledger_move.copy(first, second)
    eventful(other)
    with pytest.raises(StoreError, match="was moved to"):
        ledger_move.copy(other, first)
    shutil.rmtree(os.path.dirname(second.removeprefix("sqlite://")))
    place("sqlite", "2")
    eventful(second)  # another ledger at the same place
    with pytest.raises(BadKeyError, match="did not come from there"):
        ledger_move.copy(second, first)
    assert is_usable(second)


@pytest.mark.parametrize(("kind", "other"), WAYS)
def test_a_history_of_many_pages_that_was_trimmed_moves(
    place: Place, kind: str, other: str
) -> None:
    source, target = place(kind, "old"), place(other, "new")
    lost = eventful(source)
    add_events(source, 2 * move_marks.PAGE_ROWS + 700)
    with LockManager.open(source) as manager:
        manager.store.trim(500)
    events, notes = history(source), told(source)
    assert ledger_move.copy(source, target).events == len(events) > 2 * move_marks.PAGE_ROWS
    assert (history(target), told(target)) == (events, notes)
    assert len(notes) == 1
    assert found(target, lost) is None, "it was trimmed"


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_that_fails_gives_the_source_back(
    place: Place, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = place("sqlite", "old"), place(kind, "new")
    eventful(source)
    events = history(source)
    pages = mover_class("sqlite").pages

    def broken(self: Any) -> Any:
        yield from list(pages(self))[:1]
        raise StoreError("the disk of the source is broken", hint="replace it")

    with monkeypatch.context() as patch:
        patch.setattr(mover_class("sqlite"), "pages", broken)
        with pytest.raises(StoreError, match="broken") as error:
            ledger_move.copy(source, target)
    assert "nothing was moved" in error.value.hint
    assert history(source) == events
    assert history(target) == []
    assert ledger_move.copy(source, target).events == len(events)
    assert history(target) == events


def mover_class(kind: str) -> Any:
    from holdfast.store.postgres.server_mover import ServerMover
    from holdfast.store.sqlite.sqlite_mover import SqliteMover

    return SqliteMover if kind == "sqlite" else ServerMover


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_the_server_has_no_room_for_gives_the_source_back(
    place: Place, kind: str
) -> None:
    source, target = place("sqlite", "old"), place(kind, "new")
    with LockManager.open(source) as manager:
        transactions.note(manager, "spec_told", {}, name="n" * 3000)
    if kind == "sqlite":
        ledger_move.copy(source, target)
        return
    with pytest.raises(BadKeyError, match="too long for a ledger on a server"):
        ledger_move.copy(source, target)
    assert is_usable(source)


@pytest.mark.parametrize("kind", KINDS)
def test_a_move_that_was_undone_never_fills_its_target(place: Place, kind: str) -> None:
    with store_at(place(kind, "new")) as store:
        target = mover(store)
        assert target.call_off("id-1", deadline=soon())
        with pytest.raises(LockConflictError, match="undone meanwhile"):
            target.take("id-1", lambda: iter(()), None, deadline=soon())
        assert target.take("id-2", lambda: iter(()), None, deadline=soon())
        assert not target.take("id-2", lambda: iter(()), None, deadline=soon())
        assert not target.call_off("id-2", deadline=soon())


@pytest.mark.parametrize("kind", KINDS)
def test_a_mark_is_set_only_on_the_state_that_the_caller_knew(place: Place, kind: str) -> None:
    url = place(kind, "old")
    eventful(url)
    with store_at(url) as store:
        source = mover(store)
        first, second = Move("id-1", "sqlite:///x/ledger.db"), Move("id-2", "sqlite:///y/ledger.db")
        assert source.mark(None, first, deadline=soon()) == first
        assert source.mark(None, second, deadline=soon()) == first
        assert source.mark(second, None, deadline=soon()) == first
        assert source.mark(first, first.completed(), deadline=soon()) == first.completed()
        assert source.move(deadline=soon()) == first.completed()
        assert source.mark(first.completed(), None, deadline=soon()) is None
        assert list(store.events())


def test_an_older_version_takes_a_moved_file_for_one_of_a_newer_version(place: Place) -> None:
    source, target = place("sqlite", "old"), place("sqlite", "new")
    eventful(source)
    ledger_move.copy(source, target)
    for url, version in ((source, MOVED + VERSION), (target, VERSION)):
        with closing(sqlite3.connect(url.removeprefix("sqlite://"))) as connection:
            assert connection.execute("pragma user_version").fetchone() == (version,)
    ledger_move.copy(target, source)
    with closing(sqlite3.connect(source.removeprefix("sqlite://"))) as connection:
        assert connection.execute("pragma user_version").fetchone() == (VERSION,)


def test_a_ledger_is_not_copied_to_itself_nor_from_nowhere(place: Place, tmp_path: Path) -> None:
    source = place("sqlite", "old")
    with pytest.raises(StoreError, match="there is no ledger"):
        ledger_move.copy(source, place("sqlite", "new"))
    with pytest.raises(StoreError, match="there is no ledger"):
        ledger_move.copy(place("postgres", "old"), place("sqlite", "new"))
    assert not has_ledger(source, end=soon())
    eventful(source)
    (tmp_path / "link").symlink_to(tmp_path / "old")
    for same in (source, f"sqlite://{tmp_path}/link/ledger.db"):
        with pytest.raises(BadKeyError, match="cannot be copied to itself"):
            ledger_move.copy(source, same)
    server = place("postgres", "self")
    eventful(server)
    with pytest.raises(BadKeyError):
        ledger_move.copy(server, server)
    aliased = server.replace("127.0.0.1", "localhost")
    with pytest.raises(LockConflictError, match="has a ledger already"):
        ledger_move.copy(server, aliased)
    assert is_usable(source)
    assert is_usable(server)


def test_the_memory_store_has_no_ledger_to_move() -> None:
    from holdfast.manager.clock import FakeClock

    store = open_store("memory:", clock=FakeClock(), is_dead=lambda *_: None)
    with pytest.raises(BadKeyError, match="ends with its process"):
        mover(store)
