"""The loop of a scheduler: what callbacks may answer, which items start, what belongs to an
item."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conftest import until
from holdfast.core.errors import StoreError
from holdfast.core.model import SECOND, Holder
from holdfast.manager import transactions
from holdfast.manager.grants import LockGrant
from holdfast.manager.manager import LockManager
from holdfast.testing.conformance import Scene
from holdfast.work.engine import scheduler_loop, work_items
from holdfast.work.engine.callbacks import Again, Hold
from holdfast.work.engine.item_store import YIELD, YIELD_NOTES, ItemStore
from holdfast.work.engine.loop_messages import Freed, Message
from holdfast.work.engine.mailbox import Mailbox
from holdfast.work.engine.scheduler import Here, Scheduler
from holdfast.work.engine.work_items import LockRequest, Order, WorkItem
from test_scheduler import Undoing, ends, go_round, put, status


@pytest.fixture
def make(manager: LockManager) -> Iterator[Callable[..., Scheduler]]:
    made: list[Scheduler] = []

    def one(**settings: Any) -> Scheduler:
        made.append(Scheduler(lock_manager=manager, **settings))
        return made[-1]

    yield one
    for scheduler in made:
        scheduler.stop()


def known(scheduler: Scheduler, item: WorkItem) -> WorkItem:
    found = scheduler.item_store.item(item.id)
    assert found is not None
    return found


class Agent(Here):
    """A host that remembers why it was told to stop, and a callback that runs until then."""

    def __init__(self) -> None:
        self.stops: list[str] = []
        self._stopped = threading.Event()

    def stop(self, why: str) -> None:
        self.stops.append(why)
        self._stopped.set()

    def work(self, item: WorkItem, grant: LockGrant) -> None:
        assert self._stopped.wait(60)


# Tried again


def test_one_that_is_tried_again_may_need_other_files_and_remember_why(
    make: Callable[..., Scheduler], manager: LockManager
) -> None:
    seen: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    def work(item: WorkItem, grant: LockGrant) -> None:
        seen.append((grant.write_paths, dict(item.data)))
        if len(seen) == 1:
            raise Again("more", request=LockRequest.of((), ["a.py", "b.py"]), data={"round": 2})

    scheduler = make()
    item = scheduler.enqueue(
        workflow="a", phase="apply", lock_request=LockRequest.of((), ["a.py"]), callback=work,
        data={"round": 1, "kept": True},
    )  # fmt: skip
    scheduler.start()
    ends(scheduler)
    assert seen == [
        (("a.py",), {"round": 1, "kept": True}),
        (("a.py", "b.py"), {"round": 2, "kept": True}),
    ]
    assert known(scheduler, item).lock_request == LockRequest(write_paths=("a.py", "b.py"))


def test_a_new_request_that_cannot_be_locked_is_an_error_of_the_item_and_not_of_the_loop(
    make: Callable[..., Scheduler],
) -> None:
    def work(item: WorkItem, grant: LockGrant) -> None:
        raise Again("wider", request=LockRequest.of((), ["app/"]))

    scheduler = make()
    item = put(scheduler, "a", work, "a.py")
    scheduler.start()
    ends(scheduler)
    assert known(scheduler, item).status == "error"
    assert "E_OVER_LOCK" in known(scheduler, item).reason


def test_nor_is_one_that_becomes_impossible_in_the_very_moment_in_which_it_is_put_in_line(
    make: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make()
    monkeypatch.setattr(
        scheduler.item_store, "check", lambda wanted: None
    )  # it was possible just now

    def work(item: WorkItem, grant: LockGrant) -> None:
        raise Again("wider", request=LockRequest.of((), ["app/"]))

    item = put(scheduler, "a", work, "a.py")
    scheduler.start()
    ends(scheduler)
    assert scheduler.error == ""
    assert "E_OVER_LOCK" in known(scheduler, item).reason


def test_a_scheduler_that_broke_while_it_swept_sweeps_when_it_is_started_again(
    make: Callable[..., Scheduler], manager: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert manager.try_acquire(holder="ann", write_paths=["a.py"]) is not None

    def fails(*_of: object) -> bool:
        raise StoreError("the disk is full")

    scheduler = make()
    put(scheduler, "a", lambda item, grant: None, "a.py")
    with monkeypatch.context() as patched:
        patched.setattr(scheduler_loop, "settles", fails)
        scheduler.start()
        until(lambda: bool(scheduler.error), "it broke")
        scheduler.stop()
    scheduler.start()
    scheduler.look()
    before = scheduler._snapshot.looks
    until(lambda: scheduler._snapshot.looks > before, "it has swept")
    scheduler.stop()


def test_an_item_that_finds_no_process_starts_later(
    make: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [BlockingIOError(11, "Resource temporarily unavailable") for _ in range(3)]

    def host() -> Here:
        if failures:
            raise failures.pop()
        return Here()

    monkeypatch.setattr(scheduler_loop, "PERMIT_SECONDS", 0.01)
    scheduler = make(host=host)
    item = put(scheduler, "a", lambda item, grant: None, "a.py")
    scheduler.start()
    ends(scheduler)
    assert (scheduler.error, status(scheduler, item)) == ("", "completed")


def test_if_no_process_can_be_started_at_all_the_operator_is_told(
    make: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch
) -> None:
    def host() -> Here:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(scheduler_loop, "PERMIT_SECONDS", 0.001)
    scheduler = make(host=host)
    put(scheduler, "a", lambda item, grant: None, "a.py")
    scheduler.start()
    until(lambda: bool(scheduler.error), "it broke")
    assert "Resource temporarily unavailable" in scheduler.error
    scheduler.stop()


def test_an_item_in_line_that_was_changed_elsewhere_is_not_claimed_as_it_was(
    make: Callable[..., Scheduler], manager: LockManager
) -> None:
    scheduler = make()
    item = put(scheduler, "a", lambda item, grant: None, "a.py")
    changed = scheduler.item_store.amend(item.id, LockRequest.of((), ["b.py"]), 7)
    assert changed is not None
    assert (changed.lock_request.write_paths, changed.priority) == (("b.py",), 7)
    assert scheduler.item_store.claim(item, Here().holder(item)) is None
    assert manager.active_grants() == []
    scheduler.start()
    ends(scheduler)
    assert status(scheduler, item) == "completed"
    taken = [one.data["keys"] for one in manager.events() if one.type == "lock_acquired"]
    assert [list(one) for one in taken] == [["b.py"]]


def test_a_try_that_does_not_count_uses_up_no_retry(make: Callable[..., Scheduler]) -> None:
    tries: list[int] = []

    def work(item: WorkItem, grant: LockGrant) -> None:
        tries.append(item.retries)
        if len(tries) < 4:
            raise Again("not its fault", counts=False)

    scheduler = make(retries=0)
    item = put(scheduler, "a", work, "a.py")
    scheduler.start()
    ends(scheduler)
    assert tries == [0, 0, 0, 0]
    assert status(scheduler, item) == "completed"


def test_one_that_pauses_is_not_tried_before_its_time_by_any_dispatcher(
    make: Callable[..., Scheduler], manager: LockManager, scene: Scene
) -> None:
    tries: list[str] = []

    def work(item: WorkItem, grant: LockGrant) -> None:
        tries.append(item.workflow)
        if len(tries) == 1:
            raise Again("later", pause_seconds=120)

    first = make()
    first.handle("apply", work)
    item = put(first, "a", None, "a.py")
    first.start()
    until(lambda: known(first, item).retries == 1, "it pauses")
    assert known(first, item).not_before == manager.now() + 120 * SECOND
    assert isinstance(first.item_store.claim(item, scene.holder("early")), type(None))
    first.stop()
    second = make()  # as after a restart
    second.handle("apply", work)
    second.start()
    for seconds in (0, 119):
        scene.clock.advance(seconds)
        go_round(second)
        assert (tries, second.queue_depth) == (["a"], 1)
    scene.clock.advance(1)
    second.look()
    ends(second)
    assert tries == ["a", "a"]
    assert known(second, item).not_before == 0


def test_one_that_pauses_can_be_called_off(make: Callable[..., Scheduler]) -> None:
    def work(item: WorkItem, grant: LockGrant) -> None:
        raise Again("later", pause_seconds=120)

    scheduler = make()
    item = put(scheduler, "a", work, "a.py")
    scheduler.start()
    until(lambda: bool(scheduler.waiting_items()) and not scheduler.active_items, "it pauses")
    assert scheduler.cancel(item.id, "called off")
    ends(scheduler)
    assert status(scheduler, item) == "error"


# Held


def test_one_that_is_held_keeps_its_locks_and_gives_back_its_slot(
    make: Callable[..., Scheduler], manager: LockManager
) -> None:
    grants: list[str] = []

    def work(item: WorkItem, grant: LockGrant) -> Any:
        grants.append(grant.id)
        return Hold({"diff": 3}) if item.phase == "apply" else {"landed": True}

    scheduler = make(slots=1)
    scheduler.handle("land", work)
    item = put(scheduler, "a", work, "a.py")
    other = put(scheduler, "b", lambda *_: None, "b.py")
    scheduler.start()
    until(lambda: status(scheduler, other) == "completed", "the slot is free")
    go_round(scheduler)
    assert [one.id for one in scheduler.held_items] == [item.id]
    assert (scheduler.queue_depth, scheduler.active_items) == (0, [])
    assert not scheduler.wait_until_idle(0.05), "something is still to be decided"
    assert manager.check_conflicts(write_paths=["a.py"]) != []
    assert known(scheduler, item).data == {"diff": 3}
    assert not scheduler.go_on("no such item", "land")
    assert scheduler.go_on(item.id, "land", {"by": "ann"})
    assert not scheduler.go_on(item.id, "land"), "it is not held any more"
    ends(scheduler)
    assert known(scheduler, item).data == {"diff": 3, "by": "ann", "landed": True}
    assert len(set(grants)) == 1
    assert manager.active_grants() == []


def test_no_more_are_begun_while_so_many_are_held(
    make: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each keeps a process, and a person may take long."""
    monkeypatch.setattr(scheduler_loop, "HELD_MAX", 2)
    scheduler = make(slots=1)
    scheduler.handle("land", lambda item, grant: None)
    made = [put(scheduler, name, lambda *_: Hold(), f"{name}.py") for name in "abc"]
    scheduler.start()
    until(lambda: len(scheduler.held_items) == 2, "two are held")
    go_round(scheduler)
    assert (scheduler.queue_depth, scheduler.active_items) == (1, [])
    assert scheduler.go_on(made[0].id, "land")
    until(lambda: made[2].id in {one.id for one in scheduler.held_items}, "the third is begun")
    scheduler.stop()


