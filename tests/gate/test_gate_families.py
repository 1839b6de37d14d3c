"""Sub-agents: which leases pass down to them, which pass up, and who excludes whom."""

from __future__ import annotations

from holdfast.gate.people.blocked_agents import blockers
from holdfast.gate.rulebook import agent_family, agent_records
from holdfast.manager import transactions
from stage import Stage, settled


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
    ann.stop()
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
    found = transactions.look(
        stage.manager, lambda view: agent_family.ancestors(view, other.holder)
    )
    assert found == [ann.holder.key]


def test_the_end_of_a_session_leaves_nothing_known_of_its_families(stage: Stage) -> None:
    ann, child, grandchild = (stage.agent("ann", name) for name in ("", "child", "grandchild"))
    ann.starts(child)
    child.starts(grandchild)
    ann.calls()
    assert transactions.notes(stage.manager, "family:")
    ann.gate().end_session()
    assert transactions.notes(stage.manager, "family:") == []


def test_the_parent_of_a_blocked_child_learns_why_it_ended(stage: Stage) -> None:
    ann, child = stage.agent("ann"), stage.agent("bob", "child")
    ann.edit("app/x.rb")
    child.edit("app/x.rb")
    stage.clock.advance(180)
    assert child.edit("app/x.rb").kind == "halt"
    said = child.stop()
    for fact in ("app/x.rb", "claude:ann", "state=waiting_for_instruction"):
        assert fact in said.context
        assert fact in said.user


def test_a_prompt_sets_the_children_of_a_session_going_too(stage: Stage) -> None:
    ann, bob, child = stage.agent("ann"), stage.agent("bob"), stage.agent("bob", "child")
    ann.edit("app/x.rb")
    child.edit("app/x.rb")
    stage.clock.advance(180)
    assert child.edit("app/x.rb").kind == "halt"
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


def test_what_a_sibling_gave_up_to_the_parent_comes_down_to_one_that_waits(stage: Stage) -> None:
    one, two = stage.agent("ann", "one"), stage.agent("ann", "two")
    one.edit("app/x.rb")
    assert two.edit("app/x.rb").kind == "deny"
    one.stop()
    assert two.edit("app/x.rb").kind == "allow"
    assert stage.queue() == []


def test_one_that_waits_for_a_sibling_hears_of_it_with_its_next_event(stage: Stage) -> None:
    one, two = stage.agent("ann", "one"), stage.agent("ann", "two")
    one.edit("app/x.rb")
    two.edit("app/x.rb")
    one.stop()
    assert "app/x.rb came free" in two.gate().live_on().context
    assert two.held() == ["app/x.rb"]


def test_a_stop_that_is_held_for_a_sibling_goes_on_when_that_ends(stage: Stage) -> None:
    one, two = stage.agent("ann", "one"), stage.agent("ann", "two")
    one.edit("app/x.rb")
    two.edit("app/x.rb")
    stage.later(50, one.stop)
    assert two.stop(hold=True).kind == "continue"
    assert two.waited() <= 50.5
    assert two.held() == ["app/x.rb"]


def test_of_two_that_wait_for_a_sibling_the_first_is_first(stage: Stage) -> None:
    one, two, three = (stage.agent("ann", name) for name in ("one", "two", "three"))
    one.edit("app/x.rb")
    two.edit("app/x.rb")
    three.edit("app/x.rb")
    one.stop()
    assert three.gate().live_on().context == ""
    assert "app/x.rb" in two.gate().live_on().context


def test_a_retry_never_gives_a_child_what_its_parent_still_has(stage: Stage) -> None:
    one, two = stage.agent("ann", "one"), stage.agent("ann", "two")
    ann = stage.agent("ann")
    one.edit("app/x.rb")
    two.edit("app/x.rb")
    stage.clock.advance(180)
    one.stop()
    assert two.stop().kind == "continue"  # its retry, now due
    assert [ann.held(), two.held()] == [[], ["app/x.rb"]]


