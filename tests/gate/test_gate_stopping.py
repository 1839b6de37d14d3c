"""When leases end (FR6), and stops that are held open until a file comes free."""

from __future__ import annotations

import pytest

from holdfast.gate.config.settings import Settings
from holdfast.manager import transactions
from stage import Actor, Stage

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
    ann.stop()
    stage.clock.advance(29.999999)
    assert bob.edit("app/x.rb").kind == "deny"
    stage.clock.advance(0.000001)
    assert bob.edit("lib/y.rb").kind == "allow"


def test_seed002_fr6_5_anything_that_the_agent_does_stops_the_timer(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    ann.stop()
    stage.clock.advance(29)
    ann.gate().live_on()
    stage.clock.advance(3600)
    assert bob.edit("app/x.rb").kind == "deny"


def test_an_edit_stops_the_timer_too(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    ann.stop()
    stage.clock.advance(29)
    assert ann.edit("lib/y.rb").kind == "allow"
    stage.clock.advance(3600)
    assert bob.edit("app/x.rb").kind == "deny"


def test_without_a_stop_silence_never_frees_anything(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.clock.advance(86400)
    assert bob.edit("app/x.rb").kind == "deny"


def test_a_file_that_was_never_changed_is_free_at_the_stop(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb", write=None)
    ann.edit("never-made.rb", write=None)
    ann.edit("lib/y.rb")
    ann.stop()
    assert ann.held() == ["lib/y.rb"]
    assert bob.edit("app/x.rb", "never-made.rb").kind == "allow"


def test_who_stops_leaves_the_line_and_nothing_is_kept_for_it(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    bob.stop()
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
    bob.stop(may_go_on=False)
    assert stage.owner("app/x.rb") == ""


def test_seed002_verification_5_stop_and_30_idle_seconds_free_the_lease(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    ann.stop()
    stage.clock.advance(30)
    assert bob.edit("app/x.rb").kind == "allow"


def test_background_work_does_not_suspend_the_rest(stage: Stage) -> None:
    ann = stage.agent("ann", marks=("CLAUDE_CODE_SESSION_ID=ann",))
    bob = stage.agent("bob")
    ann.edit("app/x.rb")
    stage.processes.leave_behind("CLAUDE_CODE_SESSION_ID=ann")
    ann.stop()
    stage.clock.advance(30)
    assert bob.edit("app/x.rb").kind == "allow"


def test_a_failed_agent_stands_in_no_line(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    bob.gate().fail()
    assert stage.queue() == []
    ann.gate().end_session()
    assert stage.owner("app/x.rb") == ""


# Stops that are held open


def waiting(stage: Stage) -> tuple[Actor, Actor]:
    """An agent that has app/x.rb, and one that was refused it."""
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb").kind == "deny"
    return ann, bob


def test_a_stop_is_held_until_the_file_comes_free_and_the_agent_goes_on(stage: Stage) -> None:
    ann, bob = waiting(stage)
    stage.later(70, lambda: ann.commit("app/x.rb"))
    said = bob.stop(hold=True)
    assert said.kind == "continue"
    assert "app/x.rb came free and is yours" in said.reason
    assert 70 <= bob.waited() <= 70.5
    assert bob.held() == ["app/x.rb"]
    stage.clock.advance(3600)  # it has not stopped, so no lease ends
    assert stage.owner("app/x.rb") == "claude:bob"
    assert len(stage.events("file_handed_over")) == 1


def test_a_stop_is_held_until_the_owner_dies(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    stage.later(70, lambda: stage.kill("ann"))
    assert bob.stop(hold=True).kind == "continue"
    assert 70 <= bob.waited() <= 70.5
    assert bob.edit("app/x.rb").kind == "allow"


def test_an_owner_that_is_dead_already_is_not_waited_for(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    stage.kill("ann")
    assert bob.stop().kind == "continue"
    assert bob.held_open == []


def test_at_the_retry_a_stop_goes_on_if_that_succeeds(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    stage.later(180, lambda: stage.kill("ann"))
    assert bob.stop(hold=True).kind == "continue"
    assert bob.waited() == 180
    assert bob.edit("app/x.rb").kind == "allow"


def test_at_the_retry_a_stop_is_blocked_if_that_fails(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    said = bob.stop(hold=True)
    assert said.kind == "halt"
    assert bob.waited() == 180
    assert said.report is not None
    facts = {"blocked_file", "owner", "lock_age_seconds", "last_heartbeat", "state"}
    assert facts | {"retry_interval_seconds"} <= said.report.keys()
    assert said.report["state"] == "waiting_for_instruction"
    assert bob.edit("lib/y.rb").kind == "halt"


def test_a_prompt_ends_a_held_stop_which_then_says_nothing(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    bob.edit("lib/y.rb")
    stage.later(50, lambda: bob.gate().prompt())
    said = bob.stop(hold=True)
    assert (said.kind, said.reason, said.user, said.context) == ("quiet", "", "", "")
    assert 50 <= bob.waited() <= 50.5
    stage.clock.advance(3600)
    assert bob.held() == ["lib/y.rb"]  # the prompted agent keeps its leases
    assert stage.agent("cid").edit("lib/y.rb").kind == "deny"
    assert stage.queue()[0] == "claude:bob"


def test_a_stop_that_is_held_anew_is_not_taken_for_the_old_one(stage: Stage) -> None:
    ann, bob = waiting(stage)
    ann.edit("lib/y.rb")

    def killed() -> None:
        raise KeyboardInterrupt

    def goes_on_and_stops() -> None:
        bob.gate().prompt()
        bob.edit("lib/y.rb")
        stage.later(1, killed)
        with pytest.raises(KeyboardInterrupt):
            bob.stop(hold=True)

    stage.later(50, goes_on_and_stops)
    assert bob.stop(hold=True).kind == "quiet"
    assert bob.waited() < 60
    assert "claude:bob" in stage.queue()


def test_the_death_of_the_client_ends_a_held_stop_and_its_place_in_line(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    witness = stage.clients["bob"]
    stage.later(50, lambda: stage.processes.end(witness))
    assert bob.stop(hold=True).kind == "quiet"
    assert 50 <= bob.waited() <= 50.5
    (dropped,) = stage.events("ticket_dropped")
    assert dropped.data["why"] == "client gone"


def test_the_end_of_the_session_ends_a_held_stop(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    stage.later(50, lambda: bob.gate().end_session())
    assert bob.stop(hold=True).kind == "quiet"
    assert 50 <= bob.waited() <= 50.5
    left = {event.type for event in transactions.notes(stage.manager, f"gate:{bob.holder.key}")}
    assert left == set()


def test_a_stop_is_never_held_when_the_agent_cannot_go_on(stage: Stage) -> None:
    ann, bob = waiting(stage)
    said = bob.stop(hold=True, may_go_on=False)
    assert said.kind == "quiet"
    assert bob.held_open == []
    assert stage.queue() == []
    assert "app/x.rb" in said.user  # its user is told
    ann.gate().end_session()
    assert stage.owner("app/x.rb") == ""


def test_what_came_for_one_that_cannot_go_on_is_told_and_left_free(stage: Stage) -> None:
    ann, bob = waiting(stage)
    ann.gate().end_session()
    said = bob.stop(hold=True, may_go_on=False)
    assert said.kind == "quiet"
    assert "app/x.rb" in said.user
    assert stage.owner("app/x.rb") == ""


def test_a_stop_is_held_once_for_a_retry(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    stage.later(50, lambda: bob.gate().prompt())
    bob.stop(hold=True)
    held = bob.waited()
    assert bob.stop(hold=True).kind == "quiet"
    assert bob.waited() == held
    assert stage.queue() == []


def test_a_second_retry_is_waited_for_when_the_first_has_come_to_something(stage: Stage) -> None:
    ann, bob = waiting(stage)
    cid = stage.agent("cid")
    cid.edit("lib/y.rb")
    stage.clock.advance(100)
    bob.edit("lib/y.rb")  # due at 280 s
    stage.later(10, lambda: ann.gate().end_session())
    assert bob.stop(hold=True).kind == "continue"
    bob.edit("app/x.rb")
    stage.later(120, lambda: cid.gate().end_session())
    assert bob.stop(hold=True).kind == "continue"
    assert bob.held() == ["app/x.rb", "lib/y.rb"]


def test_a_hook_with_less_time_holds_a_stop_as_long_as_it_can(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    said = bob.stop(hold=True, hold_seconds=62)
    assert said.kind == "quiet"
    assert bob.waited() == 60  # it answers before its time is up
    assert "app/x.rb" in said.user
    assert stage.queue() == []
    assert bob.edit("app/x.rb").kind == "deny"
    stage.clock.advance(120)
    assert bob.edit("app/x.rb").kind == "halt"  # its one retry still takes place


def test_unchanged_leases_go_when_the_hold_begins(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    bob.edit("lib/y.rb", write=None)
    bob.edit("app/models/user.rb")
    owners: list[tuple[str, str]] = []
    stage.later(
        1, lambda: owners.append((stage.owner("lib/y.rb"), stage.owner("app/models/user.rb")))
    )
    bob.stop(hold=True)
    assert owners == [("", "claude:bob")]


def test_the_30_seconds_begin_when_the_hold_ends(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    bob.edit("lib/y.rb")
    cid = stage.agent("cid")
    refused: list[str] = []
    stage.later(100, lambda: refused.append(cid.edit("lib/y.rb").kind))
    assert bob.stop(hold=True).kind == "halt"
    assert refused == ["deny"]
    stage.clock.advance(29.999999)
    assert stage.owner("lib/y.rb") == "claude:bob"
    stage.clock.advance(0.000001)
    assert cid.edit("lib/y.rb").kind == "allow"


def test_if_the_hook_that_holds_is_killed_the_leases_end_all_the_same(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    bob.edit("lib/y.rb")

    def killed() -> None:
        raise KeyboardInterrupt

    stage.later(10, killed)
    with pytest.raises(KeyboardInterrupt):
        bob.stop(hold=True)
    cid = stage.agent("cid")
    stage.clock.advance(170 + 29.999999)
    assert stage.owner("lib/y.rb") == "claude:bob"
    stage.clock.advance(0.000001)
    assert cid.edit("lib/y.rb").kind == "allow"


def test_a_due_retry_is_made_by_the_stop(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    stage.clock.advance(300)
    bob.edit("lib/y.rb")
    said = bob.stop(hold=True)
    assert said.kind == "halt"
    assert bob.held_open == []
    stage.clock.advance(30)
    assert stage.agent("cid").edit("lib/y.rb").kind == "allow"


def test_without_wake_a_due_retry_that_succeeds_at_the_stop_lets_the_agent_go_on(
    stage: Stage,
) -> None:
    stage.settings = Settings(wake=False)
    ann, bob = waiting(stage)
    ann.gate().end_session()
    stage.clock.advance(180)
    assert bob.stop().kind == "continue"
    assert bob.held() == ["app/x.rb"]


def test_a_blocked_agent_is_not_sent_on_by_its_stop(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    cid = stage.agent("cid")
    cid.edit("lib/y.rb")
    stage.clock.advance(100)
    bob.edit("lib/y.rb")
    stage.clock.advance(80)
    assert bob.edit("app/x.rb").kind == "halt"
    assert stage.queue() == []
    cid.gate().end_session()
    stage.clock.advance(200)
    assert bob.stop(hold=True).kind == "quiet"
    assert bob.held_open == []
    assert stage.owner("lib/y.rb") == ""


def test_in_a_circle_no_stop_is_held(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("lib/y.rb")
    bob.edit("app/x.rb")
    ann.edit("lib/y.rb")
    assert ann.stop(hold=True).kind == "quiet"
    assert ann.held_open == []


def test_a_held_stop_that_ends_without_the_file_says_so_to_the_user(stage: Stage) -> None:
    _ann, bob = waiting(stage)
    said = bob.stop(hold=True, hold_seconds=12)
    assert "claude:bob stopped and did not write app/x.rb" in said.user


@pytest.mark.parametrize("wake", [True, False])
def test_of_a_file_that_had_come_free_the_user_hears_that_it_was_given_back(
    stage: Stage, wake: bool
) -> None:
    stage.settings = Settings(wake=wake)
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    cid.edit("lib/y.rb")
    bob.edit("app/x.rb")
    bob.edit("lib/y.rb")
    ann.gate().end_session()
    said = bob.stop(may_go_on=False).user
    assert stage.owner("app/x.rb") == ""
    about_x = "did not write app/x.rb: it had come free for the agent, and was released"
    assert about_x in said
    assert "did not write lib/y.rb: another agent held it" in said
    assert said.count("claude:bob stopped") == 2


# Sub-agents stop, too


def test_a_sub_agents_stop_is_held_and_then_it_goes_on(stage: Stage) -> None:
    ann, child = stage.agent("ann"), stage.agent("bob", "child")
    ann.edit("app/x.rb")
    child.edit("app/x.rb")
    stage.later(70, lambda: stage.kill("ann"))
    assert child.stop(hold=True).kind == "continue"
    assert child.held() == ["app/x.rb"]


def test_when_a_sub_agents_hold_ends_its_changed_files_go_up(stage: Stage) -> None:
    ann, bob, child = stage.agent("ann"), stage.agent("bob"), stage.agent("bob", "child")
    ann.edit("app/x.rb")
    child.edit("lib/y.rb")
    child.edit("app/models/user.rb", write=None)
    child.edit("app/x.rb")
    seen: list[list[str]] = []
    stage.later(10, lambda: seen.append(child.held()))
    said = child.stop(hold=True)
    assert seen == [["lib/y.rb"]]
    assert "state=waiting_for_instruction" in said.context  # its parent reads the report
    assert [bob.held(), child.held()] == [["lib/y.rb"], []]
    assert child.waited() == 180


def test_a_prompt_to_the_session_ends_the_hold_of_its_sub_agent(stage: Stage) -> None:
    ann, bob, child = stage.agent("ann"), stage.agent("bob"), stage.agent("bob", "child")
    ann.edit("app/x.rb")
    child.edit("lib/y.rb")
    child.edit("app/x.rb")
    stage.later(50, lambda: bob.gate().prompt())
    said = child.stop(hold=True)
    assert (said.kind, said.reason) == ("quiet", "")
    assert "app/x.rb" in said.user  # the file was not written
    assert 50 <= child.waited() <= 50.5
    assert [bob.held(), child.held(), stage.queue()] == [["lib/y.rb"], [], []]


def test_a_prompt_to_one_session_holds_on_the_sub_agents_of_others(stage: Stage) -> None:
    ann, child = stage.agent("ann"), stage.agent("bob", "child")
    ann.edit("app/x.rb")
    child.edit("app/x.rb")
    stage.later(50, lambda: stage.agent("bobby").gate().prompt())
    child.stop(hold=True)
    assert child.waited() == 180


def test_what_comes_up_to_a_parent_that_has_stopped_ends_in_a_while(stage: Stage) -> None:
    ann, child, bob = stage.agent("ann"), stage.agent("ann", "child"), stage.agent("bob")
    child.edit("app/x.rb")
    ann.stop()
    stage.clock.advance(100)
    assert bob.edit("app/x.rb").kind == "deny"  # the sub-agent is still working
    child.stop()
    assert ann.held() == ["app/x.rb"]
    stage.clock.advance(29.999999)
    assert stage.owner("app/x.rb") == "claude:ann"
    stage.clock.advance(0.000001)
    assert "app/x.rb came free" in bob.gate().live_on().context


def test_a_parent_that_goes_on_keeps_what_came_up(stage: Stage) -> None:
    ann, child, bob = stage.agent("ann"), stage.agent("ann", "child"), stage.agent("bob")
    child.edit("app/x.rb")
    ann.stop()
    child.stop()
    ann.gate().live_on()
    stage.clock.advance(3600)
    assert bob.edit("app/x.rb").kind == "deny"
