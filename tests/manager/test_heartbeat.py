"""The heartbeat: a process renews the leases that it acquired on a ledger that hosts share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from conftest import until
from holdfast import Holder, LockExpiredError, LockManager, StoreBusyError
from holdfast.core import bulk_rules, rules
from holdfast.core.model import SECOND, Grant
from holdfast.manager import transactions
from holdfast.manager.clock import FakeClock, SystemClock
from holdfast.manager.heartbeat import Heartbeat
from holdfast.store.memory import MemoryStore
from holdfast.testing.conformance import Processes

if TYPE_CHECKING:
    from holdfast.core.model import Decision
    from holdfast.core.view import View

T = TypeVar("T")

LEASE = 120 * SECOND
SHORT = SECOND


class Unreachable:
    """A store that cannot be reached for a while."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.is_away = False
        self.attempts = 0

    def transact(self, decide: Callable[[View], Decision[T]], *, deadline: float) -> T:
        self.attempts += 1
        if self.is_away:
            raise StoreBusyError("the server cannot be reached", hint="wait")
        return self._store.transact(decide, deadline=deadline)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def processes() -> Processes:
    return Processes()


@pytest.fixture
def slow(clock: FakeClock, processes: Processes) -> Iterator[LockManager]:
    """A manager whose heart never beats by itself during a test."""
    store = MemoryStore(clock=clock, is_dead=processes.is_dead, lease=LEASE)
    with LockManager(store, clock=clock) as made:
        yield made


@pytest.fixture
def quick() -> Iterator[LockManager]:
    """A manager with leases of one second of real time."""
    store = MemoryStore(clock=SystemClock(), is_dead=lambda _witness, _marks: None, lease=SHORT)
    with LockManager(cast("Any", Unreachable(store))) as made:
        yield made


def heart(manager: LockManager) -> Heartbeat:
    assert manager._heartbeat is not None
    return manager._heartbeat


def kept_since(manager: LockManager, head: int = 0) -> list[str]:
    return [event.type for event in manager.events(head) if event.type == "leases_kept"]


def end_of(manager: LockManager, grant_id: str) -> int | None:
    with manager.store.view(deadline=float("inf")) as view:
        grant = view.grant(grant_id)
        assert isinstance(grant, Grant)
        return grant.expires_at


def test_every_way_to_acquire_starts_it(slow: LockManager) -> None:
    ways: list[Callable[[str], Any]] = [
        lambda path: slow.try_acquire(holder="a", write_paths=[path], ttl=None),
        lambda path: slow.ask("a", [], [path], ttl=None),
        lambda path: slow.acquire(holder="a", write_paths=[path], ttl=None),
        lambda path: slow.ensure(holder="a", write_paths=[path], ttl=None),
    ]
    for place, way in enumerate(ways):
        assert not heart(slow).is_running
        grant = way(f"x{place}")
        assert heart(slow).is_running
        slow.release(grant.id)
        assert not heart(slow).renew()


def test_a_lease_with_a_ttl_needs_none(slow: LockManager) -> None:
    slow.try_acquire(holder="a", write_paths=["x"], ttl=60)
    assert not heart(slow).is_running


def test_an_embedded_ledger_has_none() -> None:
    with LockManager() as manager:
        manager.try_acquire(holder="a", write_paths=["x"], ttl=None)
        assert manager._heartbeat is None


def test_all_leases_are_renewed_in_one_transaction(slow: LockManager, clock: FakeClock) -> None:
    grants = [
        slow.acquire(holder=f"h{count % 3}", write_paths=[f"x{count}"], ttl=None)
        for count in range(9)
    ]
    clock.advance(40)
    head = [event.seq for event in slow.events()][-1]
    assert heart(slow).renew()
    assert kept_since(slow, head) == ["leases_kept"]
    assert {end_of(slow, grant.id) for grant in grants} == {slow.now() + LEASE}


