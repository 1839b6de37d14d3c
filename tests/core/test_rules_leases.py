"""Leases: how long they last, who may extend them or take them over, and the errors."""

from __future__ import annotations

import math
from datetime import timedelta
from threading import Barrier, Thread

import pytest

from holdfast import (
    BadKeyError,
    FencingError,
    Holder,
    LockConflictError,
    LockExpiredError,
    LockGrant,
    LockManager,
    LockNotHeldError,
    Lost,
)
from holdfast.core.model import TTL_DEFAULT_SECONDS, Ending, Grant
from holdfast.testing.conformance import Scene, refused


def taken(
    manager: LockManager, who: Holder, path: str = "x", ttl: float | None = TTL_DEFAULT_SECONDS
) -> LockGrant:
    grant = manager.try_acquire(holder=who, write_paths=[path], ttl=ttl)
    assert grant is not None
    return grant


def test_a_lease_lasts_thirty_minutes_unless_it_says_otherwise(
    scene: Scene, manager: LockManager
) -> None:
    grant = taken(manager, scene.holder("ann"))
    assert grant.expires_at == grant.acquired_at + timedelta(minutes=30)
    assert grant.ttl_seconds == 1800
    short = taken(manager, scene.holder("ann"), "y", ttl=1.5)
    assert short.expires_at == short.acquired_at + timedelta(seconds=1.5)


@pytest.mark.parametrize("ttl", [0, -1, math.inf, math.nan, 1e12])
def test_a_lease_that_makes_no_sense_is_refused(
    scene: Scene, manager: LockManager, ttl: float
) -> None:
    with pytest.raises(BadKeyError) as caught:
        taken(manager, scene.holder("ann"), ttl=ttl)
    assert caught.value.hint
    grant = taken(manager, scene.holder("ann"))
    with pytest.raises(BadKeyError):
        manager.renew(grant.id, holder=scene.holder("ann"), ttl=ttl)


def test_a_lease_without_a_ttl_is_never_taken_from_a_living_owner(
    scene: Scene, manager: LockManager
) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    grant = taken(manager, ann, ttl=None)
    assert grant.expires_at is None
    scene.clock.advance(10 * 365 * 86_400)
    scene.clock.sleep_machine(86_400)
    scene.clock.step_wall(86_400)
    assert manager.try_acquire(holder=bob, read_paths=["x"]) is None
    with pytest.raises(LockConflictError):
        manager.steal(holder=bob, write_paths=["x"])
    assert manager.reap() == []
    assert manager.verify(grant.id, path="x", token=grant.token)
    assert manager.renew(grant.id, holder=ann).expires_at is None


def test_an_expired_lease_is_free_for_the_next_request_and_reaped_in_the_same_step(
    scene: Scene, manager: LockManager
) -> None:
    old = taken(manager, scene.holder("ann"), ttl=10)
    scene.clock.advance(10)
    head = scene.state()[0]
    new = taken(manager, scene.holder("bob"))
    reaped, acquired = scene.history(head)
    assert (reaped.type, reaped.data["grant"], reaped.data["why"]) == (
        "lock_reaped", old.id, "expired",
    )  # fmt: skip
    assert (acquired.type, acquired.data["id"]) == ("lock_acquired", new.id)
    assert reaped.at == acquired.at


def test_an_expired_lease_goes_to_the_waiter_and_not_to_the_newcomer(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=10)
    waiting = scene.queue_up("bob", writes=["x"])
    scene.clock.advance(10)
    refused(scene.ask("cid", writes=["x"]))
    assert scene.holds(waiting)


def test_a_lease_is_live_until_the_last_microsecond(scene: Scene, manager: LockManager) -> None:
    grant = taken(manager, scene.holder("ann"), ttl=10)
    scene.clock.advance(9.999999)
    assert manager.verify(grant.id, path="x", token=grant.token)
    assert manager.try_acquire(holder=scene.holder("bob"), write_paths=["x"]) is None
    scene.clock.advance(0.000001)
    assert not manager.verify(grant.id, path="x", token=grant.token)
    assert grant.released


