"""Lists of tasks: the order, what is repeated and what is not, and what a person decides."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import Repository, Terminal
from helpers_processes import until
from helpers_task_commands import TypedCheckout, why_no_broker
from helpers_tasks import Checkout, picture, run, shell, until_file
from holdfast.core import codec
from holdfast.gate.sandbox import SandboxError
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import read_stat, witness_of
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.errors import WorkError
from holdfast.work.launching.descendants import descendants
from holdfast.work.screens.workflow_states import TransitionError
from holdfast.work.tasks import dispatcher, task_records, task_states
from holdfast.work.tasks.dispatcher import TaskDispatcher
from holdfast.work.tasks.forgetting import forget
from holdfast.work.tasks.lists.task import Task
from holdfast.work.tasks.review_decisions import decide_task
from holdfast.work.tasks.task_agent import AgentMissingError
from holdfast.work.tasks.task_records import ListRecord

pytestmark = pytest.mark.skipif(bool(why_no_broker()), reason=f"no broker here: {why_no_broker()}")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


# Order


def test_a_task_begins_when_all_that_it_comes_after_is_done(checkout: Checkout) -> None:
    found = checkout.dispatch(
        checkout.task("third", "echo third >> a.txt", after=("second", "first")),
        checkout.task("second", "sleep 0.2; echo second >> a.txt", after=("first",)),
        checkout.task("first", "sleep 0.2; echo first >> a.txt"),
    )
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert checkout.read("a.txt") == "a0\nfirst\nsecond\nthird\n"


def test_a_task_that_comes_after_a_failed_one_is_skipped_with_the_reason(
    checkout: Checkout,
) -> None:
    found = checkout.dispatch(
        checkout.task("first", "exit 1"),
        checkout.task("second", "echo x > b.txt", after=("first",)),
        checkout.task("third", "echo x > c.txt", after=("second",)),
        checkout.task("other", "echo x > a.txt"),
    )
    assert found["second"].state == found["third"].state == task_states.SKIPPED
    assert found["second"].reason == "it comes after first, which failed"
    assert found["third"].reason == "it comes after second, which was skipped"
    assert found["other"].state == task_states.DONE
    assert checkout.status() == " M a.txt\n"


def test_of_two_tasks_that_wait_the_one_with_the_higher_priority_comes_first(
    checkout: Checkout,
) -> None:
    names = ["last", "low", "middle", "high"]
    tasks = [
        checkout.task(name, f"echo {name} >> a.txt", priority=number)
        for number, name in enumerate(names)
    ]
    found = checkout.dispatch(*tasks, slots=1)
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert checkout.read("a.txt").split() == ["a0", *reversed(names)]


@pytest.mark.parametrize("terms", [{"after": ("makes a folder",)}, {"locks": ("db:test",)}])
def test_a_declared_file_that_has_become_a_folder_fails_its_task_and_no_other(
    checkout: Checkout, terms: dict[str, Any]
) -> None:
    """It is found when the task is queued, or while it waits."""
    found = checkout.dispatch(
        checkout.task("makes a folder", "mkdir x; echo 1 > x/y", locks=("db:test",), priority=1),
        checkout.task("declares it", "echo 2 > x", writes=("x",), **terms),
        checkout.task("comes after", "echo 3 > b.txt", after=("declares it",)),
        checkout.task("another", "sleep 0.2; echo 4 > c.txt", after=("makes a folder",)),
    )
    told = {one.name: (one.state, one.reason) for one in found.values()}
    assert told["declares it"][0] == task_states.FAILED
    assert "x/ is a folder" in told["declares it"][1]
    assert told["comes after"][0] == task_states.SKIPPED
    assert told["another"] == told["makes a folder"] == (task_states.DONE, "")


def test_a_task_waits_for_what_it_takes_at_its_start_as_long_as_that_takes(
    checkout: Checkout,
) -> None:
    """Items of other work give up after a while; a task has a call of its own that could wait."""
    checkout.write({"holdfast.toml": "[work]\nqueue_seconds = 0.05\nretries = 0\n"})
    found = checkout.dispatch(
        checkout.task("first", "echo 1 >> a.txt; sleep 1", writes=("a.txt",)),
        checkout.task("second", "echo 2 >> a.txt", writes=("a.txt",)),
    )
    assert {one.state for one in found.values()} == {task_states.DONE}, found
    assert checkout.read("a.txt") == "a0\n1\n2\n"


def test_two_tasks_with_one_lock_do_not_run_at_once(checkout: Checkout) -> None:
    script = "[ ! -e $PWD/busy.tmp ] && echo x > busy.tmp; sleep 0.2; rm busy.tmp"
    tasks = [checkout.task(f"task {one}", script, locks=("db:test",)) for one in range(3)]
    found = checkout.dispatch(*tasks)
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert all(one.tries == 1 for one in found.values())


# Again


def test_running_a_list_again_does_nothing_twice(checkout: Checkout) -> None:
    tasks = checkout.task("one", "echo x >> a.txt"), checkout.task("two", "echo y >> b.txt")
    checkout.dispatch(*tasks)
    found = checkout.dispatch(*tasks, checkout.task("three", "echo z >> c.txt"))
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert checkout.read("a.txt") == "a0\nx\n"
    assert checkout.read("c.txt") == "c0\nz\n"


def test_a_changed_prompt_of_a_finished_task_is_refused_with_what_to_do(checkout: Checkout) -> None:
    checkout.dispatch(checkout.task("one", "echo x >> a.txt"))
    with pytest.raises(WorkError, match="already done, and the prompt has changed") as caught:
        checkout.dispatch(checkout.task("one", "echo y >> a.txt"))
    assert "holdfast dispatch tasks.toml --forget --only one" in caught.value.hint
    assert checkout.read("a.txt") == "a0\nx\n"


def test_a_failed_task_is_tried_again_only_if_that_is_asked_for(checkout: Checkout) -> None:
    failing = checkout.task("one", "exit 1"), checkout.task("two", "echo x > b.txt", after=("one",))
    mended = checkout.task("one", "echo x > a.txt"), failing[1]
    checkout.dispatch(*failing)
    assert checkout.dispatch(*mended)["one"].state == task_states.FAILED
    found = checkout.dispatch(*mended, retry_failed=True)
    assert {one.state for one in found.values()} == {task_states.DONE}


def test_only_what_is_named_is_done(checkout: Checkout) -> None:
    tasks = [checkout.task(name, f"echo x > {name}.txt") for name in ("a", "b", "c")]
    found = checkout.dispatch(*tasks, only=["b"])
    assert [found[name].state for name in "abc"] == [
        task_states.WAITING,
        task_states.DONE,
        task_states.WAITING,
    ]
    assert checkout.status() == " M b.txt\n"


def test_a_selected_task_must_exist_and_be_possible_alone(checkout: Checkout) -> None:
    tasks = checkout.task("one", "true"), checkout.task("two", "true", after=("one",))
    with pytest.raises(WorkError, match="no task three"):
        checkout.dispatch(*tasks, only=["three"])
    with pytest.raises(WorkError, match="two comes after one, which is not done"):
        checkout.dispatch(*tasks, only=["two"])


def test_a_task_that_stood_in_line_and_was_forgotten_is_done_once(checkout: Checkout) -> None:
    go = checkout.home / "go"
    tasks = checkout.tasks(
        checkout.task("first", f"{until_file(go)}; echo 1 >> a.txt"),
        checkout.task("second", "echo 2 >> b.txt"),
    )
    with LockManager.open(str(checkout.root)) as manager:
        work = TaskDispatcher(manager, tasks, slots=1)
        work.begin(command="holdfast dispatch tasks.toml")
        work.start()
        until(
            lambda: work.flow.record("first").state == task_states.WORKING, "the first is at work"
        )
        assert work.flow.record("second").state == task_states.QUEUED
        with pytest.raises(WorkError, match="first: in progress"):
            forget(manager)
        assert forget(manager, only=["second"]) == 1
        go.touch()
        work.stop()
        assert checkout.read("b.txt") == "b0\n"
    found = checkout.dispatch(tasklist=tasks)
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert (checkout.read("a.txt"), checkout.read("b.txt")) == ("a0\n1\n", "b0\n2\n")


def test_a_forgotten_task_is_done_anew(checkout: Checkout) -> None:
    tasks = checkout.task("one", "echo x >> a.txt"), checkout.task("two", "echo y >> b.txt")
    checkout.dispatch(*tasks)
    with LockManager.open(str(checkout.root)) as manager:
        assert forget(manager, "tasks.toml", ["one"]) == 1
    checkout.dispatch(*tasks)
    assert (checkout.read("a.txt"), checkout.read("b.txt")) == ("a0\nx\nx\n", "b0\ny\n")


def test_a_list_that_is_not_in_the_repository_is_forgotten_by_its_path(tmp_path: Path) -> None:
    text = '[[task]]\nname = "one"\nprompt = "x"\ncommand = ["true", "{prompt}"]\n'
    (tmp_path / "list.toml").write_text(text)
    terminal = Terminal(Repository(tmp_path / "project"))
    try:
        assert terminal.hold("dispatch", "../list.toml").code == 0
        assert "1 task was forgotten" in terminal.hold("dispatch", "../list.toml", "--forget").out
    finally:
        terminal.close()


def test_a_missing_program_is_named_before_anything_begins(checkout: Checkout) -> None:
    tasks = (
        checkout.task("one", "echo x > a.txt"),
        Task("two", "anything", command=("no-such-agent", "{prompt}")),
    )
    with pytest.raises(AgentMissingError, match="no-such-agent"):
        checkout.dispatch(*tasks)
    assert checkout.records() == {}
    assert checkout.status() == ""


def test_the_end_of_the_output_of_a_failed_task_is_with_its_record(checkout: Checkout) -> None:
    script = shell("for i in $(seq 100); do echo line $i; done", "echo it broke >&2", "exit 9")
    found = checkout.dispatch(checkout.task("one", script))["one"]
    assert found.tail[-2:] == ("line 100", "it broke")
    assert len(found.tail) == 12
    assert checkout.read(found.log).startswith("line 1\n")


def test_the_changes_of_a_failed_task_are_kept_as_a_patch_if_that_is_asked_for(
    checkout: Checkout,
) -> None:
    script = shell("echo x > a.txt", "echo n > new.txt", "rm b.txt", "exit 1")
    said: list[str] = []
    found = checkout.dispatch(
        checkout.task("one", script), keep_failed=True,
        changed=lambda record: said.append(record.reason),
    )  # fmt: skip
    (patch,) = (checkout.root / ".holdfast/failed").iterdir()
    assert f"its changes are in .holdfast/failed/{patch.name}" in said[-1]
    assert found["one"].reason == said[-1]
    assert checkout.status() == ""
    checkout.git("apply", str(patch))
    assert checkout.status() == " M a.txt\n D b.txt\n?? new.txt\n"


# Commits


def test_a_task_is_one_commit_with_exactly_its_files(checkout: Checkout) -> None:
    checkout.write({"b.txt": "of a person\n"})
    task = checkout.task(
        "rename", shell("# Rename it", "echo x > a.txt", "echo n > new.txt"),
        commit=True, message="{name}: done",
    )  # fmt: skip
    found = checkout.dispatch(task)["rename"]
    assert found.files == ("a.txt", "new.txt")
    assert checkout.git("rev-parse", "HEAD").strip() == found.commit
    assert checkout.log() == ["rename: done", "first"]
    assert checkout.status() == " M b.txt\n"


def test_tasks_that_change_one_file_make_one_commit_each(checkout: Checkout) -> None:
    tasks = [checkout.task(f"t{one}", f"echo {one} >> a.txt", commit=True) for one in range(5)]
    found = checkout.dispatch(*tasks, slots=5)
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert len({one.commit for one in found.values()}) == 5
    assert len(checkout.log()) == 6
    assert checkout.status() == ""


def test_a_task_that_changes_nothing_makes_no_commit(checkout: Checkout) -> None:
    found = checkout.dispatch(checkout.task("looks", "cat a.txt", commit=True))["looks"]
    assert (found.state, found.commit, found.files) == (task_states.DONE, "", ())
    assert checkout.log() == ["first"]


# Deciding


def decided(checkout: Checkout, name: str, approve: bool) -> None:
    with LockManager.open(str(checkout.root)) as manager:
        until(
            lambda: checkout.records().get(name) and checkout.records()[name].state
            == task_states.REVIEWING, "it is in review",
        )  # fmt: skip
        assert manager.try_acquire(holder="ann", write_paths=["a.txt"]) is None
        decide_task(manager, "tasks.toml", name, approve, "Ann")


@pytest.mark.parametrize("approve", [True, False])
def test_a_person_approves_or_rejects_with_the_files_held(
    checkout: Checkout, approve: bool
) -> None:
    person = threading.Thread(target=decided, args=(checkout, "one", approve))
    person.start()
    task = checkout.task("one", "echo x > a.txt", commit=True)
    found = checkout.dispatch(task, review=True)["one"]
    person.join()
    if approve:
        assert (found.state, found.decision) == (task_states.DONE, "approved by Ann")
        assert checkout.log() == ["echo x > a.txt", "first"]
    else:
        assert (found.state, found.reason) == (task_states.FAILED, "rejected by Ann")
        assert checkout.read("a.txt") == "a0\n"


def test_a_task_in_review_keeps_no_slot(checkout: Checkout) -> None:
    tasks = checkout.task("one", "echo x > a.txt"), checkout.task("two", "echo y > b.txt")
    with LockManager.open(str(checkout.root)) as manager:
        work = TaskDispatcher(manager, checkout.tasks(*tasks), slots=1, review=True)
        work.begin(command="")
        work.start()
        until(
            lambda: all(one.state == task_states.REVIEWING for one in work.flow.records()),
            "both are in review, though there is one slot",
        )
        for name in ("one", "two"):
            decide_task(manager, "tasks.toml", name, True, "Ann")
        until(work.is_done, "both are done")
        work.stop()
    assert checkout.status() == " M a.txt\n M b.txt\n"


# Several dispatchers, and one that dies


def test_two_dispatchers_on_one_list_share_the_work(checkout: Checkout) -> None:
    tasks = checkout.tasks(
        *(checkout.task(f"t{one}", f"sleep 0.1; echo {one} >> a.txt") for one in range(12))
    )

    def work() -> None:
        with LockManager.open(str(checkout.root)) as manager:
            run(manager, tasks, slots=2)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = checkout.records()
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert sorted(checkout.read("a.txt").split()[1:]) == sorted(str(one) for one in range(12))


def test_the_list_knows_every_dispatcher_that_lives(checkout: Checkout) -> None:
    tasks = checkout.tasks(checkout.task("one", "true"))
    with (
        subprocess.Popen(["sleep", "60"]) as other,
        LockManager.open(str(checkout.root)) as manager,
    ):
        by = tuple(codec.witness_to_list(witness_of(other.pid)) or ())
        began = ListRecord(tasks.name, ("one",), 1, by=by)
        transactions.note(manager, task_records.LIST_BEGUN, began.to_data(), name=began.note)

        def pids() -> list[int]:
            TaskDispatcher(manager, tasks).begin(command="")
            (found,) = transactions.look(manager, task_records.lists_in)
            return [one.pid for one in found.dispatchers]

        assert pids() == [os.getpid(), other.pid]
        other.kill()
        other.wait()
        assert pids() == [os.getpid()]


DISPATCHER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from helpers_tasks import Checkout, run
from holdfast.manager.manager import LockManager
from holdfast.work.tasks.lists.task import Task, TaskList
import json
root, tasks = sys.argv[2], json.loads(sys.argv[3])
with LockManager.open(root) as manager:
    run(manager, TaskList("tasks.toml", tuple(Task.from_data(one) for one in tasks)))
"""