def test_it_ends_when_nothing_is_left(slow: LockManager, clock: FakeClock) -> None:
    grant = slow.acquire(holder="a", write_paths=["x"], ttl=None)
    clock.advance(40)
    assert heart(slow).renew()
    slow.release(grant.id)
    assert not heart(slow).renew()
    assert not heart(slow).is_running
    again = slow.acquire(holder="a", write_paths=["x"], ttl=None)
    assert heart(slow).is_running
    clock.advance(40)
    assert heart(slow).renew()
    assert end_of(slow, again.id) == slow.now() + LEASE


def test_a_lease_that_was_lost_is_dropped_and_never_revived(
    slow: LockManager, clock: FakeClock
) -> None:
    grant = slow.acquire(holder="a", write_paths=["x"], ttl=None)
    clock.advance(121)
    assert not heart(slow).renew()
    assert grant.released
    refused = slow.verify(grant.id, path="x", token=grant.token)
    assert (refused.allowed, refused.code) == (False, "E_LOCK_EXPIRED")
    with pytest.raises(LockExpiredError), slow.fenced(grant):
        pytest.fail("a lease that has ended")


def test_a_grant_that_another_process_handed_over_is_kept_too(
    slow: LockManager, clock: FakeClock, processes: Processes
) -> None:
    ann = Holder(id="ann", key="ann", witness=processes.start())
    held = slow.acquire(holder=ann, write_paths=["x"], ttl=None)
    got: list[Any] = []
    waiter = Thread(
        target=lambda: got.append(slow.acquire(holder="bob", write_paths=["x"], ttl=None))
    )
    waiter.start()
    until(lambda: len(slow.queue()) == 1, "bob waits")
    assert heart(slow).renew()
    slow.release(held.id)
    waiter.join(60)
    clock.advance(40)
    assert heart(slow).renew()
    assert end_of(slow, got[0].id) == slow.now() + LEASE


def test_requests_of_services_are_kept_when_they_say_so(
    slow: LockManager, clock: FakeClock, processes: Processes
) -> None:
    ann = Holder(id="ann", key="ann", witness=processes.start())
    slow.keep_alive(ann)
    request = slow.request(ann, [], ["x"], None)
    transactions.decide(slow, lambda view: bulk_rules.take_free(view, [request]))
    clock.advance(40)
    assert heart(slow).renew()
    assert end_of(slow, request.id) == slow.now() + LEASE


def test_a_holder_that_is_announced_while_it_renews_is_not_forgotten(
    slow: LockManager, processes: Processes
) -> None:
    ann = Holder(id="ann", key="ann", witness=processes.start())
    slow.keep_alive(ann)
    store = slow.store

    class Busy:
        def transact(self, decide: Any, *, deadline: float) -> Any:
            outcome = store.transact(decide, deadline=deadline)
            slow.keep_alive(ann)  # another thread is about to acquire
            return outcome

    slow.store = cast("Any", Busy())
    try:
        assert heart(slow).renew()
    finally:
        slow.store = store
    assert not heart(slow).renew()


def test_leases_outlast_their_length_while_the_process_lives(quick: LockManager) -> None:
    grant = quick.acquire(holder="a", write_paths=["x"], ttl=None)
    until(lambda: len(kept_since(quick)) >= 6, "two lives have passed")
    assert quick.verify(grant.id, path="x", token=grant.token)
    assert quick.try_acquire(holder="b", write_paths=["x"]) is None


def test_a_closed_manager_renews_nothing(quick: LockManager) -> None:
    store = cast("Unreachable", quick.store)
    quick.acquire(holder="a", write_paths=["x"], ttl=None)
    thread = heart(quick)._thread
    assert thread is not None
    quick.close()
    thread.join(10)
    assert not thread.is_alive()
    assert store.attempts <= 2


