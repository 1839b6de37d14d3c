"""The lease gate, promise by promise, on a clock that the tests move: 180 s and 30 s exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.gate import family
from holdfast.gate.blocking import blockers
from holdfast.gate.settings import Settings
from holdfast.manager import services
from stage import SECOND, Stage, heartbeats, settled


@pytest.fixture
def stage(repository: Path) -> Iterator[Stage]:
    settled(repository / "app/x.rb", repository / "lib/y.rb")
    made = Stage(repository)
    yield made
    made.close()


# FR1: the lease comes before the write


def test_seed002_fr1_1_every_edit_takes_a_lease_before_it_is_applied(stage: Stage) -> None:
    ann = stage.agent("ann")
    assert ann.edit("app/x.rb", write=None).kind == "allow"
    assert ann.held() == ["app/x.rb"]


def test_seed002_fr1_1_several_files_are_leased_all_or_none(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("lib/y.rb")
    assert bob.edit("app/x.rb", "lib/y.rb", "new.rb").kind == "deny"
    assert bob.held() == []
    assert not (stage.root / "new.rb").exists()


def test_seed002_fr1_2_an_agent_that_edits_again_needs_nothing_new(stage: Stage) -> None:
    ann = stage.agent("ann")
    ann.edit("app/x.rb")
    before = [grant.id for grant in ann.grants()]
    assert ann.edit("app/x.rb").kind == "allow"
    assert [grant.id for grant in ann.grants()] == before


def test_seed002_fr1_3_the_lease_is_on_the_normalised_path(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    assert ann.edit("app/../app/./x.rb").kind == "allow"
    assert ann.held() == ["app/x.rb"]
    (stage.root / "link").symlink_to("app")
    assert bob.edit("link/x.rb").kind == "deny"


def test_a_gate_lease_has_no_end_but_its_owners(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.clock.advance(30 * 86400)
    assert bob.edit("app/x.rb").kind == "deny"


# FR2: one owner


def test_seed002_fr2_1_at_most_one_live_owner_has_a_file(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    assert [stage.owner("app/x.rb"), bob.held()] == ["claude:ann", []]


def test_seed002_fr2_2_while_the_owner_lives_a_competing_edit_is_refused(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb", write="ann\n")
    answer = bob.edit("app/x.rb", write="bob\n")
    assert answer.kind == "deny"
    assert (stage.root / "app/x.rb").read_text() == "ann\n"
    assert "claude:ann" in answer.reason
    assert "app/x.rb" in answer.reason


# FR3: who is dead keeps nothing


def test_seed002_fr3_1_a_dead_owner_keeps_no_lease(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.kill("ann")
    bob.edit("app/x.rb")
    assert stage.owner("app/x.rb") == "claude:bob"


def test_seed002_fr3_2_liveness_is_looked_at_again_before_each_refusal(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb", "lib/y.rb")
    assert bob.edit("app/x.rb").kind == "deny"
    stage.kill("ann")
    assert bob.edit("lib/y.rb").kind == "allow"


def test_seed002_fr3_3_a_dead_owners_lease_is_free_at_once(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.kill("ann")
    assert bob.edit("app/x.rb").kind == "allow"
    assert heartbeats(stage) == []
    assert stage.events("lock_reaped")[0].data["why"] == "owner dead"


def test_an_owner_whose_orphans_still_run_is_not_dead(stage: Stage) -> None:
    ann = stage.agent("ann", marks=("CLAUDE_CODE_SESSION_ID=ann",))
    bob = stage.agent("bob")
    ann.edit("app/x.rb")
    stage.processes.leave_behind("CLAUDE_CODE_SESSION_ID=ann")
    stage.kill("ann")
    assert bob.edit("app/x.rb").kind == "deny"


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


def test_seed002_fr4_2_a_call_that_is_held_open_is_tried_again_at_that_instant(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    begun = stage.manager.now()
    bob.edit("app/x.rb", hold=True)
    assert stage.manager.now() - begun == 180 * SECOND


def test_seed002_fr4_3_an_attempt_before_the_retry_is_not_tried(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()  # it is free now, and kept for bob
    stage.clock.advance(179.999999)
    refused = len(stage.events("lock_refused"))
    answer = bob.edit("app/x.rb")
    assert answer.kind == "deny"
    assert len(stage.events("lock_refused")) == refused
    assert len(heartbeats(stage)) == 1
    stage.clock.advance(0.000001)
    assert bob.edit("app/x.rb").kind == "allow"


def test_a_file_that_comes_free_is_kept_for_the_one_who_was_refused(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    assert cid.edit("app/x.rb").kind == "deny"
    stage.clock.advance(180)
    assert bob.edit("app/x.rb").kind == "allow"


def test_with_wake_a_file_is_handed_over_the_moment_it_is_free(stage: Stage) -> None:
    stage.settings = Settings(wake=True)
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
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
    assert bob.edit("app/x.rb").kind == "deny"  # and stands in line now
    begun = stage.manager.now()
    answer = ann.edit("lib/y.rb", hold=True)
    assert answer.kind == "deny"
    assert stage.manager.now() == begun
    assert "claude:bob waits for your app/x.rb: commit it, or give it back" in answer.reason


# FR5: what comes of the retry


def test_seed002_fr5_1_when_the_retry_succeeds_the_edit_goes_on(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")

    def free_it_meanwhile(seconds: float, waiter: object) -> bool:
        ann.gate().end_session()
        stage.clock.advance(seconds)
        return False

    bob._pause = free_it_meanwhile  # type: ignore[method-assign]
    assert bob.edit("app/x.rb", hold=True, write="bob\n").kind == "allow"
    assert (stage.root / "app/x.rb").read_text() == "bob\n"
    assert bob.edit("lib/y.rb").kind == "allow"  # nothing of it is left


def test_in_a_circle_every_answer_says_what_to_give_back(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("lib/y.rb")
    ann.edit("lib/y.rb")
    for answer in (bob.edit("app/x.rb"), bob.edit("app/x.rb")):
        assert "claude:ann waits for your lib/y.rb" in answer.reason
        assert "holdfast unlock lib/y.rb" in answer.reason
        assert "stand in line" not in answer.reason


def test_one_who_was_interrupted_while_it_waited_stands_in_line_no_more(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob, eve = stage.agent("ann"), stage.agent("bob"), stage.agent("eve")
    ann.edit("app/x.rb")
    hook = stage.processes.start()
    monkeypatch.setattr("holdfast.gate.leases.own_witness", lambda: hook)

    def interrupted(seconds: float, waiter: object) -> bool:
        raise KeyboardInterrupt

    bob._pause = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        bob.edit("app/x.rb", hold=True)
    assert stage.queue() == ["claude:bob"]
    stage.processes.end(hook)
    ann.gate().end_session()
    assert eve.edit("app/x.rb").kind == "allow"


def test_one_who_went_on_with_something_else_makes_its_retry_when_it_comes_back(
    stage: Stage,
) -> None:
    ann, bob, eve = stage.agent("ann"), stage.agent("bob"), stage.agent("eve")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    stage.clock.advance(180)
    assert eve.edit("app/x.rb").kind == "deny"  # still kept: its retry is the next call
    assert bob.edit("lib/y.rb").kind == "allow"
    assert eve.edit("app/x.rb").kind == "deny"  # eve's own retry is not due yet
    stage.clock.advance(180)
    assert eve.edit("app/x.rb").kind == "allow"
    assert bob.edit("app/x.rb").kind == "halt"  # this was its retry


def test_a_retry_that_was_never_made_is_forgotten_with_the_next_prompt(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.clock.advance(180)
    bob.gate().prompt()
    assert bob.edit("app/x.rb").kind == "deny"
    assert len(heartbeats(stage)) == 2


def test_seed002_fr5_2_when_the_retry_fails_the_agent_is_stopped_and_waits(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb", hold=True).kind == "halt"
    assert bob.edit("lib/y.rb").kind == "halt"  # nothing that it writes passes


def test_seed002_fr5_2_a_blocked_agent_goes_on_when_told_to_and_the_file_is_free(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb", hold=True)
    ann.gate().end_session()
    assert bob.edit("app/x.rb").kind == "halt"  # free, but nobody told it
    assert [report["blocked_file"] for report in bob.gate().prompt()] == ["app/x.rb"]
    assert bob.edit("app/x.rb").kind == "allow"


def test_told_to_go_on_while_the_file_is_not_free_it_contends_anew(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb", hold=True)
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


# FR6: when leases end


def test_seed002_fr6_1_a_commit_frees_what_was_committed(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb", "lib/y.rb")
    ann.commit("app/x.rb")
    assert ann.held() == ["lib/y.rb"]
    assert bob.edit("app/x.rb").kind == "allow"


def test_a_commit_of_one_agent_frees_nothing_of_another(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.commit("app/x.rb")
    assert ann.held() == ["app/x.rb"]


def test_seed002_fr6_2_a_hard_failure_frees_everything_of_the_agent(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    ann.gate().fail()
    assert bob.edit("app/x.rb").kind == "allow"


def test_seed002_fr6_3_the_end_of_a_session_frees_everything_of_its_agents(stage: Stage) -> None:
    ann, child, bob = stage.agent("ann"), stage.agent("ann", "child"), stage.agent("bob")
    ann.edit("app/x.rb")
    child.edit("lib/y.rb")
    ann.gate().end_session()
    assert bob.edit("app/x.rb", "lib/y.rb").kind == "allow"


def test_the_end_of_a_session_takes_it_out_of_every_line(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    assert stage.queue() == ["claude:bob"]
    bob.gate().end_session()
    assert stage.queue() == []


def test_seed002_fr6_4_the_death_of_the_owner_frees_everything(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.kill("ann")
    assert bob.edit("app/x.rb").kind == "allow"


def test_seed002_fr6_5_thirty_seconds_after_a_stop_the_leases_are_free(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb", "lib/y.rb")
    ann.gate().stop(background=False)
    stage.clock.advance(29.999999)
    assert bob.edit("app/x.rb").kind == "deny"
    stage.clock.advance(0.000001)
    assert bob.edit("lib/y.rb").kind == "allow"


def test_seed002_fr6_5_anything_that_the_agent_does_stops_the_timer(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    ann.gate().stop(background=False)
    stage.clock.advance(29)
    ann.gate().awake()
    stage.clock.advance(3600)
    assert bob.edit("app/x.rb").kind == "deny"


def test_an_edit_stops_the_timer_too(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    ann.gate().stop(background=False)
    stage.clock.advance(29)
    assert ann.edit("lib/y.rb").kind == "allow"
    stage.clock.advance(3600)
    assert bob.edit("app/x.rb").kind == "deny"


def test_without_a_stop_silence_never_frees_anything(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.clock.advance(86400)
    assert bob.edit("app/x.rb").kind == "deny"


def test_background_work_that_still_runs_holds_the_leases_over_a_stop(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    ann.gate().stop(background=True)
    stage.clock.advance(3600)
    assert bob.edit("app/x.rb").kind == "deny"


def test_a_file_that_was_never_changed_is_free_at_the_stop(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb", write=None)
    ann.edit("never-made.rb", write=None)
    ann.edit("lib/y.rb")
    ann.gate().stop(background=False)
    assert ann.held() == ["lib/y.rb"]
    assert bob.edit("app/x.rb", "never-made.rb").kind == "allow"


def test_who_stops_leaves_the_line_and_nothing_is_kept_for_it(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    bob.gate().stop(background=False)
    assert stage.queue() == []
    ann.gate().end_session()
    assert stage.owner("app/x.rb") == ""
    stage.clock.advance(180)
    assert bob.edit("app/x.rb").kind == "allow"


def test_what_was_kept_for_one_who_stops_is_free(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    assert stage.owner("app/x.rb") == "claude:bob"
    bob.gate().stop(background=False)
    assert stage.owner("app/x.rb") == ""


def test_a_hard_stop_counts_as_a_stop(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("lib/y.rb")
    assert bob.edit("app/x.rb", hold=True).kind == "halt"
    stage.clock.advance(30)
    cid = stage.agent("cid")
    assert cid.edit("lib/y.rb").kind == "allow"


# FR7: the report


def test_seed002_fr7_the_report_has_everything_that_was_promised(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.clock.advance(60)
    refused_at = stage.manager.now()
    report = bob.edit("app/x.rb", hold=True).report
    assert report is not None
    from holdfast.core.time import iso

    assert report["blocked_file"] == "app/x.rb"
    assert report["owner"] == "claude:ann"
    assert report["lock_age_seconds"] == 240
    assert report["last_heartbeat"] == iso(refused_at)
    assert report["retry_interval_seconds"] == 180
    assert report["state"] == "waiting_for_instruction"


def test_seed002_fr7_agent_and_user_read_the_same_report(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    answer = bob.edit("app/x.rb", hold=True)
    for text in (answer.reason, answer.user):
        for fact in ("app/x.rb", "claude:ann", "180 s", "state=waiting_for_instruction"):
            assert fact in text
    assert stage.events("agent_blocked")[0].data["report"] == answer.report


def test_a_report_outlives_the_session_that_was_blocked(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb", hold=True)
    bob.gate().end_session()
    (event,) = blockers(stage.manager)
    assert event.data["report"]["agent"] == "claude:bob"


# Sub-agents


def test_what_a_parent_holds_goes_down_to_the_child_that_edits_it(stage: Stage) -> None:
    ann, child = stage.agent("ann"), stage.agent("ann", "child")
    ann.edit("app/x.rb")
    assert child.edit("app/x.rb").kind == "allow"
    assert [ann.held(), child.held()] == [[], ["app/x.rb"]]


def test_when_a_child_ends_its_leases_go_up_and_not_into_the_open(stage: Stage) -> None:
    ann, child, bob = stage.agent("ann"), stage.agent("ann", "child"), stage.agent("bob")
    child.edit("app/x.rb")
    child.gate().end_agent()
    assert [ann.held(), child.held()] == [["app/x.rb"], []]
    assert bob.edit("app/x.rb").kind == "deny"


def test_a_file_that_came_up_changed_is_not_taken_for_unchanged(stage: Stage) -> None:
    ann, child = stage.agent("ann"), stage.agent("ann", "child")
    child.edit("app/x.rb")
    stage.clock.advance(5)
    child.gate().end_agent()
    ann.gate().stop(background=False)
    assert ann.held() == ["app/x.rb"]


def test_a_child_of_a_child_gets_what_either_of_them_holds(stage: Stage) -> None:
    ann, child, grandchild = (stage.agent("ann", name) for name in ("", "child", "grandchild"))
    ann.starts(child)
    child.starts(grandchild)
    ann.edit("app/x.rb")
    child.edit("lib/y.rb")
    assert grandchild.edit("app/x.rb", "lib/y.rb").kind == "allow"
    assert grandchild.held() == ["app/x.rb", "lib/y.rb"]


def test_what_a_childs_child_changed_goes_up_one_generation_at_a_time(stage: Stage) -> None:
    ann, child, grandchild = (stage.agent("ann", name) for name in ("", "child", "grandchild"))
    ann.starts(child)
    child.starts(grandchild)
    grandchild.edit("app/x.rb")
    grandchild.gate().end_agent()
    assert [ann.held(), child.held()] == [[], ["app/x.rb"]]
    child.gate().end_agent()
    assert [ann.held(), child.held()] == [["app/x.rb"], []]


def test_a_child_that_outlives_its_parent_is_its_grandparents(stage: Stage) -> None:
    ann, child, grandchild = (stage.agent("ann", name) for name in ("", "child", "grandchild"))
    ann.starts(child)
    child.starts(grandchild)
    grandchild.edit("app/x.rb")
    child.gate().end_agent()
    grandchild.gate().end_agent()
    assert ann.held() == ["app/x.rb"]


def test_an_aunt_is_no_parent(stage: Stage) -> None:
    ann, child, aunt, grandchild = (
        stage.agent("ann", name) for name in ("", "child", "aunt", "grandchild")
    )
    ann.starts(child)
    ann.starts(aunt)
    child.starts(grandchild)
    aunt.edit("app/x.rb")
    assert grandchild.edit("app/x.rb").kind == "deny"


def test_a_call_that_no_agent_followed_makes_nobody_a_parent(stage: Stage) -> None:
    ann, child, other = (stage.agent("ann", name) for name in ("", "child", "other"))
    ann.starts(child)
    child.calls()
    stage.clock.advance(61)
    ann.starts(other)
    assert family.ancestors(stage.manager, other.holder) == [ann.holder.key]


def test_the_end_of_a_session_leaves_nothing_known_of_its_families(stage: Stage) -> None:
    ann, child, grandchild = (stage.agent("ann", name) for name in ("", "child", "grandchild"))
    ann.starts(child)
    child.starts(grandchild)
    ann.calls()
    assert services.notes(stage.manager, "family:")
    ann.gate().end_session()
    assert services.notes(stage.manager, "family:") == []


def test_the_parent_of_a_blocked_child_learns_why_it_ended(stage: Stage) -> None:
    ann, child = stage.agent("ann"), stage.agent("bob", "child")
    ann.edit("app/x.rb")
    child.edit("app/x.rb", hold=True)
    (report,) = child.gate().end_agent()
    assert (report["blocked_file"], report["owner"]) == ("app/x.rb", "claude:ann")


def test_a_prompt_sets_the_children_of_a_session_going_too(stage: Stage) -> None:
    ann, bob, child = stage.agent("ann"), stage.agent("bob"), stage.agent("bob", "child")
    ann.edit("app/x.rb")
    child.edit("app/x.rb", hold=True)
    bob.gate().prompt()
    assert blockers(stage.manager) == []
    assert child.edit("lib/y.rb").kind == "allow"


def test_siblings_exclude_each_other(stage: Stage) -> None:
    one, two = stage.agent("ann", "one"), stage.agent("ann", "two")
    one.edit("app/x.rb")
    assert two.edit("app/x.rb").kind == "deny"


def test_a_parent_may_commit_what_its_children_changed(stage: Stage) -> None:
    ann, child = stage.agent("ann"), stage.agent("ann", "child")
    child.edit("app/x.rb")
    ann.commit("app/x.rb")
    assert child.held() == []


# Resume


def test_a_resumed_session_has_what_it_had(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.kill("ann")
    stage.restart("ann")
    ann.gate().rebind()
    assert bob.edit("app/x.rb").kind == "deny"
    assert ann.edit("app/x.rb").kind == "allow"


def test_what_another_took_meanwhile_is_not_taken_back(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.kill("ann")
    bob.edit("app/x.rb")
    stage.restart("ann")
    ann.gate().rebind()
    assert stage.owner("app/x.rb") == "claude:bob"


# The seed's own verification


def test_seed002_verification_1_two_agents_cannot_both_change_one_file(stage: Stage) -> None:
    agents = [stage.agent(f"agent-{number}") for number in range(8)]
    answers = [agent.edit("app/x.rb", write=agent.session) for agent in agents]
    assert [answer.kind for answer in answers].count("allow") == 1
    assert (stage.root / "app/x.rb").read_text() == "agent-0"


def test_seed002_verification_2_contention_writes_a_heartbeat_and_plans_a_retry_at_180(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    (heartbeat,) = heartbeats(stage)
    assert heartbeat.data["retry_at"] == heartbeat.at + 180 * SECOND


def test_seed002_verification_3_still_blocked_at_the_retry_is_a_hard_stop_with_a_report(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.clock.advance(180)
    answer = bob.edit("app/x.rb")
    assert answer.kind == "halt"
    assert answer.report is not None


def test_seed002_verification_4_a_dead_owners_lease_goes_to_the_next_contender(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.kill("ann")
    stage.clock.advance(180)
    assert bob.edit("app/x.rb").kind == "allow"


def test_seed002_verification_5_stop_and_30_idle_seconds_free_the_lease(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    ann.gate().stop(background=False)
    stage.clock.advance(30)
    assert bob.edit("app/x.rb").kind == "allow"


# The states of a file, and every way from one to another


def state(stage: Stage, path: str) -> str:
    """The state of a file, by what the ledger says."""
    notes = {
        event.type: event
        for event in services.notes(stage.manager, "gate:")
        if path in event.data.get("blocked", ()) or event.type == "agent_blocked"
    }
    if "agent_blocked" in notes:
        return "Blocked"
    if "contention_heartbeat" in notes:
        return "RetryPending"
    return "Owned" if stage.owner(path) else "Free"


def test_seed002_a_file_has_exactly_the_promised_states_and_ways_between_them(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    seen = [state(stage, "app/x.rb")]

    def step(happens: Callable[[], object]) -> None:
        happens()
        now = state(stage, "app/x.rb")
        if now != seen[-1]:
            seen.append(now)

    step(lambda: ann.edit("app/x.rb"))  # acquire
    step(lambda: bob.edit("app/x.rb"))  # a competing acquire: heartbeat, and the retry is planned
    step(lambda: stage.clock.advance(180))
    step(lambda: bob.edit("app/x.rb"))  # the retry fails
    step(lambda: ann.commit("app/x.rb"))
    step(lambda: bob.edit("app/x.rb"))  # nobody told it to go on
    step(lambda: bob.gate().prompt())
    step(lambda: bob.edit("app/x.rb"))  # resumed by hand after the release
    step(lambda: bob.gate().fail())  # hard failure
    step(lambda: ann.edit("app/x.rb"))
    step(lambda: stage.kill("ann"))  # the owner is not alive
    step(lambda: bob.edit("app/x.rb"))
    step(lambda: bob.gate().stop(background=False))
    step(lambda: stage.clock.advance(30))  # stop, and 30 s of rest
    stage.restart("ann")
    step(lambda: ann.edit("app/x.rb"))
    step(lambda: bob.edit("app/x.rb"))
    step(lambda: ann.gate().end_session())  # the end: kept for the one who waits
    step(lambda: stage.clock.advance(180))
    step(lambda: bob.edit("app/x.rb", write="newer\n"))  # the retry succeeds
    step(lambda: bob.commit("app/x.rb"))  # commit success
    assert seen == [
        "Free", "Owned", "RetryPending", "Blocked", "Free", "Owned", "Free", "Owned", "Free",
        "Owned", "Free", "Owned", "RetryPending", "Owned", "Free",
    ]  # fmt: skip


def test_seed002_a_dirty_tree_stays_as_it_is(stage: Stage) -> None:
    (stage.root / "dirty.rb").write_text("nobody's\n")
    ann = stage.agent("ann")
    ann.edit("app/x.rb")
    ann.gate().stop(background=False)
    ann.gate().end_session()
    assert (stage.root / "dirty.rb").read_text() == "nobody's\n"
    assert (stage.root / "app/x.rb").read_text() == "new\n"
