"""Threads that do one thing after another."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from conftest import until
from holdfast.work.engine.thread_pool import ThreadPool


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    made = ThreadPool("a hand")
    yield made
    made.finish()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "a hand"]


def waits(thing: threading.Barrier | threading.Event) -> None:
    """Wait for a minute at most."""
    thing.wait(60)


def test_every_task_starts_immediately(pool: ThreadPool) -> None:
    together = threading.Barrier(6, timeout=60)
    for _ in range(5):
        pool.do(lambda: waits(together))
    together.wait()  # or it breaks, if one of them waits for another
    assert len(threads()) == 5


def test_one_after_the_other_is_done_by_the_same_thread(pool: ThreadPool) -> None:
    found: list[int] = []
    for count in range(1, 21):
        pool.do(lambda: found.append(threading.get_ident()))
        until(lambda: len(found) == count and pool._idle == 1, "it is done")  # noqa: B023
    assert len(set(found)) == 1
    assert len(threads()) == 1


def test_a_task_that_comes_when_all_threads_are_busy_does_not_wait(pool: ThreadPool) -> None:
    go_on, done = threading.Event(), threading.Event()
    pool.do(lambda: waits(go_on))
    pool.do(done.set)
    assert done.wait(60)
    go_on.set()


def test_finish_waits_for_all_that_was_begun(pool: ThreadPool) -> None:
    go_on, ended = threading.Event(), []

    def task() -> None:
        go_on.wait(60)
        ended.append(1)

    for _ in range(3):
        pool.do(task)
    pool.do(go_on.set)
    pool.finish()
    assert ended == [1, 1, 1]
    assert threads() == []


def test_finish_from_within_a_task_waits_for_the_others_and_not_for_itself(
    pool: ThreadPool,
) -> None:
    go_on, order = threading.Event(), []

    def other() -> None:
        go_on.wait(60)
        order.append("other")

    def finishes() -> None:
        go_on.set()
        pool.finish()
        order.append("finished")

    pool.do(other)
    pool.do(finishes)
    until(lambda: not threads(), "all have ended")
    assert order == ["other", "finished"]


def test_they_are_of_use_after_a_finish(pool: ThreadPool) -> None:
    found: list[int] = []
    for count in range(1, 4):
        pool.do(lambda: found.append(1))
        pool.finish()
        assert len(found) == count
    pool.finish()


def test_one_that_began_before_a_finish_takes_nothing_that_came_after(pool: ThreadPool) -> None:
    go_on, done = threading.Event(), threading.Event()
    pool.do(lambda: waits(go_on))
    finisher = threading.Thread(target=pool.finish)
    finisher.start()
    until(lambda: not pool._threads, "finish has begun")
    pool.do(done.set)
    assert done.wait(60)
    assert finisher.is_alive(), "what came later is not waited for, what came before is"
    go_on.set()
    finisher.join(60)
    assert not finisher.is_alive()


def test_a_thread_that_cannot_be_started_leaves_nothing(
    pool: ThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="start"):
            pool.do(lambda: found.append("first"))
    pool.do(lambda: found.append("second"))
    pool.finish()
    assert found == ["second"], "who heard that it was not begun may do it otherwise"
