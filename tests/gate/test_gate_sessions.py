"""Sessions begin, go on in another process, and end."""

from __future__ import annotations

from holdfast.gate.rulebook import records
from holdfast.manager import services
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
    assert "child" not in said  # a sub-agent is its session's


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
    found = services.look(stage.manager, records.present)
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
    other = stage.agent("bobby")  # whose keys begin alike
    ann.edit("app/x.rb", "lib/y.rb")
    other.edit("lib/y.rb")
    bob.edit("app/x.rb")
    bob.starts(child)
    child.edit("app/x.rb")
    stage.clock.advance(180)
    assert bob.edit("app/x.rb").kind == "halt"
    child.stop()
    bob.gate().end_session()
    left = [note.data["note"] for note in services.notes(stage.manager, f"gate:{bob.holder.key}")]
    assert left
    assert all(":blocked:" in name for name in left)
    assert services.notes(stage.manager, f"family:{bob.holder.key}") == []
    assert services.notes(stage.manager, f"gate:{other.holder.key}:retry:")


def test_a_name_stays_its_agents(stage: Stage) -> None:
    bob = stage.agent("bob")
    bob.edit("app/x.rb")
    bob.gate().end_session()
    owner = services.look(stage.manager, lambda view: records.owner_of_name(view, "claude:bob"))
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
