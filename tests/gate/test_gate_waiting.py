"""The lease gate refuses: heartbeat, place in line, one retry; free files are handed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.ledger_time import iso
from holdfast.gate.config.settings import Settings
from holdfast.gate.held_stops import hold
from holdfast.gate.lease_gate import LeaseGate
from holdfast.manager import transactions
from stage import SECOND, Actor, Stage, heartbeats

# FR4: heartbeat, and one retry


def test_seed002_fr4_1_a_refusal_writes_a_heartbeat(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    (heartbeat,) = heartbeats(stage)
    assert heartbeat.data["agent"] == "claude:bob"
    assert heartbeat.data["blocked"] == ["app/x.rb"]
    assert heartbeat.data["owner"] == "claude:ann"


def test_seed002_fr4_2_the_retry_is_scheduled_exactly_180_seconds_after_the_refusal(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    (heartbeat,) = heartbeats(stage)
    assert heartbeat.data["denied_at"] == heartbeat.at
    assert heartbeat.data["retry_at"] - heartbeat.data["denied_at"] == 180 * SECOND


def test_seed002_fr4_2_a_stop_that_is_held_open_tries_again_at_that_instant(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    begun = stage.manager.now()
    bob.edit("app/x.rb", hold=True)
    assert bob.stop(hold=True).kind == "halt"
    assert stage.manager.now() - begun == 180 * SECOND
    assert [event.at for event in stage.events("agent_blocked")] == [begun + 180 * SECOND]


def test_seed002_fr4_3_an_attempt_before_the_retry_is_not_tried(stage: Stage) -> None:
    stage.settings = Settings(wake=False)
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()  # the file is free now, and reserved for bob
    stage.clock.advance(179.999999)
    refused = len(stage.events("lock_refused"))
    answer = bob.edit("app/x.rb")
    assert answer.kind == "deny"
    assert len(stage.events("lock_refused")) == refused
    assert len(heartbeats(stage)) == 1
    stage.clock.advance(0.000001)
    assert bob.edit("app/x.rb").kind == "allow"


def test_a_file_that_comes_free_is_kept_for_the_one_who_was_refused(stage: Stage) -> None:
    stage.settings = Settings(wake=False)
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    assert cid.edit("app/x.rb").kind == "deny"
    stage.clock.advance(180)
    assert bob.edit("app/x.rb").kind == "allow"


def test_with_wake_a_file_is_handed_over_the_moment_it_is_free(stage: Stage) -> None:
    assert stage.settings.wake  # as it is by default
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    assert stage.owner("app/x.rb") == "claude:bob"
    assert bob.edit("app/x.rb").kind == "allow"


def test_other_files_may_be_edited_while_one_is_waited_for(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    assert bob.edit("lib/y.rb").kind == "allow"


def test_nobody_is_held_when_that_would_close_a_circle(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("lib/y.rb")
    assert bob.edit("app/x.rb").kind == "deny"  # bob is in the queue now
    begun = stage.manager.now()
    answer = ann.edit("lib/y.rb", hold=True)
    assert answer.kind == "deny"
    assert stage.manager.now() == begun
    assert "claude:bob waits for your app/x.rb. Commit that file, or release it" in answer.reason


def test_in_a_circle_every_answer_says_what_to_give_back(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("lib/y.rb")
    ann.edit("lib/y.rb")
    for answer in (bob.edit("app/x.rb"), bob.edit("app/x.rb")):
        assert "claude:ann waits for your lib/y.rb" in answer.reason
        assert "holdfast unlock lib/y.rb" in answer.reason
        assert "stand in line" not in answer.reason


# FR5: the result of the retry


def test_seed002_fr5_1_when_the_retry_succeeds_the_edit_goes_on(stage: Stage) -> None:
    stage.settings = Settings(wake=False)
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    stage.clock.advance(180)
    assert bob.edit("app/x.rb", write="bob\n").kind == "allow"
    assert (stage.root / "app/x.rb").read_text() == "bob\n"
    assert bob.edit("lib/y.rb").kind == "allow"  # nothing of the refusal is left


def test_one_who_was_interrupted_while_it_waited_is_still_in_line_until_it_stops(
    stage: Stage,
) -> None:
    ann, bob, eve = stage.agent("ann"), stage.agent("bob"), stage.agent("eve")
    ann.edit("app/x.rb")

    def interrupted() -> None:
        raise KeyboardInterrupt

    stage.later(1, interrupted)
    with pytest.raises(KeyboardInterrupt):
        bob.edit("app/x.rb", hold=True)
    assert stage.queue() == ["claude:bob"]
    bob.stop(may_go_on=False)
    ann.gate().end_session()
    assert eve.edit("app/x.rb").kind == "allow"


def test_one_who_went_on_with_something_else_makes_its_retry_when_it_comes_back(
    stage: Stage,
) -> None:
    stage.settings = Settings(wake=False)
    ann, bob, eve = stage.agent("ann"), stage.agent("bob"), stage.agent("eve")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    stage.clock.advance(180)
    assert eve.edit("app/x.rb").kind == "deny"  # still reserved: bob's retry is the next call
    assert bob.edit("lib/y.rb").kind == "allow"
    assert eve.edit("app/x.rb").kind == "deny"  # eve's own retry is not due yet
    stage.clock.advance(180)
    assert eve.edit("app/x.rb").kind == "allow"
    assert bob.edit("app/x.rb").kind == "halt"  # this was bob's retry


def test_a_retry_that_was_never_made_is_forgotten_with_the_next_prompt(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.clock.advance(180)
    bob.gate().prompt()
    assert bob.edit("app/x.rb").kind == "deny"
    assert len(heartbeats(stage)) == 2


def test_seed002_fr5_3_nothing_is_skipped_in_silence(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    for answer in (bob.edit("app/x.rb"), bob.edit("app/x.rb")):
        assert answer.kind == "deny"
        assert "app/x.rb" in answer.reason
    stage.clock.advance(180)
    halted = bob.edit("app/x.rb")
    assert halted.kind == "halt"
    assert halted.reason
    assert halted.user
    assert stage.events("agent_blocked")


def test_seed002_verification_2_contention_writes_a_heartbeat_and_plans_a_retry_at_180(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    (heartbeat,) = heartbeats(stage)
    assert heartbeat.data["retry_at"] == heartbeat.at + 180 * SECOND


# The denial comes first, and the call is held only for a moment


def test_the_denial_is_written_before_the_call_is_held(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    begun, seen = stage.manager.now(), []
    stage.later(0.5, lambda: seen.append((stage.queue(), len(heartbeats(stage)))))
    bob.edit("app/x.rb", hold=True)
    assert seen == [(["claude:bob"], 1)]
    (heartbeat,) = heartbeats(stage)
    assert (heartbeat.at, heartbeat.data["denied_at"]) == (begun, begun)
    assert heartbeat.data["retry_at"] == begun + 180 * SECOND
    added = stage.events("ticket_added")
    assert [event.at for event in added] == [begun]


def test_a_refused_call_is_held_for_hold_seconds_and_no_longer(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb", hold=True).kind == "deny"
    assert bob.waited() == stage.settings.hold_seconds == 20
    assert max(bob.held_open) <= 0.5


def test_a_call_is_held_no_longer_than_its_hook_has_time(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    paths = [f"{stage.root}/app/x.rb"]
    assert bob.gate(hold=True, hold_seconds=9).permit(paths).kind == "deny"
    assert bob.waited() == 7  # it answers before its time is up


def test_a_slow_decision_is_part_of_the_time_that_a_hook_has(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.settings = Settings(hold_seconds=3600)
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    decide, begun = transactions.decide, stage.manager.now()

    def slowly(*given: Any) -> Any:
        stage.clock.advance(8)
        return decide(*given)

    monkeypatch.setattr(transactions, "decide", slowly)
    paths = [f"{stage.root}/app/x.rb"]
    assert bob.gate(hold=True, hold_seconds=30).permit(paths).kind == "deny"
    assert stage.manager.now() - begun == 28 * SECOND


@pytest.mark.parametrize("what", ["edit", "stop"])
def test_however_the_clock_of_the_ledger_goes_a_hook_has_its_time(stage: Stage, what: str) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    passed = 0.0

    def pause(seconds: float, _waiter: object) -> bool:
        nonlocal passed
        passed += seconds
        return False

    def gate() -> LeaseGate:
        end = passed + 10
        return LeaseGate(
            stage.manager, bob.holder, stage.settings, left=lambda: end - passed, pause=pause
        )

    if what == "edit":
        assert gate().permit([f"{stage.root}/app/x.rb"]).kind == "deny"
    else:
        bob.edit("app/x.rb")
        assert "did not write app/x.rb" in hold([gate().stop(may_go_on=True)]).user
    assert 8 <= passed <= 8.5


def test_a_call_that_is_held_over_its_retry_makes_it(stage: Stage) -> None:
    stage.settings = Settings(retry_seconds=5)
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb", hold=True).kind == "halt"
    assert bob.waited() == 5


def test_a_refusal_says_who_since_when_what_for_the_place_in_line_and_when_the_retry_is(
    stage: Stage,
) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    stage.clock.advance(60)
    bob.edit("app/x.rb")
    (heartbeat,) = heartbeats(stage)
    answer = cid.edit("app/x.rb", hold=True)
    later = heartbeat.data["retry_at"]  # cid was refused at the same time as bob
    for fact in ("claude:ann", "app/x.rb", "80 s", ": edit", "number 2 in line", "2 min"):
        assert fact in answer.reason
    assert iso(later) in answer.reason
    for fact in ("claude:cid", "claude:ann", "app/x.rb", iso(later)):
        assert fact in answer.user


def test_the_owners_reason_is_told(stage: Stage) -> None:
    stage.manager.try_acquire(
        holder="Ann", write_paths=[f"{stage.root}/app/x.rb"], reason="rewriting the parser"
    )
    answer = stage.agent("bob").edit("app/x.rb")
    assert "rewriting the parser" in answer.reason


def test_an_answer_from_the_record_says_how_long_it_still_is(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.clock.advance(100)
    answer = bob.edit("app/x.rb")
    assert "80 s" in answer.reason
    assert len(heartbeats(stage)) == 1


# Files that come free are handed over


def finishes_its_work(ann: Actor) -> None:
    ann.commit("app/x.rb")


def ends(ann: Actor) -> None:
    ann.gate().end_session()


def fails(ann: Actor) -> None:
    ann.gate().fail()


def is_killed(ann: Actor) -> None:
    ann.stage.kill("ann")


def gives_it_back(ann: Actor) -> None:
    (grant,) = ann.grants()
    ann.stage.manager.release(grant.id)


WAYS = pytest.mark.parametrize(
    "way", [finishes_its_work, ends, fails, is_killed, gives_it_back], ids=lambda way: way.__name__
)


@WAYS
def test_a_held_call_passes_within_a_look_after_the_file_came_free(
    stage: Stage, way: Callable[[Actor], None]
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.later(3, lambda: way(ann))
    assert bob.edit("app/x.rb", hold=True, write="bob\n").kind == "allow"
    assert 3 <= bob.waited() <= 3.5
    assert stage.owner("app/x.rb") == "claude:bob"
    assert stage.queue() == []
    assert len(stage.events("file_handed_over")) == 1
    assert transactions.notes(stage.manager, f"gate:{bob.holder.key}:retry:") == []
    stage.clock.advance(180)
    assert bob.edit("app/x.rb").kind == "allow"  # bob waits for nothing any more


@WAYS
def test_while_it_works_on_something_else_it_is_told_with_its_next_event(
    stage: Stage, way: Callable[[Actor], None]
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb", hold=True)
    stage.clock.advance(30)
    assert "app/x.rb" not in bob.edit("lib/y.rb").context
    way(ann)
    said = bob.gate().live_on()
    assert "app/x.rb came free and is yours" in said.context
    assert bob.gate().live_on().context == ""  # reported only once
    (handed,) = stage.events("file_handed_over")
    assert handed.data["cause"] == "handed over when it came free"
    assert bob.edit("app/x.rb").kind == "allow"
    stage.clock.advance(3600)
    assert stage.owner("app/x.rb") == "claude:bob"  # from now on a lease like any other
    assert len(stage.events("file_handed_over")) == 1
    assert not stage.events("agent_blocked")


def test_it_is_told_with_an_edit_of_something_else_too(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    answer = bob.edit("lib/y.rb")
    assert answer.kind == "allow"
    assert "app/x.rb came free" in answer.context


def test_it_need_not_be_told_of_what_it_writes_at_this_moment(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    assert bob.edit("app/x.rb").context == ""


def test_an_owner_whose_rest_is_over_holds_up_nobody_who_waits(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.stop()
    stage.clock.advance(30)
    assert "app/x.rb came free" in bob.gate().live_on().context


def test_what_was_handed_over_and_not_used_lapses_and_goes_to_the_next_in_line(
    stage: Stage,
) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    cid.edit("app/x.rb")
    ann.gate().end_session()
    bob.gate().live_on()
    stage.clock.advance(29.999999)
    assert cid.gate().live_on().context == ""
    stage.clock.advance(0.000001)
    assert "app/x.rb came free" in cid.gate().live_on().context
    assert stage.owner("app/x.rb") == "claude:cid"
    assert "is not yours any more" in bob.gate().live_on().context
    answer = bob.edit("app/x.rb")
    assert answer.kind == "deny"
    assert "claude:cid" in answer.reason


def test_what_came_and_lapsed_unheard_is_told_too(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    stage.clock.advance(60)
    said = bob.gate().live_on().context
    assert "is not yours any more" in said
    assert "is yours now" not in said
    assert bob.edit("app/x.rb").kind == "allow"


def test_of_several_files_handed_over_one_may_be_written_first(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb", "lib/y.rb")
    bob.edit("app/x.rb", "lib/y.rb")
    cid.edit("lib/y.rb")
    ann.gate().end_session()
    stage.clock.advance(10)
    assert bob.edit("app/x.rb").kind == "allow"
    stage.clock.advance(19)
    assert bob.edit("lib/y.rb").kind == "allow"  # bob was told that both are its own
    stage.clock.advance(3600)
    assert bob.held() == ["app/x.rb", "lib/y.rb"]


def test_what_is_left_of_several_files_lapses_when_it_was_to(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb", "lib/y.rb")
    bob.edit("app/x.rb", "lib/y.rb")
    ann.gate().end_session()
    stage.clock.advance(10)
    bob.edit("app/x.rb")
    stage.clock.advance(20)
    said = bob.gate().live_on().context
    assert "lib/y.rb" in said
    assert "app/x.rb" not in said
    assert cid.edit("lib/y.rb").kind == "allow"
    assert cid.edit("app/x.rb").kind == "deny"


def test_one_of_several_refused_files_may_be_written_when_it_is_free(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    cid.edit("lib/y.rb")
    bob.edit("app/x.rb", "lib/y.rb")
    cid.gate().end_session()
    assert bob.edit("app/x.rb").kind == "deny"
    assert bob.edit("lib/y.rb").kind == "allow"
    ann.gate().end_session()
    assert "app/x.rb" in bob.gate().live_on().context


def test_a_refused_call_takes_nothing_of_what_was_handed_over(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    cid.edit("lib/y.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    assert bob.edit("app/x.rb", "lib/y.rb").kind == "deny"
    stage.clock.advance(30)
    assert cid.edit("app/x.rb").kind == "allow"  # bob did not use it


def test_an_answer_from_the_record_is_about_the_owner_of_now(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    cid.edit("app/x.rb")
    stage.kill("ann")
    answer = cid.edit("app/x.rb")  # before its retry, and bob is ahead in the queue
    assert answer.kind == "deny"
    for text in (answer.reason, answer.user):
        assert "claude:bob" in text
        assert "claude:ann" not in text
    assert "number 1 in line" in answer.reason


def test_an_attempt_after_the_owners_death_passes_before_the_retry(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.kill("ann")
    assert bob.edit("app/x.rb").kind == "allow"


def test_an_attempt_before_the_retry_while_the_owner_lives_writes_nothing(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    before = [event.seq for event in stage.manager.events()]
    stage.clock.advance(179)
    for _ in range(5):
        assert bob.edit("app/x.rb").kind == "deny"
    assert [event.seq for event in stage.manager.events()] == before


def test_nothing_is_handed_over_to_one_that_has_stopped(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    cid.edit("app/x.rb")
    bob.stop()  # without a hold
    assert stage.queue() == ["claude:cid"]
    ann.gate().end_session()
    assert stage.owner("app/x.rb") == "claude:cid"


# An agent that has left the queue, and tries again


def stops(bob: Actor) -> None:
    bob.stop(may_go_on=False)


def goes_on_elsewhere(bob: Actor) -> None:
    bob.stage.kill("bob")
    bob.stage.restart("bob")
    bob.gate().session_start()


LEAVINGS = pytest.mark.parametrize(
    "leaves", [stops, fails, goes_on_elsewhere], ids=lambda leaves: leaves.__name__
)


@LEAVINGS
def test_one_that_left_the_line_and_tries_again_stands_at_its_end(
    stage: Stage, leaves: Callable[[Actor], None]
) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    (heartbeat,) = heartbeats(stage)
    cid.edit("app/x.rb")
    leaves(bob)
    assert stage.queue() == ["claude:cid"]
    stage.clock.advance(50)
    bob.gate().prompt()
    answer = bob.edit("app/x.rb")
    assert answer.kind == "deny"
    assert "number 2 in line" in answer.reason
    assert iso(heartbeat.data["retry_at"]) in answer.reason  # the retry as planned
    assert stage.queue() == ["claude:cid", "claude:bob"]
    assert [one.data["agent"] for one in heartbeats(stage)] == ["claude:bob", "claude:cid"]
    (back,) = stage.events("back_in_line")
    assert back.data["retry_at"] == heartbeat.data["retry_at"]
    assert back.data["state"] == "retry_pending"
    before = [event.seq for event in stage.manager.events()]
    assert bob.edit("app/x.rb").kind == "deny"
    assert [event.seq for event in stage.manager.events()] == before  # it is in the queue already


@LEAVINGS
def test_what_it_waits_for_again_is_handed_over_to_it(
    stage: Stage, leaves: Callable[[Actor], None]
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    leaves(bob)
    bob.gate().prompt()
    bob.edit("app/x.rb")
    ann.gate().end_session()
    assert stage.owner("app/x.rb") == "claude:bob"
    assert "app/x.rb came free and is yours" in bob.gate().live_on().context
    assert bob.edit("app/x.rb").kind == "allow"
    assert transactions.notes(stage.manager, f"gate:{bob.holder.key}:retry:") == []


def test_a_call_and_a_stop_of_one_that_tries_again_are_held(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    bob.stop(hold=True, hold_seconds=12)  # held once already, for its hook's maximum
    assert bob.waited() == 10
    bob.gate().prompt()
    assert bob.edit("app/x.rb", hold=True).kind == "deny"
    assert bob.waited() == 10 + stage.settings.hold_seconds
    stage.later(50, lambda: ann.gate().end_session())
    assert bob.stop(hold=True).kind == "continue"
    assert bob.held() == ["app/x.rb"]


def test_the_retry_of_one_that_tries_again_is_made_when_it_was_due(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stops(bob)
    stage.clock.advance(100)
    bob.edit("app/x.rb")
    assert bob.stop(hold=True).kind == "halt"
    assert bob.waited() == 80


def test_what_is_due_is_tried_before_what_was_asked_for_later(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb", "lib/y.rb")
    bob.edit("app/x.rb")
    stage.clock.advance(10)
    bob.edit("lib/y.rb")
    stops(bob)
    bob.edit("app/x.rb")
    stage.clock.advance(170)
    assert bob.edit("lib/y.rb", "app/x.rb").kind == "halt"


def test_one_that_would_close_a_circle_now_does_not_stand_in_line_again(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("lib/y.rb")
    bob.edit("app/x.rb")
    stops(bob)
    bob.gate().prompt()
    assert ann.edit("lib/y.rb").kind == "deny"
    for answer in (bob.edit("app/x.rb"), bob.edit("app/x.rb")):
        assert "claude:ann waits for your lib/y.rb" in answer.reason
        assert "in line" not in answer.reason
    assert stage.queue() == ["claude:ann"]


def test_a_circle_is_told_with_the_owner_of_now(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("lib/y.rb")
    bob.edit("app/x.rb")
    stops(bob)
    bob.gate().prompt()
    ann.gate().end_session()
    cid.edit("app/x.rb")
    cid.edit("lib/y.rb")
    reason = bob.edit("app/x.rb").reason
    assert "app/x.rb is held by claude:cid" in reason
    assert "claude:ann" not in reason


def test_a_call_that_is_still_held_puts_nobody_in_line_who_has_stopped(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    stage.later(2, lambda: stops(bob))  # its user interrupted it
    stage.later(5, lambda: ann.gate().live_on())
    assert bob.edit("app/x.rb", hold=True).kind == "deny"
    assert stage.queue() == []
    ann.gate().end_session()
    assert cid.edit("app/x.rb").kind == "allow"


def test_what_came_free_while_it_stood_in_no_line_is_had_at_once(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stops(bob)
    bob.gate().prompt()
    ann.gate().end_session()
    assert bob.edit("app/x.rb").kind == "allow"
    assert stage.events("back_in_line") == []


def test_without_wake_one_that_tries_again_stands_in_line_again(stage: Stage) -> None:
    stage.settings = Settings(wake=False)
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stops(bob)
    bob.gate().prompt()
    assert "number 1 in line" in bob.edit("app/x.rb").reason
    ann.gate().end_session()
    assert cid.edit("app/x.rb").kind == "deny"  # reserved for bob
    stage.clock.advance(180)
    assert bob.edit("app/x.rb").kind == "allow"
    assert len(heartbeats(stage)) == 2


def test_without_wake_what_is_free_already_is_kept_for_one_that_tries_again(stage: Stage) -> None:
    stage.settings = Settings(wake=False)
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stops(bob)
    ann.gate().end_session()
    bob.gate().prompt()
    answer = bob.edit("app/x.rb")
    assert answer.kind == "deny"  # the gate attempts nothing before the retry
    assert "reserved for you until your retry" in answer.reason
    assert cid.edit("app/x.rb").kind == "deny"
    stage.clock.advance(180)
    assert bob.edit("app/x.rb").kind == "allow"


def test_a_parallel_call_for_the_same_file_gets_it_too(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    kinds: list[str] = []
    stage.later(1, lambda: stage.later(2, lambda: ann.commit("app/x.rb")))
    stage.later(1.5, lambda: kinds.append(bob.edit("app/x.rb", hold=True).kind))
    kinds.append(bob.edit("app/x.rb", hold=True).kind)
    assert kinds == ["allow", "allow"]
    assert len(bob.held()) == 1


def test_a_held_call_of_a_client_that_is_gone_leaves_the_line(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    witness = stage.clients["bob"]
    stage.later(2, lambda: stage.processes.end(witness))
    assert bob.edit("app/x.rb", hold=True, write=None).kind == "deny"
    assert bob.waited() == 2
    assert stage.queue() == []
    dropped = stage.events("ticket_dropped")
    assert [event.data["why"] for event in dropped] == ["client gone"]


def test_a_call_that_is_held_while_its_session_ends_gets_nothing(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.later(2, lambda: (bob.gate().end_session(), ann.gate().end_session()))
    assert bob.edit("app/x.rb", hold=True, write=None).kind == "deny"
    assert stage.owner("app/x.rb") == ""
    assert bob.waited() == 2


def test_the_old_process_of_a_session_does_not_take_the_new_one_out_of_its_line(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb", "lib/y.rb")

    def goes_on_elsewhere() -> None:
        stage.kill("bob")
        stage.restart("bob")
        bob.gate().session_start()
        bob.edit("lib/y.rb")

    stage.later(2, goes_on_elsewhere)
    assert bob.edit("app/x.rb", hold=True, write=None).kind == "deny"
    waits = [ticket.request.paths[0] for ticket in stage.manager.queue()]
    assert "lib/y.rb" in waits


# A retry that comes due while the agent works on something else


def test_a_due_retry_is_not_made_in_the_middle_of_other_work(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.clock.advance(200)
    assert bob.edit("lib/y.rb").kind == "allow"
    bob.gate().live_on()
    bob.calls()
    assert stage.events("agent_blocked") == []
    assert bob.edit("app/x.rb").kind == "halt"


def test_a_due_retry_that_succeeds_at_a_prompt_gives_the_file(stage: Stage) -> None:
    stage.settings = Settings(wake=False)
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    stage.clock.advance(180)
    assert "app/x.rb came free" in bob.gate().prompt().context
    assert cid.edit("app/x.rb").kind == "deny"
    assert bob.edit("app/x.rb").kind == "allow"


@pytest.mark.parametrize("wake", [True, False])
def test_a_retry_that_fails_at_a_prompt_blocks_nobody_the_person_is_there(
    stage: Stage, wake: bool
) -> None:
    stage.settings = Settings(wake=wake)
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.clock.advance(180)
    bob.gate().prompt()
    assert bob.edit("lib/y.rb").kind == "allow"


def test_a_due_retry_is_judged_by_its_own_file(stage: Stage) -> None:
    stage.settings = Settings(wake=False)
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    cid.edit("lib/y.rb")
    bob.edit("app/x.rb")
    bob.stop()
    ann.gate().end_session()
    bob.gate().live_on()
    stage.clock.advance(180)
    answer = bob.edit("app/x.rb", "lib/y.rb")  # lib/y.rb was never refused before
    assert answer.kind == "deny"
    assert heartbeats(stage)[-1].data["blocked"] == ["lib/y.rb"]
    assert stage.events("agent_blocked") == []


def test_a_retry_that_is_not_due_is_not_made_by_another_that_is(stage: Stage) -> None:
    stage.settings = Settings(wake=False)
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb", "lib/y.rb")
    bob.edit("app/x.rb")
    stage.clock.advance(100)
    bob.edit("lib/y.rb")
    bob.stop()
    ann.commit("app/x.rb")
    stage.clock.advance(80)
    assert bob.edit("app/x.rb", "lib/y.rb").kind == "deny"
    assert stage.events("agent_blocked") == []


# wake = false: nothing is held, nothing is handed over before the retry


def test_without_wake_no_call_is_held(stage: Stage) -> None:
    stage.settings = Settings(wake=False)
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb", hold=True).kind == "deny"
    assert bob.stop(hold=True).kind == "quiet"
    assert bob.held_open == []


def test_without_wake_nobody_is_told_before_the_retry(stage: Stage) -> None:
    stage.settings = Settings(wake=False)
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.kill("ann")
    stage.clock.advance(179)
    assert bob.gate().live_on().context == ""
    assert bob.edit("app/x.rb").kind == "deny"
    stage.clock.advance(1)
    assert bob.gate().live_on().context == ""  # only an event for that file makes the retry
    assert stage.events("file_handed_over") == []
    assert bob.edit("app/x.rb").kind == "allow"


def test_without_wake_what_came_free_is_not_kept_for_ever(stage: Stage) -> None:
    stage.settings = Settings(wake=False)
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    stage.clock.advance(400)
    assert cid.edit("app/x.rb").kind == "allow"


def test_nobody_waits_for_the_old_inode_of_another_file(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb", write=None)
    (stage.root / "app/x.rb").rename(stage.root / "lib/y.rb")  # as if its inode number were reused
    (stage.root / "app/x.rb").write_text("another\n")
    cid.edit("lib/y.rb", write=None)
    answer = bob.edit("lib/y.rb")
    assert "claude:ann" not in answer.reason
    cid.gate().end_session()
    assert bob.edit("lib/y.rb").kind == "allow"
    assert cid.edit("app/x.rb").kind == "deny"


# The messages


def test_what_came_free_is_told_with_the_time_that_is_left(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    stage.clock.advance(25)
    assert "within 5 s" in bob.gate().live_on().context


def test_one_answer_does_not_say_of_a_file_to_wait_and_to_try_again(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    bob.gate().live_on()
    stage.clock.advance(31)
    stage.agent("cid").edit("app/x.rb")
    said = bob.edit("app/x.rb")
    assert said.kind == "deny"
    assert "try again" not in said.reason + said.context
