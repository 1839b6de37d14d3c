"""Lists of tasks in the server's answers: progress, chains of waiting, failures."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from browser.scenes import analysed, workshop
from browser.task_scenes import LIST, PATCH, Scene, dead_witness, review
from conftest import until
from helpers_agents import Agent, blocked
from helpers_server import Stream, ask, post
from holdfast.core import codec
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import witness_of
from holdfast.server import ledger_feed
from holdfast.server.server import Server
from holdfast.server.state.board import Board
from holdfast.server.visible_text import visible
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.scheduler import Here
from holdfast.work.engine.work_items import LockRequest
from holdfast.work.screens import assignment
from holdfast.work.screens.workflow_records import Flows
from holdfast.work.tasks import review_decisions, task_states
from holdfast.work.tasks.lists.task import Task


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "shop"
    (found / ".git").mkdir(parents=True)
    return found


@pytest.fixture
def manager(root: Path) -> Iterator[LockManager]:
    with LockManager.open(str(root)) as found:
        yield found


@pytest.fixture
def site(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with a ledger of its own, as in another process, that checks often."""
    monkeypatch.setattr(ledger_feed, "PULSE_SECONDS", 0.1)
    with LockManager.open(str(root)) as own, Server(own, port=0) as made:
        yield made


def tasks(*names: str, **terms: Any) -> list[Task]:
    return [Task(name, f"Do {name}.\nAll of it.", **terms) for name in names]


def summary(site: Server) -> dict[str, Any]:
    found: dict[str, Any] = ask(site, "/api/summary").json
    return found


def rows(site: Server) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in summary(site)["tasks"]}


# Progress


def test_progress_has_time_and_forecast(site: Server, manager: LockManager) -> None:
    scene = Scene(manager, tasks("a", "b", "c", "d", "e"), slots=2, since_seconds=100)
    assert summary(site)["progress"][0]["forecast_seconds"] is None
    assert summary(site)["progress"][0]["forecast"] == "end not known before a task is done"
    scene.end("a", seconds=20)
    scene.end("b", task_states.FAILED, seconds=400, reason="it broke")
    scene.send_out("c", "c.txt")
    [one] = summary(site)["progress"]
    counted = [one[name] for name in ("total", "done", "failed", "left", "at_work")]
    assert counted == [5, 1, 1, 3, 1]
    assert 100 <= one["elapsed_seconds"] < 130
    # one of the three that are left has begun: 20 s each on two slots; failures do not count
    assert 35 <= one["forecast_seconds"] <= 40
    assert re.fullmatch(r"about (3\d|40) s left", one["forecast"])
    assert one["forecast_basis"] == "based on 1 finished task"
    assert one["command"] == f"holdfast dispatch {LIST}"
    assert summary(site)["phase"] == "working"


def test_a_line_of_tasks_takes_as_long_as_all_of_them(site: Server, manager: LockManager) -> None:
    line = [Task("a", "a"), Task("b", "b", after=("a",)), Task("c", "c", after=("b",))]
    scene = Scene(manager, [*tasks("x"), *line], slots=4)
    scene.end("x", seconds=10)
    assert summary(site)["progress"][0]["forecast_seconds"] == pytest.approx(30, abs=1)


def test_a_forecast_waits_for_people(site: Server, manager: LockManager) -> None:
    scene = Scene(manager, tasks("a", "b"), review=True)
    scene.end("a")
    review(scene, "b", "b.txt")
    [one] = summary(site)["progress"]
    assert (one["forecast_seconds"], one["forecast"]) == (None, "waits for a decision")
    assert summary(site)["phase"] == "reviewing"
    assert summary(site)["undecided"] == [{"kind": "task", "name": "b", "list": LIST}]


def test_a_list_that_is_done_took_as_long_as_it_took(site: Server, manager: LockManager) -> None:
    scene = Scene(manager, tasks("a"), since_seconds=50)
    scene.end("a")
    [one] = summary(site)["progress"]
    assert one["elapsed_seconds"] == pytest.approx(50, abs=1)
    assert (one["left"], one["runs"], one["forecast"], one["gone"]) == (0, False, "", "")
    assert summary(site)["phase"] == "completed"


def test_screens_have_progress_too(tmp_path: Path) -> None:
    shop = workshop(tmp_path / "screens")
    with LockManager.open(str(shop)) as manager:
        analysed(manager, shop)
        board = Board(manager)
        [one] = board.summary()["progress"]
        assert (one["kind"], one["total"], one["done"], one["decisions"]) == ("screens", 2, 0, 2)
        assert one["forecast"] == "waits for a decision"
        assert one["command"] == "holdfast dispatch --resume"


