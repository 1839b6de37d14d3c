"""Tasks whose agents, launchers and dispatchers are killed, and that end whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import LINUX_ONLY, PATIENCE_SECONDS, until
from helpers_task_fights import arena, kill_at_random_moments, until_no_process_is_left
from helpers_task_witness import demand_all_done_once, demand_marks_of, demand_one_commit_each
from helpers_tasks import Checkout, shell, until_file
from holdfast.gate.broker.command_start import demand
from holdfast.gate.sandbox import SandboxError
from holdfast.manager.manager import LockManager
from holdfast.work.tasks import task_states
from holdfast.work.tasks.dispatcher import TaskDispatcher
from holdfast.work.tasks.lists.task import Task


def _cannot() -> str:
    try:
        demand()
    except SandboxError as error:
        return error.message
    return ""


pytestmark = [
    LINUX_ONLY,
    pytest.mark.skipif(bool(_cannot()), reason=f"no broker here: {_cannot()}"),
]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture
def marks(checkout: Checkout) -> Path:
    """A folder that tasks can write, where scripts meet."""
    made = checkout.home / "marks"
    made.mkdir()
    checkout.write({"holdfast.toml": f'[sandbox]\nwrite = ["{made}/"]\n'})
    checkout.git("add", "-A")
    checkout.git("commit", "-qm", "settings")
    return made


def test_an_attempt_that_yielded_uses_up_none_of_the_tries(checkout: Checkout, marks: Path) -> None:
    older = shell("echo older >> a.txt", f"touch {marks}/a", until_file(f"{marks}/b"),
                  "echo older >> b.txt")  # fmt: skip
    younger = shell(
        "echo younger >> b.txt", f"touch {marks}/b", until_file(f"{marks}/a"),
        "echo younger >> a.txt", f"[ -e {marks}/failed ] || {{ touch {marks}/failed; exit 9; }}",
    )  # fmt: skip
    tasks = checkout.task("older", older), checkout.task("younger", younger, tries=2)
    found = checkout.dispatch(*tasks)["younger"]
    assert (found.state, found.tries, found.failures) == (task_states.DONE, 3, 1), found.reason


def test_a_circle_that_closes_after_an_interrupt_is_resolved_as_well(
    checkout: Checkout, marks: Path
) -> None:
    older = shell("echo older >> a.txt", f"touch {marks}/a", until_file(f"{marks}/older"),
                  "echo older >> b.txt || echo older >> b.txt")  # fmt: skip
    younger = shell("echo younger >> b.txt", f"touch {marks}/b", until_file(f"{marks}/younger"),
                    "echo younger >> a.txt")  # fmt: skip
    tasks = checkout.task("older", older), checkout.task("younger", younger)
    with LockManager.open(str(checkout.root)) as manager:
        work = TaskDispatcher(manager, checkout.tasks(*tasks), slots=2)
        work.begin(command="")
        work.start()
        until(lambda: (marks / "a").exists() and (marks / "b").exists(), "both have a file")
        stopping = threading.Thread(target=work.stop)
        stopping.start()
        (marks / "younger").touch()
        until(manager.queue, "the younger one waits")
        (marks / "older").touch()  # it closes the deadlock, and the other one has to yield
        stopping.join(PATIENCE_SECONDS)
        is_resolved = not stopping.is_alive()
        work.halt()
        stopping.join()
    found = checkout.records()
    assert is_resolved
    assert (found["older"].state, found["younger"].state) == (task_states.DONE, task_states.QUEUED)
    assert (checkout.read("a.txt"), checkout.read("b.txt")) == ("a0\nolder\n", "b0\nolder\n")


def test_killed_at_random_moments_twenty_tasks_are_done_once(tmp_path: Path) -> None:
    dice = random.Random(7)
    with arena(tmp_path, commit=True) as made:
        assert kill_at_random_moments(made, 4, dice)
        demand_all_done_once(made)
        demand_one_commit_each(made, set(made.names))


def test_a_dispatcher_that_is_interrupted_twice_undoes_what_is_out_and_another_goes_on(
    tmp_path: Path,
) -> None:
    with arena(tmp_path) as made:
        one = made.start()
        made.goes_on(lambda: bool(made.orphans()))
        one.send_signal(signal.SIGINT)
        made.goes_on(
            lambda: "press Ctrl-C again to end them and undo their tasks" in made.said.read_text()
        )
        one.send_signal(signal.SIGINT)
        assert made.ended(one) == 130
        until_no_process_is_left(made)
        found = made.states().values()
        assert not {one.state for one in found} & {*task_states.HOLDING, task_states.FAILED}
        demand_marks_of(made, {one.name for one in found if one.state == task_states.DONE})
        made.finish()
        demand_all_done_once(made)


# Interrupted while it lands

#: A dispatcher that kills itself, with its launchers, in the middle of a landing.
DOOMED = """
import json, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from helpers_task_fights import below
from helpers_tasks import run
from holdfast.manager.manager import LockManager
from holdfast.work.launching.run_folders import Run
from holdfast.work.tasks import landing
from holdfast.work.tasks.task_flow import TaskFlow
from holdfast.work.tasks.lists.task import Task, TaskList