def test_one_may_go_on_before_the_loop_has_heard_that_it_is_held(
    make: Callable[..., Scheduler],
) -> None:
    scheduler = make()
    real = scheduler.item_store.hold

    def hold(item: WorkItem, data: Any = None) -> WorkItem:
        held = real(item, data)
        assert scheduler.go_on(item.id, "land")
        return held

    scheduler.item_store.hold = hold  # type: ignore[method-assign]
    scheduler.handle("land", lambda item, grant: {"landed": True})
    scheduler.handle("apply", lambda item, grant: Hold())
    item = put(scheduler, "a", None, "a.py")
    scheduler.start()
    ends(scheduler)
    assert known(scheduler, item).data == {"landed": True}


def test_another_process_may_let_a_held_item_go_on(
    make: Callable[..., Scheduler], manager: LockManager
) -> None:
    scheduler = make()
    scheduler.handle("apply", lambda *_: Hold())
    scheduler.handle("land", lambda *_: {"landed": True})
    item = put(scheduler, "a", None, "a.py")
    scheduler.start()
    until(lambda: bool(scheduler.held_items), "it is held")
    assert ItemStore(manager).go_on(item.id, "land") is not None
    ends(scheduler)
    assert known(scheduler, item).data == {"landed": True}


def test_held_items_of_a_dead_dispatcher_are_recovered_and_done_again(
    make: Callable[..., Scheduler], manager: LockManager, scene: Scene
) -> None:
    theirs = ItemStore(manager)
    item = theirs.enqueue("a", "apply", LockRequest.of((), ["a.py"]))
    claimed = theirs.claim(item, scene.holder("theirs"))
    assert isinstance(claimed, tuple)
    theirs.hold(claimed[0])
    undone: list[str] = []
    mine = make(work=Undoing(undone))
    mine.handle("apply", lambda *_: None)
    mine.start()
    go_round(mine)
    assert (status(mine, item), undone) == ("held", [])
    scene.kill("theirs")
    mine.look()
    until(lambda: status(mine, item) == "completed", "it was done again")
    assert undone == [item.id]