def test_a_child_may_edit_what_its_parent_has_while_others_wait_for_it(stage: Stage) -> None:
    ann, child, bob = stage.agent("ann"), stage.agent("ann", "child"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    assert child.edit("app/x.rb").kind == "allow"
    assert bob.edit("app/x.rb").kind == "deny"


def test_a_child_that_is_refused_takes_nothing_from_its_parent(stage: Stage) -> None:
    ann, child, bob = stage.agent("ann"), stage.agent("ann", "child"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("lib/y.rb")
    assert child.edit("app/x.rb", "lib/y.rb").kind == "deny"
    assert [ann.held(), child.held()] == [["app/x.rb"], []]


def test_what_was_handed_over_to_a_parent_lasts_when_its_child_uses_it(stage: Stage) -> None:
    bob, ann, child = stage.agent("bob"), stage.agent("ann"), stage.agent("ann", "child")
    bob.edit("app/x.rb")
    ann.edit("app/x.rb")
    bob.gate().end_session()
    assert child.edit("app/x.rb").kind == "allow"
    stage.clock.advance(3600)
    assert stage.owner("app/x.rb").startswith("claude:ann/")


def test_a_parent_gets_a_childs_changed_file_with_its_stamp(stage: Stage) -> None:
    ann, child = stage.agent("ann"), stage.agent("ann", "child")
    child.edit("app/x.rb")
    (below,) = child.grants()
    child.stop()
    (above,) = ann.grants()
    assert above.stamp == below.stamp != ""
    settled(stage.root / "app/x.rb")
    ann.stop()
    assert ann.held() == ["app/x.rb"]  # changed since, so not immediately free


def test_what_a_child_never_changed_is_free_when_it_ends(stage: Stage) -> None:
    ann, child = stage.agent("ann"), stage.agent("ann", "child")
    child.edit("app/x.rb", write=None)
    child.stop()
    assert [ann.held(), stage.owner("app/x.rb")] == [[], ""]


def test_at_its_retry_a_child_is_not_blocked_by_what_its_parent_has(stage: Stage) -> None:
    one, two, three = (stage.agent("ann", name) for name in ("one", "two", "three"))
    one.edit("app/x.rb")
    two.edit("app/x.rb")
    three.edit("app/x.rb")
    one.stop()
    stage.clock.advance(180)
    assert three.edit("app/x.rb").kind == "allow"  # though two, which is inactive, was before it
    assert stage.events("agent_blocked") == []


# A sub-agent that continues after its session ended, as after its context was cleared


def test_what_a_late_sub_agent_changed_is_free_when_it_ends(stage: Stage) -> None:
    ann, child, bob = stage.agent("ann"), stage.agent("ann", "child"), stage.agent("bob")
    ann.starts(child)
    ann.gate().end_session()
    child.edit("app/x.rb")
    assert bob.edit("app/x.rb").kind == "deny"
    child.stop()
    assert [ann.held(), child.held()] == [[], []]
    assert "app/x.rb came free" in bob.gate().live_on().context


def test_nobody_is_invented_above_a_late_sub_agent(stage: Stage) -> None:
    ann, child, bob = stage.agent("ann"), stage.agent("ann", "child"), stage.agent("bob")
    ann.starts(child)
    ann.gate().end_session()
    child.edit("app/x.rb")
    assert bob.gate().session_start().context == ""
    child.stop()
    present = transactions.look(stage.manager, agent_records.present)
    assert [one.key for one in present] == [bob.holder.key]


def test_a_late_sub_agents_files_go_to_one_above_it_that_is_still_there(stage: Stage) -> None:
    ann, child, grandchild = (stage.agent("ann", name) for name in ("", "child", "grandchild"))
    ann.starts(child)
    ann.gate().end_session()
    child.starts(grandchild)
    grandchild.edit("app/x.rb")
    grandchild.stop()
    assert child.held() == ["app/x.rb"]
    child.stop()
    assert stage.owner("app/x.rb") == ""


def test_one_whose_parent_was_never_heard_of_has_one_all_the_same(stage: Stage) -> None:
    ann, child, bob = stage.agent("ann"), stage.agent("ann", "child"), stage.agent("bob")
    child.edit("app/x.rb")  # the gate's first event of the session
    assert "claude:ann (app/x.rb)" in bob.gate().session_start().context
    child.stop()
    assert ann.held() == ["app/x.rb"]


def test_what_agents_above_have_comes_down_only_if_nobody_else_has_a_part_however_much_it_is(
    stage: Stage,
) -> None:
    ann, kid, bob = stage.agent("ann"), stage.agent("ann", "kid"), stage.agent("bob")
    many = [f"lib/{number:02}.rb" for number in range(30)]
    ann.edit(*many, write=None)
    bob.edit("lib/zz.rb")
    assert kid.edit(*many, "lib/zz.rb", write=None).kind == "deny"
    assert kid.gate().live_on().context == ""
    assert {stage.owner(path) for path in many} == {"claude:ann"}
    bob.gate().end_session()
    assert "lib/00.rb" in kid.gate().live_on().context
    assert {stage.owner(path) for path in many} == {"claude:ann/kid"}


def test_what_sub_agents_had_that_were_broken_off_goes_up_when_the_client_says_that_none_works(
    stage: Stage,
) -> None:
    ann, kid, bob = stage.agent("ann"), stage.agent("ann", "kid"), stage.agent("bob")
    ann.starts(kid)
    kid.edit("app/x.rb", write="new\n")
    bob.edit("lib/y.rb")
    kid.edit("lib/y.rb")
    ann.gate().stop()  # the gate cannot tell whether others continue
    assert stage.owner("app/x.rb") == "claude:ann/kid"
    ann.gate().stop(is_alone=True)
    assert stage.owner("app/x.rb") == "claude:ann"
    assert stage.queue() == []
    stage.clock.advance(30)
    assert bob.edit("app/x.rb").kind == "allow"


def test_one_that_goes_on_all_the_same_has_its_file_again(stage: Stage) -> None:
    ann, kid = stage.agent("ann"), stage.agent("ann", "kid")
    ann.starts(kid)
    kid.edit("app/x.rb", write="new\n")
    ann.gate().stop(is_alone=True)
    assert kid.edit("app/x.rb").kind == "allow"
    assert stage.owner("app/x.rb").startswith("claude:ann/")
