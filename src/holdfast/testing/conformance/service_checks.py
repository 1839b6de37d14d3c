"""Checks for services: notes, many leases in one decision, leases that change hands or rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.core import bulk_rules
from holdfast.core.draft import Draft
from holdfast.core.model import (
    SECOND,
    Conflicts,
    Decision,
    Event,
    Grant,
    Holder,
    Refusal,
    Request,
)
from holdfast.core.wait_line import hand_over
from holdfast.testing.conformance.scene import Scene

if TYPE_CHECKING:
    from holdfast.core.view import View


def a_note_is_the_last_word_until_it_is_over(scene: Scene) -> None:
    _say(scene, "seen", "a:x", count=1)
    _say(scene, "seen", "a:x", count=2)
    with scene.view() as view:
        found = view.note("a:x")
        assert found is not None
        assert (found.type, found.data["count"], found.at) == ("seen", 2, view.now)
        assert view.note("a:y") is None
    _say(scene, "gone", "a:x", over=True)
    with scene.view() as view:
        assert view.note("a:x") is None
    _say(scene, "gone", "a:x", over=True)  # repeating it is not an error


def notes_are_found_by_how_their_names_start(scene: Scene) -> None:
    for name in ("a:2", "b:1", "a:1", "a", "a:10", "ab"):
        _say(scene, "seen", name)
    with scene.view() as view:
        assert [note.data["note"] for note in view.notes("a:")] == ["a:2", "a:1", "a:10"]
        assert view.notes("c") == []


def an_event_of_a_service_without_a_name_only_stands_in_the_history(scene: Scene) -> None:
    event = scene.do(lambda view: bulk_rules.note(view, "heard", {"what": "rain"}))
    with scene.view() as view:
        assert view.notes("") == []
        assert view.head == event.seq
    assert [(one.type, one.data["what"]) for one in scene.store.events()] == [("heard", "rain")]


def trimming_keeps_what_is_noted(scene: Scene) -> None:
    for number in range(5):
        _say(scene, "seen", "a:x", count=number)
    kept = _say(scene, "seen", "a:y", count=9)
    _say(scene, "seen", "b", count=1)
    scene.store.trim(kept.seq + 1)
    with scene.view() as view:
        assert [(note.data["note"], note.data["count"]) for note in view.notes("a")] == [
            ("a:x", 4), ("a:y", 9),
        ]  # fmt: skip


def what_an_agent_has_is_found_by_its_key(scene: Scene) -> None:
    ann, child, other = _agent("s/"), _agent("s/child"), _agent("t/")
    mine = [scene.take(ann, writes=[path], ttl=None) for path in ("x", "y")]
    below = scene.take(child, writes=["z"], ttl=None)
    scene.take(other, writes=["u"], ttl=None)
    with scene.view() as view:
        assert _ids(view.held_by(ann.key)) == _ids(mine)
        assert _ids(view.held_within(ann.key)) == _ids([*mine, below])
        assert len(view.grants()) == 4
    scene.release(mine[0])
    with scene.view() as view:
        assert _ids(view.held_by(ann.key)) == _ids(mine[1:])


def each_of_many_is_a_grant_of_its_own_or_there_is_none(scene: Scene) -> None:
    ann, bob = _agent("a/"), _agent("b/")
    had = scene.take(ann, writes=["x"], ttl=None)
    made = _ensure(scene, ann, ["x", "y"])
    assert not isinstance(made, Conflicts)
    assert (made[0].id, made[1].keys) == (had.id, ("y",))
    assert len({grant.token for grant in made}) == 2
    found = _ensure(scene, bob, ["u", "y", "v"])
    assert isinstance(found, Conflicts)
    assert [conflict.path for conflict in found] == ["y"]
    with scene.view() as view:
        assert view.held_by(bob.key) == []


def a_grant_changes_hands_without_coming_free(scene: Scene) -> None:
    ann, child = _agent("a/"), _agent("a/child")
    held = scene.take(ann, writes=["x"], ttl=None)
    waiting = scene.queue_up("bob", writes=["x"])
    moved = _move(scene, held, child)
    assert (moved.holder.key, moved.keys) == (child.key, ("x",))
    assert moved.token > held.token
    assert not scene.holds(waiting)
    assert scene.verify(held, "x").code == "E_FENCING_MISMATCH"
    scene.release(moved)
    assert scene.holds(waiting)


def a_part_that_nobody_takes_over_goes_to_those_who_wait(scene: Scene) -> None:
    ann = _agent("a/")
    held = scene.take(ann, writes=["x", "y"], ttl=None)
    waiting = scene.queue_up("bob", writes=["y"])
    _move(scene, held, ann, ["x"])
    assert scene.holds(waiting)
    assert isinstance(scene.ask("cid", writes=["x"]), Refusal)


def what_a_grant_does_not_cover_cannot_be_moved(scene: Scene) -> None:
    ann = _agent("a/")
    held = scene.take(ann, writes=["x"], ttl=None)
    wanted = scene.request(ann, writes=["y"], ttl=None)
    outcome = scene.do(lambda view: bulk_rules.exchange(view, [(held.id, wanted)]))
    assert isinstance(outcome, Refusal)
    assert scene.holds(held)


def a_move_whose_answer_was_lost_is_repeated_harmlessly(scene: Scene) -> None:
    ann, child = _agent("a/"), _agent("a/child")
    held = scene.take(ann, writes=["x"], ttl=None)
    moves = [(held.id, bulk_rules.heir(held, child, "moved"))]
    first = scene.do(lambda view: bulk_rules.exchange(view, moves))
    head = _head(scene)
    assert scene.do(lambda view: bulk_rules.exchange(view, moves)) == first
    assert _head(scene) == head


def who_rests_loses_all_at_its_time_unless_it_wakes(scene: Scene) -> None:
    ann = _agent("a/")
    for path in ("x", "y"):
        scene.take(ann, writes=[path], ttl=None)
    scene.do(lambda view: _rest(view, ann.key, 30 * SECOND))
    scene.clock.advance(29.999999)
    assert isinstance(scene.ask("bob", writes=["x"]), Refusal)
    assert len(scene.do(lambda view: _rest(view, ann.key, None))) == 2
    scene.clock.advance(3600)
    assert isinstance(scene.ask("bob", writes=["y"]), Refusal)
    scene.do(lambda view: _rest(view, ann.key, 30 * SECOND))
    scene.clock.advance(30)
    assert isinstance(scene.ask("bob", writes=["x"]), Grant)
    assert scene.do(lambda view: _rest(view, ann.key, None)) == []


def several_are_given_back_at_once(scene: Scene) -> None:
    ann = _agent("a/")
    held = [scene.take(ann, writes=[path], ttl=None) for path in ("x", "y")]
    waiting = scene.queue_up("bob", writes=["x", "y"])
    ids = [*(grant.id for grant in held), "never was"]
    ended = scene.do(lambda view: bulk_rules.release_each(view, ids))
    assert _ids(ended) == _ids(held)
    assert scene.holds(waiting)


def of_many_requests_each_that_is_free_is_granted_and_no_other(scene: Scene) -> None:
    theirs = scene.take("bob", writes=["d/two"], ttl=None)
    requests = [
        scene.request(scene.holder("ann"), writes=[path], ttl=None)
        for path in ("d/one", "d/two", "d/three")
    ]
    head = _head(scene)
    grants = scene.do(lambda view: bulk_rules.take_free(view, requests))
    assert [grant.keys for grant in grants] == [("d/one",), ("d/three",)]
    assert [grant.id for grant in grants] == [requests[0].id, requests[2].id]
    assert theirs.token < grants[0].token < grants[1].token
    assert _head(scene) == head + 2, "what is not free is no refusal"
    assert scene.waiting() == []
    scene.release(grants[0])
    assert not scene.holds(grants[0])
    assert scene.holds(grants[1])
    assert isinstance(scene.ask("bob", writes=["d/three"]), Refusal)


def a_reservation_is_not_passed_by_many_at_once(scene: Scene) -> None:
    scene.take("bob", writes=["x"], ttl=None)
    scene.queue_up("cid", writes=["x", "y"])
    scene.clock.advance(3600)
    ann = scene.holder("ann")
    requests = [scene.request(ann, writes=[path], ttl=None) for path in ("y", "z")]
    grants = scene.do(lambda view: bulk_rules.take_free(view, requests))
    assert [grant.keys for grant in grants] == [("z",)]


def _agent(name: str) -> Holder:
    return Holder(id=name, key=f"@claude/{name}")


def _ids(grants: Sequence[Grant]) -> list[str]:
    return sorted(grant.id for grant in grants)


def _head(scene: Scene) -> int:
    with scene.view() as view:
        return view.head


def _say(scene: Scene, type: str, name: str, *, over: bool = False, count: int = 0) -> Event:
    return scene.do(
        lambda view: bulk_rules.note(view, type, {"count": count}, name=name, over=over)
    )


def _ensure(scene: Scene, who: Holder, paths: Sequence[str]) -> list[Grant] | Conflicts:
    wanted: list[Request] = [scene.request(who, writes=[path], ttl=None) for path in paths]

    def rule(view: View) -> Decision[list[Grant] | Conflicts]:
        draft = Draft(view)
        return draft.done(bulk_rules.take_each(draft, wanted))

    return scene.do(rule)


def _rest(view: View, holder_key: str, length: int | None) -> Decision[list[Grant]]:
    draft = Draft(view)
    left = bulk_rules.come_to_rest(draft, holder_key, length)
    hand_over(draft)
    return draft.done(left)


def _move(scene: Scene, grant: Grant, to: Holder, keys: Sequence[str] | None = None) -> Grant:
    moves = [(grant.id, bulk_rules.heir(grant, to, f"{grant.id}-moved", keys))]
    outcome = scene.do(lambda view: bulk_rules.exchange(view, moves))
    assert isinstance(outcome, list)
    return outcome[0]
