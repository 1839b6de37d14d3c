"""Checks: acquire, hold, release."""

from __future__ import annotations

from holdfast.core import bulk_rules, keys
from holdfast.core.draft import reach
from holdfast.core.model import SECOND, Ending, Grant, Holder
from holdfast.core.table import fold
from holdfast.testing.conformance.scene import Scene, refused, state_of


def a_grant_is_there_until_it_is_given_back(scene: Scene) -> None:
    request = scene.request("ann", ["lib/"], ["app/x"], ttl=60, reason="tidy")
    grant = scene.put(request)
    assert isinstance(grant, Grant)
    assert (grant.id, grant.holder, grant.modes) == (request.id, request.holder, "rw")
    assert (grant.keys, grant.paths) == (("lib", "app/x"), ("lib/", "app/x"))
    assert (grant.ttl, grant.reason) == (60 * SECOND, "tidy")
    assert grant.expires_at == grant.acquired_at + 60 * SECOND
    with scene.view() as view:
        assert view.grant(grant.id) == grant
        assert view.grants() == [grant]
        assert view.held_by(grant.holder.key) == [grant]
    assert scene.release(grant) is True
    with scene.view() as view:
        assert not isinstance(view.grant(grant.id), Grant)
        assert view.grants() == view.held_by(grant.holder.key) == []


def all_of_a_request_is_granted_or_nothing(scene: Scene) -> None:
    scene.take("ann", writes=["b"])
    refused(scene.ask("bob", ["c"], ["a", "b", "d"]))
    with scene.view() as view:
        assert len(view.grants()) == 1
    scene.take("cid", writes=["a", "c", "d"])


def readers_share_and_writers_do_not(scene: Scene) -> None:
    for held in "rw":
        for wanted in "rw":
            path = f"{held}{wanted}"
            scene.take("ann", *_as(held, path))
            outcome = scene.ask("bob", *_as(wanted, path))
            if (held, wanted) == ("r", "r"):
                assert isinstance(outcome, Grant)
            else:
                conflict = refused(outcome).conflicts[0]
                assert (conflict.mode, conflict.held_mode) == (wanted, held)


def _as(mode: str, path: str) -> tuple[list[str], list[str]]:
    return ([path], []) if mode == "r" else ([], [path])


def a_folder_overlaps_exactly_what_is_inside_it(scene: Scene) -> None:
    # These sort right before, between and right after the names inside "a".
    beside = ["a-b", "a.b", "a0", "a!", "aa", "A", "b", "a\u00e4", "port:1"]
    inside = ["a/b", "a/b/c/d", "a/!", "a/0", "a/\U0010fffd", "a/~"]
    folder = scene.take("ann", reads=["a/"])
    for path in beside:
        scene.take("bob", writes=[path])
    for path in [*inside, "a"]:
        refused(scene.ask("bob", writes=[path]))
    scene.release(folder)
    for path in inside:
        held = scene.take("bob", writes=[path])
        refused(scene.ask("ann", reads=["a/"]))
        scene.release(held)
    scene.take("ann", reads=["a/"])


def the_root_contains_every_path_and_no_resource(scene: Scene) -> None:
    scene.take("ann", writes=["port:5432", "res:a/b"])
    root = scene.take("bob", reads=["."])
    scene.take("ann", writes=["db:test", "git:index"])
    paths = ["x", "x/y", "./port:1", "\u00fc", "~", "db;", "port;", "..0", "...", "..x"]
    for path in paths:
        refused(scene.ask("ann", writes=[path]))
    scene.release(root)
    for path in paths:
        held = scene.take("ann", writes=[path])
        refused(scene.ask("bob", reads=["."]))
        scene.release(held)


