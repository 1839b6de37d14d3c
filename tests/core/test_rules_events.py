"""The vocabulary of the ledger: the data of every event, and when it is not repeated."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from holdfast import Event, Holder, LockConflictError, LockManager, Refused
from holdfast.core import events
from holdfast.core.model import SECOND, Grant, Witness
from holdfast.core.table import fold
from holdfast.testing.conformance import Scene, refused, state_of

VOCABULARY = {
    "lock_acquired", "lock_renewed", "leases_kept", "lock_released", "lock_reaped", "lock_stolen",
    "lock_forced", "lock_moved", "lock_refused",
    "ticket_added", "ticket_reserved", "ticket_dropped",
}  # fmt: skip
ENDING = {"grant", "holder", "token", "paths"}


def test_the_vocabulary_is_these_twelve_words_in_version_one() -> None:
    words = {
        value
        for name, value in vars(events).items()
        if name.startswith(("LOCK_", "LEASES_", "TICKET_")) and isinstance(value, str)
    }
    assert words == VOCABULARY
    assert events.VERSION == 1


def test_the_vocabulary_is_documented() -> None:
    assert events.__doc__ is not None
    for word in VOCABULARY:
        assert f"| {word} " in events.__doc__


def last(scene: Scene, type: str) -> Event:
    event = next(event for event in reversed(scene.history()) if event.type == type)
    assert (event.version, event.at) == (1, scene.now())
    json.dumps(dict(event.data))  # plain data
    return event


def test_lock_acquired_says_the_whole_grant(scene: Scene) -> None:
    ann = Holder(
        id="ann", key="ann-key", user="root", client="claude", session="s", agent="a", parent="p",
        witness=Witness(host="h", boot="b", namespace="n", pid=7, start=8), marks=("RUN=1",),
    )  # fmt: skip
    request = scene.request(ann, ["lib/"], ["x"], ttl=60, reason="tidy")
    grant = scene.put(request)
    assert isinstance(grant, Grant)
    data = last(scene, "lock_acquired").data
    assert (data["id"], data["token"], data["modes"]) == (grant.id, grant.token, "rw")
    assert list(data["keys"]) == ["lib", "x"]
    assert list(data["paths"]) == ["lib/", "x"]
    assert (data["ttl"], data["reason"]) == (60 * SECOND, "tidy")
    assert data["holder"] == {
        "id": "ann", "key": "ann-key", "user": "root", "client": "claude", "session": "s",
        "agent": "a", "parent": "p", "witness": ["h", "b", "n", 7, 8], "marks": ["RUN=1"],
    }  # fmt: skip
    assert "ticket" not in data
    assert fold(scene.history()).grants() == [grant]


def test_lock_acquired_says_that_it_had_waited(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    scene.queue_up("bob", writes=["x"])
    scene.release(held)
    assert last(scene, "lock_acquired").data["ticket"]


def test_lock_renewed_says_the_new_limits(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=60)
    scene.clock.advance(10)
    scene.renew(grant, rest=30)
    assert dict(last(scene, "lock_renewed").data) == {
        "grant": grant.id, "holder": "ann", "slept": 0,
        "expires_at": scene.now() + 60 * SECOND, "idle_at": scene.now() + 30 * SECOND,
    }  # fmt: skip


def test_lock_released_names_the_freed_paths(scene: Scene) -> None:
    grant = scene.take("ann", ["lib/"], ["x"])
    scene.release(grant)
    data = last(scene, "lock_released").data
    assert set(data) == ENDING
    assert (data["grant"], data["holder"], data["token"]) == (grant.id, "ann", grant.token)
    assert list(data["paths"]) == ["lib/", "x"]


def reap_expired(scene: Scene) -> None:
    scene.clock.advance(60)


def reap_idle(scene: Scene) -> None:
    scene.renew(scene.state()[2][0], rest=30)
    scene.clock.advance(30)


def reap_dead(scene: Scene) -> None:
    scene.kill("ann")


@pytest.mark.parametrize(
    ("end", "why"), [(reap_expired, "expired"), (reap_idle, "idle"), (reap_dead, "owner dead")]
)
def test_lock_reaped_says_why(scene: Scene, end: Callable[[Scene], None], why: str) -> None:
    grant = scene.take("ann", writes=["x"], ttl=60)
    end(scene)
    scene.take("bob", writes=["x"])
    data = last(scene, "lock_reaped").data
    assert set(data) == ENDING | {"why"}
    assert (data["grant"], data["holder"], data["why"]) == (grant.id, "ann", why)


def test_lock_stolen_names_both(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=60)
    scene.clock.advance(60)
    stolen = scene.steal(scene.request("bob", [], ["x"]))
    assert isinstance(stolen, Grant)
    data = last(scene, "lock_stolen").data
    assert set(data) == ENDING | {"by"}
    assert (data["grant"], data["holder"], data["token"]) == (grant.id, "ann", grant.token)
    assert data["by"] == {"holder": "bob", "grant": stolen.id}


def test_lock_forced_names_both_and_the_reason(scene: Scene, manager: LockManager) -> None:
    grant = scene.take("ann", writes=["x"])
    manager.force(grant.id, by=scene.holder("operator"), reason="she went home")
    data = last(scene, "lock_forced").data
    assert set(data) == ENDING | {"by", "reason"}
    assert (data["grant"], data["holder"]) == (grant.id, "ann")
    assert (data["by"]["holder"], data["reason"]) == ("operator", "she went home")


def test_forcing_needs_a_reason(scene: Scene, manager: LockManager) -> None:
    from holdfast import BadKeyError

    grant = scene.take("ann", writes=["x"])
    for reason in ("", "  \n"):
        with pytest.raises(BadKeyError):
            manager.force(grant.id, by=scene.holder("operator"), reason=reason)
    assert scene.holds(grant)


def test_a_reason_is_one_line_wherever_it_is_given(scene: Scene, manager: LockManager) -> None:
    """It is shown in tables and in other people's terminals."""
    nasty = "two\nlines \x1b[31m and\ttabs"
    grant = manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"], reason=nasty)
    assert grant is not None
    assert grant.reason.isprintable()
    assert "lines" in grant.reason
    manager.force(grant.id, by=scene.holder("operator"), reason=nasty)
    assert last(scene, "lock_forced").data["reason"].isprintable()


