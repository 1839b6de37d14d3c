"""The lease gate before a write: FR1 to FR3, one owner, and a dead owner keeps nothing."""

from __future__ import annotations

from stage import Stage, heartbeats

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


# FR3: a dead owner keeps nothing


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


# The seed's own verification


def test_seed002_verification_1_two_agents_cannot_both_change_one_file(stage: Stage) -> None:
    agents = [stage.agent(f"agent-{number}") for number in range(8)]
    answers = [agent.edit("app/x.rb", write=agent.session) for agent in agents]
    assert [answer.kind for answer in answers].count("allow") == 1
    assert (stage.root / "app/x.rb").read_text() == "agent-0"


def test_seed002_verification_4_a_dead_owners_lease_goes_to_the_next_contender(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.kill("ann")
    stage.clock.advance(180)
    assert bob.edit("app/x.rb").kind == "allow"


def test_seed002_a_dirty_tree_stays_as_it_is(stage: Stage) -> None:
    (stage.root / "dirty.rb").write_text("nobody's\n")
    ann = stage.agent("ann")
    ann.edit("app/x.rb")
    ann.stop()
    ann.gate().end_session()
    assert (stage.root / "dirty.rb").read_text() == "nobody's\n"
    assert (stage.root / "app/x.rb").read_text() == "new\n"