def test_it_goes_on_after_an_outage_without_a_restart(quick: LockManager) -> None:
    store = cast("Unreachable", quick.store)
    grant = quick.acquire(holder="a", write_paths=["x"], ttl=None)
    until(lambda: kept_since(quick) != [], "it has been renewed")
    seen, store.is_away = store.attempts, True
    until(lambda: store.attempts >= seen + 3, "it retries")
    store.is_away = False
    head = [event.seq for event in quick.events()][-1]
    until(lambda: kept_since(quick, head) != [], "it has been renewed again")
    assert quick.verify(grant.id, path="x", token=grant.token)


def test_after_an_outage_longer_than_the_lease_the_lease_is_lost(quick: LockManager) -> None:
    store = cast("Unreachable", quick.store)
    grant = quick.acquire(holder="a", write_paths=["x"], ttl=None)
    store.is_away = True
    until(lambda: grant.released, "it has ended")
    store.is_away = False
    until(lambda: not heart(quick).is_running, "nothing is left to renew")
    assert not quick.verify(grant.id, token=grant.token)
    again = quick.acquire(holder="a", write_paths=["x"], ttl=None)
    head = [event.seq for event in quick.events()][-1]
    until(lambda: kept_since(quick, head) != [], "new leases are kept again")
    assert quick.verify(again.id, token=again.token)


def test_a_hold_without_a_ttl_renews_and_knows_when_it_is_lost(quick: LockManager) -> None:
    store = cast("Unreachable", quick.store)
    hold = quick.hold(write_paths=["x"], ttl=None)
    with pytest.raises(LockExpiredError), hold as grant:  # noqa: PT012
        until(
            lambda: [one.type for one in quick.events()].count("lock_renewed") >= 4,
            "it outlasts its lease",
        )
        assert grant.state == "held"
        states = ["held"]
        store.is_away = True

        def lost() -> bool:
            if grant.state != states[-1]:
                states.append(grant.state)
            return states[-1] == "lost"

        until(lost, "it is lost")
        store.is_away = False
        assert states == ["held", "suspect", "lost"]


def test_a_hold_of_a_holder_without_a_process_needs_no_renewals(slow: LockManager) -> None:
    with slow.hold(holder=Holder(id="made up"), write_paths=["x"], ttl=None) as grant:
        assert (grant.state, grant.expires_at) == ("held", None)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_after_a_fork_only_the_parent_goes_on(quick: LockManager) -> None:
    grant = quick.acquire(holder="a", write_paths=["x"], ttl=None)
    child = os.fork()
    if child == 0:
        is_quiet = not heart(quick).is_running
        heart(quick).end()  # must not end the parent's
        mine = quick.try_acquire(holder="a", write_paths=["y"], ttl=None)
        os._exit(0 if is_quiet and mine is not None and heart(quick).is_running else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    until(lambda: len(kept_since(quick)) >= 4, "the parent goes on")
    assert quick.verify(grant.id, token=grant.token)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_a_process_that_was_stopped_beyond_its_lease_is_refused(quick: LockManager) -> None:
    """Its own check after it continues is enough: no other process has to have taken the file."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        grant = quick.acquire(holder="a", write_paths=["x"], ttl=None)
        before = bool(quick.verify(grant.id, token=grant.token))
        os.write(tell, b"held")
        os.kill(os.getpid(), signal.SIGSTOP)
        verdict = quick.verify(grant.id, path="x", token=grant.token)
        try:
            with quick.fenced(grant):
                os._exit(2)
        except LockExpiredError:
            pass
        until(lambda: not heart(quick).is_running, "nothing is left to renew")
        with quick.store.view(deadline=float("inf")) as view:
            held = view.grant(grant.id)
            is_live = isinstance(held, Grant) and rules.is_live(view, held)
        os._exit(0 if before and verdict.code == "E_LOCK_EXPIRED" and not is_live else 1)
    assert os.read(told, 4) == b"held"
    _pid, status = os.waitpid(child, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    clock = SystemClock()
    stopped = clock.read()
    until(lambda: clock.read().wall > stopped.wall + SECOND * 3 // 2, "its lease has passed")
    os.kill(child, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(told)
    os.close(tell)