def another_checkout_is_not_inside_the_root(scene: Scene) -> None:
    """The path of a linked worktree begins with `../`, and contains what is inside it."""
    root = scene.take("ann", reads=["."])
    for path in ("../wt/x", "../../far/wt/x", "../wt.../foo../x"):
        held = scene.take("bob", writes=[path])
        folder = path.rpartition("/")[0]
        refused(scene.ask("ann", reads=[f"{folder}/"]))
        scene.take("ann", writes=[f"{folder}x"])
        scene.release(held)
        reading = scene.take("ann", reads=[f"{folder}/"])
        refused(scene.ask("bob", writes=[path]))
        scene.release(reading)
    scene.release(root)
    scene.take("bob", writes=["../wt/x"])
    scene.take("ann", reads=["."])


def a_request_may_have_a_thousand_keys(scene: Scene) -> None:
    many = [f"d{number % 7}/e{number % 11}/f{number}" for number in range(1000)]
    grant = scene.take("ann", writes=many)
    assert grant.keys == tuple(many)
    for path in (many[0], many[499], many[999]):
        refused(scene.ask("bob", writes=[path]))
    refusal = refused(scene.ask("bob", writes=many))
    assert [conflict.path for conflict in refusal.conflicts] == sorted(many)[:20]
    assert refusal.more == 980
    told = scene.history()[-1].data
    assert list(told["paths"]) == many[:20]
    assert (told["more_paths"], told["more"], told["blockers"]) == (980, 980, [grant.id])
    scene.release(grant)
    scene.take("bob", writes=many)


def a_refusal_names_twenty_and_counts_a_thousand_more(scene: Scene) -> None:
    for number in range(20):
        scene.take(f"holder-{number}", writes=[f"d/f{number:04}"])
    refusal = refused(scene.ask("bob", reads=["d/"]))
    assert (len(refusal.conflicts), refusal.more) == (20, 0)
    scene.take("ann", writes=["d/x"])
    assert refused(scene.ask("bob", reads=["d/"])).more == 1
    for number in range(999):
        scene.take("ann", writes=[f"d/y{number:04}"])
    assert refused(scene.ask("bob", reads=["d/"])).more == 1000
    for path in ("d/z0", "d/z1"):
        scene.take("ann", writes=[path])
    refusal = refused(scene.ask("bob", reads=["d/"]))
    assert refusal.more == 1001, "one more than a thousand stands for any number"
    assert [one.held_path for one in refusal.conflicts] == [f"d/f{n:04}" for n in range(20)]
    assert refused(scene.ask("bob", reads=["."])).conflicts[0].held_path == "d/f0000"


def what_is_held_comes_in_the_order_of_its_keys_and_once(scene: Scene) -> None:
    held = ["a", "a-b", "a/b", "a/b-c", "a/b/c", "a/b.c", "a0", "b/x", "./port:1", "ab/c", "+", "~"]
    held += [f"m/{number % 3}/{number}" for number in range(300)]
    for path in held:
        scene.take("ann", writes=[path])
    for path in ["a", "a", "m/1/1", ".", "."]:
        scene.take("ann", reads=[path])
    scene.take("ann", ["x/1"], ["x/1", "x/2", "x/3", "x/4", "x/5"])
    scene.take("ann", writes=["port:80", "res:x"])
    wide = ("a/b", ".", "m", "port:80", "a")
    with scene.view() as view:
        for wanted in (wide, ("a",), ("m", "m/1", "a/b"), ("m/2",), ("port:80",), (".",), ("z",)):
            rows = list(view.scopes(*reach(wanted)))
            if len(wanted) == 1:
                written = [row for row in rows if row[1] == "w"]
                for writes, there in ((True, written), (False, rows)):
                    for most in (5, 1000):
                        count = view.count(*reach(wanted), writes=writes, most=most)
                        assert count == min(most, len(there))
            assert [(key, id) for key, _mode, id in rows] == sorted(
                {
                    (key, grant.id)
                    for grant in view.grants()
                    for key in grant.keys
                    if any(keys.overlap(key, want) for want in wanted)
                }
            )


