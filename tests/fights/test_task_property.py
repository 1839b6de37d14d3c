"""More random sets of tasks; dispatchers that are killed at random moments; and the same sets with
the promise broken on purpose, which the tests must notice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from helpers_processes import PATIENCE_SECONDS
from helpers_task_sets import CANNOT, TaskSet, problems, random_set
from lengths import length

pytestmark = pytest.mark.skipif(bool(CANNOT), reason=f"no broker here: {CANNOT}")

FIRST = 1_000
SEEDS = length(400, sample=16)
KILLED_SEEDS = length(100, sample=5)
KILLS = 3
#: The tests must notice a broken promise within this many sets.
BROKEN_SEEDS = length(60, sample=12)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_the_result_is_that_of_some_serial_order(tmp_path: Path, seed: int) -> None:
    made = random_set(tmp_path, seed)
    made.dispatch()
    wrong = problems(made)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", range(2 * FIRST, 2 * FIRST + KILLED_SEEDS))
def test_so_it_is_if_the_dispatcher_is_killed_again_and_again(tmp_path: Path, seed: int) -> None:
    made = random_set(tmp_path, seed)
    made.write_list()
    random = Random(seed)
    for _ in range(KILLS):
        if _dispatch(made, random.uniform(0.2, 2.5), with_launchers=random.random() < 0.5):
            break
    assert _dispatch(made, PATIENCE_SECONDS)
    wrong = problems(made)
    assert not wrong, "\n".join(wrong)


def _dispatch(made: TaskSet, seconds: float, *, with_launchers: bool = False) -> bool:
    """Run the command, and kill it after a given time. Whether it had ended by itself."""
    words = [sys.executable, "-m", "holdfast", "dispatch", made.tasks.name]
    process = subprocess.Popen(
        words, cwd=made.checkout.root, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        # 1: not all tasks succeeded. Any other code means that the list was not even started.
        assert process.wait(seconds) in (0, 1)
        return True
    except subprocess.TimeoutExpired:
        if with_launchers:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
        return False


# The promise, broken on purpose. The launchers are other processes, so it is broken where every
# Python process of the test begins.

NO_OLD_FILES = """
from holdfast.gate.broker.leasing import task_leases
task_leases.TaskLeases._demand_fresh = lambda self, caller, lease: None
"""
NOTHING_UNDONE = """
from holdfast.work.tasks import task_flow
task_flow.TaskFlow.undo = lambda self, item: task_flow.Run(self.root, item.id).forget()
"""
NO_READS = """
from holdfast.work.tasks import attempt, task_flow
from holdfast.work.engine.work_items import LockRequest
real = attempt.request_of
def request_of(task, list, needs=()):
    return LockRequest.of((), real(task, list, needs).write_paths)
attempt.request_of = task_flow.request_of = request_of
"""
GIVEN_BACK_BY_THE_AGENT = """
from holdfast.gate.broker.leasing import task_leases
from holdfast.gate.broker.leasing.command_leases import Leases
task_leases.TaskLeases.settle = Leases.settle
"""
VICTIM_NOT_UNDONE = """
from holdfast.work.engine import item_steps
from holdfast.work.tasks import task_flow
def retried(self, item, host, again):
    if "yielded" in str(again):
        task_flow.Run(self._work._works[0].root, item.id).forget()
        wanted = {"request": again.request, "data": again.data, "counts": False}
        return self._item_store.retry(item, str(again), **wanted)
    return real(self, item, host, again)
real, item_steps.Performer._retried = item_steps.Performer._retried, retried
"""
BROKEN = {
    "old files may be written": NO_OLD_FILES,
    "nothing is undone": NOTHING_UNDONE,
    "reads are not locked": NO_READS,
    "leases end with the agent": GIVEN_BACK_BY_THE_AGENT,
    "a victim is not undone": VICTIM_NOT_UNDONE,
}
#: DISPATCHER TESTS ROOT TASKS SLOTS
DISPATCHER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from helpers_tasks import run
from holdfast.manager.manager import LockManager
from holdfast.work.tasks.lists.task import Task, TaskList
tasks = tuple(Task.from_data(one) for one in json.loads(sys.argv[3]))
with LockManager.open(sys.argv[2]) as manager:
    run(manager, TaskList("tasks.toml", tasks), slots=int(sys.argv[4]))
"""


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_promise_is_seen(tmp_path: Path, what: str) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(BROKEN[what])
    for seed in range(3 * FIRST, 3 * FIRST + BROKEN_SEEDS):
        made = random_set(tmp_path / str(seed), seed)
        _dispatch_with(made, site)
        if any("no serial order" in one for one in problems(made)):
            return  # and not only because a dispatcher could not even start
    raise AssertionError(f"{BROKEN_SEEDS} sets, and nothing is wrong although {what}")


def _dispatch_with(made: TaskSet, site: Path) -> None:
    tests = str(Path(__file__).parents[1])
    tasks = json.dumps([task.to_data() for task in made.tasks])
    words = [sys.executable, "-c", DISPATCHER, tests, str(made.checkout.root), tasks,
             str(made.tasks.slots)]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(site)}
    subprocess.run(
        words, env=environment, timeout=PATIENCE_SECONDS, capture_output=True, check=False
    )