def test_a_killed_dispatcher_leaves_nothing_half_done_and_another_goes_on(
    checkout: Checkout,
) -> None:
    marks = checkout.home / "marks"
    marks.mkdir()
    checkout.write({"holdfast.toml": f'[sandbox]\nwrite = ["{marks}/"]\n'})
    checkout.git("add", "-A")
    checkout.git("commit", "-qm", "settings")
    before = picture(checkout.root)
    script = shell("echo once >> a.txt", f"touch {marks}/half", until_file(f"{marks}/go"),
                   "echo once >> b.txt")  # fmt: skip
    task = checkout.task("one", script)
    tests = str(Path(__file__).parents[1])
    words = [sys.executable, "-c", DISPATCHER, tests, str(checkout.root),
             json.dumps([task.to_data()])]  # fmt: skip
    first = subprocess.Popen(words)
    until((marks / "half").exists, "the task is half done")
    first.send_signal(signal.SIGKILL)
    first.wait()
    until(lambda: picture(checkout.root) == before, "its files are as they were")
    (marks / "go").touch()
    found = checkout.dispatch(task)["one"]
    assert (found.state, found.tries) == (task_states.DONE, 2)
    assert (checkout.read("a.txt"), checkout.read("b.txt")) == ("a0\nonce\n", "b0\nonce\n")


