"""How far a list is: counts, elapsed time, a forecast, a dead dispatcher, who waits for whom."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.codec import witness_to_list
from holdfast.core.model import SECOND, Event, Witness
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.list_progress import (
    Wait,
    chain,
    chain_sentence,
    progress_of,
    waits_after,
)
from holdfast.work.tasks.lists.task import Task
from holdfast.work.tasks.task_records import ListRecord, TaskRecord

BEGAN = 1000 * SECOND


def witness(pid: int) -> Witness:
    return Witness(host="h", boot="b", namespace="", pid=pid, start=1)


def spelled(pid: int) -> tuple[Any, ...]:
    return tuple(witness_to_list(witness(pid)) or ())


def task(name: str, state: str, *, after: tuple[str, ...] = (), **terms: Any) -> TaskRecord:
    return TaskRecord("tasks.toml", Task(name, "do it", after=after), state, **terms)


def done(name: str, seconds: int) -> TaskRecord:
    return task(
        name, task_states.DONE, began=BEGAN, ended=BEGAN + seconds * SECOND,
        worked_microseconds=seconds * SECOND,
    )  # fmt: skip


def working(name: str, since: int) -> TaskRecord:
    return task(name, task_states.WORKING, began=BEGAN + since * SECOND)


def listed(*tasks: TaskRecord, slots: int = 1, **terms: Any) -> ListRecord:
    names = tuple(one.name for one in tasks)
    given = {"by": spelled(1), "command": "holdfast dispatch tasks.toml", **terms}
    return ListRecord("tasks.toml", names, slots, began=BEGAN, **given)


def at(seconds: int, *tasks: TaskRecord, slots: int = 1, dead: tuple[int, ...] = ()) -> Any:
    tasklist = listed(*tasks, slots=slots)
    now = BEGAN + seconds * SECOND
    return progress_of(tasklist, tasks, now, lambda one: one.pid in dead)


# Counts and time


def test_the_counts_are_those_of_the_tasks_that_the_list_has_now() -> None:
    present = done("a", 5), task("b", task_states.FAILED), task("c", task_states.WAITING)
    elsewhere = TaskRecord("other.toml", Task("a", "do it"), task_states.FAILED)
    found = progress_of(
        listed(*present), [*present, done("taken out", 3), elsewhere], BEGAN, lambda _one: False
    )
    assert found.counts == {task_states.DONE: 1, task_states.FAILED: 1, task_states.WAITING: 1}
    assert (found.done, found.total, found.is_over) == (1, 3, False)


def test_the_time_goes_on_until_the_last_task_ends() -> None:
    assert at(30, done("a", 10), working("b", 10)).elapsed == 30 * SECOND
    assert at(30, done("a", 10), done("b", 12)).elapsed == 12 * SECOND


def test_a_list_that_was_done_before_it_was_begun_again_took_no_time() -> None:
    old = task("a", task_states.DONE, began=BEGAN - 9 * SECOND, ended=BEGAN - 5 * SECOND)
    assert at(30, old).elapsed == 0


# The forecast


def test_without_a_task_that_is_done_there_is_no_forecast() -> None:
    assert at(30, working("a", 0), task("b", task_states.QUEUED)).left is None


def test_when_all_is_over_there_is_no_forecast() -> None:
    assert at(30, done("a", 10), task("b", task_states.FAILED)).left is None


@pytest.mark.parametrize(("slots", "seconds"), [(1, 40), (2, 20), (3, 20), (4, 10), (9, 10)])
def test_the_forecast_shares_what_is_left_among_the_slots(slots: int, seconds: int) -> None:
    left = [task(name, task_states.QUEUED) for name in "bcde"]
    assert at(10, done("a", 10), *left, slots=slots).left == seconds * SECOND


def test_time_that_a_task_has_worked_is_not_forecast_again() -> None:
    assert at(14, done("a", 10), working("b", 10)).left == 6 * SECOND


def test_a_task_comes_in_the_forecast_when_those_before_it_have_ended() -> None:
    left = (
        task("b", task_states.QUEUED),
        task("c", task_states.WAITING, after=("b",)),
        task("d", task_states.WAITING, after=("c",)),
    )
    assert at(10, done("a", 10), *left, slots=8).left == 30 * SECOND


def test_a_task_that_takes_longer_than_usual_cannot_be_forecast() -> None:
    assert at(90, done("a", 10), working("b", 10)).left is None


def test_a_decision_of_a_person_cannot_be_forecast() -> None:
    waiting = task("c", task_states.WAITING, after=("b",))
    assert at(30, done("a", 10), task("b", task_states.REVIEWING), waiting).left is None


def test_how_long_a_person_thought_about_a_task_is_no_part_of_the_forecast() -> None:
    decided = task(
        "a",
        task_states.DONE,
        began=BEGAN,
        ended=BEGAN + 900 * SECOND,
        worked_microseconds=10 * SECOND,
    )
    assert at(900, decided, task("b", task_states.QUEUED)).left == 10 * SECOND


# A dead dispatcher


def test_a_list_with_work_left_and_a_dead_dispatcher_is_abandoned() -> None:
    tasks = done("a", 10), working("b", 10)
    found = at(500, *tasks, dead=(1,))
    assert found.is_abandoned
    assert found.command == "holdfast dispatch tasks.toml"
    assert found.left is None
    assert found.elapsed == 10 * SECOND, "until its last sign of life"
    assert not at(500, *tasks).is_abandoned


def test_a_list_that_is_over_is_not_abandoned() -> None:
    assert not at(500, done("a", 10), task("b", task_states.FAILED), dead=(1,)).is_abandoned


@pytest.mark.parametrize(("dead", "abandoned"), [((1,), False), ((2,), False), ((1, 2), True)])
def test_a_list_is_not_abandoned_while_one_of_two_dispatchers_lives(
    dead: tuple[int, ...], abandoned: bool
) -> None:
    left = working("a", 0)
    tasklist = listed(left, beside=(spelled(2),))
    found = progress_of(tasklist, [left], BEGAN, lambda one: one.pid in dead)
    assert found.is_abandoned is abandoned


def test_a_dispatcher_that_cannot_be_judged_counts_as_alive() -> None:
    left = working("a", 0)
    assert not progress_of(listed(left), [left], BEGAN, lambda _one: None).is_abandoned


def test_a_list_is_written_and_read_with_all_of_its_dispatchers() -> None:
    tasklist = listed(working("a", 0), beside=(spelled(2), spelled(3)))
    event = Event(seq=1, at=BEGAN, type=task_records.LIST_BEGUN, data=tasklist.to_data(), version=1)
    assert ListRecord.from_event(event) == tasklist
    assert [one.pid for one in tasklist.dispatchers] == [1, 2, 3]


# Who waits for whom


def test_a_task_waits_for_the_first_that_is_not_done_of_those_before_it() -> None:
    tasks = (
        done("a", 1), working("b", 1), task("c", task_states.WAITING, after=("a", "b")),
        task("d", task_states.WAITING, after=("c",)), task("e", task_states.SKIPPED, after=("c",)),
    )  # fmt: skip
    assert waits_after(tasks) == [Wait("c", "b"), Wait("d", "c")]


def test_a_chain_goes_from_one_that_waits_to_one_that_does_not() -> None:
    waits = [Wait("a", "b", "x.py"), Wait("b", "c"), Wait("z", "b", "x.py"), Wait("a", "q", "y.py")]
    assert [one.whom for one in chain("a", waits)] == ["b", "c"]
    assert chain("c", waits) == ()
    assert chain_sentence(chain("a", waits)) == "waits for b (x.py), which waits for c"


def test_a_circle_ends_where_it_closes() -> None:
    waits = [Wait("a", "b", "x"), Wait("b", "a", "y")]
    assert [one.whom for one in chain("a", waits)] == ["b", "a"]
