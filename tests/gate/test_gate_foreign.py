"""Owners whose liveness this machine cannot determine: their leases expire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from helpers_guard import Shop, made_repository, sh
from holdfast import LockManager
from holdfast.core.model import Holder, Witness, agent_key
from holdfast.gate.config.settings import Settings
from holdfast.gate.git import commit_check
from holdfast.gate.lease_gate import LeaseGate
from holdfast.manager import transactions
from stage import SECOND, Stage

LENGTH = 1800


def test_a_refusal_gives_the_lease_of_such_an_owner_an_end(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb", "lib/y.rb")
    stage.hide("ann")
    stage.clock.advance(100)
    assert bob.edit("app/x.rb").kind == "deny"
    ends = {grant.paths[0]: grant.expires_at for grant in ann.grants()}
    assert ends == {"app/x.rb": stage.manager.now() + LENGTH * SECOND, "lib/y.rb": None}


def test_without_events_of_its_owner_it_is_free_then(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    stage.hide("ann")
    bob.edit("app/x.rb")
    bob.gate().end_session()
    stage.clock.advance(LENGTH - 0.000001)
    assert stage.owner("app/x.rb") == "claude:ann"
    stage.clock.advance(0.000001)
    assert cid.edit("app/x.rb").kind == "allow"


def test_events_of_its_owner_renew_it(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.hide("ann")
    bob.edit("app/x.rb")
    for _ in range(5):
        stage.clock.advance(LENGTH - 1)
        ann.gate().live_on()
    assert stage.owner("app/x.rb") == "claude:ann"
    stage.clock.advance(LENGTH - 0.000001)
    assert bob.gate().live_on().context == ""
    stage.clock.advance(0.000001)
    assert "app/x.rb came free" in bob.gate().live_on().context


def test_an_attempt_does_not_prolong_it(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.hide("ann")
    bob.edit("app/x.rb")
    for _ in range(20):
        stage.clock.advance(100)
        bob.gate().prompt()
        if bob.edit("app/x.rb").kind == "allow":
            break
    assert stage.owner("app/x.rb") == "claude:bob"


def test_an_owner_that_can_be_judged_never_gets_an_end(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.clock.advance(180)
    bob.edit("app/x.rb")
    assert [grant.expires_at for grant in ann.grants()] == [None]
    assert stage.events("leases_limited") == []


def test_what_such_an_owner_takes_later_has_no_end_until_somebody_is_refused(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.hide("ann")
    bob.edit("app/x.rb")
    ann.edit("lib/y.rb")
    ends = {grant.paths[0]: grant.expires_at is None for grant in ann.grants()}
    assert ends == {"app/x.rb": False, "lib/y.rb": True}


def test_one_that_waits_limits_a_later_owner_too(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    cid.edit("app/x.rb")
    ann.gate().end_session()
    assert bob.edit("app/x.rb").kind == "allow"
    stage.hide("bob")
    assert cid.edit("app/x.rb").kind == "deny"  # from the record, but about the present owner
    assert [grant.expires_at for grant in bob.grants()] == [stage.manager.now() + LENGTH * SECOND]


def test_what_is_given_back_ends_the_limit(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.hide("ann")
    bob.edit("app/x.rb")
    assert len(stage.events("leases_limited")) == 1
    ann.commit("app/x.rb")
    ann.gate().live_on()
    assert len(stage.events("leases_lasting")) == 1


def test_a_held_stop_goes_on_when_such_a_lease_ends(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.hide("ann")
    stage.agent("cid").edit("app/x.rb")
    stage.agent("cid").gate().end_session()
    stage.clock.advance(LENGTH - 60)
    bob.edit("app/x.rb")
    assert bob.stop(hold=True).kind == "continue"
    assert bob.waited() <= 60.5


# Other requests that are refused


def test_a_persons_commit_that_is_refused_gives_it_an_end_too(tmp_path: Path) -> None:
    root = made_repository(tmp_path / "work")
    (root / ".holdfast").mkdir(exist_ok=True)
    elsewhere = Witness(host="elsewhere", boot="b", namespace="n", pid=1, start=1)
    key = agent_key("claude", "ann")
    ann = Holder(id=key, key=key, witness=elsewhere, client="claude", session="ann")
    with LockManager.open(str(root)) as manager:
        assert LeaseGate(manager, ann, Settings()).permit(["app/x.py", "lib/y.py"]).kind == "allow"
        (root / "app/x.py").write_text("ann\n")
        sh(root, "git add app/x.py")
        assert "app/x.py" in commit_check.refused(str(root), {})
        length = timedelta(seconds=LENGTH)
        ends = {grant.write_paths[0]: grant.expires_at for grant in manager.active_grants()}
        assert ends["lib/y.py"] is None
        assert ends["app/x.py"] is not None
        assert ends["app/x.py"] - length <= datetime.now(UTC) < ends["app/x.py"]
        before = transactions.look(manager, lambda view: view.head)
        assert "app/x.py" in commit_check.refused(str(root), {})
        assert transactions.look(manager, lambda view: view.head) == before, "not postponed"


def test_so_does_a_git_verb_that_is_refused(tmp_path: Path) -> None:
    shop = Shop(made_repository(tmp_path / "work"))
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    shop.hide("ann")
    assert bob.run("git reset --hard").kind == "deny"
    assert [grant.expires_at for grant in ann.grants()] == [shop.manager.now() + LENGTH * SECOND]
    shop.close()