# Slots, and the owner of an item


def test_a_phase_without_a_slot_is_sent_out_though_none_is_free(
    make: Callable[..., Scheduler],
) -> None:
    go_on, landed = threading.Event(), threading.Event()
    scheduler = make(slots=1)
    scheduler.handle("land", lambda *_: landed.set(), takes_slot=False)
    put(scheduler, "a", lambda *_: go_on.wait(60) and None, "a.py")
    scheduler.start()
    until(lambda: len(scheduler.active_items) == 1, "the slot is taken")
    put(scheduler, "b", None, "b.py", phase="land")
    assert landed.wait(60)
    put(scheduler, "c", lambda *_: None, "c.py")
    go_round(scheduler)
    assert [item.workflow for item in scheduler.active_items] == ["a"]
    go_on.set()
    ends(scheduler)


def test_those_without_a_slot_leave_the_slots_to_others(make: Callable[..., Scheduler]) -> None:
    go_on = threading.Event()
    scheduler = make(slots=1)
    scheduler.handle("land", lambda *_: go_on.wait(60) and None, takes_slot=False)
    put(scheduler, "a", None, "a.py", phase="land")
    scheduler.start()
    until(lambda: len(scheduler.active_items) == 1, "it is out")
    other = put(scheduler, "b", lambda *_: None, "b.py")
    until(lambda: status(scheduler, other) == "completed", "the slot was free")
    go_on.set()
    ends(scheduler)


