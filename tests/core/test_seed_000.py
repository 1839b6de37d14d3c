"""Worktree locks and fencing: the promises 000-05 to 000-14 and 000-26, as far as the kernel keeps
them. A worktree lock is a write on the key `worktree:NAME`; its files and commands come later."""

from __future__ import annotations

import itertools
import os
import signal
from functools import partial
from threading import Barrier, Event, Thread
from typing import TYPE_CHECKING

import pytest

import holdfast
from helpers_trees import LIVED, in_child
from holdfast import FencingError, LockExpiredError, LockManager, Lost
from holdfast.core import rules
from holdfast.core.model import Decision, Grant, Refusal, Waiting
from holdfast.store.sqlite.sqlite_store import SqliteStore
from holdfast.testing.conformance import Scene, refused

if TYPE_CHECKING:
    from holdfast.core.view import View

TREE = "worktree:main"


def test_seed000_05_acquire_is_atomic(scene: Scene) -> None:
    requests = [scene.request(f"agent-{number}", [], [TREE]) for number in range(8)]
    start, outcomes = Barrier(8), []

    def race(number: int) -> None:
        start.wait(60)
        outcomes.append(scene.put(requests[number]))

    threads = [Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(isinstance(outcome, Grant) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Refusal) for outcome in outcomes) == 7
    assert len(scene.state()[2]) == 1


def test_seed000_05_no_request_is_decided_during_another(scene: Scene) -> None:
    anns, bobs = (scene.request(name, [], [TREE]) for name in ("ann", "bob"))
    inside, asked, outcomes = Event(), Event(), []

    def take_slowly(view: View) -> Decision[Grant | Waiting | Refusal]:
        decision = rules.acquire(view, anns, wait=False)
        inside.set()
        asked.wait(0.2)  # in vain, if no other enters before this one has left
        return decision

    def ask(view: View) -> Decision[Grant | Waiting | Refusal]:
        asked.set()
        return rules.acquire(view, bobs, wait=False)

    def come_late() -> None:
        inside.wait(60)
        outcomes.append(scene.do(ask))

    thread = Thread(target=come_late)
    thread.start()
    assert isinstance(scene.do(take_slowly), Grant)
    thread.join(60)
    refused(outcomes[0], "E_LOCK_CONFLICT")


def test_seed000_05_a_lock_is_there_whole_or_not_at_all(embedded: Scene) -> None:
    """A process that dies before any of the statements has acquired all of it or nothing: the
    event, the grant, and each of its keys."""

    def take_and_die(before: int) -> None:
        embedded.state()  # from here on the child has a connection of its own
        statements = itertools.count()
        store = embedded.store
        assert isinstance(store, SqliteStore)

        def die(_sql: str) -> None:
            if next(statements) == before:
                os.kill(os.getpid(), signal.SIGKILL)

        store.connection.set_trace_callback(die)
        embedded.take("ann", writes=[TREE, "port:5432"])

    for number in itertools.count():
        code = in_child(partial(take_and_die, number), hook=lambda *_: None)
        embedded.reopen()
        grants = embedded.state()[2]
        assert [event.type for event in embedded.history()] == ["lock_acquired"] * len(grants)
        held = [bool(embedded.look(embedded.request("bob", [key]))) for key in (TREE, "port:5432")]
        assert held == [bool(grants)] * 2
        if code == LIVED:
            break
        assert code == -signal.SIGKILL
    assert number > 4
    assert grants


def test_seed000_06_an_unexpired_lock_is_a_conflict(scene: Scene) -> None:
    scene.take("ann", writes=[TREE], ttl=30)
    scene.clock.advance(29.999999)
    refusal = refused(scene.ask("bob", writes=[TREE]), "E_LOCK_CONFLICT")
    assert [conflict.holder for conflict in refusal.conflicts] == ["ann"]


def test_seed000_07_an_expired_lock_is_acquired_by_the_steal_flow_only(scene: Scene) -> None:
    scene.take("ann", writes=[TREE], ttl=30)
    scene.clock.advance(3600)
    refused(scene.ask("bob", writes=[TREE]), "E_LOCK_EXPIRED")
    refused(scene.put(scene.request("bob", [], [TREE]), wait=True), "E_LOCK_EXPIRED")
    assert isinstance(scene.steal(scene.request("bob", [], [TREE])), Grant)


def test_seed000_07_a_dead_owners_lock_waits_for_its_expiry_too(scene: Scene) -> None:
    scene.take("ann", writes=[TREE], ttl=30)
    scene.kill("ann")
    refused(scene.ask("bob", writes=[TREE]), "E_LOCK_CONFLICT")
    refused(scene.steal(scene.request("bob", [], [TREE])), "E_LOCK_CONFLICT")
    scene.clock.advance(30)
    assert isinstance(scene.steal(scene.request("bob", [], [TREE])), Grant)


