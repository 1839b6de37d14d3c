"""A task is a transaction on the checkout: whole, or as if it had never started."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import until
from helpers_task_commands import why_no_broker
from helpers_tasks import Checkout, picture, shell, until_file
from holdfast.gate.door.delegated_calls import GAP
from holdfast.manager.files.keepsakes import KeepsakeError
from holdfast.manager.manager import LockManager
from holdfast.work.engine import scheduler_loop
from holdfast.work.launching.run_folders import Run
from holdfast.work.tasks import task_states
from holdfast.work.tasks.lists.task import Task
from holdfast.work.tasks.task_records import TaskRecord

pytestmark = pytest.mark.skipif(bool(why_no_broker()), reason=f"no broker here: {why_no_broker()}")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


# What a task that fails leaves behind


DEEDS = {
    "written in place": "echo half >> a.txt",
    "replaced": "sed -i s/a0/half/ a.txt",
    "emptied": ": > a.txt",
    "deleted": "rm a.txt",
    "made executable": "chmod +x a.txt",
    "renamed": "mv a.txt elsewhere.txt",
    "exchanged for a link": "ln -sf b.txt a.txt",
    "exchanged for a folder": "rm a.txt; mkdir a.txt; echo inner > a.txt/inner",
    "a new file": "echo new > new.txt",
    "a new file in new folders": "mkdir -p deep/er; echo new > deep/er/new.txt",
    "an empty folder": "mkdir -p empty/inner",
    "a folder renamed": "mv src lib",
    "a folder deleted": "rm -r src",
    "a folder exchanged for a file": "rm -r src; echo file > src",
    "a hard link": "ln a.txt other.txt; echo half >> other.txt",
    "a pipe": "mkfifo pipe",
    "two files exchanged": "mv a.txt t; mv b.txt a.txt; mv t b.txt",
    "made and deleted again": "echo new > new.txt; rm new.txt; echo half > b.txt",
    "by a program": """python3 -c 'open("a.txt", "r+b").write(b"half")'""",
}


@pytest.mark.parametrize("deed", DEEDS)
def test_a_task_that_fails_leaves_every_file_as_it_was(checkout: Checkout, deed: str) -> None:
    before = picture(checkout.root)
    found = checkout.dispatch(checkout.task("fails", shell(DEEDS[deed], "exit 3")))
    assert found["fails"].state == task_states.FAILED
    assert "failed with code 3" in found["fails"].reason
    assert picture(checkout.root) == before


def test_the_deeds_of_a_task_that_succeeds_stay(checkout: Checkout) -> None:
    for number, (name, deed) in enumerate(DEEDS.items()):
        again = Checkout(checkout.home / str(number))
        before = picture(again.root)
        found = again.dispatch(again.task("succeeds", deed))
        assert found["succeeds"].state == task_states.DONE, (name, found["succeeds"].tail)
        assert picture(again.root) != before, name


def test_a_task_that_takes_too_long_is_ended_and_undone(checkout: Checkout) -> None:
    before = picture(checkout.root)
    task = checkout.task("slow", "echo half > a.txt; sleep 60", timeout_seconds=0.5)
    found = checkout.dispatch(task)["slow"]
    assert (found.state, found.reason) == (task_states.FAILED, "the agent was ended after 0.5 s")
    assert picture(checkout.root) == before


def test_a_task_whose_agent_is_killed_is_undone_and_tried_again(checkout: Checkout) -> None:
    script = shell("echo once >> a.txt", "[ -e ../killed ] || { touch $TMPDIR/x; kill -9 $$; }")
    (checkout.home / "killed").unlink(missing_ok=True)
    task = checkout.task("killed", script, tries=2)
    found = checkout.dispatch(task)["killed"]
    assert found.state == task_states.FAILED
    assert "killed by signal 9" in found.reason
    assert found.tries == 2
    assert checkout.read("a.txt") == "a0\n"


def test_an_attempt_that_failed_is_repeated_from_the_beginning(checkout: Checkout) -> None:
    marks = checkout.home / "marks"
    marks.mkdir()
    settings = f'[sandbox]\nwrite = ["{marks}/"]\n'
    checkout.write({"holdfast.toml": settings})
    script = shell(
        "echo once >> a.txt", f"echo >> {marks}/tries", f"[ $(wc -l < {marks}/tries) = 3 ]"
    )
    found = checkout.dispatch(checkout.task("third", script, tries=3))["third"]
    assert (found.state, found.tries) == (task_states.DONE, 3)
    assert checkout.read("a.txt") == "a0\nonce\n"


def test_processes_that_an_agent_left_are_ended_before_its_files_are_released(
    checkout: Checkout,
) -> None:
    left = "(sleep 0.3; echo late >> a.txt) &"
    found = checkout.dispatch(checkout.task("leaves", shell("echo new >> a.txt", left)))
    assert found["leaves"].state == task_states.DONE
    assert checkout.read("a.txt") == "a0\nnew\n"


def test_ignored_files_are_neither_leased_nor_undone(checkout: Checkout) -> None:
    checkout.write({".gitignore": "*.log\n"})
    found = checkout.dispatch(checkout.task("fails", "echo x > build.log; echo y > a.txt; exit 1"))
    assert found["fails"].state == task_states.FAILED
    assert checkout.read("build.log") == "x\n"
    assert checkout.read("a.txt") == "a0\n"


# What a task may write


def test_seed004_19_an_undeclared_write_of_a_task_is_refused_and_is_a_gap(
    checkout: Checkout,
) -> None:
    script = "echo one > a.txt; echo two > b.txt || true; echo new > new.txt || true"
    found = checkout.dispatch(checkout.task("declares", script, writes=("a.txt",)))["declares"]
    assert found.state == task_states.DONE
    assert (checkout.read("a.txt"), checkout.read("b.txt")) == ("one\n", "b0\n")
    assert not (checkout.root / "new.txt").exists()
    with LockManager.open(str(checkout.root)) as manager:
        gaps = [one.data["path"] for one in manager.events() if one.type == GAP]
    assert gaps == ["b.txt", "new.txt"]


def test_no_task_writes_the_list_that_it_is_in(checkout: Checkout) -> None:
    checkout.write({"tasks.toml": "# the list\n"})
    found = checkout.dispatch(checkout.task("reaches", "echo mine > tasks.toml"))["reaches"]
    assert found.state == task_states.FAILED
    assert any("the list that contains this task" in line for line in found.tail)
    assert checkout.read("tasks.toml") == "# the list\n"


@pytest.mark.parametrize(
    "line",
    ["git add a.txt", "git commit -qam x", "git stash", "git branch other", "git tag t",
     "git checkout -q -b other", "git update-ref refs/heads/other HEAD"],
)  # fmt: skip
def test_git_is_closed_to_a_task(checkout: Checkout, line: str) -> None:
    before = checkout.git("for-each-ref"), checkout.git("diff", "--cached")
    found = checkout.dispatch(checkout.task("commits", shell("echo x > a.txt", line)))["commits"]
    assert found.state == task_states.FAILED
    assert (checkout.git("for-each-ref"), checkout.git("diff", "--cached")) == before


def test_reading_git_works_in_a_task(checkout: Checkout) -> None:
    lines = ["git status", "git diff", "git log -1", "git show HEAD:a.txt", "git grep a0"]
    script = shell("echo new > a.txt", "{", *lines, "} > b.txt")
    found = checkout.dispatch(checkout.task("reads", script))["reads"]
    assert found.state == task_states.DONE, found.tail
    assert "modified:   a.txt" in checkout.read("b.txt")


def test_a_task_cannot_write_outside_of_the_repository(checkout: Checkout) -> None:
    outside = checkout.home / "outside.txt"
    found = checkout.dispatch(checkout.task("strays", f"echo x > {outside}"))["strays"]
    assert found.state == task_states.FAILED
    assert not outside.exists()


def test_a_task_cannot_reach_the_ledger_or_what_is_kept(checkout: Checkout) -> None:
    script = "rm -rf .holdfast/runs || true; echo x > .holdfast/ledger.db || true; echo new > a.txt"
    found = checkout.dispatch(checkout.task("reaches", shell(script, "exit 1")))["reaches"]
    assert found.state == task_states.FAILED
    assert checkout.read("a.txt") == "a0\n"


def test_a_full_disk_refuses_the_write_and_loses_nothing(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launchers, which keep the files, get a limit on the size of a file."""
    checkout.write({"large.bin": "x" * 300_000})
    checkout.git("add", "-A")
    checkout.git("commit", "-qm", "large")
    site = checkout.home / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import sys\n"
        "if sys.argv[0] == '-c' and 'launcher' in ' '.join(sys.orig_argv):\n"
        "    import resource, signal\n"
        "    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    found = checkout.dispatch(checkout.task("writes", "echo small > a.txt; echo y > large.bin"))
    assert found["writes"].state == task_states.FAILED
    assert any("cannot be backed up" in line for line in found["writes"].tail)
    assert checkout.read("large.bin") == "x" * 300_000
    assert checkout.read("a.txt") == "a0\n"


