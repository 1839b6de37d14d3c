"""Every store that ships keeps the contract, and a store that does not is found out."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from conftest import KEPT, STORES, opener, postgres_store
from holdfast.core.ledger_time import Reading
from holdfast.core.model import SECOND, Decision, Event, Ticket
from holdfast.store import open_store
from holdfast.store.memory import MemoryStore
from holdfast.testing import conformance

LEASE_SECONDS = 120


@pytest.mark.parametrize("check", conformance.CHECKS, ids=conformance.name_of)
def test_the_memory_store_keeps_the_contract(check: conformance.Check, tmp_path: Path) -> None:
    conformance.run(check, opener("memory", tmp_path))


@pytest.mark.parametrize("check", conformance.SHARED_CHECKS, ids=conformance.name_of)
def test_the_sqlite_store_keeps_the_contract(check: conformance.Check, tmp_path: Path) -> None:
    conformance.run(check, opener("sqlite", tmp_path))


@pytest.mark.parametrize("check", conformance.SHARED_CHECKS, ids=conformance.name_of)
def test_the_postgres_store_keeps_the_contract(check: conformance.Check, tmp_path: Path) -> None:
    conformance.run(check, opener("postgres", tmp_path))


@pytest.mark.parametrize("check", conformance.CHECKS, ids=conformance.name_of)
@pytest.mark.parametrize("store", ["memory", "postgres"])
def test_a_store_whose_leases_have_to_be_renewed_keeps_the_contract(
    store: str, check: conformance.Check, tmp_path: Path
) -> None:
    def leased(name: str, *, clock: Any, is_dead: Any) -> Any:
        if store == "memory":
            return MemoryStore(clock=clock, is_dead=is_dead, lease=LEASE_SECONDS * SECOND)
        return postgres_store(
            f"{tmp_path}/{name}", clock=clock, is_dead=is_dead, lease_seconds=LEASE_SECONDS
        )

    conformance.run(check, leased)


class Broken:
    """A store with one fault; all else is that of the memory store."""

    def __init__(self, *, clock: Any, is_dead: Any) -> None:
        self.store = open_store("memory:", clock=clock, is_dead=is_dead)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


class HalfOfIt(Broken):
    def transact(self, decide: Callable[[Any], Decision[Any]], *, deadline: float) -> Any:
        def first_only(view: Any) -> Decision[Any]:
            decision = decide(view)
            return Decision(decision.outcome, decision.events[:1], decision.wake)

        return self.store.transact(first_only, deadline=deadline)


class SaysEverythingAgain(Broken):
    def transact(self, decide: Callable[[Any], Decision[Any]], *, deadline: float) -> Any:
        def never_once(view: Any) -> Decision[Any]:
            decision = decide(view)
            events = tuple(
                Event(seq=event.seq, type=event.type, at=event.at, data=event.data)
                for event in decision.events
            )
            return Decision(decision.outcome, events, decision.wake, decision.hint)

        return self.store.transact(never_once, deadline=deadline)


class WakesNobody(Broken):
    def transact(self, decide: Callable[[Any], Decision[Any]], *, deadline: float) -> Any:
        def silent(view: Any) -> Decision[Any]:
            decision = decide(view)
            return Decision(decision.outcome, decision.events)

        return self.store.transact(silent, deadline=deadline)

    def wait(self, after: int, timeout: float) -> int:
        return self.store.wait(after, min(timeout, 0.1))


class WaitsForEver(Broken):
    def waiter(self) -> Any:
        class Stays:
            def __init__(self, waiter: Any) -> None:
                self.address, self.wait, self.close = waiter.address, waiter.wait, waiter.close

            def discard(self) -> None: ...

        return Stays(self.store.waiter())


class HasNoFence(Broken):
    def fenced(self, id: str, token: int, *, deadline: float) -> AbstractContextManager[None]:
        return nullcontext()


class SkipsEvents(Broken):
    def events(self, after: int = 0, limit: int | None = None) -> Iterator[Event]:
        return (event for event in self.store.events(after, limit) if event.seq % 5)


class BelievesTheWallClock(Broken):
    def __init__(self, *, clock: Any, is_dead: Any) -> None:
        class Wall:
            monotonic = clock.monotonic

            def read(self) -> Reading:
                return Reading(clock.read().wall, "", 0, 0)

        super().__init__(clock=Wall(), is_dead=is_dead)


class BelievesThatEverybodyLives(Broken):
    def __init__(self, *, clock: Any, is_dead: Any) -> None:
        super().__init__(clock=clock, is_dead=lambda witness, marks: False)


class NeverTrims(Broken):
    def trim(self, before: int) -> int:
        return before - 1


FAULTS = {
    HalfOfIt: "what_comes_free_is_handed_over_in_the_same_step",
    SaysEverythingAgain: "refusals_that_say_the_same_are_one_event",
    WakesNobody: "a_waiter_is_woken_by_whoever_serves_it",
    WaitsForEver: "a_request_whose_waiter_gave_up_is_never_served",
    HasNoFence: "nothing_changes_hands_inside_a_fence",
    SkipsEvents: "events_are_numbered_without_gaps",
    BelievesTheWallClock: "the_time_of_the_ledger_goes_on_whatever_the_wall_clock_does",
    BelievesThatEverybodyLives: "a_dead_owner_is_reaped_by_the_request_that_follows_it",
    NeverTrims: "how_a_trimmed_grant_ended_is_forgotten",
}


#: The modules of the suite that wait for something, each with a name of its own for how long.
PATIENT_MODULES = [
    module
    for info in pkgutil.iter_modules(conformance.__path__, f"{conformance.__name__}.")
    if hasattr(module := importlib.import_module(info.name), "PATIENT_SECONDS")
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_store_with_a_fault_is_found_out(
    fault: type[Broken], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in PATIENT_MODULES:  # a fault must not cost minutes
        monkeypatch.setattr(module, "PATIENT_SECONDS", 0.3)
    with pytest.raises(ExceptionGroup, match="does not keep the contract") as caught:
        conformance.check_store(lambda name, **rest: fault(**rest))
    notes = [note for error in caught.value.exceptions for note in error.__notes__]
    assert f"in the check {FAULTS[fault]}" in notes


def test_the_suite_runs_without_pytest(tmp_path: Path) -> None:
    conformance.check_store(opener("memory", tmp_path))


def test_every_check_says_what_it_shows() -> None:
    names = [conformance.name_of(check) for check in conformance.SHARED_CHECKS]
    assert len(set(names)) == len(names) >= 60
    assert all(name.count("_") >= 2 for name in names)
    assert set(conformance.CHECKS) < set(conformance.SHARED_CHECKS)


# No store has rules of its own: decisions must not depend on the store


def told(scene: conformance.Scene) -> list[tuple[Any, ...]]:
    return [(event.seq, event.type, json.dumps(dict(event.data))) for event in scene.history()]


@pytest.mark.parametrize("kind", KEPT)
def test_releasing_the_root_means_the_same_for_resources_on_both_stores(
    kind: str, tmp_path: Path
) -> None:
    """The root contains no resource, so a release of it does not examine waits for one."""
    events = []
    for store in ("memory", kind):
        with conformance.Scene(opener(store, tmp_path)) as scene:
            root = scene.take("ann", reads=["."])
            scene.take("bob", writes=["port:1"], ttl=10)
            scene.queue_up("cid", writes=["port:1"])
            scene.clock.advance(10)
            scene.release(root)
            events.append([event.type for event in scene.history()])
    assert events[0] == events[1]


@pytest.mark.parametrize("kind", KEPT)
def test_a_steal_of_several_is_recorded_in_the_same_order_on_both_stores(
    kind: str, tmp_path: Path
) -> None:
    events = []
    for store in ("memory", kind):
        with conformance.Scene(opener(store, tmp_path)) as scene:
            for name, id in (("ann", "id-2"), ("bob", "id-1"), ("cid", "id-3")):
                scene.put(scene.request(name, ["x"], id=id, ttl=10))
            scene.clock.advance(10)
            scene.steal(scene.request("dee", [], ["x"], id="id-4"))
            events.append(told(scene))
    assert events[0] == events[1]


@pytest.mark.parametrize("kind", KEPT)
def test_ensure_reuses_the_same_grant_on_both_stores(kind: str, tmp_path: Path) -> None:
    reused = []
    for store in ("memory", kind):
        with conformance.Scene(opener(store, tmp_path)) as scene:
            for id in ("id-2", "id-1", "id-3"):
                scene.put(scene.request("ann", ["a/"], ["x"], id=id))
            reused.append(scene.ensure(scene.request("ann", ["a/b"], ["x"], id="id-4")))
    assert reused[0] == reused[1]


@pytest.mark.parametrize("store", STORES)
def test_the_order_of_tickets_is_that_of_ticket_rank_in_every_store(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another rank the queue has another order: no store repeats the formula."""

    def reservations_last_and_newest_first(ticket: Ticket) -> int:
        return (1000 if ticket.reserved else 0) - ticket.arrival

    monkeypatch.setattr(Ticket, "rank", property(reservations_last_and_newest_first))
    with conformance.Scene(opener(store, tmp_path)) as scene:
        scene.take("ann", writes=["x"], ttl=None)
        impatient = [scene.queue_up(name, writes=["x"], patience=60) for name in ("bob", "cid")]
        scene.clock.advance(60)
        patient = [scene.queue_up(name, writes=["x"], priority=9) for name in ("dee", "eve")]
        reserved = {ticket.id for ticket in scene.state()[3] if ticket.reserved}
        assert reserved == {request.id for request in impatient}
        expected = [*reversed(patient), *reversed(impatient)]
        assert scene.waiting() == [request.id for request in expected]