def test_seed000_08_only_the_current_holder_renews(scene: Scene) -> None:
    grant = scene.take("ann", writes=[TREE], ttl=30)
    refused(scene.renew(grant, by=scene.holder("bob")), "E_LOCK_NOT_HELD")
    assert isinstance(scene.renew(grant), Grant)
    scene.clock.advance(30)
    assert isinstance(scene.steal(scene.request("bob", [], [TREE])), Grant)
    refused(scene.renew(grant), "E_FENCING_MISMATCH")


def test_seed000_09_a_renewal_extends_the_lease(scene: Scene) -> None:
    grant = scene.take("ann", writes=[TREE], ttl=30)
    scene.clock.advance(20)
    renewed = scene.renew(grant)
    assert isinstance(renewed, Grant)
    assert grant.expires_at is not None
    assert renewed.expires_at == grant.expires_at + 20_000_000
    scene.clock.advance(29)
    refused(scene.steal(scene.request("bob", [], [TREE])), "E_LOCK_CONFLICT")


def test_seed000_10_a_failed_renewal_stops_the_holders_writes(
    scene: Scene, manager: LockManager
) -> None:
    grant = manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"], ttl=30)
    assert grant is not None
    scene.clock.advance(30)
    with pytest.raises(LockExpiredError):
        manager.renew(grant.id, holder=scene.holder("ann"))
    assert not manager.verify(grant.id, path="x", token=grant.token)
    with pytest.raises(Lost), manager.fenced(grant):
        pytest.fail("it could still write")


def test_seed000_10_so_does_one_of_a_stolen_worktree(scene: Scene) -> None:
    grant = scene.take("ann", writes=[TREE], ttl=30)
    scene.clock.advance(30)
    assert isinstance(scene.steal(scene.request("bob", [], [TREE])), Grant)
    refused(scene.renew(grant), "E_FENCING_MISMATCH")
    assert scene.verify(grant, TREE).code == "E_FENCING_MISMATCH"
    with pytest.raises(FencingError), scene.manager.fenced(grant.id, grant.token):
        pytest.fail("it could still write")


def test_seed000_11_steal_only_when_expired(scene: Scene) -> None:
    scene.take("ann", writes=[TREE], ttl=30)
    scene.clock.advance(29.999999)
    refused(scene.steal(scene.request("bob", [], [TREE])), "E_LOCK_CONFLICT")
    scene.clock.advance(0.000001)
    assert isinstance(scene.steal(scene.request("bob", [], [TREE])), Grant)
    refused(scene.steal(scene.request("cid", [], [TREE])), "E_LOCK_CONFLICT")


def test_seed000_12_a_steal_increments_the_token(scene: Scene) -> None:
    tokens = [scene.take("agent-0", writes=[TREE], ttl=30).token]
    for number in range(1, 5):
        scene.clock.advance(30)
        scene.clock.step_wall(-3600)
        stolen = scene.steal(scene.request(f"agent-{number}", [], [TREE], ttl=30))
        assert isinstance(stolen, Grant)
        tokens.append(stolen.token)
    assert tokens == sorted(set(tokens))


def test_seed000_12_exactly_one_of_many_thieves_gets_it(scene: Scene) -> None:
    scene.take("ann", writes=[TREE], ttl=30)
    scene.clock.advance(30)
    requests = [scene.request(f"thief-{number}", [], [TREE]) for number in range(8)]
    start, outcomes = Barrier(8), []

    def race(number: int) -> None:
        start.wait(60)
        outcomes.append(scene.steal(requests[number]))

    threads = [Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(isinstance(outcome, Grant) for outcome in outcomes) == 1
    assert len(outcomes) == 8


def test_seed000_13_a_steal_is_in_the_ledger_with_both_parties(scene: Scene) -> None:
    grant = scene.take("ann", writes=[TREE], ttl=30)
    scene.clock.advance(30)
    stolen = scene.steal(scene.request("bob", [], [TREE]))
    assert isinstance(stolen, Grant)
    (event,) = [event for event in scene.history() if event.type == "lock_stolen"]
    assert (event.data["holder"], event.data["token"]) == ("ann", grant.token)
    assert event.data["by"] == {"holder": "bob", "grant": stolen.id}
    assert event.at == scene.now()


def test_seed000_14_only_the_holder_releases(scene: Scene) -> None:
    grant = scene.take("ann", writes=[TREE])
    refused(scene.release(grant, scene.holder("bob").key), "E_LOCK_NOT_HELD")
    assert scene.verify(grant, TREE)
    assert scene.release(grant, scene.holder("ann").key) is True
    scene.take("bob", writes=[TREE])


@pytest.mark.parametrize(
    "code", ["E_LOCK_CONFLICT", "E_LOCK_EXPIRED", "E_LOCK_NOT_HELD", "E_FENCING_MISMATCH"]
)
def test_seed000_26_error_classes_are_stable_and_machine_readable(code: str) -> None:
    named = [getattr(holdfast, name) for name in holdfast.__all__ if name.endswith("Error")]
    (error,) = [error for error in named if error.code == code]
    assert error("told", hint="next").to_dict() == {
        "code": code, "message": "told", "hint": "next",
    }  # fmt: skip