def test_an_item_that_a_handler_does_not_accept_is_left_for_another_dispatcher(
    make: Callable[..., Scheduler],
) -> None:
    done: list[tuple[str, str]] = []

    def one(name: str) -> Scheduler:
        made = make()
        made.handle(
            "apply", lambda item, grant: done.append((name, item.workflow)),
            accepts=lambda item: item.workflow == name,
        )  # fmt: skip
        made.start()
        return made

    first, second = one("a"), one("b")
    put(first, "b", None, "b.py")
    assert first.queue_depth == 0
    put(second, "a", None, "a.py")
    until(lambda: len(done) == 2, "each has done its own")
    assert sorted(done) == [("a", "a"), ("b", "b")]


def test_seed004_25_a_shared_semaphore_limits_who_is_sent_out(
    make: Callable[..., Scheduler],
) -> None:
    """No permit of another part of the program is taken, and each of ours is returned."""
    permits, go_on = threading.Semaphore(2), threading.Event()
    permits.acquire()
    scheduler = make(claude_semaphore=permits)
    for name in ("a", "b"):
        put(scheduler, name, lambda *_: go_on.wait(60) and None, f"{name}.py")
    scheduler.start()
    go_round(scheduler)
    assert [item.workflow for item in scheduler.active_items] == ["a"]
    permits.release()  # without informing the scheduler
    until(lambda: len(scheduler.active_items) == 2, "the other is out too")
    go_on.set()
    ends(scheduler)
    assert [permits.acquire(blocking=False) for _ in range(3)] == [True, True, False]


