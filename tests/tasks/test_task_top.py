"""Lists of tasks in `holdfast top`: how far each is, who waits for whom, what waits for a
decision."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.task_scenes import Scene, dead_witness
from helpers_cli import COMMAND, Repository, Terminal
from helpers_processes import until
from holdfast.cli.terminal.sheet import Sheet
from holdfast.cli.watching.top import View, drawn
from holdfast.core import codec
from holdfast.core.model import SECOND
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import own_witness, witness_of
from holdfast.server.state.board import Board
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.lists.task import Task
from holdfast.work.tasks.task_records import ListRecord, TaskRecord


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


@pytest.fixture
def manager(repo: Repository) -> Iterator[LockManager]:
    with LockManager.open(str(repo.root)) as found:
        yield found


def task(name: str, state: str, *, after: tuple[str, ...] = (), **terms: Any) -> TaskRecord:
    return TaskRecord("tasks.toml", Task(name, "do it", after=after), state, **terms)


def begin(manager: LockManager, *tasks: TaskRecord, pid: int = 0, **terms: Any) -> None:
    """A list with these tasks in the ledger, started by this process or by another."""
    witness = witness_of(pid) if pid else own_witness()
    given = {"slots": 2, "began": manager.now(), "command": "holdfast dispatch tasks.toml", **terms}
    made = ListRecord(
        "tasks.toml", tuple(one.name for one in tasks),
        by=tuple(codec.witness_to_list(witness) or ()), **given,
    )  # fmt: skip
    transactions.note(manager, task_records.LIST_BEGUN, made.to_data(), name=made.note)
    for one in tasks:
        transactions.note(manager, task_records.TASK_CHANGED, one.to_data(), name=one.note)


def shown(manager: LockManager, width: int | None = None) -> list[str]:
    return drawn(View(manager).look(), Sheet(width, False, 1000))


def line(manager: LockManager, begins: str) -> str:
    (found,) = [one for one in shown(manager) if one.startswith(begins)]
    return found


def test_a_list_shows_how_far_it_is_and_how_long_it_will_take(manager: LockManager) -> None:
    now = manager.now()
    begin(
        manager, task("a", task_states.DONE, worked_microseconds=120 * SECOND, tries=1),
        task("b", task_states.QUEUED), task("c", task_states.QUEUED), task("d",
        task_states.WAITING, after=("c",)),
        began=now - 60 * SECOND,
    )  # fmt: skip
    assert re.fullmatch(
        r"tasks.toml: 1 of 4 tasks done, 2 queued, 1 waiting, 6\d s elapsed, about 4 min left",
        line(manager, "tasks.toml: "),
    )
    assert shown(manager)[0] == "repo · 0 held · 3 waiting"


def test_each_task_has_its_state_its_tries_and_its_reason(manager: LockManager) -> None:
    began = manager.now() - 5 * SECOND
    begin(
        manager, task("ok", task_states.DONE, tries=1, files=("a.txt", "b.txt"), commit="c" * 40),
        task("bad", task_states.FAILED, tries=3, reason="the agent failed with code 2",
        log="x/y.log"),
        task("not", task_states.SKIPPED, reason="it comes after bad, which failed"),
        task("now", task_states.CHECKING, tries=2, began=began),
    )  # fmt: skip
    assert re.fullmatch(r"now +checking +[5-9] s +2", line(manager, "now"))
    assert re.fullmatch(r"ok +done +1 +a.txt and 1 more +commit c{10}", line(manager, "ok"))
    assert re.fullmatch(
        r"bad +failed +3 +the agent failed with code 2; its output: x/y.log",
        line(manager, "bad"),
    )
    assert re.fullmatch(r"not +skipped +it comes after bad, which failed", line(manager, "not"))
    names = [one.split()[0] for one in shown(manager)[4:8]]
    assert names == ["bad", "now", "not", "ok"], "what needs a person comes first"


def test_waits_form_a_chain(manager: LockManager, repo: Repository) -> None:
    begin(
        manager, task("one", task_states.WORKING, item="one-1", tries=1),
        task("two", task_states.WORKING, item="two-2", tries=1),
        task("three", task_states.WAITING, after=("two",)),
    )  # fmt: skip
    held = manager.acquire(holder="one-1", write_paths=["app/x.rb"])
    manager.acquire(holder="two-2", write_paths=["app/y.rb"])

    def wait() -> None:
        with LockManager.open(str(repo.root)) as other:
            other.acquire(holder="two-2", write_paths=["app/x.rb"], timeout=60)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    until(lambda: "waits for one (app/x.rb)" in line(manager, "two"), "the task waits for the file")
    assert line(manager, "three").endswith("waits for two, which waits for one (app/x.rb)")
    assert re.fullmatch(r"one +working +1 +app/x.rb", line(manager, "one"))
    assert shown(manager)[0] == "repo · 2 held · 2 waiting"
    assert not any(one.startswith(("AT WORK", "WAITING")) for one in shown(manager)), "told once"
    manager.release(held.id)
    waiting.join()


def test_a_task_that_waits_inside_a_write_is_shown_with_whom_it_waits_for(
    manager: LockManager,
) -> None:
    scene = Scene(manager, [Task(name, "do it") for name in ("one", "two", "three")])
    scene.send_out("one", "app/x.rb")
    scene.send_out("two", "app/y.rb")
    scene.send_out("three")
    manager.acquire(holder="ann", write_paths=["app/z.rb"])
    scene.wait_in_call("two", "app/x.rb")
    scene.wait_in_call("three", "app/y.rb")
    scene.wait_in_call("one", "app/z.rb")
    chain = "waits for one (app/x.rb), which waits for ann (app/z.rb)"
    assert line(manager, "two ").endswith(chain)
    assert line(manager, "three").endswith(f"waits for two (app/y.rb), which {chain}")
    assert shown(manager)[0].endswith("3 waiting")


def test_tasks_cut_off_by_their_dispatcher_s_death_are_counted_as_on_the_page(
    manager: LockManager,
) -> None:
    dead = dead_witness()
    scene = Scene(manager, [Task(name, "do it") for name in "abc"], by=dead, launcher=dead)
    scene.send_out("a", "a.txt")
    scene.send_out("b", "b.txt", state=task_states.REVIEWING)
    scene.queue("c", "a.txt")
    [page] = Board(manager).summary()["progress"]
    assert page["cut_off"] == 2
    assert line(manager, "tasks.toml: ") == ("tasks.toml: 0 of 3 tasks done, 2 cut off, 1 queued")


def test_a_pending_decision_is_reported_with_its_command(manager: LockManager) -> None:
    begin(manager, task("rename it", task_states.REVIEWING), task("b", task_states.REVIEWING))
    assert "to decide: holdfast decide 'rename it' (and 1 more)" in shown(manager)


def test_a_list_of_the_command_line_is_called_so(manager: LockManager) -> None:
    made = ListRecord("--task", ("a",), 1)
    transactions.note(manager, task_records.LIST_BEGUN, made.to_data(), name=made.note)
    one = TaskRecord("--task", Task("a", "do it"), task_states.DONE)
    transactions.note(manager, task_records.TASK_CHANGED, one.to_data(), name=one.note)
    assert line(manager, "the command line: ").endswith("1 of 1 tasks done")


def test_characters_that_cannot_be_seen_are_spelled_out(manager: LockManager) -> None:
    begin(manager, task("a\u200bb\u202ec\u3164d\ufe0fe\x1b[2J", task_states.WORKING))
    assert line(manager, "a").startswith(r"a\u200bb\u202ec\u3164d\ufe0fe\x1b[2J")


def test_a_long_list_fits_a_narrow_screen(manager: LockManager) -> None:
    begin(manager, *(task(f"task {one} " + "with a long name " * 5, task_states.QUEUED)
                     for one in range(60)))  # fmt: skip
    for width in (20, 40, 80):
        found = shown(manager, width)
        assert all(len(one) <= width for one in found)
        assert len(found) > 60


def test_the_note_on_a_task_is_never_cut_on_a_narrow_screen(manager: LockManager) -> None:
    reason = "the agent failed with code 2, and it printed nothing that would say why"
    begin(manager, task("bad", task_states.FAILED, reason=reason, log="runs/bad-1/task.log"),
          task("b", task_states.QUEUED))  # fmt: skip
    for width in (12, 20, 40, 80):
        found = shown(manager, width)
        assert all(len(one) <= width for one in found)
        text = "".join(one.strip() for one in found).replace(" ", "")
        assert f"{reason}; its output: runs/bad-1/task.log".replace(" ", "") in text


def test_a_task_whose_dispatcher_is_gone_is_not_said_to_go_on(manager: LockManager) -> None:
    with subprocess.Popen(["sleep", "600"]) as dispatcher:
        begin(manager, task("a", task_states.WORKING, began=manager.now()), pid=dispatcher.pid)
        dispatcher.kill()
        dispatcher.wait()
        assert re.fullmatch(r"a +working +cut off: its dispatcher has died", line(manager, "a  "))
        assert line(manager, "tasks.toml: ") == "tasks.toml: 0 of 1 tasks done, 1 cut off"


def test_where_nothing_is_there_to_see_it_says_how_to_begin(manager: LockManager) -> None:
    assert any("holdfast dispatch tasks.toml" in one for one in shown(manager))


def test_a_dead_dispatcher_is_said_within_seconds_with_the_command_that_goes_on(
    repo: Repository, manager: LockManager
) -> None:
    with subprocess.Popen(["sleep", "600"]) as dispatcher:
        begin(manager, task("a", task_states.WORKING, began=manager.now()), pid=dispatcher.pid)
        terminal = Terminal(repo)
        try:
            terminal.type(f"{' '.join(COMMAND)} top\n")
            terminal.shows("0 of 1 tasks done, 1 working")
            assert b"is gone" not in terminal.read()
            dispatcher.kill()
            dispatcher.wait()
            terminal.shows("its dispatcher has died; to continue: holdfast dispatch tasks.toml")
        finally:
            terminal.close()