def test_a_task_that_was_undone_with_its_dispatcher_cannot_be_approved(checkout: Checkout) -> None:
    command = json.dumps(list(checkout.command))
    text = f'[[task]]\nname = "one"\nprompt = "echo x > a.txt"\ncommand = {command}\n'
    checkout.write({"tasks.toml": text})
    words = [sys.executable, "-m", "holdfast", "dispatch", "tasks.toml", "--review"]
    first = subprocess.Popen(words, cwd=checkout.root, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)  # fmt: skip
    until(lambda: any(one.state == task_states.REVIEWING for one in checkout.records().values()),
          "it is in review")  # fmt: skip
    first.send_signal(signal.SIGINT)
    assert first.wait(30) == 130
    with LockManager.open(str(checkout.root)) as manager:
        until(lambda: not manager.active_grants(), "the processes of the dispatcher are gone")
        assert checkout.read("a.txt") == "a0\n"
        with pytest.raises(
            TransitionError, match="its dispatcher is gone, and its changes have been undone"
        ) as caught:
            decide_task(manager, "tasks.toml", "one", True, "Ann")
    assert caught.value.hint == "it is done again when you continue: holdfast dispatch tasks.toml"


def test_without_a_broker_nothing_starts_and_the_reason_is_printed(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*, what: str) -> int:
        raise SandboxError(f"{what} cannot work here: this is a moon", hint="lock it", abi=0)

    monkeypatch.setattr(dispatcher, "demand", refuse)
    with pytest.raises(
        SandboxError, match="a list of tasks cannot work here: this is a moon"
    ) as told:
        checkout.dispatch(checkout.task("one", "echo x > a.txt"))
    assert "run the list on Linux" in told.value.hint
    assert told.value.fields == {"abi": 0}
    assert checkout.records() == {}


