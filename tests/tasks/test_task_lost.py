"""An attempt that another dispatcher has taken for dead, and whose own dispatcher comes back to it:
it touches nothing of the attempt that has started since.

A dispatcher hangs at one point, as on a terminal that takes no more output or on a slow git; its
launcher is killed meanwhile, and another dispatcher on the same list starts the task again.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import until
from helpers_task_commands import why_no_broker
from helpers_tasks import Checkout, shell, until_file
from holdfast.manager.manager import LockManager
from holdfast.work.engine import scheduler_loop
from holdfast.work.tasks import task_states
from holdfast.work.tasks.dispatcher import TaskDispatcher
from holdfast.work.tasks.lists.task import Task

pytestmark = pytest.mark.skipif(bool(why_no_broker()), reason=f"no broker here: {why_no_broker()}")


class Standstill:
    """A point at which the first thread that comes there waits."""

    def __init__(self) -> None:
        self.reached, self._go = threading.Event(), threading.Event()

    def before(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def slow(*words: Any) -> Any:
            if not self.reached.is_set():
                self.reached.set()
                self._go.wait()
            return real(*words)

        return slow

    def end(self) -> None:
        self._go.set()


class Two:
    """Two dispatchers on one list of one task: the first is taken for dead while it hangs, the
    second has started again."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.checkout = Checkout(folder)
        self.is_second, self.go = folder / "second", folder / "go"
        self._stack = stack
        self.still = Standstill()
        stack.callback(self.still.end)

    def task(self, first: str, **terms: Any) -> Task:
        """Its first attempt does this; the second one writes half of a file, and fails when it may
        continue."""
        script = shell(
            f"if [ ! -e {self.is_second} ]; then {first}; fi",
            "echo half > a.txt", until_file(self.go), "echo more >> a.txt", "exit 4",
        )  # fmt: skip
        return self.checkout.task("one", script, **terms)

    def dispatcher(self, task: Task) -> TaskDispatcher:
        manager = self._stack.enter_context(LockManager.open(str(self.checkout.root)))
        made = TaskDispatcher(manager, self.checkout.tasks(task), slots=1, pause_seconds=0.01)
        made.begin(command="holdfast dispatch tasks.toml")
        self._stack.callback(made.stop)
        return made

    def begin_anew(self, first: TaskDispatcher, task: Task) -> TaskDispatcher:
        first.start()
        assert self.still.reached.wait(30)
        self.is_second.touch()
        (host,) = first.scheduler._snapshot.hosts.values()
        os.kill(host._process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        second = self.dispatcher(task)
        second.start()
        until(lambda: self.checkout.read("a.txt") == "half\n", "the second attempt writes")
        return second


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    monkeypatch.setattr(scheduler_loop, "LOOK_SECONDS", 0.05)
    with ExitStack() as stack:
        yield Two(tmp_path, stack)


def demand_undone_by_the_second_alone(two: Two, second: TaskDispatcher) -> None:
    """Nothing happens to the files of the second attempt before it fails; then all are restored."""
    assert two.checkout.read("a.txt") == "half\n"
    two.go.touch()
    until(second.is_done, "the second dispatcher is done")
    found = two.checkout.records()["one"]
    assert (found.state, found.reason.split(" (")[0]) == (
        task_states.FAILED,
        "the agent failed with code 4",
    )
    assert two.checkout.read("a.txt") == "a0\n"
    assert (two.checkout.status(), two.checkout.log()) == ("", ["first"])


def test_it_does_not_put_back_the_files_of_the_next_attempt(two: Two) -> None:
    task = two.task("echo half of the first > a.txt; exit 3")
    first = two.dispatcher(task)
    first.flow.undo = two.still.before(first.flow.undo)  # type: ignore[method-assign]
    second = two.begin_anew(first, task)
    two.still.end()
    first.stop()
    demand_undone_by_the_second_alone(two, second)


def test_it_does_not_begin_what_is_kept_anew(two: Two) -> None:
    task = two.task("exit 3")
    first = two.dispatcher(task)
    first.flow.perform = two.still.before(first.flow.perform)  # type: ignore[method-assign]
    first.flow.serve(first.scheduler)
    second = two.begin_anew(first, task)
    two.still.end()
    first.stop()
    demand_undone_by_the_second_alone(two, second)


def test_it_does_not_accept_and_commit_the_next_attempt(two: Two) -> None:
    task = two.task("echo whole > a.txt; exit 0", commit=True)
    first = two.dispatcher(task)
    first.flow._land = two.still.before(first.flow._land)  # type: ignore[method-assign]
    second = two.begin_anew(first, task)
    two.still.end()
    first.stop()
    demand_undone_by_the_second_alone(two, second)
