"""The scheduler: an item starts when its locks and a slot are free, or the next one does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import until
from holdfast import InvalidInput, OverLockError
from holdfast.manager.grants import LockGrant
from holdfast.manager.manager import LockManager
from holdfast.testing.conformance import Scene
from holdfast.work.engine.callbacks import NoWork
from holdfast.work.engine.item_store import ITEM_WAITS, ItemStore
from holdfast.work.engine.scheduler import (
    TROUBLE,
    Again,
    Failed,
    Here,
    Next,
    Scheduler,
)
from holdfast.work.engine.work_items import LockRequest, WorkItem


class Stop:
    """A callback that waits until it is told to continue, and remembers which items came when."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self._lock = threading.Condition()
        self._free: set[str] = set()
        self._all = False

    def __call__(self, item: WorkItem, grant: LockGrant) -> dict[str, str]:
        with self._lock:
            self.came.append(item.workflow)
            assert self._lock.wait_for(lambda: self._all or item.workflow in self._free, 60)
        return {"grant": grant.id}

    def let(self, *workflows: str) -> None:
        """Let these continue, or all."""
        with self._lock:
            self._free.update(workflows)
            self._all = self._all or not workflows
            self._lock.notify_all()


@pytest.fixture
def stop() -> Iterator[Stop]:
    made = Stop()
    yield made
    made.let()


@pytest.fixture
def make(manager: LockManager) -> Iterator[Callable[..., Scheduler]]:
    made: list[Scheduler] = []

    def one(**settings: Any) -> Scheduler:
        made.append(Scheduler(lock_manager=manager, **settings))
        return made[-1]

    yield one
    for scheduler in made:
        scheduler.stop()


def put(
    scheduler: Scheduler,
    workflow: str,
    callback: Callable[..., Any] | None,
    *writes: str,
    phase: str = "apply",
    reads: tuple[str, ...] = (),
) -> WorkItem:
    request = LockRequest.of(reads, writes)
    return scheduler.enqueue(
        workflow=workflow, phase=phase, lock_request=request, callback=callback
    )


def status(scheduler: Scheduler, item: WorkItem) -> str:
    found = scheduler.item_store.item(item.id)
    return found.status if found is not None else ""


def go_round(scheduler: Scheduler) -> None:
    """Wait until the loop has handled everything that is due, and dispatched every item that can
    start."""
    for _ in range(2):  # one check may have begun already
        looks = scheduler._snapshot.looks
        scheduler.look()
        until(lambda: scheduler._snapshot.looks > looks, "it goes round")  # noqa: B023


class Undoing(NoWork):
    """Remembers which items were undone."""

    def __init__(self, undone: list[str]) -> None:
        self._undone = undone

    def undo(self, item: WorkItem) -> None:
        self._undone.append(item.id)


def ends(scheduler: Scheduler) -> None:
    assert scheduler.wait_until_idle(60)
    assert scheduler.error == ""


def test_seed004_10_an_item_is_sent_out_when_its_locks_and_a_slot_are_free(
    make: Callable[..., Scheduler], stop: Stop
) -> None:
    scheduler = make(slots=2)
    items = [put(scheduler, name, stop, f"{name}.py") for name in ("a", "b", "c")]
    assert (scheduler.queue_depth, scheduler.active_items) == (3, [])
    scheduler.start()
    go_round(scheduler)
    assert [item.workflow for item in scheduler.active_items] == ["a", "b"]
    assert scheduler.queue_depth == 1
    stop.let("a")
    until(lambda: "c" in stop.came, "the third is out")
    stop.let()
    ends(scheduler)
    assert [status(scheduler, item) for item in items] == ["completed"] * 3


def test_seed004_10_one_that_cannot_start_does_not_hold_up_the_next(
    make: Callable[..., Scheduler], stop: Stop, manager: LockManager
) -> None:
    held = manager.acquire(holder="somebody", write_paths=["a.py"])
    scheduler = make(slots=2)
    put(scheduler, "a", stop, "a.py")
    put(scheduler, "b", stop, "b.py")
    scheduler.start()
    go_round(scheduler)
    assert [item.workflow for item in scheduler.active_items] == ["b"]
    ((waiting, conflicts),) = scheduler.waiting_items()
    assert (waiting.workflow, conflicts[0].holder) == ("a", "somebody")
    manager.release(held.id)
    until(lambda: "a" in stop.came, "the first starts, without polling")
    stop.let()
    ends(scheduler)


