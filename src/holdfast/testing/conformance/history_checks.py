"""Checks of the ledger, its time, and commands whose answers were lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.model import SECOND, Decision, Ending, Grant, Holder, Waiting
from holdfast.core.table import fold
from holdfast.testing.conformance.scene import Scene, refused, state_of

if TYPE_CHECKING:
    from holdfast.core.view import View


def _busy_day(scene: Scene) -> list[Grant]:
    """Commands of every kind. Returns the grants that are left."""
    kept = scene.take("ann", ["lib/"], ["x"], ttl=100)
    short = scene.take("bob", writes=["y"], ttl=10)
    scene.renew(kept, ttl=1000)
    scene.renew(kept, rest=500)
    refused(scene.ask("cid", writes=["x", "y"]))
    waiting = scene.queue_up("cid", writes=["x", "z"], patience=20)
    dropped = scene.queue_up("dee", writes=["y"])
    scene.cancel(dropped)
    scene.clock.advance(10)
    stolen = scene.steal(scene.request("eve", [], ["y"]))
    assert isinstance(stolen, Grant)
    assert not scene.holds(short)
    forced = scene.take("fay", writes=["w"])
    scene.force(forced, scene.holder("operator"), "needed")
    given_back = scene.take(Holder(id="gus", user="gus", client="codex"), writes=["v", "port:1"])
    scene.release(given_back)
    scene.take("hal", writes=["u"])
    scene.kill("hal")
    last = scene.take("ian", writes=["u", "äö/ü"], ttl=None)
    scene.clock.advance(10)
    assert isinstance(scene.put(waiting, wait=True), Waiting)
    with scene.view() as view:
        extended = view.grant(kept.id)
    assert isinstance(extended, Grant)
    return [extended, stolen, last]


def events_are_numbered_without_gaps(scene: Scene) -> None:
    _busy_day(scene)
    history = scene.history()
    assert [event.seq for event in history] == list(range(1, len(history) + 1))
    assert history[-1].seq == scene.state()[0]
    moments = [event.at for event in history]
    assert moments == sorted(moments)
    assert {event.type for event in history} == {
        "lock_acquired", "lock_renewed", "lock_released", "lock_reaped", "lock_stolen",
        "lock_forced", "lock_refused", "ticket_added", "ticket_reserved", "ticket_dropped",
    }  # fmt: skip
    assert scene.history(5) == history[5:]
    assert list(scene.store.events(3, 4)) == history[3:7]
    assert list(scene.store.events(0, 0)) == []
    assert list(scene.store.events(len(history), 5)) == []


def a_long_history_is_read_whole(scene: Scene) -> None:
    for _ in range(600):
        scene.release(scene.take("ann", writes=["x"]))
    assert [event.seq for event in scene.history()] == list(range(1, 1201))
    assert [event.seq for event in scene.store.events(100, 1000)] == list(range(101, 1101))


def the_state_is_the_fold_of_the_events(scene: Scene) -> None:
    left = _busy_day(scene)
    assert scene.state()[2] == left
    assert state_of(fold(scene.history())) == scene.state()


def refusals_that_say_the_same_are_one_event(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    for _ in range(5):
        refused(scene.ask("bob", writes=["x"]))
        scene.clock.advance(1)
    refused(scene.ask("cid", writes=["x"]))
    refused(scene.ask("bob", reads=["x"]))
    refused(scene.ask("bob", writes=["x"]))
    events = [event for event in scene.history() if event.type == "lock_refused"]
    assert [event.repeats for event in events] == [5, 0, 0]
    assert [event.data["holder"] for event in events] == ["bob", "cid", "bob"]
    scene.release(held)
    scene.take("ann", writes=["x"])
    refused(scene.ask("bob", writes=["x"]))  # a conflict with another grant is a new fact
    assert scene.history()[-1].type == "lock_refused"
    assert scene.history()[-1].repeats == 0


def grants_can_be_read_in_pages_oldest_first(scene: Scene) -> None:
    held = [scene.take(f"holder-{number % 3}", writes=[f"x{9 - number}"]) for number in range(10)]
    scene.release(held.pop(4))
    with scene.view() as view:
        first = view.some_grants(0, 4)
        assert [id for _number, id in first] == [grant.id for grant in held[:4]]
        rest = view.some_grants(first[-1][0], 100)
        assert [id for _number, id in rest] == [grant.id for grant in held[4:]]
        assert view.some_grants(rest[-1][0], 100) == []


def a_refusal_keeps_what_was_learnt_on_the_way(scene: Scene) -> None:
    scene.take("ann", writes=["x"])
    scene.take("bob", writes=["y"])
    scene.kill("ann")
    head = scene.state()[0]
    refused(scene.ask("cid", writes=["x", "y"]))
    assert [event.type for event in scene.history(head)] == ["lock_reaped", "lock_refused"]


def a_command_that_is_repeated_is_harmless(scene: Scene) -> None:
    request = scene.request("ann", [], ["x"])
    grant = scene.put(request)
    before = scene.state()
    assert scene.put(request) == grant
    assert scene.put(request, wait=True) == grant
    assert scene.ensure(request) == grant
    assert scene.state() == before

    waiting = scene.queue_up("bob", writes=["x"])
    before = scene.state()
    assert isinstance(scene.put(waiting, wait=True), Waiting)
    assert scene.state() == before

    assert isinstance(grant, Grant)
    assert scene.release(grant) is True
    before = scene.state()
    assert scene.release(grant) is False
    served = scene.put(waiting, wait=True)
    assert isinstance(served, Grant)
    assert scene.cancel(waiting) == served
    assert scene.state() == before


def a_request_that_was_taken_away_is_not_granted_again(scene: Scene) -> None:
    request = scene.request("ann", [], ["x"])
    grant = scene.put(request)
    assert isinstance(grant, Grant)
    scene.force(grant, scene.holder("operator"))
    before = scene.state()
    ending = refused(scene.put(request), "E_FENCING_MISMATCH").ending
    assert ending is not None
    assert (ending.why, ending.by) == ("forced", "operator")
    assert scene.state() == before


def a_repeated_steal_finds_what_it_won(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=10)
    scene.clock.advance(10)
    request = scene.request("bob", [], ["x"])
    stolen = scene.steal(request)
    before = scene.state()
    assert scene.steal(request) == stolen
    assert scene.state() == before


def a_decision_that_fails_leaves_nothing(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"])
    before = scene.state()

    def fail(view: View) -> Decision[None]:
        assert view.grants() == [held]
        raise ZeroDivisionError

    try:
        scene.do(fail)
    except ZeroDivisionError:
        pass
    else:
        raise AssertionError("the failure was swallowed")
    assert scene.state() == before
    scene.take("bob", writes=["y"])


def a_decision_without_events_changes_nothing(scene: Scene) -> None:
    before = scene.state()
    assert scene.do(lambda view: Decision(view.head + 7)) == before[0] + 7
    assert scene.state() == before
    assert scene.history() == []


def trimming_keeps_the_state(scene: Scene) -> None:
    left = _busy_day(scene)
    before = scene.state()
    head = before[0]
    assert scene.store.trim(head + 1) > 0
    assert scene.state() == before
    for grant in left:
        assert scene.verify(grant)
    longer = scene.renew(left[0], ttl=5000)
    assert isinstance(longer, Grant)
    refused(scene.ask("zoe", writes=["y"]))
    scene.release(left[1])
    token = scene.take("zoe", writes=["y"]).token
    assert token > before[1]
    assert scene.state()[0] == head + 4
    assert [event.seq for event in scene.history(head)] == [head + 1, head + 2, head + 3, head + 4]
    for ticket in before[3]:
        assert isinstance(scene.put(ticket.request, wait=True), Waiting)
    scene.release(longer)
    assert all(scene.holds(ticket.request) for ticket in before[3])


def how_a_trimmed_grant_ended_is_forgotten(scene: Scene) -> None:
    expired = scene.take("ann", writes=["x"], ttl=10)
    scene.clock.advance(10)
    scene.reap(expired)
    refused(scene.renew(expired), "E_LOCK_EXPIRED")
    scene.clock.advance(1)
    scene.take("bob", writes=["y"])
    scene.store.trim(scene.state()[0])
    refused(scene.renew(expired), "E_LOCK_NOT_HELD")
    assert scene.verify(expired).code == "E_LOCK_NOT_HELD"
    assert scene.release(expired) is False


def how_a_grant_ended_is_known_as_long_as_its_end_is_in_the_history(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=10)
    scene.clock.advance(10)
    scene.reap(grant)
    end = scene.state()[0]
    scene.store.trim(end)  # the acquisition is trimmed, the end is kept
    assert scene.history(end - 1)[0].data["grant"] == grant.id
    refused(scene.renew(grant), "E_LOCK_EXPIRED")


def trimming_an_empty_or_a_trimmed_history_is_no_error(scene: Scene) -> None:
    assert scene.store.trim(100) == 0
    scene.release(scene.take("ann", writes=["x"]))
    scene.store.trim(100)
    assert scene.store.trim(1) == 0
    assert scene.state()[0] == 2
    scene.take("ann", writes=["x"])
    assert scene.state()[0] == 3


def tokens_only_grow(scene: Scene) -> None:
    tokens = []
    for number in range(10):
        grant = scene.take("ann", writes=["x"], ttl=10)
        tokens.append(grant.token)
        if number % 3 == 0:
            scene.clock.step_wall(-3600)
        if number % 4 == 0:
            scene.store.trim(scene.state()[0] + 1)
        if number % 2:
            scene.release(grant)
        else:
            scene.clock.advance(10)
            scene.reap(grant)
    assert tokens == sorted(set(tokens))


def the_time_of_the_ledger_goes_on_whatever_the_wall_clock_does(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=60)
    begin = scene.now()
    scene.clock.step_wall(86_400)
    assert scene.now() == begin
    refused(scene.ask("bob", writes=["x"]))
    scene.clock.step_wall(-2 * 86_400)
    assert scene.now() == begin
    scene.clock.advance(60)
    assert scene.now() == begin + 60 * SECOND
    scene.take("bob", writes=["x"])
    assert scene.verify(grant).code == "E_LOCK_EXPIRED"


def a_sleep_of_the_machine_uses_up_no_lease_of_a_process(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=60)
    visitor = scene.take(Holder(id="visitor"), writes=["y"], ttl=60)
    scene.clock.advance(30)
    scene.clock.sleep_machine(3600)
    assert scene.verify(grant)
    refused(scene.ask("bob", writes=["x"]))
    assert scene.verify(visitor).code == "E_LOCK_EXPIRED"
    scene.clock.advance(29)
    refused(scene.ask("bob", writes=["x"]))
    scene.clock.advance(1)
    scene.take("bob", writes=["x"])


def the_time_of_the_ledger_goes_on_after_a_reboot(scene: Scene) -> None:
    scene.take(Holder(id="visitor"), writes=["x"], ttl=60)
    begin = scene.now()
    scene.clock.reboot(down_seconds=20)
    scene.take("bob", writes=["y"])
    assert scene.now() == begin + 20 * SECOND
    scene.clock.step_wall(-86_400)
    scene.clock.reboot()
    assert scene.now() == begin + 20 * SECOND
    refused(scene.ask("bob", writes=["x"]))
    scene.clock.advance(40)
    scene.take("bob", writes=["x"])


def an_ending_is_kept_as_it_was(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"])
    scene.force(grant, scene.holder("operator"))
    ended = scene.now()
    scene.clock.advance(100)
    scene.take("bob", writes=["x"])
    with scene.view() as view:
        assert view.grant(grant.id) == Ending(
            id=grant.id, holder="ann", token=grant.token, why="forced", at=ended, by="operator"
        )
