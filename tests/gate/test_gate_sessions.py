"""Sessions begin, continue in another process, and end."""

from __future__ import annotations

import time

import pytest

from holdfast.core.draft import Draft
from holdfast.core.model import Witness
from holdfast.gate.rulebook import agent_family, agent_records
from holdfast.manager import transactions
from stage import Stage


def test_a_resumed_session_has_what_it_had(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.kill("ann")
    stage.restart("ann")
    ann.gate().session_start()
    assert bob.edit("app/x.rb").kind == "deny"
    assert ann.edit("app/x.rb").kind == "allow"


def test_what_another_took_meanwhile_is_not_taken_back(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.kill("ann")
    bob.edit("app/x.rb")
    stage.restart("ann")
    ann.gate().session_start()
    assert stage.owner("app/x.rb") == "claude:bob"


def test_one_that_begins_hears_who_else_is_at_work_and_on_what(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    stage.agent("ann", "child").edit("lib/y.rb")
    ann.edit("app/x.rb")
    said = bob.gate().session_start().context
    for fact in ("claude:ann", "app/x.rb", "lib/y.rb"):
        assert fact in said
    assert "child" not in said  # a sub-agent counts as its session


def test_one_that_begins_hears_of_people_who_hold_something(stage: Stage) -> None:
    paths = [f"{stage.root}/app/x.rb"]
    stage.manager.try_acquire(holder="Ann", write_paths=paths, ttl=60)
    said = stage.agent("bob").gate().session_start().context
    assert "Ann (app/x.rb)" in said
    stage.clock.advance(60)
    assert stage.agent("cid").gate().session_start().context.count("Ann") == 0


def test_one_that_is_alone_hears_nothing(stage: Stage) -> None:
    bob = stage.agent("bob")
    bob.edit("app/x.rb")
    stage.agent("bob", "child").edit("lib/y.rb")
    assert bob.gate().session_start().context == ""


def test_those_who_died_without_a_word_are_forgotten(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.kill("ann")
    assert bob.gate().session_start().context == ""
    (gone,) = stage.events("agent_gone")
    assert gone.data["agent"] == "claude:ann"
    found = transactions.look(stage.manager, agent_records.present)
    assert [one.key for one in found] == [bob.holder.key]


def test_what_is_over_is_not_told_as_work(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    ann.stop()
    stage.clock.advance(30)
    said = bob.gate().session_start().context
    assert "claude:ann" in said
    assert "app/x.rb" not in said


def test_the_end_of_a_session_leaves_no_note_but_what_it_was_blocked_by(stage: Stage) -> None:
    ann, bob, child = stage.agent("ann"), stage.agent("bob"), stage.agent("bob", "child")
    other = stage.agent("bobby")  # its keys begin with the same text
    ann.edit("app/x.rb", "lib/y.rb")
    other.edit("lib/y.rb")
    bob.edit("app/x.rb")
    bob.starts(child)
    child.edit("app/x.rb")
    stage.clock.advance(180)
    assert bob.edit("app/x.rb").kind == "halt"
    child.stop()
    bob.gate().end_session()
    left = [
        note.data["note"] for note in transactions.notes(stage.manager, f"gate:{bob.holder.key}")
    ]
    assert left
    assert all(":blocked:" in name for name in left)
    assert transactions.notes(stage.manager, f"family:{bob.holder.key}") == []
    assert transactions.notes(stage.manager, f"gate:{other.holder.key}:retry:")


def test_a_name_stays_its_agents(stage: Stage) -> None:
    bob = stage.agent("bob")
    bob.edit("app/x.rb")
    bob.gate().end_session()
    owner = transactions.look(
        stage.manager, lambda view: agent_records.owner_of_name(view, "claude:bob")
    )
    assert owner == bob.holder.key
    bob.edit("app/x.rb")
    assert stage.owner("app/x.rb") == "claude:bob"


def test_what_a_sub_agent_had_in_the_old_process_is_its_parents(stage: Stage) -> None:
    ann, child, bob = stage.agent("ann"), stage.agent("ann", "child"), stage.agent("bob")
    child.edit("app/x.rb")
    stage.kill("ann")
    stage.restart("ann")
    ann.gate().session_start()
    assert ann.held() == ["app/x.rb"]
    assert bob.edit("app/x.rb").kind == "deny"


def test_a_resumed_session_does_not_get_back_what_had_ended(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    ann.stop()
    stage.clock.advance(31)
    stage.kill("ann")
    stage.restart("ann")
    ann.gate().session_start()
    assert ann.held() == []
    assert bob.edit("app/x.rb").kind == "allow"


def test_what_was_handed_over_to_the_old_process_does_not_pass_for_a_lease(stage: Stage) -> None:
    bob, ann = stage.agent("bob"), stage.agent("ann")
    bob.edit("app/x.rb")
    ann.edit("app/x.rb")
    bob.gate().end_session()
    stage.kill("ann")
    stage.restart("ann")
    ann.gate().session_start()
    assert ann.edit("app/x.rb").kind == "allow"
    stage.clock.advance(3600)
    assert stage.owner("app/x.rb") == "claude:ann"


# A start is not activity


def test_a_start_in_the_same_process_does_not_end_the_rest(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    ann.stop()
    stage.clock.advance(10)
    ann.gate().session_start()  # as after a compaction, or when its context was cleared
    stage.clock.advance(19.999999)
    assert bob.edit("app/x.rb").kind == "deny"
    stage.clock.advance(0.000001)
    assert bob.edit("app/x.rb").kind == "allow"


def test_a_start_in_the_middle_of_a_turn_starts_no_rest(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    ann.gate().session_start()
    stage.clock.advance(3600)
    assert bob.edit("app/x.rb").kind == "deny"
    assert stage.events("agent_resting") == []


def test_a_start_does_not_end_a_stop_that_is_held(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.later(50, lambda: bob.gate().session_start())
    stage.later(70, lambda: ann.gate().end_session())
    assert bob.stop(hold=True).kind == "continue"
    assert 70 <= bob.waited() <= 70.5


def test_a_start_tells_what_came_free_and_renews_what_others_cannot_judge(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("lib/y.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    assert "app/x.rb came free" in bob.gate().session_start().context
    stage.hide("bob")
    assert cid.edit("lib/y.rb").kind == "deny"  # from now on the lease expires
    stage.clock.advance(1200)
    bob.gate().session_start()
    stage.clock.advance(1200)
    assert stage.owner("lib/y.rb") == "claude:bob"


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "killed at work"])
def test_a_session_that_is_only_looked_at_in_a_new_process_keeps_no_files(
    stage: Stage, stopped: bool
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.agent("ann", "child").edit("lib/y.rb")
    if stopped:
        ann.stop()
        stage.clock.advance(10)
    stage.kill("ann")
    stage.restart("ann")
    ann.gate().session_start()
    stage.clock.advance(29.999999)
    assert ann.held() == ["app/x.rb", "lib/y.rb"]
    assert bob.edit("app/x.rb").kind == bob.edit("lib/y.rb").kind == "deny"
    stage.clock.advance(0.000001)
    assert bob.edit("app/x.rb").kind == bob.edit("lib/y.rb").kind == "allow"


def test_the_first_prompt_in_the_new_process_ends_its_rest(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.kill("ann")
    stage.restart("ann")
    ann.gate().session_start()
    stage.clock.advance(29)
    ann.gate().prompt()
    stage.clock.advance(3600)
    assert bob.edit("app/x.rb").kind == "deny"


def test_one_that_others_have_forgotten_meanwhile_rests_as_well(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.kill("ann")
    bob.gate().session_start()
    stage.restart("ann")
    ann.gate().session_start()
    assert bob.edit("app/x.rb").kind == "deny"
    stage.clock.advance(30)
    assert "app/x.rb came free" in bob.gate().live_on().context


def test_one_that_works_already_when_its_start_is_heard_of_does_not_rest(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.kill("ann")
    stage.restart("ann")
    ann.gate().prompt()
    ann.gate().session_start()
    stage.clock.advance(3600)
    assert bob.edit("app/x.rb").kind == "deny"


# What a session keeps in a new process, and what it loses


def test_a_resumed_session_stands_in_no_line(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.agent("bob", "child").edit("app/x.rb")
    cid.edit("app/x.rb")
    stage.kill("bob")
    stage.restart("bob")
    bob.gate().session_start()
    tickets = transactions.look(stage.manager, lambda view: list(view.queue()))
    assert [ticket.request.holder.key for ticket in tickets] == [cid.holder.key]
    waits = transactions.look(stage.manager, agent_records.waits)
    assert [wait.key for wait in waits] == [bob.holder.key, cid.holder.key]  # whose retry is due


def test_what_came_free_for_the_old_process_is_not_kept_for_the_new_one(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    ann.gate().end_session()
    bob.gate().live_on()  # it gets the message
    stage.kill("bob")
    stage.restart("bob")
    assert "not yours any more" in bob.gate().session_start().context
    assert transactions.look(stage.manager, agent_records.waits) == []
    assert cid.edit("app/x.rb").kind == "allow"


def test_nothing_is_left_of_sub_agents_that_died_with_the_old_process(stage: Stage) -> None:
    ann, child, grandchild = (stage.agent("ann", name) for name in ("", "child", "grandchild"))
    other, bob = stage.agent("annie", "child"), stage.agent("bob")  # keys with the same start
    bob.edit("app/x.rb")
    ann.starts(child)
    child.starts(grandchild)
    grandchild.edit("lib/y.rb")
    for one in (child, other):
        one.edit("app/x.rb")
    child.edit("app/models/user.rb")
    child.gate().stop()
    ann.calls()
    grandchild.calls()
    stage.kill("ann")
    stage.restart("ann")
    ann.gate().session_start()
    notes = transactions.notes(stage.manager, f"gate:{ann.holder.key}")
    kinds = sorted(note.data["note"].removeprefix(f"gate:{ann.holder.key}:") for note in notes)
    assert kinds == ["agent", "rest"]
    assert transactions.notes(stage.manager, f"family:{ann.holder.key}") == []
    with stage.manager.store.view(deadline=time.monotonic() + 60) as view:
        assert not agent_family.has_children(Draft(view), ann.holder)
    assert ann.held() == ["app/models/user.rb", "lib/y.rb"]
    left = transactions.notes(stage.manager, f"gate:{other.holder.key}:")
    assert {note.type for note in left} == {"agent_present", "contention_heartbeat"}


def test_those_who_died_without_a_word_leave_no_family(stage: Stage) -> None:
    ann, child, grandchild = (stage.agent("ann", name) for name in ("", "child", "grandchild"))
    ann.starts(child)
    child.starts(grandchild)
    ann.calls()
    stage.kill("ann")
    stage.agent("bob").gate().session_start()
    assert transactions.notes(stage.manager, "family:") == []


def test_that_a_sub_agent_was_blocked_is_not_forgotten_in_a_new_process(stage: Stage) -> None:
    ann, bob, child = stage.agent("ann"), stage.agent("bob"), stage.agent("bob", "child")
    ann.edit("app/x.rb")
    child.edit("app/x.rb")
    stage.clock.advance(180)
    assert child.edit("app/x.rb").kind == "halt"
    stage.kill("bob")
    stage.restart("bob")
    bob.gate().session_start()
    assert [block.key for block in transactions.look(stage.manager, agent_records.blocks)] == [
        child.holder.key
    ]


# Two windows with one session


def opened_again(stage: Stage, session: str) -> Witness:
    """Open a session in a second window while the first, whose process this returns, continues."""
    first = stage.clients[session]
    stage.restart(session)
    return first


def test_a_second_window_is_told_that_both_are_one_agent(stage: Stage) -> None:
    ann = stage.agent("ann")
    ann.edit("app/x.rb")
    first = opened_again(stage, "ann")
    said = ann.gate().session_start()
    for text in (said.context, said.user):
        for fact in (
            "also open",
            "claude:ann",
            f"process {first.pid}",
            "one agent",
            "overwrit",
            "fork",
        ):
            assert fact in text
    assert said.kind == "quiet"


def test_a_second_window_takes_nothing_from_the_first(stage: Stage) -> None:
    ann, child, bob = stage.agent("ann"), stage.agent("ann", "child"), stage.agent("bob")
    bob.edit("app/x.rb")
    ann.starts(child)
    ann.edit("lib/y.rb")
    child.edit("app/models/user.rb")
    child.edit("app/x.rb")
    ann.edit("app/x.rb")
    before = [event.seq for event in stage.manager.events()]
    first = opened_again(stage, "ann")
    ann.gate().session_start()
    assert [event.seq for event in stage.manager.events()] == before
    assert stage.queue() == ["claude:ann/hild", "claude:ann"]
    stage.processes.end(stage.clients["ann"])  # it was opened only to look
    stage.clients["ann"] = first
    stage.clock.advance(3600)
    assert stage.owner("lib/y.rb") == "claude:ann"
    bob.gate().end_session()
    assert "app/x.rb came free" in child.gate().live_on().context


def test_a_stop_that_is_held_goes_on_while_a_second_window_is_opened(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    bob.edit("app/x.rb")
    ann.edit("app/x.rb")

    def look_at_it() -> None:
        first = opened_again(stage, "ann")
        ann.gate().session_start()
        stage.clients["ann"] = first

    stage.later(10, look_at_it)
    stage.later(20, lambda: bob.gate().end_session())
    assert ann.stop(hold=True).kind == "continue"


def test_a_held_edit_of_the_first_window_is_refused_as_it_was_when_the_second_goes_on(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    bob.edit("app/x.rb")
    ann.gate().session_start()

    def go_on() -> None:
        first = opened_again(stage, "ann")
        ann.gate().prompt()
        stage.clients["ann"] = first

    stage.later(5, go_on)
    said = ann.edit("app/x.rb", hold=True)
    assert said.kind == "deny"
    assert "claude:bob" in said.reason


def test_both_windows_write_the_same_file(stage: Stage) -> None:
    ann = stage.agent("ann")
    assert ann.edit("app/x.rb").kind == "allow"
    first = opened_again(stage, "ann")
    ann.gate().session_start()
    assert ann.edit("app/x.rb").kind == "allow"
    stage.clients["ann"] = first
    assert "also open" in ann.gate().session_start().context  # this client can show the message
    assert ann.edit("app/x.rb").kind == "allow"  # allowed: both windows are one agent


def test_a_window_whose_first_one_is_gone_is_told_nothing(stage: Stage) -> None:
    ann = stage.agent("ann")
    ann.edit("app/x.rb")
    stage.kill("ann")
    stage.restart("ann")
    said = ann.gate().session_start()
    assert (said.context, said.user) == ("", "")


def test_what_the_first_window_has_is_the_seconds_when_it_is_gone(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    first = opened_again(stage, "ann")
    ann.gate().session_start()
    ann.edit("lib/y.rb")
    stage.processes.end(first)
    ann.gate().session_start()
    stage.clock.advance(3600)
    assert bob.edit("app/x.rb").kind == bob.edit("lib/y.rb").kind == "deny"


def test_one_that_works_already_does_not_get_back_a_rest_that_is_forgotten(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    ann.stop()
    stage.kill("ann")
    bob.gate().session_start()  # removes dead sessions
    stage.restart("ann")
    ann.gate().prompt()
    ann.gate().session_start()
    ann.gate().live_on()
    stage.clock.advance(3600)
    assert bob.edit("app/x.rb").kind == "deny"


def test_a_start_does_not_take_from_a_held_stop_what_came_free(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.later(50, lambda: (ann.gate().end_session(), bob.gate().session_start()))
    assert bob.stop(hold=True).kind == "continue"