def test_only_the_holder_renews(scene: Scene, manager: LockManager) -> None:
    ann = scene.holder("ann")
    grant = taken(manager, ann, ttl=10)
    for stranger in (scene.holder("bob"), Holder(id="ann"), "ann", None):
        with pytest.raises(LockNotHeldError) as caught:
            manager.renew(grant.id, holder=stranger)
        assert caught.value.code == "E_LOCK_NOT_HELD"
    assert manager.active_grants()[0].expires_at == grant.expires_at


def test_a_process_renews_its_grant_without_giving_its_name(manager: LockManager) -> None:
    grant = manager.try_acquire(holder="agent-1", write_paths=["x"], ttl=10)
    assert grant is not None
    assert manager.renew(grant.id, ttl=100).expires_at == grant.acquired_at + timedelta(seconds=100)


def test_only_its_name_renews_for_a_holder_without_a_process(
    scene: Scene, manager: LockManager
) -> None:
    visitor = Holder(id="visitor")
    grant = taken(manager, visitor, ttl=10)
    with pytest.raises(LockNotHeldError):
        manager.renew(grant.id)  # without a name the caller is this process
    assert manager.renew(grant.id, holder=visitor)


def test_a_renewal_extends_by_the_leases_own_length(scene: Scene, manager: LockManager) -> None:
    ann = scene.holder("ann")
    grant = taken(manager, ann, ttl=100)
    scene.clock.advance(70)
    renewed = manager.renew(grant.id, holder=ann)
    assert grant.expires_at is not None
    assert renewed.expires_at == grant.expires_at + timedelta(seconds=70)
    assert (renewed.id, renewed.token, renewed.acquired_at) == (
        grant.id, grant.token, grant.acquired_at,
    )  # fmt: skip


@pytest.mark.parametrize("ttl", [1, 50, 99.999])
def test_a_renewal_never_shortens(scene: Scene, manager: LockManager, ttl: float) -> None:
    ann = scene.holder("ann")
    grant = taken(manager, ann, ttl=100)
    assert manager.renew(grant.id, holder=ann, ttl=ttl).expires_at == grant.expires_at
    scene.clock.advance(99.5)
    assert manager.try_acquire(holder=scene.holder("bob"), write_paths=["x"]) is None


def test_an_expired_lease_cannot_be_renewed_even_if_it_is_free(
    scene: Scene, manager: LockManager
) -> None:
    ann = scene.holder("ann")
    grant = taken(manager, ann, ttl=10)
    scene.clock.advance(10)
    with pytest.raises(LockExpiredError):
        manager.renew(grant.id, holder=ann)
    assert list(manager.events())[-1].type == "lock_reaped"  # and that was not lost
    with pytest.raises(LockExpiredError):
        manager.renew(grant.id, holder=ann)
    assert taken(manager, scene.holder("bob"))


# Steal


def test_a_steal_works_only_on_an_expired_lease(scene: Scene, manager: LockManager) -> None:
    bob = scene.holder("bob")
    old = taken(manager, scene.holder("ann"), ttl=10)
    with pytest.raises(LockConflictError) as caught:
        manager.steal(holder=bob, write_paths=["x"])
    assert "ann" in str(caught.value)
    with pytest.raises(LockNotHeldError):
        manager.steal(holder=bob, write_paths=["free"])
    scene.clock.advance(10)
    new = manager.steal(holder=bob, write_paths=["x"], ttl=5, reason="it ran out")
    assert new.token > old.token
    assert (new.reason, new.ttl_seconds) == ("it ran out", 5)


def test_a_steal_is_recorded_with_both_parties(scene: Scene, manager: LockManager) -> None:
    old = taken(manager, scene.holder("ann"), ttl=10)
    scene.clock.advance(10)
    new = manager.steal(holder=scene.holder("bob"), write_paths=["x"])
    stolen, acquired = list(manager.events())[-2:]
    assert stolen.type == "lock_stolen"
    assert (stolen.data["grant"], stolen.data["holder"]) == (old.id, "ann")
    assert stolen.data["token"] == old.token
    assert stolen.data["by"] == {"holder": "bob", "grant": new.id}
    assert acquired.data["id"] == new.id
    assert acquired.data["token"] == new.token