# Order, and records


def test_a_higher_priority_comes_before_a_later_phase_and_after_the_escalated() -> None:
    def one(name: str, phase: str = "apply", **more: Any) -> WorkItem:
        return WorkItem(name, name, phase, LockRequest(), arrival=1, queued=1, **more)

    line = [
        one("plain"), one("low", priority=-1), one("verify", "verify"), one("high", priority=5),
        one("escalated", "analyze", escalated=True),
    ]  # fmt: skip
    ranked = [item.id for item in sorted(line, key=lambda item: item.rank)]
    assert ranked == ["escalated", "high", "verify", "plain", "low"]


def test_an_order_says_which_priority_its_item_has(make: Callable[..., Scheduler]) -> None:
    came: list[str] = []
    scheduler = make(slots=1)
    scheduler.handle("apply", lambda item, grant: came.append(item.workflow))
    request = LockRequest.of((), ["a.py"])
    scheduler.enqueue_all([Order("low", "apply", request), Order("high", "apply", request, {}, 3)])
    scheduler.start()
    ends(scheduler)
    assert came == ["high", "low"]


def test_a_record_of_an_earlier_version_is_read_with_defaults() -> None:
    item = WorkItem("i", "w", "apply", LockRequest(("r",), ("w",)), arrival=1, queued=2)
    data = item.to_data()
    assert WorkItem.from_data({**data, "by": "somebody", "note": "work:item:i"}) == item
    for name in ("priority", "not_before", "holder", "ticket", "escalated", "first_phase"):
        del data[name]
        assert WorkItem.from_data(data) == item


@pytest.mark.parametrize("before", work_items.STATUSES)
@pytest.mark.parametrize("cause", sorted({edge.cause for edge in work_items.EDGES}))
def test_an_item_changes_its_status_only_along_an_edge(before: str, cause: str) -> None:
    edges = [
        edge.after for edge in work_items.EDGES if (edge.before, edge.cause) == (before, cause)
    ]
    if edges:
        assert [work_items.after(before, cause)] == edges
    else:
        with pytest.raises(KeyError):
            work_items.after(before, cause)


# Everything that its holder has


def more_of(manager: LockManager, scheduler: Scheduler, item: WorkItem, *paths: str) -> None:
    """Further grants of an item's holder, as a broker takes them at the write."""
    holder = scheduler.host_of(item).holder(item)
    for path in paths:
        assert manager.try_acquire(holder=holder, write_paths=[path]) is not None


@pytest.mark.parametrize("way", ["ended", "failed", "retried"])
def test_all_that_an_item_s_holder_took_goes_with_it(
    make: Callable[..., Scheduler], manager: LockManager, way: str
) -> None:
    seen: list[list[str]] = []

    def work(item: WorkItem, grant: LockGrant) -> None:
        held = [path for one in manager.active_grants() for path in one.write_paths]
        seen.append(sorted(held))
        if len(seen) == 1:
            more_of(manager, scheduler, item, "b.py", "c.py")
            if way == "failed":
                raise ValueError("no")
            if way == "retried":
                raise Again("once more")

    scheduler = make()
    put(scheduler, "a", work, "a.py")
    scheduler.start()
    ends(scheduler)
    assert seen == [["a.py"]] * (2 if way == "retried" else 1)
    assert manager.active_grants() == []
    events = [e for e in manager.events() if e.type in ("lock_released", "work_ended")]
    released = [e.seq for e in events if e.type == "lock_released"]
    ended = max(e.seq for e in events if e.type == "work_ended")
    assert sum(seq < ended for seq in released) == len(released), "in one step, and before"