# Tasks that conflict


def test_a_task_waits_for_a_file_of_another_until_that_one_has_ended(checkout: Checkout) -> None:
    marks = _marks(checkout)
    first = shell("echo first > a.txt", f"touch {marks}/has", until_file(f"{marks}/go"),
                  "cat b.txt >> a.txt")  # fmt: skip
    second = shell(until_file(f"{marks}/has"), "echo second >> a.txt || exit 7")
    tasks = checkout.task("first", first), checkout.task("second", second)
    releaser = threading.Thread(target=_release_when_one_waits, args=(checkout, marks))
    releaser.start()
    found = checkout.dispatch(*tasks)
    releaser.join()
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert checkout.read("a.txt") == "first\nb0\nsecond\n"
    assert (
        found["second"].tries >= 2
    )  # it had started before the file changed: the first write is stale


def test_a_task_that_was_refused_an_old_file_and_failed_begins_again_with_it(
    checkout: Checkout,
) -> None:
    marks = _marks(checkout)
    reads = shell("n=$(cat a.txt)", f"touch {marks}/read", until_file(f"{marks}/written"),
                  'echo "$n and mine" > a.txt')  # fmt: skip
    writes = shell(until_file(f"{marks}/read"), "echo theirs > a.txt")
    watcher = threading.Thread(target=_mark_when, args=(checkout, "a.txt", "theirs\n", marks))
    watcher.start()
    found = checkout.dispatch(checkout.task("reads", reads), checkout.task("writes", writes))
    watcher.join()
    assert {one.state for one in found.values()} == {task_states.DONE}
    assert checkout.read("a.txt") == "theirs and mine\n"
    assert found["reads"].needs == ("a.txt",)