def a_cycle_is_seen_however_many_others_are_in_the_way(scene: Scene) -> None:
    for number in range(1100):
        scene.take("many", writes=[f"d/{number:04}"])
    scene.take("bob", writes=["d/zzz"])
    scene.take("ann", writes=["x"])
    scene.queue_up("bob", writes=["x"])
    outcome = scene.put(scene.request("ann", reads=["d/"]), wait=True)
    refusal = refused(outcome, "E_LOCK_CYCLE")
    assert refusal.more == 1001
    assert [step.holder for step in refusal.circle] == ["bob", "ann"]


def a_cycle_through_a_wide_wait_is_seen_by_the_one_who_closes_it(scene: Scene) -> None:
    for number in range(30):
        scene.take("many", writes=[f"d/{number:04}"])
    scene.take("ann", writes=["d/zzz"])
    scene.take("bob", writes=["x"])
    scene.queue_up("bob", reads=["d/"])
    outcome = scene.put(scene.request("ann", writes=["x"]), wait=True)
    refusal = refused(outcome, "E_LOCK_CYCLE")
    assert [step.holder for step in refusal.circle] == ["bob", "ann"]


def a_holder_is_never_refused_by_its_own_grants(scene: Scene) -> None:
    first = scene.take("ann", ["a/"], ["x"])
    second = scene.take("ann", ["x"], ["a/b"])
    third = scene.take("ann", writes=["x"])
    assert first.token < second.token < third.token
    scene.release(third)
    refused(scene.ask("bob", reads=["x"]))
    scene.release(first)
    refused(scene.ask("bob", writes=["x"]))
    scene.release(second)
    scene.take("bob", writes=["x", "a/b"])


def one_key_wanted_both_ways_counts_as_written(scene: Scene) -> None:
    grant = scene.take("ann", ["x"], ["x"])
    refused(scene.ask("bob", reads=["x"]))
    assert scene.verify(grant, "x")
    scene.release(grant)
    scene.take("bob", writes=["x"])


def ensure_reuses_what_covers_the_request(scene: Scene) -> None:
    grant = scene.take("ann", ["a/"], ["x", "y"])
    head = scene.state()[0]
    assert scene.ensure(scene.request("ann", ["a/b/c"], ["x"])) == grant
    assert scene.ensure(scene.request("ann", ["a/", "y"])) == grant
    assert scene.state()[0] == head
    other = scene.ensure(scene.request("ann", [], ["x", "z"]))
    assert isinstance(other, Grant)
    assert other != grant
    refused(scene.ensure(scene.request("bob", ["x"])))


def a_renewal_extends_a_lease_and_never_shortens_it(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=100)
    assert grant.expires_at is not None
    scene.clock.advance(40)
    longer = scene.renew(grant)
    assert isinstance(longer, Grant)
    assert longer.expires_at == grant.expires_at + 40 * SECOND
    assert scene.renew(grant, ttl=1) == longer
    with scene.view() as view:
        assert view.grant(grant.id) == longer
    scene.clock.advance(99)
    refused(scene.ask("bob", writes=["x"]))
    scene.clock.advance(1)
    scene.take("bob", writes=["x"])