def test_all_that_an_item_s_holder_took_stays_between_phases_and_if_files_are_not_put_back(
    manager: LockManager, scene: Scene
) -> None:
    desk = ItemStore(manager)
    item = desk.enqueue("a", "apply", LockRequest.of((), ["a.py"]))
    holder = scene.holder("theirs")
    claimed = desk.claim(item, holder)
    assert isinstance(claimed, tuple)
    manager.acquire(holder=holder, write_paths=["b.py"])
    kept = desk.keep(claimed[0], "test")
    assert len(manager.active_grants()) == 2
    again = desk.claim(kept, holder)
    assert isinstance(again, tuple)
    assert desk.renew(again[0])
    failed = desk.end(again[0], reason="no", hold=True)
    assert failed is not None
    assert len(manager.active_grants()) == 2
    desk.let_go(failed)
    assert manager.active_grants() == []


def test_a_lease_of_an_item_s_holder_is_renewed_with_the_item_s_own(
    manager: LockManager, scene: Scene
) -> None:
    desk = ItemStore(manager)
    item = desk.enqueue("a", "apply", LockRequest.of((), ["a.py"]))
    holder = scene.holder("theirs")
    claimed = desk.claim(item, holder)
    assert isinstance(claimed, tuple)
    manager.acquire(holder=holder, write_paths=["b.py"])
    for _ in range(3):
        scene.clock.advance(1200)
        assert desk.renew(claimed[0])
    assert len(manager.active_grants()) == 2


def test_every_grant_of_an_abandoned_item_s_holder_goes_to_the_process_that_cleans_up(
    manager: LockManager, scene: Scene
) -> None:
    desk = ItemStore(manager)
    item = desk.enqueue("a", "apply", LockRequest.of((), ["a.py"]))
    holder = Holder(id=item.id, key="theirs", witness=scene.holder("theirs").witness)
    claimed = desk.claim(item, holder)
    assert isinstance(claimed, tuple)
    manager.acquire(holder=holder, write_paths=["b.py"])
    scene.kill("theirs")
    other = desk.enqueue("b", "apply", LockRequest.of((), ["b.py"]))
    conflicts = desk.claim(other, scene.holder("other"))
    assert isinstance(conflicts, list), "what was left behind is not put in order yet"
    mine = desk.take_over(claimed[0], Holder(id=item.id, key="cleaner"))
    assert mine is not None
    held = transactions.look(manager, lambda view: view.held_by("cleaner"))
    assert sorted(path for grant in held for path in grant.paths) == ["a.py", "b.py"]
    assert mine.grant_id in {grant.id for grant in held}
    assert desk.retry(mine, "again") is not None
    assert manager.active_grants() == []


@pytest.mark.parametrize("way", ["taken over", "tried again", "ended"])
def test_a_ticket_of_an_item_s_holder_is_never_served_afterwards(
    manager: LockManager, scene: Scene, way: str
) -> None:
    """Its launcher was killed while a call of the agent waited. As long as files are kept under its
    name, and the next attempt keeps some, the ledger does not count it as dead."""
    desk = ItemStore(manager)
    item = desk.enqueue("a", "apply", LockRequest.of((), ["a.py"]))
    holder = Holder(id=item.id, key="theirs", witness=scene.holder("theirs").witness)
    claimed = desk.claim(item, holder)
    assert isinstance(claimed, tuple)
    other = manager.acquire(holder="other", write_paths=["b.py"])
    transactions.queue(manager, manager.request(holder, (), ["b.py"]))
    assert len(manager.queue()) == 1
    if way == "taken over":
        assert desk.take_over(claimed[0], Holder(id=item.id, key="cleaner")) is not None
    elif way == "tried again":
        assert desk.retry(claimed[0], "again") is not None
    else:
        assert desk.end(claimed[0]) is not None
    assert manager.queue() == []
    manager.release(other.id)
    held = transactions.look(manager, lambda view: view.held_by("theirs"))
    assert held == []