def test_seed004_10_two_that_want_one_file_are_not_out_together(
    make: Callable[..., Scheduler], stop: Stop
) -> None:
    scheduler = make(slots=3)
    for name, reads, writes in (("a", "", "x.py"), ("b", "", "x.py"), ("c", "x.py", "c.py")):
        put(scheduler, name, stop, writes, reads=(reads,) if reads else ())
    scheduler.start()
    go_round(scheduler)
    assert [item.workflow for item in scheduler.active_items] == ["a"]
    stop.let("a")
    until(lambda: "b" in stop.came, "the second is out")
    go_round(scheduler)
    assert [item.workflow for item in scheduler.active_items] == ["b"]
    stop.let()
    ends(scheduler)


def test_seed004_17_all_locks_or_none(
    make: Callable[..., Scheduler], stop: Stop, manager: LockManager
) -> None:
    manager.acquire(holder="somebody", write_paths=["b.py"])
    scheduler = make()
    item = put(scheduler, "both", stop, "a.py", "b.py")
    scheduler.start()
    go_round(scheduler)
    assert status(scheduler, item) == "queued"
    ((waiting, conflicts),) = scheduler.waiting_items()
    assert (waiting.id, [one.path for one in conflicts]) == (item.id, ["b.py"])
    assert manager.check_conflicts(write_paths=["a.py"]) == []


def test_seed004_23_and_24_what_an_item_tells(
    make: Callable[..., Scheduler], stop: Stop, manager: LockManager
) -> None:
    scheduler = make()
    item = put(scheduler, "blog/posts", stop, "a.py", reads=("docs/",))
    assert item.lock_request == LockRequest(("docs/",), ("a.py",))
    assert (item.workflow, item.phase, item.status) == ("blog/posts", "apply", "queued")
    assert (item.dispatched_at, item.grant_id) == (None, "")
    assert (scheduler.queue_depth, scheduler.active_items) == (1, [])
    scheduler.start()
    until(lambda: bool(stop.came), "it is out")
    (active,) = scheduler.active_items
    assert scheduler.queue_depth == 0
    (grant,) = manager.active_grants()
    assert (grant.read_paths, grant.write_paths) == (("docs/",), ("a.py",))
    same = active.but(status="queued", dispatched=0, grant_id="", token=0, holder="")
    assert same == item, "all else is as it was when it came"
    assert (active.status, active.grant_id, grant.holder) == ("dispatched", grant.id, item.id)
    assert active.dispatched_at is not None
    assert active.dispatched_at >= item.queued_at
    stop.let()
    ends(scheduler)
    done = scheduler.item_store.item(item.id)
    assert done is not None
    assert (done.status, done.data) == ("completed", {"grant": grant.id})


def test_seed004_23_stop_waits_for_items_in_progress_and_dispatches_no_more(
    make: Callable[..., Scheduler], stop: Stop
) -> None:
    scheduler = make(slots=1)
    first, second = put(scheduler, "a", stop, "a.py"), put(scheduler, "b", stop, "b.py")
    scheduler.start()
    until(lambda: stop.came == ["a"], "the first is out")
    stopper = threading.Thread(target=scheduler.stop)
    stopper.start()
    until(lambda: scheduler._snapshot.is_stopping, "it dispatches no more", 10)
    stopper.join(0.1)
    assert stopper.is_alive(), "it waits for the first"
    stop.let()
    stopper.join(60)
    assert not stopper.is_alive()
    assert [status(scheduler, one) for one in (first, second)] == ["completed", "queued"]
    scheduler.start()
    ends(scheduler)
    assert status(scheduler, second) == "completed"