# What a person has changed meanwhile, and what is left at the end


def test_a_task_in_line_needs_what_the_list_says_now(checkout: Checkout) -> None:
    go = checkout.home / "go"
    first = checkout.task("first", until_file(go), writes=("c.txt",))
    second = checkout.task("second", "echo new > b.txt", writes=("a.txt",))
    with LockManager.open(str(checkout.root)) as manager:
        work = TaskDispatcher(manager, checkout.tasks(first, second), slots=1)
        work.begin(command="holdfast dispatch tasks.toml")
        work.start()
        until(lambda: bool(work.active()), "the first is out")
        work.halt()
        work.stop()
    assert checkout.records()["second"].state == task_states.QUEUED
    go.touch()
    changed = replace(second, writes=("b.txt",), locks=("db:test",), priority=5)
    found = checkout.dispatch(first, changed)
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert checkout.read("b.txt") == "new\n"
    with LockManager.open(str(checkout.root)) as manager:
        (item,) = (one for one in ItemStore(manager).items() if one.workflow == "second")
        assert set(item.lock_request.write_paths) > {"b.txt", "db:test"}
        assert item.priority == 5


def test_the_log_of_the_agent_that_failed_is_named_and_not_that_of_an_earlier_one(
    checkout: Checkout,
) -> None:
    agent = checkout.home / "second.py"
    agent.write_text(
        "import sys\n"
        "if 'Your changes are in place' in sys.argv[1]:\n"
        "    print('the second broke'); sys.exit(3)\n"
        "print('the first was well')\n"
    )
    command = (sys.executable, "-S", str(agent), "{prompt}")
    found = checkout.dispatch(checkout.task("one", "x", check="exit 1", command=command))["one"]
    assert (found.state, found.reason) == (task_states.FAILED, "the agent failed with code 3")
    assert found.log.endswith("/task-1.log")
    assert found.tail == ("the second broke",)