root, step, tasks = sys.argv[2], sys.argv[3], json.loads(sys.argv[4])

def die(*_words, **_more):
    for pid in below(os.getpid(), b"holdfast.work.launching.launcher"):
        os.kill(pid, signal.SIGKILL)
    os.killpg(os.getpid(), signal.SIGKILL)

def after(made):
    def then_die(*words, **more):
        made(*words, **more)
        die()
    return then_die

if step == "planned":
    Run.accept = die
elif step == "accepted":
    Run.accept = after(Run.accept)
elif step == "noted":
    landing.land = die
elif step == "done":
    Run.landed = die
elif step == "committed":
    landing._bring_index_up_to_date = die
else:
    landing.land = after(landing.land)
with LockManager.open(root) as manager:
    run(manager, TaskList("tasks.toml", tuple(Task.from_data(one) for one in tasks)))
"""
STEPS = ("planned", "accepted", "noted", "committed", "landed")


def cut_off(checkout: Checkout, step: str, *tasks: Task) -> None:
    """Have a dispatcher die at a step of the landing of its first task."""
    tests = str(Path(__file__).parents[1])
    words = [sys.executable, "-c", DOOMED, tests, str(checkout.root), step,
             json.dumps([one.to_data() for one in tasks])]  # fmt: skip
    done = subprocess.run(words, start_new_session=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("step", STEPS)
def test_a_task_that_is_cut_off_while_it_lands_is_one_whole_commit(
    checkout: Checkout, step: str
) -> None:
    task = checkout.task("one", "echo x > a.txt; echo new > new.txt; rm b.txt", commit=True)
    cut_off(checkout, step, task)
    found = checkout.dispatch(task)["one"]
    assert (found.state, found.reason) == (task_states.DONE, "")
    assert found.commit == checkout.git("rev-parse", "HEAD").strip()
    assert len(checkout.log()) == 2
    changed = checkout.git("show", "--format=", "--name-only").split()
    assert changed == ["a.txt", "b.txt", "new.txt"]
    assert checkout.status() == ""


@pytest.mark.parametrize("step", STEPS[1:])
def test_until_its_commit_is_made_no_other_holder_gets_the_files_of_a_task(
    checkout: Checkout, step: str
) -> None:
    task = checkout.task("one", "echo x > a.txt", commit=True)
    cut_off(checkout, step, task)
    with LockManager.open(str(checkout.root)) as manager:
        assert manager.try_acquire(holder="ann", write_paths=["a.txt"]) is None
    other = checkout.task("other", "echo y >> a.txt", commit=True)
    found = checkout.dispatch(task, other)
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert checkout.git("show", f"{found['one'].commit}:a.txt") == "x\n"
    assert checkout.git("show", f"{found['other'].commit}:a.txt") == "x\ny\n"
    assert len(checkout.log()) == 3
    with LockManager.open(str(checkout.root)) as manager:
        assert manager.active_grants() == []


def test_the_next_dispatcher_clears_away_what_a_dead_one_could_not(
    checkout: Checkout,
) -> None:
    """It died after the task was done, and before its keepsake recorded that."""
    task = checkout.task("one", "echo x > a.txt", commit=True)
    cut_off(checkout, "done", task)
    (run,) = (checkout.root / ".holdfast/runs").iterdir()
    assert (run / "landing").exists()
    assert checkout.dispatch(task)["one"].tries == 1
    assert sorted(one.name for one in run.iterdir()) == ["accepted", "changes.patch", "task.log"]


@pytest.mark.parametrize("step", STEPS[:2])
def test_a_task_without_a_commit_is_undone_or_done_and_its_files_are_free(
    checkout: Checkout, step: str
) -> None:
    task = checkout.task("one", "echo x >> a.txt")
    cut_off(checkout, step, task)
    with LockManager.open(str(checkout.root)) as manager:
        until(
            lambda: manager.try_acquire(holder="ann", write_paths=["a.txt"], ttl=1),
            "its file is free",
        )
    assert checkout.read("a.txt") == ("a0\n" if step == "planned" else "a0\nx\n")
    found = checkout.dispatch(task)["one"]
    assert (found.state, checkout.read("a.txt")) == (task_states.DONE, "a0\nx\n")


def test_trouble_after_a_task_was_accepted_does_not_leave_it_landing(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the landing fails, but something around it: for example, a folder cannot be made."""
    makedirs, left = os.makedirs, [2]

    def fails_twice(path: str, *words: Any, **more: Any) -> None:
        if ".holdfast/runs/" in path and threading.current_thread().name == "holdfast work":
            caller = sys._getframe(1).f_code.co_name
            if caller == "_landed" and left[0]:
                left[0] -= 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        makedirs(path, *words, **more)

    monkeypatch.setattr(os, "makedirs", fails_twice)
    found = checkout.dispatch(checkout.task("one", "echo x > a.txt", commit=True))["one"]
    assert (found.state, left) == (task_states.DONE, [0])
    assert len(checkout.log()) == 2