def test_after_a_drain_no_item_is_just_being_dispatched(
    make: Callable[..., Scheduler], stop: Stop
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def host() -> Here:
        asked.set()
        go_on.wait(60)
        return Here()

    scheduler = make(host=host)
    put(scheduler, "a", stop, "a.py")
    scheduler.start()
    assert asked.wait(60)
    drainer = threading.Thread(target=scheduler.drain)
    drainer.start()
    until(lambda: scheduler._mailbox.has_mail, "it is told")
    assert drainer.is_alive()
    go_on.set()
    drainer.join(60)
    assert [item.workflow for item in scheduler.active_items] == ["a"]
    stop.let()


def test_a_folder_to_write_is_refused_before_it_is_queued(
    make: Callable[..., Scheduler], stop: Stop
) -> None:
    scheduler = make()
    with pytest.raises(OverLockError):
        put(scheduler, "a", stop, "app/")
    assert scheduler.queue_depth == 0
    with pytest.raises(InvalidInput):
        put(scheduler, "a", None, "a.py")
    with pytest.raises(InvalidInput):
        make(slots=0)


def test_seed004_31_whatever_a_callback_raises_its_locks_are_free_and_it_is_in_error(
    make: Callable[..., Scheduler], manager: LockManager
) -> None:
    def crash(item: WorkItem, grant: LockGrant) -> None:
        raise {"a": ValueError("no"), "b": Failed("said so", {"more": 1}), "c": SystemExit(3)}[
            item.workflow
        ]

    scheduler = make()
    items = [put(scheduler, name, crash, f"{name}.py") for name in ("a", "b", "c")]
    scheduler.start()
    ends(scheduler)
    after = [scheduler.item_store.item(item.id) for item in items]
    assert [one.status for one in after if one] == ["error"] * 3
    assert [one.reason for one in after if one] == ["ValueError: no", "said so", "SystemExit: 3"]
    assert after[1] is not None
    assert after[1].data == {"more": 1}
    assert manager.active_grants() == []


def test_seed004_06_between_phases_an_item_gives_back_its_slot_and_keeps_its_grant(
    make: Callable[..., Scheduler], stop: Stop, manager: LockManager
) -> None:
    grants: list[str] = []

    def phases(item: WorkItem, grant: LockGrant) -> Any:
        grants.append(grant.id)
        if item.phase == "apply":
            put(scheduler, "quick", stop, "other.py", phase="verify")
            return Next("test", {"applied": True})
        stop.came.append(item.phase)
        return {"tested": True}

    scheduler = make(slots=1)
    item = put(scheduler, "a", phases, "a.py")
    scheduler.start()
    until(lambda: stop.came == ["quick"], "what is nearer its end has the slot")
    assert [one.grant_id for one, _why in scheduler.waiting_items()] == grants
    assert manager.check_conflicts(write_paths=["a.py"]) != []
    stop.let()
    ends(scheduler)
    assert stop.came == ["quick", "test"]
    assert len(set(grants)) == 1
    done = scheduler.item_store.item(item.id)
    assert done is not None
    assert done.data == {"applied": True, "tested": True}
    assert manager.active_grants() == []


def test_one_that_asks_to_be_tried_again_is_from_its_old_place(
    make: Callable[..., Scheduler],
) -> None:
    tries: list[int] = []

    def fail_twice(item: WorkItem, grant: LockGrant) -> None:
        tries.append(item.retries)
        if len(tries) < 3:
            raise Again("not yet")

    recovered: list[str] = []
    scheduler = make(work=Undoing(recovered))
    item = put(scheduler, "a", fail_twice, "a.py")
    scheduler.start()
    ends(scheduler)
    assert tries == [0, 1, 2]
    assert recovered == [item.id, item.id]
    done = scheduler.item_store.item(item.id)
    assert done is not None
    assert (done.status, done.arrival) == ("completed", item.arrival)


# Time


def test_seed004_18_after_300_seconds_in_vain_it_has_one_retry_more_and_its_old_place(
    make: Callable[..., Scheduler], stop: Stop, manager: LockManager, scene: Scene
) -> None:
    manager.acquire(holder="somebody", write_paths=["a.py"], ttl=None)
    scheduler = make()
    item = put(scheduler, "a", stop, "a.py")
    scheduler.start()
    go_round(scheduler)
    for seconds, retries in ((299, 0), (1, 1), (299, 1), (1, 2)):
        scene.clock.advance(seconds)
        go_round(scheduler)
        ((waiting, _conflicts),) = scheduler.waiting_items()
        assert (waiting.retries, waiting.status) == (retries, "queued")
        assert (waiting.arrival, waiting.queued) == (item.arrival, item.queued)
    assert "not free for 300 s: " in waiting.reason
    assert "somebody" in waiting.reason


def test_seed004_18_after_the_last_retry_it_is_an_error_that_says_who_is_in_the_way(
    make: Callable[..., Scheduler], stop: Stop, manager: LockManager, scene: Scene
) -> None:
    manager.acquire(holder="somebody", write_paths=["a.py"], ttl=None)
    scheduler = make(retries=2)
    item = put(scheduler, "a", stop, "a.py")
    scheduler.start()
    go_round(scheduler)
    for retries in (0, 1, 2):
        ((waiting, _conflicts),) = scheduler.waiting_items()
        assert waiting.retries == retries
        scene.clock.advance(300)
        go_round(scheduler)
    done = scheduler.item_store.item(item.id)
    assert done is not None
    assert done.status == "error"
    assert (scheduler.queue_depth, stop.came) == (0, [])
    assert done.reason.startswith("not free in 3 attempts of 300 s: ")
    assert "somebody" in done.reason


def test_seed004_32_an_item_gets_a_leaked_file_when_its_lease_has_expired(
    make: Callable[..., Scheduler], stop: Stop, manager: LockManager, scene: Scene
) -> None:
    manager.acquire(holder="somebody", write_paths=["a.py"])
    scheduler = make(queue_seconds=10_000, patience_seconds=10_000)
    put(scheduler, "a", stop, "a.py")
    scheduler.start()
    until(lambda: bool(scheduler.waiting_items()[0][1]), "it was tried")
    scene.clock.advance(30 * 60)
    scheduler.look()
    until(lambda: stop.came == ["a"], "it is out", 10)
    stop.let()
    ends(scheduler)


def test_seed004_32_a_scheduler_reaps_leaked_grants_that_no_request_wants(
    make: Callable[..., Scheduler], manager: LockManager, scene: Scene
) -> None:
    """Only expired grants, and not once it is stopped."""
    leaked = manager.acquire(holder="somebody", write_paths=["a.py"])
    kept = manager.acquire(holder="somebody", write_paths=["b.py"], ttl=None)
    scheduler = make(reap_seconds=0.01)
    scheduler.start()
    scene.clock.advance(30 * 60 - 1)
    assert not leaked.released
    scene.clock.advance(1)
    until(lambda: scene.history()[-1].type == "lock_reaped", "it is reaped", 10)
    reaped = scene.history()[-1]
    assert (reaped.data["grant"], reaped.data["why"]) == (leaked.id, "expired")
    assert not kept.released
    scheduler.stop()
    last = manager.acquire(holder="somebody", write_paths=["c.py"])
    scene.clock.advance(30 * 60)
    assert [name for name in threads() if "reaper" in name] == []
    assert scene.history()[-1].data.get("id") == last.id


def threads() -> list[str]:
    return [one.name for one in threading.enumerate()]


def test_waiting_for_a_slot_uses_up_no_retries(
    make: Callable[..., Scheduler], stop: Stop, scene: Scene
) -> None:
    scheduler = make(slots=1)
    put(scheduler, "a", stop, "a.py")
    item = put(scheduler, "b", stop, "b.py")
    scheduler.start()
    until(lambda: stop.came == ["a"], "the first is out")
    scene.clock.advance(3000)
    scheduler.look()
    stop.let()
    ends(scheduler)
    done = scheduler.item_store.item(item.id)
    assert done is not None
    assert (done.status, done.retries) == ("completed", 0)


def test_seed004_13_and_33_after_10_minutes_no_item_overtakes_it(
    make: Callable[..., Scheduler], stop: Stop, manager: LockManager, scene: Scene
) -> None:
    """It wants two files that are never free together, except for its reservation."""
    one = manager.acquire(holder="one", write_paths=["a.py"], ttl=None)
    two = manager.acquire(holder="two", write_paths=["b.py"], ttl=None)
    scheduler = make(queue_seconds=10_000)
    put(scheduler, "both", stop, "a.py", "b.py")
    scheduler.start()
    assert manager.try_acquire(holder="three", write_paths=["c.py"]) is not None
    for seconds, escalated in ((599, False), (1, True)):
        scene.clock.advance(seconds)
        go_round(scheduler)
        ((waiting, _conflicts),) = scheduler.waiting_items()
        assert waiting.escalated is escalated
    manager.release(one.id)
    assert manager.try_acquire(holder="three", write_paths=["a.py"]) is None
    manager.release(two.id)
    until(lambda: stop.came == ["both"], "its turn came")
    stop.let()
    ends(scheduler)
    assert [grant.holder for grant in manager.active_grants()] == ["three"]


def test_the_ledger_s_clock_is_read_when_something_may_be_due_and_not_in_every_round(
    make: Callable[..., Scheduler], stop: Stop, manager: LockManager, counted: list[str]
) -> None:
    scheduler = make(slots=1)
    put(scheduler, "a", stop, "a.py")
    scheduler.start()
    until(lambda: stop.came == ["a"], "the first is out")
    put(scheduler, "b", stop, "b.py")
    go_round(scheduler)
    del counted[:]
    for number in range(20):
        rounds = scheduler._snapshot.rounds
        held = manager.acquire(holder="somebody", write_paths=[f"{number}.py"])
        manager.release(held.id)
        until(lambda: scheduler._snapshot.rounds > rounds, "it has gone round")  # noqa: B023
    assert len(counted) <= 1
    stop.let()
    ends(scheduler)


@pytest.fixture
def counted(manager: LockManager, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that read the ledger's clock."""
    found: list[str] = []
    real = LockManager.now

    def now(self: LockManager) -> int:
        found.append(threading.current_thread().name)
        return real(self)

    monkeypatch.setattr(LockManager, "now", now)
    return found


def test_something_nearer_is_due_on_time_though_something_far_was_looked_at(
    repository: Path, stop: Stop
) -> None:
    """By the clock of the machine, without a message."""
    with LockManager.open(repository) as manager:
        manager.acquire(holder="somebody", write_paths=["app/x.rb"], ttl=None)
        scheduler = Scheduler(lock_manager=manager, queue_seconds=0.05, patience_seconds=50_000)
        put(scheduler, "a", stop, "app/x.rb")
        scheduler.start()
        until(lambda: scheduler.waiting_items()[0][0].retries >= 2, "it was tried in vain", 30)
        scheduler.stop()


def test_a_look_requested_during_a_look_is_done_after_it(
    make: Callable[..., Scheduler],
    stop: Stop,
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = make(slots=1)
    put(scheduler, "a", stop, "a.py")
    scheduler.start()
    until(lambda: stop.came == ["a"], "the first is out")
    put(scheduler, "b", stop, "b.py")
    real, passes = LockManager.now, [600.0]

    def now(self: LockManager) -> int:
        read = real(self)
        if passes:
            scene.clock.advance(passes.pop())
            scheduler.look()  # the reading is old by now
        return read

    monkeypatch.setattr(LockManager, "now", now)
    scheduler.look()
    until(lambda: scheduler.waiting_items()[0][0].escalated, "it has waited too long", 10)


# Crashes


def test_items_that_were_due_when_the_loop_broke_are_due_after_a_restart(
    make: Callable[..., Scheduler],
    stop: Stop,
    scene: Scene,
    manager: LockManager,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = make(slots=1)
    for name in ("a", "b", "c"):
        put(scheduler, name, stop, f"{name}.py")
    scheduler.start()
    until(lambda: len(stop.came) == 1, "the first is out")
    scene.clock.advance(601)
    with monkeypatch.context() as broken:
        broken.setattr(scheduler.item_store, "escalate", lambda *_: 1 / 0)
        scheduler.look()
        until(lambda: bool(scheduler.error), "it broke")
    stop.let()
    scheduler.start()
    until(lambda: len(stop.came) == 3, "all of them had their turn")
    waited = [event.data for event in manager.events() if event.type == ITEM_WAITS]
    assert sorted(data["workflow"] for data in waited if data["escalated"]) == ["b", "c"]


def test_seed004_34_a_crash_of_the_loop_is_an_error_for_all_to_see_and_loses_nothing(
    make: Callable[..., Scheduler], stop: Stop, manager: LockManager, monkeypatch: Any
) -> None:
    from holdfast.manager import transactions

    scheduler = make(slots=1)
    put(scheduler, "a", stop, "a.py")
    with monkeypatch.context() as broken:
        broken.setattr(scheduler.item_store, "claim", lambda *_: 1 / 0)
        scheduler.start()
        until(lambda: bool(scheduler.error), "it broke")
    assert scheduler.error == "ZeroDivisionError: division by zero"
    until(lambda: transactions.noted(manager, TROUBLE) is not None, "the ledger says so", 10)
    assert scheduler.queue_depth == 1
    stop.let()
    scheduler.start()
    ends(scheduler)
    assert stop.came == ["a"]
    assert transactions.noted(manager, TROUBLE) is None


def test_items_outlive_their_scheduler(make: Callable[..., Scheduler], stop: Stop) -> None:
    first = make()
    item = first.enqueue(
        workflow="a", phase="apply", lock_request=LockRequest.of((), ["a.py"]), callback=stop
    )
    second = make()
    second.handle("apply", stop)
    stop.let()
    second.start()
    ends(second)
    assert status(second, item) == "completed"


def test_items_of_a_dead_dispatcher_are_recovered_and_done_again(
    make: Callable[..., Scheduler], stop: Stop, manager: LockManager, scene: Scene
) -> None:
    theirs = ItemStore(manager)
    item = theirs.enqueue("a", "apply", LockRequest.of((), ["a.py"]))
    assert isinstance(theirs.claim(item, scene.holder("theirs")), tuple)
    recovered: list[str] = []
    mine = make(work=Undoing(recovered))
    mine.handle("apply", stop)
    stop.let()
    mine.start()
    mine.look()
    assert status(mine, item) == "dispatched"
    assert recovered == []
    scene.kill("theirs")
    mine.look()
    until(lambda: status(mine, item) == "completed", "it was done again")
    assert recovered == [item.id]


def test_of_two_schedulers_one_does_each_item(
    make: Callable[..., Scheduler], manager: LockManager
) -> None:
    done: list[str] = []

    def note(item: WorkItem, grant: LockGrant) -> None:
        done.append(item.workflow)

    both = [make(slots=3), make(slots=3)]
    for scheduler in both:
        scheduler.handle("apply", note)
        scheduler.start()
    for number in range(60):
        put(both[number % 2], f"w{number}", None, f"f{number % 7}.py")
    for scheduler in both:
        ends(scheduler)
    until(lambda: len(done) == 60, "all are done")
    assert sorted(done) == sorted(f"w{number}" for number in range(60))


def test_an_item_that_waits_can_be_called_off(
    make: Callable[..., Scheduler], stop: Stop, manager: LockManager
) -> None:
    manager.acquire(holder="somebody", write_paths=["a.py"])
    scheduler = make()
    item = put(scheduler, "a", stop, "a.py")
    scheduler.start()
    assert scheduler.cancel(item.id, "called off")
    assert not scheduler.cancel(item.id, "called off")
    ends(scheduler)
    done = scheduler.item_store.item(item.id)
    assert done is not None
    assert (done.status, done.reason) == ("error", "called off")


def test_only_ended_items_can_be_forgotten(make: Callable[..., Scheduler], stop: Stop) -> None:
    scheduler = make()
    done, waits = put(scheduler, "a", stop, "a.py"), put(scheduler, "b", stop, "b.py")
    scheduler.cancel(done.id, "called off")
    scheduler.item_store.forget([done.id, waits.id])
    assert [item.id for item in scheduler.item_store.items()] == [waits.id]
