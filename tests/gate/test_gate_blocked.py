"""An agent whose retry failed: stopped, with a report, until a person resumes it."""

from __future__ import annotations

from holdfast.core.ledger_time import iso
from holdfast.gate.intent import Answer
from holdfast.gate.people.blocked_agents import blockers, resume
from stage import Actor, Stage, heartbeats


def blocked(agent: Actor, path: str = "app/x.rb") -> Answer:
    """An agent that was refused a file, and whose one retry fails."""
    assert agent.edit(path).kind == "deny"
    agent.stage.clock.advance(180)
    return agent.edit(path)


def test_seed002_fr5_2_when_the_retry_fails_the_agent_is_stopped_and_waits(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    assert blocked(bob).kind == "halt"
    assert bob.edit("lib/y.rb").kind == "halt"  # every write of it is refused


def test_seed002_fr5_2_a_blocked_agent_goes_on_when_told_to_and_the_file_is_free(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    blocked(bob)
    ann.gate().end_session()
    assert bob.edit("app/x.rb").kind == "halt"  # free, but its user has not resumed it
    assert [block.report["blocked_file"] for block in blockers(stage.manager)] == ["app/x.rb"]
    bob.gate().prompt()
    assert blockers(stage.manager) == []
    assert bob.edit("app/x.rb").kind == "allow"


def test_told_to_go_on_while_the_file_is_not_free_it_contends_anew(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    blocked(bob)
    bob.gate().prompt()
    assert bob.edit("app/x.rb").kind == "deny"
    assert len(heartbeats(stage)) == 2


def test_a_hard_stop_counts_as_a_stop(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("lib/y.rb")
    assert blocked(bob).kind == "halt"
    stage.clock.advance(30)
    cid = stage.agent("cid")
    assert cid.edit("lib/y.rb").kind == "allow"


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


# FR7: the report


def test_seed002_fr7_the_report_has_everything_that_was_promised(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.clock.advance(60)
    refused_at = stage.manager.now()
    report = blocked(bob).report
    assert report is not None
    assert report["blocked_file"] == "app/x.rb"
    assert report["owner"] == "claude:ann"
    assert report["lock_age_seconds"] == 240
    assert report["last_heartbeat"] == iso(refused_at)
    assert report["retry_interval_seconds"] == 180
    assert report["state"] == "waiting_for_instruction"


def test_seed002_fr7_agent_and_user_read_the_same_report(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    answer = blocked(bob)
    for text in (answer.reason, answer.user):
        for fact in ("app/x.rb", "claude:ann", "180 s", "state=waiting_for_instruction"):
            assert fact in text
    assert stage.events("agent_blocked")[0].data["report"] == answer.report


def test_a_report_outlives_the_session_that_was_blocked(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    blocked(bob)
    bob.gate().end_session()
    (block,) = blockers(stage.manager)
    assert block.report["agent"] == "claude:bob"
    assert block.key == bob.holder.key


# Only a person resumes it


def test_neither_time_nor_work_nor_a_stop_ends_a_block(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    blocked(bob)
    ann.gate().end_session()
    bob.gate().live_on()
    bob.stop(hold=True)
    bob.gate().session_start()
    bob.calls()
    stage.clock.advance(86400)
    assert bob.edit("lib/y.rb").kind == "halt"
    assert len(blockers(stage.manager)) == 1
    assert stage.events("agent_resumed") == []


def test_a_person_lets_one_agent_go_on_by_its_name_or_its_key(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb", "lib/y.rb")
    blocked(bob)
    blocked(cid, "lib/y.rb")
    assert len(resume(stage.manager, "Ann", agent=cid.holder.key)) == 1
    assert bob.edit("app/models/user.rb").kind == "halt"
    assert cid.edit("app/models/user.rb").kind == "allow"
    assert len(resume(stage.manager, "Ann", agent="claude:bob")) == 1
    assert blockers(stage.manager) == []


def test_a_prompt_to_another_session_lets_nobody_go_on(stage: Stage) -> None:
    ann, bob, other = stage.agent("ann"), stage.agent("bob"), stage.agent("bobby")
    ann.edit("app/x.rb")
    blocked(bob)
    other.gate().prompt()
    assert bob.edit("lib/y.rb").kind == "halt"


def test_what_is_resumed_while_the_file_is_held_has_a_new_retry(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    blocked(bob)
    resume(stage.manager, "Ann")
    asked = stage.manager.now()
    assert bob.edit("app/x.rb").kind == "deny"
    assert heartbeats(stage)[-1].data["retry_at"] == asked + 180_000_000
    assert stage.queue() == ["claude:bob"]


def test_a_blocked_agent_stands_in_no_line_and_gets_nothing(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    cid.edit("lib/y.rb")
    bob.edit("app/x.rb")
    stage.clock.advance(10)
    bob.edit("lib/y.rb")
    stage.clock.advance(170)
    assert bob.edit("app/x.rb").kind == "halt"
    assert stage.queue() == []
    cid.gate().end_session()
    assert stage.owner("lib/y.rb") == ""


def test_a_call_that_is_held_while_its_agent_is_blocked_does_not_pass(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    cid.edit("lib/y.rb")
    bob.edit("app/x.rb")
    stage.clock.advance(175)
    halted: list[str] = []
    stage.later(5, lambda: halted.append(bob.edit("app/x.rb").kind))
    stage.later(8, lambda: cid.gate().end_session())
    assert bob.edit("lib/y.rb", hold=True).kind == "halt"
    assert halted == ["halt"]
    assert bob.held() == []


def test_one_that_ends_blocked_says_so(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    blocked(bob)
    said = bob.gate().end_session()
    assert said.kind == "halt"
    for fact in ("claude:bob ended blocked", "app/x.rb", "claude:ann"):
        assert fact in said.user


def test_people_hear_that_what_blocked_an_agent_is_free(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    blocked(bob)
    ann.commit("app/x.rb")
    (told,) = stage.events("blocker_free")
    assert (told.data["agent"], told.data["file"]) == ("claude:bob", "app/x.rb")


def test_a_retry_that_fails_at_a_prompt_costs_no_other_place_in_line(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    cid.edit("lib/y.rb")
    bob.edit("app/x.rb")
    stage.clock.advance(100)
    bob.edit("lib/y.rb")
    bob.edit("app/models/user.rb")
    stage.clock.advance(80)
    bob.gate().prompt()
    assert stage.queue() == ["claude:bob"]
    cid.gate().end_session()
    assert "lib/y.rb came free" in bob.gate().live_on().context
    stage.clock.advance(3600)
    assert stage.owner("app/models/user.rb") == "claude:bob"


def test_whatever_a_blocked_agent_tries_its_other_files_come_free(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("lib/y.rb")
    blocked(bob)
    for _ in range(4):
        stage.clock.advance(10)
        bob.edit("lib/y.rb")
        bob.gate().live_on()
    assert ann.edit("lib/y.rb").kind == "allow"
    bob.gate().prompt()
    assert bob.edit("new.rb").kind == "allow"
    stage.clock.advance(60)
    assert bob.held() == ["new.rb"]