def test_lock_refused_names_the_requester_its_paths_and_the_conflicts(scene: Scene) -> None:
    one, two = scene.take("ann", writes=["x"]), scene.take("bob", reads=["lib/a"])
    refused(scene.ask("cid", ["x"], ["lib/a"]))
    data = last(scene, "lock_refused").data
    assert set(data) == {"holder", "paths", "modes", "code", "blockers"}
    assert (data["holder"], list(data["paths"]), data["modes"]) == ("cid", ["x", "lib/a"], "rw")
    assert (data["code"], data["blockers"]) == ("E_LOCK_CONFLICT", sorted([one.id, two.id]))


def test_ticket_added_says_the_whole_request(scene: Scene) -> None:
    scene.take("ann", writes=["x"])
    request = scene.queue_up("bob", ["lib/"], ["x"], priority=7, patience=60)
    data = last(scene, "ticket_added").data
    assert (data["id"], data["modes"], data["priority"]) == (request.id, "rw", 7)
    assert (data["patience"], data["ttl"]) == (request.patience, request.ttl)
    (ticket,) = fold(scene.history()).queue()
    assert ticket.request == request


def test_ticket_reserved_says_whose(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    request = scene.queue_up("bob", writes=["x"], patience=60)
    scene.clock.advance(60)
    scene.put(request, wait=True)
    assert dict(last(scene, "ticket_reserved").data) == {"ticket": request.id, "holder": "bob"}


@pytest.mark.parametrize("why", ["timeout", "cancelled"])
def test_ticket_dropped_says_why(scene: Scene, why: str) -> None:
    scene.take("ann", writes=["x"])
    request = scene.queue_up("bob", writes=["x"])
    scene.cancel(request, why)
    assert dict(last(scene, "ticket_dropped").data) == {
        "ticket": request.id, "holder": "bob", "why": why,
    }  # fmt: skip


# Refusals


def test_a_refusal_is_recorded_and_then_raised(scene: Scene, manager: LockManager) -> None:
    scene.take("ann", writes=["x"])
    with pytest.raises(LockConflictError):
        manager.ensure(holder=scene.holder("bob"), write_paths=["x"])
    assert scene.history()[-1].type == "lock_refused"


def test_a_failed_steal_is_recorded_too(scene: Scene, manager: LockManager) -> None:
    scene.take("ann", writes=["x"])
    with pytest.raises(Refused):
        manager.steal(holder=scene.holder("bob"), write_paths=["x"])
    assert scene.history()[-1].type == "lock_refused"


def test_an_agent_that_retries_does_not_grow_the_ledger(scene: Scene, manager: LockManager) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    for _ in range(100):
        assert manager.try_acquire(holder=scene.holder("bob"), write_paths=["x"]) is None
        scene.clock.advance(180)
    assert [event.type for event in scene.history()] == ["lock_acquired", "lock_refused"]
    assert scene.history()[-1].repeats == 99


def test_refusals_differ_by_requester_paths_and_blockers(scene: Scene) -> None:
    first = scene.take("ann", writes=["x"])
    refused(scene.ask("bob", writes=["x"]))
    refused(scene.ask("cid", writes=["x"]))
    refused(scene.ask("bob", reads=["x"]))
    refused(scene.ask("bob", writes=["x", "y"]))
    scene.release(first)
    scene.take("ann", writes=["x"])
    refused(scene.ask("bob", writes=["x"]))
    found = [event for event in scene.history() if event.type == "lock_refused"]
    assert [event.repeats for event in found] == [0] * 5


def test_the_same_refusal_is_recorded_again_once_its_event_was_trimmed(scene: Scene) -> None:
    scene.take("ann", writes=["x"])
    refused(scene.ask("bob", writes=["x"]))
    scene.take("ann", writes=["y"])
    scene.store.trim(scene.state()[0])
    refused(scene.ask("bob", writes=["x"]))
    refused(scene.ask("bob", writes=["x"]))
    event = scene.history()[-1]
    assert (event.type, event.repeats) == ("lock_refused", 1)


def test_the_changes_of_a_refused_request_are_not_lost(scene: Scene) -> None:
    scene.take("ann", writes=["a"], ttl=10)
    scene.take("bob", writes=["b"], ttl=None)
    scene.take("cid", writes=["c"], ttl=None)
    scene.clock.advance(10)
    scene.kill("bob")
    head = scene.state()[0]
    refused(scene.ask("dee", writes=["a", "b", "c"]))
    assert [event.type for event in scene.history(head)] == [
        "lock_reaped", "lock_reaped", "lock_refused",
    ]  # fmt: skip
    assert [grant.holder.id for grant in scene.state()[2]] == ["cid"]


# The fold


def test_the_fold_of_a_history_is_the_state(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"], ttl=100)
    scene.renew(held, ttl=500)
    scene.queue_up("bob", writes=["x"], patience=0)
    refused(scene.ask("cid", writes=["x"]))
    scene.clock.sleep_machine(10)
    scene.renew(held)
    assert state_of(fold(scene.history())) == scene.state()


def test_a_reader_skips_unknown_types(scene: Scene) -> None:
    scene.take("ann", writes=["x"])
    history = scene.history()
    news = Event(seq=2, type="lock_painted", at=history[-1].at, data={"colour": "red"}, version=9)
    assert fold([*history, news]).grants() == fold(history).grants()