def test_leases_go_with_an_item_although_a_person_took_its_own_grant_away(
    manager: LockManager, scene: Scene
) -> None:
    desk = ItemStore(manager)
    item = desk.enqueue("a", "apply", LockRequest.of((), ["a.py"]))
    claimed = desk.claim(item, scene.holder("theirs"))
    assert isinstance(claimed, tuple)
    manager.acquire(holder=scene.holder("theirs"), write_paths=["b.py"])
    manager.force(claimed[1].id, by="ann", reason="a test")
    assert desk.end(claimed[0]) is not None
    assert manager.active_grants() == []


# Ending an agent


def test_the_host_of_an_item_that_is_out_is_asked_to_stop_its_agent(
    make: Callable[..., Scheduler],
) -> None:
    agent = Agent()
    scheduler = make(host=lambda: agent)
    item = put(scheduler, "a", agent.work, "a.py")
    assert not scheduler.stop_item(item.id, "not out yet")
    scheduler.start()
    until(lambda: bool(scheduler.active_items), "it is out")
    assert scheduler.stop_item(item.id, "a person wants it")
    ends(scheduler)
    assert agent.stops == ["a person wants it"]
    assert not scheduler.stop_item(item.id, "it is over")


def ask_to_yield(manager: LockManager, item: WorkItem) -> None:
    said = {"item": item.id, "why": "a waits for b, b for a"}
    transactions.note(manager, YIELD, said, name=f"{YIELD_NOTES}{item.id}")


@pytest.mark.parametrize("is_retried", [False, True])
def test_an_item_that_is_to_yield_is_stopped_once_and_its_note_ends_with_it(
    make: Callable[..., Scheduler], manager: LockManager, is_retried: bool
) -> None:
    agent = Agent()
    tries: list[int] = []

    def work(item: WorkItem, grant: LockGrant) -> None:
        tries.append(item.retries)
        if len(tries) > 1:
            return
        agent.work(item, grant)
        until(lambda: noted() == 2, "both are written")
        go_round(scheduler)
        if is_retried:
            raise Again("it yields")

    def noted() -> int:
        return sum(event.type == YIELD for event in manager.events())

    scheduler = make(host=lambda: agent)
    item = put(scheduler, "a", work, "a.py")
    other = put(scheduler, "b", lambda *_: None, "a.py")
    scheduler.start()
    until(lambda: len(scheduler.active_items) == 1, "it is out")
    ask_to_yield(manager, other)
    ask_to_yield(manager, item)
    ends(scheduler)
    assert agent.stops == ["deadlock: a waits for b, b for a"]
    assert len(tries) == (2 if is_retried else 1)
    assert transactions.notes(manager, YIELD_NOTES) == []


# The mailbox


def test_a_message_is_handled_by_one_thread_at_a_time_and_none_is_lost() -> None:
    inside, seen = [0], []

    def handle(message: Message) -> None:
        inside[0] += 1
        assert inside[0] == 1
        seen.append(message)
        inside[0] -= 1

    mailbox = Mailbox(handle)

    def send() -> None:
        for number in range(500):
            mailbox.send(Freed((str(number),)))

    def listen() -> None:
        with mailbox.seat():
            mailbox.take(0.01)

    threads = [threading.Thread(target=one) for one in (send, send, listen, send, listen)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(seen) == 1500
    assert not mailbox.has_mail


def test_a_question_is_answered_with_a_loop_without_one_and_from_within() -> None:
    mailbox = Mailbox(lambda message: None)
    assert mailbox.ask(lambda: 1) == 1
    assert mailbox.ask(lambda: mailbox.ask(lambda: 2)) == 2
    with pytest.raises(ZeroDivisionError):
        mailbox.ask(lambda: 1 // 0)
    over = threading.Event()

    def listen() -> None:
        with mailbox.seat():
            while not over.is_set():
                mailbox.take(0.01)

    loop = threading.Thread(target=listen)
    loop.start()
    assert mailbox.ask(threading.get_ident) in (loop.ident, threading.get_ident())
    over.set()
    loop.join(60)