def only_the_holder_renews_and_releases(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"])
    before = scene.state()
    refused(scene.renew(grant, by=scene.holder("bob")), "E_LOCK_NOT_HELD")
    refused(scene.release(grant, scene.holder("bob").key), "E_LOCK_NOT_HELD")
    assert scene.state() == before
    assert scene.release(grant, grant.holder.key) is True


def an_expired_lease_is_reaped_by_the_request_that_follows_it(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=10)
    scene.clock.advance(9.999999)
    refused(scene.ask("bob", writes=["x"]))
    scene.clock.advance(0.000001)
    head = scene.state()[0]
    taken = scene.take("bob", writes=["x"])
    reaped, acquired = scene.history(head)
    assert (reaped.type, reaped.data["why"]) == ("lock_reaped", "expired")
    assert (reaped.data["grant"], acquired.data["id"]) == (grant.id, taken.id)
    refused(scene.renew(grant), "E_LOCK_EXPIRED")


def a_lease_without_a_ttl_lasts_as_the_store_says(scene: Scene) -> None:
    grant, lease = scene.take("ann", writes=["x"], ttl=None), scene.store.lease
    other = scene.take("ann", reads=["y"], ttl=None)
    assert (grant.ttl, other.ttl) == (None, None)
    with scene.view() as view:
        assert view.lease == lease
    if lease is None:
        assert grant.expires_at is None
        scene.clock.advance(10 * 86_400)
        refused(scene.ask("bob", writes=["x"]))
        return
    assert grant.expires_at == grant.acquired_at + lease
    scene.clock.advance(lease / SECOND * 2 / 3)
    head = scene.state()[0]
    assert scene.do(lambda view: bulk_rules.keep(view, [grant.holder.key])) == [grant.holder.key]
    assert [event.type for event in scene.history(head)] == ["leases_kept"]
    assert {one.expires_at for one in scene.state()[2]} == {scene.now() + lease}
    assert state_of(fold(scene.history())) == scene.state()
    scene.clock.advance(lease / SECOND)
    assert not scene.verify(grant, "x")
    scene.take("bob", writes=["x"])


def a_lease_at_rest_ends_unless_it_is_renewed(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=86_400)
    resting = scene.renew(grant, rest=30)
    assert isinstance(resting, Grant)
    assert resting.idle_at == scene.now() + 30 * SECOND
    scene.clock.advance(29)
    awake = scene.renew(grant)
    assert isinstance(awake, Grant)
    assert awake.idle_at is None
    scene.clock.advance(3600)
    refused(scene.ask("bob", writes=["x"]))
    scene.renew(grant, rest=30)
    scene.clock.advance(30)
    head = scene.state()[0]
    scene.take("bob", writes=["x"])
    assert scene.history(head)[0].data["why"] == "idle"


def a_dead_owner_is_reaped_by_the_request_that_follows_it(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=None)
    waiting_for_nobody = scene.take(Holder(id="visitor"), writes=["y"])
    scene.kill("ann")
    head = scene.state()[0]
    scene.take("bob", writes=["x"])
    reaped, acquired = scene.history(head)
    assert (reaped.type, reaped.data["why"]) == ("lock_reaped", "owner dead")
    assert (reaped.data["grant"], acquired.type) == (grant.id, "lock_acquired")
    assert scene.holds(waiting_for_nobody)


def what_a_dead_owner_left_behind_keeps_its_grants(scene: Scene) -> None:
    owner = scene.holder("ann", marks=("RUN=1",))
    scene.take(owner, writes=["x"])
    scene.processes.leave_behind("RUN=1")
    scene.kill("ann")
    refused(scene.ask("bob", writes=["x"]))
    scene.processes.clear_away("RUN=1")
    scene.take("bob", writes=["x"])


def an_owner_that_cannot_be_judged_keeps_its_grants(scene: Scene) -> None:
    owner = scene.holder("ann")
    grant = scene.take(owner, writes=["x"], ttl=10)
    scene.kill("ann")
    scene.processes.hide(owner.witness)
    refused(scene.ask("bob", writes=["x"]))
    assert scene.renew(grant)
    scene.clock.advance(10)
    scene.take("bob", writes=["x"])


def a_steal_takes_what_has_expired_and_nothing_else(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=10)
    refused(scene.steal(scene.request("bob", [], ["x"])))
    refused(scene.steal(scene.request("bob", [], ["y"])), "E_LOCK_NOT_HELD")
    scene.clock.advance(10)
    head = scene.state()[0]
    stolen = scene.steal(scene.request("bob", [], ["x"]))
    assert isinstance(stolen, Grant)
    assert stolen.token > grant.token
    ended, acquired = scene.history(head)
    assert (ended.type, ended.data["holder"]) == ("lock_stolen", "ann")
    assert ended.data["by"] == {"holder": "bob", "grant": stolen.id}
    assert acquired.data["id"] == stolen.id
    refused(scene.steal(scene.request("cid", [], ["x"])))
    refused(scene.renew(grant), "E_FENCING_MISMATCH")


def a_worktree_waits_for_an_explicit_steal(scene: Scene) -> None:
    scene.take("ann", writes=["worktree:main"], ttl=10)
    scene.kill("ann")
    refused(scene.ask("bob", writes=["worktree:main"]))
    scene.clock.advance(10)
    refused(scene.ask("bob", writes=["worktree:main"]), "E_LOCK_EXPIRED")
    stolen = scene.steal(scene.request("bob", [], ["worktree:main"]))
    assert isinstance(stolen, Grant)


def a_forced_grant_is_gone_and_its_holder_is_fenced(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=None)
    person = scene.holder("operator")
    forced = scene.force(grant, person, "she went home")
    assert forced == grant
    event = scene.history()[-1]
    assert (event.type, event.data["holder"]) == ("lock_forced", "ann")
    assert (event.data["by"]["holder"], event.data["reason"]) == ("operator", "she went home")
    assert scene.verify(grant, "x").code == "E_FENCING_MISMATCH"
    refused(scene.force(grant, person), "E_FENCING_MISMATCH")
    scene.take("bob", writes=["x"])


def verify_gives_the_exact_reason(scene: Scene) -> None:
    grant = scene.take("ann", ["lib/"], ["x", "y"], ttl=10)
    assert scene.verify(grant, "x")
    assert scene.verify(grant)
    assert scene.verify(grant, "z").code == "E_LOCK_VIOLATION"
    assert scene.verify(grant, "lib/a").code == "E_LOCK_VIOLATION"
    assert scene.verify(grant, "x", grant.token + 1).code == "E_FENCING_MISMATCH"
    scene.clock.advance(10)
    assert scene.verify(grant, "x").code == "E_LOCK_EXPIRED"
    scene.take("bob", writes=["x"])
    assert scene.verify(grant, "x").code == "E_LOCK_EXPIRED"
    given_back = scene.take("cid", writes=["z"])
    scene.release(given_back)
    assert scene.verify(given_back, "z").code == "E_LOCK_NOT_HELD"
    stranger = scene.request("ann", [], ["x"], id="nobody-made-this")
    with scene.view() as view:
        assert view.grant(stranger.id) is None


def what_was_given_back_is_not_held(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"])
    scene.release(grant)
    refused(scene.renew(grant), "E_LOCK_NOT_HELD")
    refused(scene.force(grant, scene.holder("bob")), "E_LOCK_NOT_HELD")
    assert scene.verify(grant, "x").code == "E_LOCK_NOT_HELD"
    assert scene.release(grant) is False
    assert scene.release(grant, scene.holder("bob").key) is False


def a_lost_lease_says_how_it_ended(scene: Scene) -> None:
    expected = {
        "expired": "E_LOCK_EXPIRED",
        "stolen": "E_FENCING_MISMATCH",
        "forced": "E_FENCING_MISMATCH",
        "owner dead": "E_LOCK_NOT_HELD",
    }
    for why, code in expected.items():
        grant = scene.take("ann", writes=["x"], ttl=10)
        by = ""
        if why == "forced":
            scene.force(grant, scene.holder("bob"))
            by = "bob"
        elif why == "owner dead":
            scene.kill("ann")
            scene.reap(grant)
        else:
            scene.clock.advance(10)
            if why == "stolen":
                thief = scene.steal(scene.request("bob", [], ["x"]))
                assert isinstance(thief, Grant)
                scene.release(thief)
                by = "bob"
            else:
                scene.reap(grant)
        ending = refused(scene.renew(grant), code).ending
        assert ending == Ending(
            id=grant.id, holder="ann", token=grant.token, why=why, at=scene.now(), by=by
        )