# A dispatcher that has died


def test_a_dead_dispatcher_is_reported_with_the_command_that_continues(
    site: Server, manager: LockManager
) -> None:
    dead = dead_witness()
    scene = Scene(manager, tasks("a", "b", "c"), by=dead, launcher=dead)
    scene.end("a")
    scene.send_out("b", "b.txt")
    told = summary(site)
    [one] = told["progress"]
    assert one["gone"] == "The dispatcher of tasks.toml is no longer running, and 2 tasks are left."
    assert one["command"] == "holdfast dispatch tasks.toml"
    assert (one["runs"], one["at_work"], one["cut_off"]) == (False, 0, 1)
    assert one["forecast"] == "end not known: no dispatcher is running"
    assert told["phase"] == "stopped"
    assert (told["counts"]["at_work"], told["counts"]["cut_off"]) == (0, 1)


def test_a_task_that_a_dead_dispatcher_left_in_review_waits_for_no_decision(
    site: Server, manager: LockManager
) -> None:
    dead = dead_witness()
    scene = Scene(manager, tasks("a"), by=dead, launcher=dead, review=True)
    item = review(scene, "a", "a.txt")
    told = summary(site)
    assert told["undecided"] == []
    assert told["cut_off"] == [item.id]
    assert [(row["cut_off"], row["undecided"]) for row in told["tasks"]] == [(True, False)]
    counts, [one] = told["counts"], told["progress"]
    assert (counts["at_work"], counts["cut_off"], counts["decisions"]) == (0, 1, 0)
    assert (one["cut_off"], one["decisions"]) == (1, 0)


def test_its_death_is_noticed_without_any_event(site: Server, manager: LockManager) -> None:
    process = Sleeper()
    scene = Scene(manager, tasks("a"), by=process.witness, launcher=process.witness)
    scene.send_out("a", "a.txt")
    assert not summary(site)["progress"][0]["gone"]
    with Stream(site, "/api/events") as stream:
        before = transactions.look(manager, lambda view: view.head)
        process.kill()
        assert stream.next()["event"] == "changed"
        assert summary(site)["progress"][0]["gone"]
        assert transactions.look(manager, lambda view: view.head) == before


def test_a_list_that_is_done_needs_no_dispatcher(site: Server, manager: LockManager) -> None:
    scene = Scene(manager, tasks("a"), by=dead_witness())
    scene.end("a")
    assert not summary(site)["progress"][0]["gone"]


def test_a_dead_dispatcher_of_screens_is_reported_until_another_resumes_the_work(
    tmp_path: Path,
) -> None:
    shop = workshop(tmp_path / "screens")
    with LockManager.open(str(shop)) as manager:
        analysed(manager, shop)
        board = Board(manager)
        assert board.gone() == ()
        event = transactions.noted(manager, assignment.NOTE)
        assert event is not None
        data = {**event.data, "by": codec.witness_to_list(dead_witness())}
        transactions.note(manager, assignment.ASSIGNED, data, name=assignment.NOTE)
        assert len(board.gone()) == 1
        [one] = board.summary()["progress"]
        assert one["gone"] == "The dispatcher is no longer running, and work is left."
        assignment.take_up(manager)
        assert board.gone() == ()