def test_of_many_thieves_exactly_one_wins(scene: Scene, manager: LockManager) -> None:
    taken(manager, scene.holder("ann"), ttl=10)
    scene.clock.advance(10)
    thieves = [scene.holder(f"thief-{number}") for number in range(8)]
    start, won, lost = Barrier(len(thieves)), [], []

    def steal(thief: Holder) -> None:
        start.wait(60)
        try:
            won.append(manager.steal(holder=thief, write_paths=["x"]))
        except LockConflictError as error:
            lost.append(error)

    threads = [Thread(target=steal, args=(thief,)) for thief in thieves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(won), len(lost)) == (1, 7)
    assert [grant.holder for grant in manager.active_grants()] == [won[0].holder]
    assert sum(event.type == "lock_stolen" for event in manager.events()) == 1


def test_a_steal_of_several_takes_all_or_nothing(scene: Scene, manager: LockManager) -> None:
    bob = scene.holder("bob")
    taken(manager, scene.holder("ann"), "x", ttl=10)
    taken(manager, scene.holder("cid"), "y", ttl=20)
    scene.clock.advance(10)
    with pytest.raises(LockConflictError):
        manager.steal(holder=bob, write_paths=["x", "y"])
    assert not any(event.type == "lock_stolen" for event in manager.events())
    scene.clock.advance(10)
    taken(manager, scene.holder("ann"), "x", ttl=1)
    scene.clock.advance(1)
    assert manager.steal(holder=bob, write_paths=["x", "y", "z"]).write_paths == ("x", "y", "z")
    assert sum(event.type == "lock_stolen" for event in manager.events()) == 2


def test_a_steal_does_not_pass_a_reservation(scene: Scene) -> None:
    scene.take("ann", writes=["x"], ttl=700)
    waiting = scene.queue_up("bob", writes=["x"])
    scene.clock.advance(700)
    refused(scene.steal(scene.request("cid", [], ["x"])))
    assert scene.holds(waiting)


# Kinds that need an explicit steal


def test_an_expired_worktree_is_not_taken_by_an_ordinary_request(scene: Scene) -> None:
    scene.take("ann", writes=["worktree:main"], ttl=10)
    scene.clock.advance(10)
    for _ in range(2):
        refused(scene.ask("bob", writes=["worktree:main"]), "E_LOCK_EXPIRED")
    request = scene.request("bob", [], ["worktree:main"])
    refused(scene.put(request, wait=True), "E_LOCK_EXPIRED")
    refused(scene.ensure(scene.request("bob", [], ["worktree:main"])), "E_LOCK_EXPIRED")
    assert scene.waiting() == []
    stolen = scene.steal(scene.request("bob", [], ["worktree:main"]))
    assert isinstance(stolen, Grant)


def test_an_expired_worktree_is_never_reaped_silently(scene: Scene) -> None:
    request = scene.request("ann", [], ["worktree:main"], ttl=10)
    grant = scene.put(request)
    assert isinstance(grant, Grant)
    scene.clock.advance(10)
    assert scene.reap(grant) == []
    assert scene.manager.reap() == []
    scene.put(request)  # the request repeated, because its answer was lost
    scene.cancel(request)
    assert not any(event.type == "lock_reaped" for event in scene.history())
    refused(scene.ask("bob", writes=["worktree:main"]), "E_LOCK_EXPIRED")


def test_the_worktree_of_a_dead_owner_waits_for_its_expiry(scene: Scene) -> None:
    scene.take("ann", writes=["worktree:main"], ttl=10)
    scene.kill("ann")
    refused(scene.ask("bob", writes=["worktree:main"]))
    refused(scene.steal(scene.request("bob", [], ["worktree:main"])))
    scene.clock.advance(10)
    assert isinstance(scene.steal(scene.request("bob", [], ["worktree:main"])), Grant)


def test_what_is_live_beside_an_expired_worktree_is_a_conflict(scene: Scene) -> None:
    """To be told to steal would not help: it would be refused."""
    scene.take("ann", writes=["worktree:main"], ttl=10)
    scene.take("cid", writes=["x"], ttl=None)
    scene.clock.advance(10)
    refused(scene.ask("bob", writes=["worktree:main", "x"]), "E_LOCK_CONFLICT")
    refused(scene.steal(scene.request("bob", [], ["worktree:main", "x"])), "E_LOCK_CONFLICT")
    refused(scene.ask("bob", writes=["worktree:main"]), "E_LOCK_EXPIRED")


def test_an_expired_worktree_grants_no_writes(scene: Scene) -> None:
    grant = scene.take("ann", writes=["worktree:main"], ttl=10)
    scene.clock.advance(10)
    assert scene.verify(grant, "worktree:main").code == "E_LOCK_EXPIRED"