def test_in_a_circle_the_younger_task_yields_and_both_are_done(checkout: Checkout) -> None:
    marks = _marks(checkout)
    older = shell("echo older >> a.txt", f"touch {marks}/a", until_file(f"{marks}/b"),
                  "echo older >> b.txt")  # fmt: skip
    younger = shell("echo younger >> b.txt", f"touch {marks}/b", until_file(f"{marks}/a"),
                    "echo younger >> a.txt")  # fmt: skip
    yielded: list[str] = []

    def changed(record: TaskRecord) -> None:
        if "it yielded to an older task" in record.reason:
            yielded.append(record.name)

    tasks = checkout.task("older", older), checkout.task("younger", younger)
    found = checkout.dispatch(*tasks, changed=changed)
    assert {one.state for one in found.values()} == {task_states.DONE}, found
    assert sorted(checkout.read("a.txt").split()) == ["a0", "older", "younger"]
    assert checkout.read("a.txt").split()[1:] == checkout.read("b.txt").split()[1:]
    assert set(found["younger"].needs) == {"a.txt", "b.txt"}
    assert yielded == ["younger"]


def test_a_task_that_yields_uses_up_none_of_its_tries(checkout: Checkout) -> None:
    marks = _marks(checkout)
    older = shell("echo older >> a.txt", f"touch {marks}/a", until_file(f"{marks}/b"),
                  "echo older >> b.txt")  # fmt: skip
    younger = shell("echo younger >> b.txt", f"touch {marks}/b", until_file(f"{marks}/a"),
                    "echo younger >> a.txt",  # in the first attempt it yields here
                    f"echo >> {marks}/came", f"[ $(wc -l < {marks}/came) = 2 ]")  # fmt: skip
    tasks = checkout.task("older", older), checkout.task("younger", younger, tries=2)
    found = checkout.dispatch(*tasks)["younger"]
    assert (found.state, found.tries, found.failures) == (task_states.DONE, 3, 1), found.reason


def test_many_tasks_that_all_want_the_same_files_in_another_order_all_end(
    checkout: Checkout,
) -> None:
    names = ["a.txt", "b.txt", "c.txt", "src/x.py"]
    tasks = []
    for number in range(8):
        order = names[number % 4 :] + names[: number % 4]
        lines = [f"echo {number} >> {name}; sleep 0.05" for name in order]
        tasks.append(checkout.task(f"task {number}", shell(*lines)))
    found = checkout.dispatch(*tasks, slots=8)
    assert {one.state for one in found.values()} == {task_states.DONE}
    orders = [checkout.read(name).split()[1:] for name in names]
    assert orders[0] == orders[1] == orders[2] == orders[3]
    assert sorted(orders[0]) == sorted(str(number) for number in range(8))


@pytest.mark.parametrize(("own", "told"), [({}, "after 0.5 s"), ({"timeout_seconds": 1}, "1 s")])
def test_the_settings_say_how_long_an_agent_may_take_unless_the_task_does(
    checkout: Checkout, own: dict[str, float], told: str
) -> None:
    command = json.dumps(list(checkout.command))
    checkout.write({"holdfast.toml": f"[work.agent]\ncommand = {command}\ntimeout_seconds = 0.5\n"})
    found = checkout.dispatch(Task("slow", "echo x > a.txt; sleep 30", **own))["slow"]  # type: ignore[arg-type]
    assert found.state == task_states.FAILED
    assert found.reason.endswith(told)
    assert checkout.read("a.txt") == "a0\n"