def test_of_what_is_forgotten_nothing_is_left(checkout: Checkout) -> None:
    checkout.dispatch(checkout.task("one", "echo x >> a.txt"), checkout.task("two", "exit 1"))
    with LockManager.open(str(checkout.root)) as manager:
        assert forget(manager) == 2
        assert ItemStore(manager).items() == []
    assert os.listdir(checkout.root / ".holdfast/runs") == []


def test_what_an_agent_leaves_behind_is_no_zombie_while_it_works_on(checkout: Checkout) -> None:
    go = checkout.home / "go"
    script = shell(
        "for i in $(seq 50); do (true &); done", "sleep 0.2", "echo x > a.txt", until_file(go)
    )
    work = threading.Thread(target=checkout.dispatch, args=(checkout.task("one", script),))
    work.start()
    until(lambda: checkout.read("a.txt") == "x\n", "all are started")

    def zombies() -> list[int]:
        below = [pid for one in descendants(os.getpid()) for pid in (one, *descendants(one))]
        stats = [read_stat(pid) for pid in below]
        return [pid for pid, stat in zip(below, stats, strict=True) if stat and stat[1][0] == b"Z"]

    until(lambda: not zombies(), "they are taken off the list")
    go.touch()
    work.join()


def test_a_first_interrupt_puts_back_what_is_in_review_for_the_agents_that_wait_for_it(
    tmp_path: Path,
) -> None:
    """Otherwise the dispatcher would wait for ever: no decision can be made any more."""
    made = TypedCheckout(tmp_path)
    go = tmp_path / "go"
    made.list(one="echo 1 > a.txt", two=f"{until_file(go)}; echo 2 >> a.txt")
    running = made.start("dispatch", "tasks.toml", "--review")
    until(lambda: "one" in made.type("decide").out, "it is in review")
    go.touch()
    with LockManager.open(str(made.root)) as manager:
        until(lambda: bool(manager.queue()), "the other waits for its file")
    running.send_signal(signal.SIGINT)
    answer = made.end(running)
    assert answer.code == 130
    assert "undone while in review, to be done again: one" in answer.err
    assert made.status() == "?? tasks.toml\n"
    made.close()


def test_in_a_linked_worktree_no_list_is_done(tmp_path: Path) -> None:
    """Its agents would work in the main checkout, and commit to the branch there."""
    made = TypedCheckout(tmp_path)
    linked = tmp_path / "linked"
    made.git("worktree", "add", "-q", str(linked), "-b", "linked")
    (linked / "tasks.toml").write_text('[[task]]\nname = "one"\nprompt = "true"\n')
    answer = made.type("-C", str(linked), "dispatch", "tasks.toml")
    assert answer.code == 3, answer
    assert f"{linked} is a linked worktree" in answer.err
    assert f"cd {made.root}" in answer.err
    assert made.status() == ""
    made.close()