# Lost


def lose(scene: Scene, how: str) -> Grant:
    """A grant of ann that has been lost in one of the possible ways."""
    grant = scene.take("ann", writes=["x"], ttl=10)
    if how == "released":
        scene.release(grant)
    elif how == "forced":
        scene.force(grant, scene.holder("operator"))
    elif how == "owner dead":
        scene.kill("ann")
        scene.reap(grant)
    elif how == "idle":
        scene.renew(grant, rest=1)
        scene.clock.advance(1)
        scene.reap(grant)
    else:
        scene.clock.advance(10)
        if how == "stolen":
            assert isinstance(scene.steal(scene.request("bob", [], ["x"])), Grant)
        elif how == "expired":
            scene.take("bob", writes=["x"])
    return grant


LOSSES = {
    "released": LockNotHeldError,
    "owner dead": LockNotHeldError,
    "expired": LockExpiredError,
    "expired and not yet noticed": LockExpiredError,
    "idle": LockExpiredError,
    "stolen": FencingError,
    "forced": FencingError,
}


@pytest.mark.parametrize("how", LOSSES)
def test_every_later_use_of_a_lost_lease_is_refused_with_the_right_code(
    scene: Scene, manager: LockManager, how: str
) -> None:
    grant, error = lose(scene, how), LOSSES[how]
    assert issubclass(error, Lost)
    verdict = manager.verify(grant.id, path="x", token=grant.token)
    assert (verdict.allowed, verdict.code) == (False, error.code)
    with pytest.raises(error), manager.fenced(grant.id, grant.token):
        pytest.fail("a lost lease was let in")
    with pytest.raises(error) as caught:
        manager.renew(grant.id, holder=grant.holder)
    assert caught.value.hint
    with pytest.raises(error):
        manager.force(grant.id, by=scene.holder("operator"), reason="too late")
    assert manager.release(grant.id) is False
    assert manager.try_acquire(holder=scene.holder("cid"), read_paths=["y"]) is not None


@pytest.mark.parametrize("how", ["owner dead", "expired", "idle", "stolen", "forced"])
def test_a_loss_carries_how_it_came_about(scene: Scene, manager: LockManager, how: str) -> None:
    grant = lose(scene, how)
    with pytest.raises(Lost) as caught:
        manager.renew(grant.id, holder=grant.holder)
    ending = caught.value.fields["ending"]
    assert isinstance(ending, Ending)
    assert (ending.why, ending.holder, ending.token) == (how, "ann", grant.token)
    assert ending.by == {"stolen": "bob", "forced": "operator"}.get(how, "")


def test_a_lost_grant_does_not_come_back_when_its_path_is_free_again(
    scene: Scene, manager: LockManager
) -> None:
    grant = lose(scene, "stolen")
    (held,) = manager.active_grants()
    manager.release(held.id)
    assert manager.verify(grant.id, path="x", token=grant.token).code == "E_FENCING_MISMATCH"


# Reap


def test_a_reaper_thread_is_available(scene: Scene, manager: LockManager) -> None:
    scene.take("ann", writes=["a"], ttl=10)
    scene.take("bob", writes=["b"])
    scene.take("cid", writes=["c"])
    scene.clock.advance(10)
    scene.kill("bob")
    endings = manager.reap()
    assert sorted((ending.holder, ending.why) for ending in endings) == [
        ("ann", "expired"), ("bob", "owner dead"),
    ]  # fmt: skip
    assert manager.reap() == []
    assert [grant.holder for grant in manager.active_grants()] == ["cid"]


def test_reaping_hands_over_to_the_waiter(scene: Scene, manager: LockManager) -> None:
    scene.take("ann", writes=["x"], ttl=10)
    waiting = scene.queue_up("bob", writes=["x"])
    scene.clock.advance(10)
    manager.reap()
    assert scene.holds(waiting)


def test_the_background_reaper_reaps(scene: Scene, manager: LockManager) -> None:
    from conftest import until

    scene.take("ann", writes=["x"], ttl=10)
    scene.clock.advance(10)
    with manager.reaper(interval=0.01):
        until(lambda: scene.state()[2] == [], "the reaper has been round")
    assert scene.history()[-1].type == "lock_reaped"
