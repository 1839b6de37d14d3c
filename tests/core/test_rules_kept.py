"""Leases without a ttl on a ledger of several hosts: each has an end, and its owner renews it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast import Holder, LockConflictError, LockExpiredError, LockManager
from holdfast.core import bulk_rules, rules
from holdfast.core.codec import grant_of, written
from holdfast.core.conflicts import shown_end
from holdfast.core.draft import Draft
from holdfast.core.model import SECOND, Grant, Waiting
from holdfast.core.table import fold
from holdfast.store import open_store
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite.sql_view import SqlView
from holdfast.store.sqlite.sqlite_store import SqliteStore
from holdfast.testing.conformance import Scene, refused, state_of

if TYPE_CHECKING:
    from holdfast.core.ledger_time import Clock
    from holdfast.store.contract import IsDead, Store

LEASE = 120 * SECOND


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def scene(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    """A ledger whose leases have to be renewed: in memory, with rows on disk, and on a server."""

    def in_memory(name: str, *, clock: Clock, is_dead: IsDead) -> Store:
        return MemoryStore(clock=clock, is_dead=is_dead, lease=LEASE)

    def on_disk(name: str, *, clock: Clock, is_dead: IsDead) -> Store:
        return open_store(f"sqlite://{tmp_path}/ledger.db", clock=clock, is_dead=is_dead)

    def on_server(name: str, *, clock: Clock, is_dead: IsDead) -> Store:
        from holdfast.store.postgres.server_store import PostgresStore

        return PostgresStore(url, clock=clock, is_dead=is_dead, lease_seconds=LEASE / SECOND)

    ways = {"memory": in_memory, "sqlite": on_disk, "postgres": on_server}
    if request.param == "sqlite":
        monkeypatch.setattr(SqliteStore, "lease", LEASE)
        monkeypatch.setattr(SqlView, "lease", LEASE)
    elif request.param == "postgres":
        url = request.getfixturevalue("postgres_server").url(f"kept-{tmp_path.name}")
    with Scene(ways[request.param]) as made:
        yield made


def now_held(scene: Scene) -> list[Grant]:
    return scene.state()[2]


def keep(scene: Scene, *holders: Holder) -> list[str]:
    keys = [holder.key for holder in holders]
    return scene.do(lambda view: bulk_rules.keep(view, keys))


def test_a_lease_without_a_ttl_gets_an_end_and_keeps_no_ttl(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=None)
    assert (grant.ttl, grant.expires_at) == (None, grant.acquired_at + LEASE)
    timed = scene.take("ann", writes=["y"], ttl=7)
    assert (timed.ttl, timed.expires_at) == (7 * SECOND, timed.acquired_at + 7 * SECOND)


def test_a_lease_of_a_holder_without_a_process_has_no_end(scene: Scene) -> None:
    scene.put(scene.request(Holder(id="made up"), [], ["x"], ttl=None))
    scene.clock.advance(10 * 120)
    (grant,) = now_held(scene)
    assert grant.expires_at is None
    with scene.view() as view:
        assert rules.is_live(view, grant)


def test_the_state_is_the_fold_of_the_events_when_leases_are_kept(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    scene.take("ann", reads=["y"], ttl=None)
    scene.clock.advance(60)
    keep(scene, scene.holder("ann"))
    assert state_of(fold(scene.history())) == scene.state()
    taken = scene.history()[0]
    assert grant_of(taken).expires_at == taken.at + LEASE
    assert '"lease":120000000' in written(taken)


def test_a_lease_that_is_not_renewed_ends_although_its_owner_may_live(
    scene: Scene, manager: LockManager
) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    scene.processes.hide(ann.witness)  # on another host
    grant = scene.take("ann", writes=["x"], ttl=None)
    scene.clock.advance(119.999)
    with pytest.raises(LockConflictError):
        manager.ensure(holder=bob, write_paths=["x"])
    scene.clock.advance(0.001)
    refusal = manager.verify(grant.id, path="x", token=grant.token)
    assert (refusal.allowed, refusal.code) == (False, "E_LOCK_EXPIRED")
    with pytest.raises(LockExpiredError), manager.fenced(grant.id, grant.token):
        pytest.fail("the section of a lease that has ended")
    assert manager.try_acquire(holder=bob, write_paths=["x"]) is not None


def test_a_renewal_keeps_it_for_the_ledgers_lease(scene: Scene, manager: LockManager) -> None:
    ann = scene.holder("ann")
    grant = scene.take("ann", writes=["x"], ttl=None)
    scene.clock.advance(100)
    renewed = manager.renew(grant.id, holder=ann)._grant
    assert (renewed.ttl, renewed.expires_at) == (None, scene.now() + LEASE)
    longer = manager.renew(grant.id, holder=ann, ttl=1000)._grant
    assert longer.expires_at == scene.now() + 1000 * SECOND
    assert manager.renew(grant.id, holder=ann)._grant.expires_at == longer.expires_at


def test_a_lease_that_has_ended_is_never_revived(scene: Scene, manager: LockManager) -> None:
    ann = scene.holder("ann")
    grant = scene.take("ann", writes=["x"], ttl=None)
    other = scene.take("ann", writes=["y"], ttl=None)
    scene.clock.advance(120)
    with pytest.raises(LockExpiredError):
        manager.renew(grant.id, holder=ann)
    assert keep(scene, ann) == []
    assert now_held(scene) == []
    assert not manager.verify(other.id, token=other.token)


def test_one_event_keeps_all_leases_of_some_holders(scene: Scene) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    grants = [scene.take(who, writes=[path], ttl=None) for who, path in (("ann", "x"), ("ann", "y"),
                                                                         ("bob", "z"))]  # fmt: skip
    timed = scene.take("bob", writes=["t"], ttl=1000)
    scene.clock.advance(40)
    head = scene.state()[0]
    assert keep(scene, ann, bob) == [ann.key, bob.key]
    (event,) = scene.history(head)
    assert event.type == "leases_kept"
    assert dict(event.data) == {
        "grants": [grant.id for grant in grants], "holders": ["ann", "bob"],
        "expires_at": scene.now() + LEASE, "idle_at": None, "slept": 0,
    }  # fmt: skip
    ends = {grant.id: grant.expires_at for grant in now_held(scene)}
    assert ends == {
        **{grant.id: scene.now() + LEASE for grant in grants}, timed.id: timed.expires_at
    }  # fmt: skip


def test_a_lease_that_was_just_renewed_is_left_as_it_is(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    scene.clock.advance(19)
    head = scene.state()[0]
    assert keep(scene, scene.holder("ann")) == [scene.holder("ann").key]
    assert scene.state()[0] == head
    scene.clock.advance(2)
    keep(scene, scene.holder("ann"))
    assert [event.type for event in scene.history(head)] == ["leases_kept"]


def test_leases_with_other_limits_keep_these(scene: Scene, manager: LockManager) -> None:
    ann = scene.holder("ann")
    rests = scene.take("ann", writes=["x"], ttl=None)
    works = scene.take("ann", writes=["y"], ttl=None)
    manager.renew(rests.id, holder=ann, rest=100)
    idle_at = scene.now() + 100 * SECOND
    scene.clock.advance(40)
    keep(scene, ann)
    limits = {one.id: (one.expires_at, one.idle_at) for one in now_held(scene)}
    end = scene.now() + LEASE
    assert limits == {rests.id: (end, idle_at), works.id: (end, None)}
    assert state_of(fold(scene.history())) == scene.state()


def test_keeping_ends_what_is_over_and_hands_it_over(scene: Scene) -> None:
    ann = scene.holder("ann")
    scene.take("ann", writes=["x"], ttl=None)
    waiting = scene.request("bob", writes=["x"], ttl=None)
    assert isinstance(scene.put(waiting, wait=True), Waiting)
    scene.processes.end(ann.witness)
    scene.clock.advance(40)
    assert keep(scene, ann) == []
    (given,) = now_held(scene)
    assert (given.id, given.expires_at) == (waiting.id, scene.now() + LEASE)


def test_a_holder_that_waits_is_kept_on(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"], ttl=None)
    waiting = scene.request("bob", writes=["x"], ttl=None)
    assert isinstance(scene.put(waiting, wait=True), Waiting)
    bob = scene.holder("bob")
    assert keep(scene, bob) == [bob.key]
    scene.release(held)
    assert keep(scene, bob) == [bob.key]
    (given,) = now_held(scene)
    scene.release(given)
    assert keep(scene, bob) == []


def test_a_lease_that_passes_to_another_holder_begins_anew(scene: Scene) -> None:
    held = scene.take("ann", writes=["x"], ttl=None)
    scene.clock.advance(100)
    heir = bulk_rules.heir(held, scene.holder("bob"), "heir")
    scene.do(lambda view: bulk_rules.exchange(view, [(held.id, heir)]))
    (given,) = now_held(scene)
    assert (given.id, given.ttl, given.expires_at) == ("heir", None, scene.now() + LEASE)


def test_people_read_it_as_held_while_its_owner_lives(scene: Scene) -> None:
    grant = scene.take("ann", writes=["x"], ttl=None)
    timed = scene.take("ann", writes=["y"], ttl=50)
    with scene.view() as view:
        assert shown_end(Draft(view), grant) is None
        assert shown_end(Draft(view), timed) == timed.expires_at
    refusal = refused(scene.ask("bob", writes=["x"]))
    assert refusal.conflicts[0].until is None


def test_a_waiter_looks_again_when_the_lease_would_end(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=None)
    scene.clock.advance(20)
    waiting = scene.put(scene.request("bob", writes=["x"]), wait=True)
    assert isinstance(waiting, Waiting)
    assert waiting.check_after == 100 * SECOND


def test_on_other_ledgers_it_has_no_end(tmp_path: Path) -> None:
    def embedded(name: str, *, clock: Clock, is_dead: IsDead) -> Store:
        return open_store(f"sqlite://{tmp_path}/{name}.db", clock=clock, is_dead=is_dead)

    with Scene(embedded) as scene:
        assert scene.store.lease is None
        grant = scene.take("ann", writes=["x"], ttl=None)
        assert grant.expires_at is None
        assert '"lease"' not in written(scene.history()[0])
        scene.clock.advance(100_000)
        assert keep(scene, scene.holder("ann")) == [scene.holder("ann").key]
        assert scene.state()[0] == 1