def test_restoring_files_is_tried_again_while_others_wait_for_them(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that was full for a moment: otherwise they would wait for ever."""
    monkeypatch.setattr(scheduler_loop, "LOOK_SECONDS", 0.1)
    real = Run.put_back
    failed: list[str] = []
    marks = checkout.home / "marks"
    marks.mkdir()
    checkout.write({"holdfast.toml": f'[sandbox]\nwrite = ["{marks}/"]\n'})

    def put_back(run: Run, *given: Any, **more: Any) -> list[str]:
        if not failed:
            failed.append(run.folder)
            raise KeepsakeError("a.txt could not be put back: no room", hint="make room", paths=[])
        return real(run, *given, **more)

    monkeypatch.setattr(Run, "put_back", put_back)
    found = checkout.dispatch(
        checkout.task("fails", f"echo half > a.txt; touch {marks}/up; exit 3"),
        checkout.task("waits", f"{until_file(marks / 'up')}; echo two >> a.txt"),
    )
    assert failed
    assert (found["fails"].state, found["waits"].state) == (task_states.FAILED, task_states.DONE)
    assert checkout.read("a.txt") == "a0\ntwo\n"


def test_a_file_of_a_person_is_waited_for_as_well(checkout: Checkout) -> None:
    with LockManager.open(str(checkout.root)) as manager:
        grant = manager.acquire(holder="ann", write_paths=["a.txt"])
        done: dict[str, object] = {}
        thread = threading.Thread(
            target=lambda: done.update(checkout.dispatch(checkout.task("waits", "echo x > a.txt")))
        )
        thread.start()
        until(lambda: manager.queue(), "the task stands in line")
        assert checkout.read("a.txt") == "a0\n"
        manager.release(grant.id)
        thread.join()
    assert checkout.read("a.txt") == "x\n"


# The check


def test_a_check_that_fails_goes_back_to_the_agent_with_its_output(checkout: Checkout) -> None:
    script = 'case "$(cat a.txt)" in half) echo whole > a.txt ;; *) echo half > a.txt ;; esac'
    task = checkout.task("checked", script, check="cat a.txt; grep whole a.txt", rounds=2)
    found = checkout.dispatch(task)["checked"]
    assert (found.state, found.round, found.tries) == (task_states.DONE, 1, 1)
    assert checkout.read("a.txt") == "whole\n"


def test_a_check_that_never_succeeds_fails_the_task(checkout: Checkout) -> None:
    task = checkout.task("checked", "echo half > a.txt", check="echo not good; false", rounds=1)
    found = checkout.dispatch(task)["checked"]
    assert (found.state, found.reason) == (task_states.FAILED, "the check failed with code 1")
    assert found.tail == ("not good",)
    assert checkout.read("a.txt") == "a0\n"
    assert checkout.read(found.log) == "not good\n"


def test_the_files_of_a_task_are_held_while_its_check_runs(checkout: Checkout) -> None:
    marks = _marks(checkout)
    check = f"touch {marks}/checks; {until_file(f'{marks}/go')}"
    task = checkout.task("checked", "echo x > a.txt", check=check)
    thread = threading.Thread(target=checkout.dispatch, args=(task,))
    thread.start()
    until(lambda: (marks / "checks").exists(), "the check runs")
    with LockManager.open(str(checkout.root)) as manager:
        assert manager.try_acquire(holder="ann", write_paths=["a.txt"]) is None
    (marks / "go").touch()
    thread.join()


def _marks(checkout: Checkout) -> Path:
    """A folder that tasks can write, where scripts meet."""
    marks = checkout.home / "marks"
    marks.mkdir()
    checkout.write({"holdfast.toml": f'[sandbox]\nwrite = ["{marks}/"]\n'})
    return marks


def _release_when_one_waits(checkout: Checkout, marks: Path) -> None:
    with LockManager.open(str(checkout.root)) as manager:
        until(lambda: manager.queue(), "the other task stands in line")
    (marks / "go").touch()


def _mark_when(checkout: Checkout, name: str, text: str, marks: Path) -> None:
    """Signal that a task has written something, and has ended."""
    until(lambda: checkout.read(name) == text, "it is written")
    with LockManager.open(str(checkout.root)) as manager:
        until(
            lambda: not any(name in one.write_paths for one in manager.active_grants()),
            "its lease has ended",
        )
    (marks / "written").touch()
    assert os.path.exists(marks)