class Sleeper:
    """A process that takes the place of a dispatcher."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        )
        self.witness = witness_of(self._process.pid)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


# Chains of waiting


def test_a_chain_of_waiting_has_names(site: Server, manager: LockManager) -> None:
    scene = Scene(manager, [*tasks("a", "b", "c"), Task("d", "d", after=("c",))])
    scene.send_out("a", "a.txt")
    scene.send_out("b", "b.txt")
    scene.wait_in_call("b", "a.txt")
    scene.queue("c", "b.txt")
    found = rows(site)
    assert found["a"]["chain"] == []
    assert found["b"]["chain"] == [{"name": "a", "path": "a.txt"}]
    assert found["c"]["chain"] == [
        {"name": "b", "path": "b.txt"}, {"name": "a", "path": "a.txt"},
    ]  # fmt: skip
    assert found["d"]["chain"][0] == {"name": "c", "path": ""}
    assert [one["name"] for one in found["d"]["chain"]] == ["c", "b", "a"]
    told = ask(site, f"/api/task?list={LIST}&name=c").json["chain_sentence"]
    assert told == "c waits for b (b.txt), which waits for a (a.txt)"
    [waiting] = ask(site, "/api/state").json["waiting"]
    assert [one["name"] for one in waiting["chain"]] == ["b", "a"]


def test_a_chain_ends_where_it_comes_back(site: Server, manager: LockManager) -> None:
    scene = Scene(manager, tasks("a", "b"))
    for name, own in (("a", "a.txt"), ("b", "b.txt")):
        scene.send_out(name, own)
    scene.wait_in_call("a", "b.txt")
    scene.wait_in_call("b", "a.txt")  # refused by the rules, or about to be resolved
    assert [one["name"] for one in rows(site)["a"]["chain"]] in (["b"], ["b", "a"])


def test_tasks_are_in_the_order_in_which_they_are_shown(site: Server, manager: LockManager) -> None:
    scene = Scene(manager, [*tasks("a", "b", "c", "d", "e"), Task("f", "f", after=("d",))])
    scene.end("a")
    scene.end("b", task_states.FAILED, reason="no")
    review(scene, "c", "c.txt")
    scene.send_out("d", "d.txt")
    scene.queue("e", "d.txt")
    found = summary(site)["tasks"]
    assert [one["name"] for one in found] == ["c", "b", "d", "e", "f", "a"]
    assert [one["name"] for one in found if one["undecided"]] == ["c"]
    assert [one["name"] for one in found if one["at_work"]] == ["d"]
    assert not any(one["cut_off"] for one in found)


def test_the_phase_of_a_list_that_ended_with_failures_has_words(
    site: Server, manager: LockManager
) -> None:
    scene = Scene(manager, tasks("a", "b"))
    assert (summary(site)["phase"], summary(site)["phase_words"]) == ("working", "working")
    scene.end("a", task_states.FAILED, reason="no")
    scene.end("b")
    assert (summary(site)["phase"], summary(site)["phase_words"]) == ("error", "finished, 1 failed")


def test_people_and_agents_are_part_of_a_chain(site: Server, manager: LockManager) -> None:
    scene = Scene(manager, tasks("a"))
    assert manager.try_acquire(holder="ann", write_paths=["x.txt"]) is not None
    scene.queue("a", "x.txt")
    assert rows(site)["a"]["chain"] == [{"name": "ann", "path": "x.txt"}]


# One task


def test_a_task_has_prompt_output_diff_and_commit_in_the_interface(
    site: Server, manager: LockManager
) -> None:
    scene = Scene(manager, tasks("a", check="make test"))
    item = scene.send_out("a", "a.txt")
    scene.keep(item.id, task_log="one\n", changes_patch=PATCH)
    scene.keep(item.id, **{"task_try2-1_log": "two\n", "check_try2_log": "three\n"})
    scene.end("a", task_states.FAILED, tries=2, reason="the check failed", tail=("line",),
    log="x.log",
              commit="0123456789", files=("a.txt",))  # fmt: skip
    found = ask(site, f"/api/task?list={LIST}&name=a").json
    assert found["prompt"] == "Do a.\nAll of it."
    assert (found["state"], found["tries"], found["reason"]) == ("failed", 2, "the check failed")
    assert (found["tail"], found["log"], found["commit"]) == (["line"], "x.log", "0123456789")
    names = {one["name"] for one in found["logs"]}
    assert names == {"task.log", "task.try2-1.log", "check.try2.log"}
    assert ask(site, f"/api/output/{item.id}/task.try2-1.log").body == b"two\n"
    assert found["diff"] == len(PATCH)
    assert ask(site, f"/api/diff/{item.id}").body.decode() == PATCH
    assert rows(site)["a"]["line"] == "Do a."
    assert ask(site, f"/api/task?list={LIST}&name=b").code == "E_NOT_FOUND"


@pytest.mark.parametrize("path", ["nobody", "..", "{item}/x", "{item}%2f..%2f{item}", ""])
def test_nothing_but_a_diff_can_be_read(site: Server, manager: LockManager, path: str) -> None:
    scene = Scene(manager, tasks("a"))
    item = scene.send_out("a")
    scene.keep(item.id, changes_patch=PATCH)
    assert ask(site, f"/api/diff/{path.format(item=item.id)}").code == "E_NOT_FOUND"


def test_a_diff_that_is_a_link_is_not_followed(
    site: Server, manager: LockManager, tmp_path: Path, root: Path
) -> None:
    scene = Scene(manager, tasks("a"))
    item = scene.send_out("a")
    scene.keep(item.id)
    (tmp_path / "secret").write_text("secret")
    (root / f".holdfast/runs/{item.id}/changes.patch").symlink_to(tmp_path / "secret")
    assert ask(site, f"/api/diff/{item.id}").code == "E_NOT_FOUND"
    assert ask(site, f"/api/task?list={LIST}&name=a").json["diff"] is None


def test_nothing_about_tasks_mentions_screens(site: Server, manager: LockManager) -> None:
    scene = Scene(manager, tasks("a", "b", "c"), review=True)
    scene.send_out("a", "a.txt")
    scene.queue("b", "a.txt")
    review(scene, "c", "c.txt")
    for path in ("/api/summary", f"/api/task?list={LIST}&name=b"):
        told = ask(site, path).body.decode().lower()
        for word in ("screen", "controller", "analy", "merg"):
            assert word not in told, (path, word)


def test_the_resource_of_a_task_is_not_shown_as_a_file(site: Server, manager: LockManager) -> None:
    scene = Scene(manager, tasks("a", "b"))
    scene.send_out("a", "a.txt")
    scene.queue("b", "a.txt")
    until(
        lambda: site.feed.head == transactions.look(manager, lambda view: view.head), "it is read"
    )
    state = ask(site, "/api/state").json
    shown = [path for one in state["locks"]["active_grants"] for path in one["write_paths"]]
    assert shown == ["a.txt"]
    assert {one["name"] for one in state["locks"]["active_grants"]} == {"a"}
    assert state["counts"]["held"] == 1
    assert state["waiting"][0]["write_paths"] == ["a.txt"]
    history = ask(site, "/api/history").json
    assert "task:" not in json.dumps(history)
    assert {one["holder"] for one in history["spans"]} == {"a"}, "by its name, not by its item"


# Counts


def test_a_failure_is_counted_once_and_the_same_everywhere(tmp_path: Path) -> None:
    shop = workshop(tmp_path / "mixed")
    with LockManager.open(str(shop)) as manager, LockManager.open(str(shop)) as own:
        analysed(manager, shop)
        desk, flows = ItemStore(manager), Flows(manager)
        for number in range(2):  # two items of one controller that failed
            item = desk.enqueue("blog/posts", "apply", LockRequest.of([], [f"{number}.rb"]),
                                {"group": "blog/posts"})  # fmt: skip
            assert item is not None
            claimed = desk.claim(item, Here().holder(item))
            assert isinstance(claimed, tuple)
            desk.end(claimed[0], reason="it broke")
        for state in ("queued", "applying", "error"):
            flows.move("blog/posts", state, "it broke" if state == "error" else "")
        alone = desk.enqueue("alone", "phase", LockRequest.of([], ["alone.rb"]))
        assert alone is not None
        desk.end(alone, reason="it broke too")
        scene = Scene(manager, tasks("a", "b", "c"))
        scene.end("a", task_states.FAILED, reason="no")
        scene.end("b")
        scene.end("c", task_states.SKIPPED)
        ann = Agent(manager, "ann")
        ann.edit("app/x.rb")
        blocked(manager, "eve", "app/x.rb")
        with Server(own, port=0) as site:
            told = summary(site)
            names = [(one["kind"], one["name"]) for one in told["failures"]]
            assert names == [("controller", "blog/posts"), ("task", "a"), ("item", "alone")]
            counts = told["counts"]
            assert counts["failed"] == len(told["failures"]) == 3
            assert (counts["done"], counts["skipped"], counts["blocked"]) == (1, 1, 1)
            assert counts["trouble"] == 4
            assert counts["decisions"] == len(told["undecided"]) == 1
            assert ask(site, "/api/state").json["counts"] == counts
            figures = ask(site, "/metrics").body.decode()
            assert "holdfast_failed 3\n" in figures
            assert 'holdfast_tasks{state="failed"} 1\n' in figures
            [work] = [one for one in told["progress"] if one["kind"] == "tasks"]
            assert (work["failed"], work["done"], work["skipped"]) == (1, 1, 1)


def test_a_call_in_line_is_part_of_its_task_and_not_counted_again(
    site: Server, manager: LockManager
) -> None:
    scene = Scene(manager, tasks("a", "b"))
    scene.send_out("a", "a.txt")
    scene.send_out("b", "b.txt")
    scene.wait_in_call("b", "a.txt")
    counts = summary(site)["counts"]
    assert (counts["at_work"], counts["waiting"], counts["held"]) == (2, 0, 2)


# An empty repository


def test_an_empty_repository_lists_commands_to_start_with(
    site: Server, manager: LockManager
) -> None:
    told = summary(site)["guidance"]
    assert [one["command"].split()[1] for one in told] == ["dispatch", "dispatch", "init", "lock"]
    assert manager.try_acquire(holder="ann", write_paths=["x"]) is not None
    assert summary(site)["guidance"] == []


# Deciding


def decision(scene: Scene, name: str, verb: str = "approve", **changes: Any) -> dict[str, Any]:
    record = scene.records[name]
    return {"list": LIST, "task": name, "item": record.item, "tries": record.tries,
            "decision": verb, **changes}  # fmt: skip


def decided(manager: LockManager, name: str) -> review_decisions.TaskDecision | None:
    return transactions.look(manager, lambda view: review_decisions.decision_in(view, LIST, name))


def test_a_person_decides_on_a_task(site: Server, manager: LockManager) -> None:
    scene = Scene(manager, tasks("a", "b"), review=True)
    review(scene, "a", "a.txt")
    review(scene, "b", "b.txt")
    answer = post(site, "/decide", decision(scene, "a"))
    assert (answer.status, answer.json["approve"]) == (200, True)
    assert post(site, "/decide", decision(scene, "b", "reject")).json["approve"] is False
    for name, approve in (("a", True), ("b", False)):
        made = decided(manager, name)
        assert made is not None
        assert (made.approve, made.by) == (approve, "the page")
    again = post(site, "/decide", decision(scene, "a", "reject"))
    assert (again.status, again.code) == (409, "E_TRANSITION")


def test_a_decision_is_about_the_attempt_that_was_seen(site: Server, manager: LockManager) -> None:
    scene = Scene(manager, tasks("a"), review=True)
    review(scene, "a", "a.txt")
    seen = decision(scene, "a")
    scene.set("a", task_states.REVIEWING, tries=2)
    answer = post(site, "/decide", seen)
    assert (answer.status, answer.code) == (409, "E_TRANSITION")
    assert "done again since you looked" in answer.json["error"]["message"]
    assert post(site, "/decide", decision(scene, "a")).status == 200


@pytest.mark.parametrize(
    "wrong", [{"decision": "perhaps"}, {"tries": "1"}, {"tries": None}, {"decision": None}]
)
def test_an_invalid_decision_decides_nothing(
    site: Server, manager: LockManager, wrong: dict[str, Any]
) -> None:
    scene = Scene(manager, tasks("a"), review=True)
    review(scene, "a", "a.txt")
    answer = post(site, "/decide", decision(scene, "a", **wrong))
    assert (answer.status, answer.code) == (400, "E_REQUEST")
    assert decided(manager, "a") is None


def test_without_the_secret_no_task_is_decided(site: Server, manager: LockManager) -> None:
    scene = Scene(manager, tasks("a"), review=True)
    review(scene, "a", "a.txt")
    body = json.dumps(decision(scene, "a")).encode()
    for more in ({}, {"Authorization": "Bearer x"}, {"Cookie": f"holdfast={site.guard.secret}"}):
        headers = {"Content-Type": "application/json", **more}
        answer = ask(site, "/decide", "POST", body, headers)
        assert (answer.status, answer.code) == (401, "E_TOKEN")
    assert decided(manager, "a") is None


# Text


def test_invisible_characters_are_spelled_out() -> None:
    assert visible("plain text\n\twith lines") == "plain text\n\twith lines"
    assert visible("evil\u202etxt.exe") == "evil<U+202E>txt.exe"
    assert visible("a\u200bb\u2066c\x1b[0m\u00a0d\u3164") == (
        "a<U+200B>b<U+2066>c<U+001B>[0m<U+00A0>d<U+3164>"
    )
    assert visible("grün 漢字 ❤\ufe0f") == "grün 漢字 ❤\ufe0f"
    assert visible("a\ufe0f") == "a<U+FE0F>"


def test_sentences_of_the_board_have_nothing_invisible(site: Server, manager: LockManager) -> None:
    name = "ev\u202eil"
    scene = Scene(manager, tasks(name, "b"))
    scene.send_out(name, "a.txt")
    scene.queue("b", "a.txt")
    [waiting] = ask(site, "/api/state").json["waiting"]
    assert waiting["chain_sentence"] == "b waits for ev<U+202E>il (a.txt)"
    assert waiting["chain"][0]["name"] == name, "data is as it is"


# Many


def test_a_list_of_500_tasks_is_answered_quickly(root: Path, manager: LockManager) -> None:
    names = [f"task {number}" for number in range(500)]
    scene = Scene(manager, tasks(*names), slots=8)
    for name in names[:8]:
        scene.send_out(name, f"{name}.txt")
    for name in names[8:]:
        scene.queue(name, "task 0.txt")
    board = Board(manager)
    board.summary()
    times = []
    for _ in range(3):
        began = monotonic()
        told = board.summary()
        times.append(monotonic() - began)
    assert len(told["tasks"]) == 500
    assert min(times) < 1.0
    assert sum(bool(one["chain"]) for one in told["tasks"]) == 60
    assert len(json.dumps(told)) < 400_000
