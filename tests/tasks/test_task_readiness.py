"""Which tasks can start after another has ended, and what it costs to find out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.work.engine.scheduler import Scheduler
from holdfast.work.engine.work_items import WorkItem
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.attempt import Setting
from holdfast.work.tasks.lists.task import Task, TaskList
from holdfast.work.tasks.readiness import Readiness
from holdfast.work.tasks.task_flow import TaskFlow
from holdfast.work.tasks.task_records import TaskRecord


@pytest.fixture
def manager(repository: Path) -> Iterator[LockManager]:
    with LockManager.open(repository) as made:
        yield made


def begun(manager: LockManager, *tasks: Task, **options: object) -> TaskFlow:
    """A list that was started, with a scheduler that dispatches nothing."""
    assert manager.tree is not None
    setting = Setting(manager, manager.tree.root, {}, (), (), lambda _task: None)  # type: ignore[arg-type, return-value]
    flow = TaskFlow(manager, TaskList("tasks.toml", tasks), setting, **options)  # type: ignore[arg-type]
    flow.begin(slots=4, command="holdfast dispatch tasks.toml")
    flow.serve(Scheduler(lock_manager=manager))
    return flow


def end(flow: TaskFlow, name: str, *causes: str) -> WorkItem:
    """Bring a task to its end; its item."""
    item = next(one for one in items(flow) if one.data["task"] == name)
    for cause in causes:
        flow._move(item, cause)
    return item


def items(flow: TaskFlow) -> list[WorkItem]:
    assert flow._scheduler is not None
    return flow._scheduler.item_store.items()


DONE = (task_states.SENT_OUT, task_states.ACCEPTED, task_states.LANDED)
FAILED = (task_states.SENT_OUT, task_states.GIVEN_UP)


def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how many times the record of each task is read from now on."""
    found: Counter[str] = Counter()
    real = TaskRecord.from_event

    def counted(event: object) -> TaskRecord:
        record = real(event)  # type: ignore[arg-type]
        found[record.name] += 1
        return record

    monkeypatch.setattr(TaskRecord, "from_event", counted)
    return found


def test_when_a_task_ends_only_what_comes_after_it_is_read(
    manager: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [Task(f"task {number}", "-") for number in range(50)]
    flow = begun(manager, Task("one", "-"), *others, Task("two", "-", after=("one",)))
    flow.queue_ready()
    ended = end(flow, "one", *DONE)
    found = reads(monkeypatch)
    flow.changed(ended)
    assert set(found) == {"one", "two"}
    found.clear()
    assert not flow.is_done()
    assert found == {"two": 1}
    assert flow.record("two").state == task_states.QUEUED


def test_all_that_can_begin_is_queued_in_one_step(manager: LockManager) -> None:
    flow = begun(manager, *(Task(f"task {number}", "-") for number in range(20)))
    before = transactions.look(manager, lambda view: view.head)
    flow.queue_ready()
    after = list(manager.events(after=before))
    assert len(items(flow)) == 20
    assert len({event.at for event in after}) == 1, "a ledger gives each decision a moment"


def test_tasks_that_another_dispatcher_has_queued_meanwhile_are_left_to_it(
    manager: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [Task(f"task {number}", "-") for number in range(5)]
    flow, other = begun(manager, *tasks), begun(manager, *tasks, only=("task 3",))
    real, times = flow._sorted, Counter[str]()

    def overtaken(names: list[str]) -> tuple[list[TaskRecord], list[str]]:
        found = real(names)
        if not times["sorted"]:
            other.queue_ready()
        times["sorted"] += 1
        return found

    monkeypatch.setattr(flow, "_sorted", overtaken)
    flow.queue_ready()
    assert times["sorted"] == 2
    queued = Counter(one.data["task"] for one in items(flow))
    assert queued == {task.name: 1 for task in tasks}


def test_all_that_comes_after_a_failed_task_is_skipped_in_one_step(manager: LockManager) -> None:
    tasks = (
        Task("one", "-"), Task("two", "-", after=("one",)), Task("three", "-", after=("two",)),
        Task("four", "-", after=("three",)), Task("five", "-"),
    )  # fmt: skip
    flow = begun(manager, *tasks)
    flow.queue_ready()
    end(flow, "one", *FAILED)
    readiness = Readiness(flow.tasks, flow.wants)
    decision = transactions.look(manager, lambda view: readiness.skip(view, ["two", "five"]))
    assert [one.name for one in decision.outcome] == ["two", "three", "four"]
    assert [event.type for event in decision.events] == [task_records.TASK_CHANGED] * 3
    assert decision.outcome[2].reason == "it comes after three, which was skipped"
