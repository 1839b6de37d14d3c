"""The demo of tasks: what it shows did happen, and its audit notices a broken promise."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers_demo import (
    LINUX,
    NEEDS_BROKER,
    acquired,
    command,
    history_of,
    play,
    released,
)
from holdfast import LockManager
from holdfast.cli import main
from holdfast.cli.demo import demo_tasks
from holdfast.cli.demo import demo_tasks_stage as stage
from holdfast.cli.demo.demo_checks import Finding
from holdfast.cli.demo.demo_tasks_audit import (
    Commit,
    Evidence,
    Plan,
    audit,
    checksum,
    crashed,
    waited,
    yielded,
)
from holdfast.cli.demo.demo_tasks_story import Story
from holdfast.cli.demo.demo_words import MARKS
from holdfast.core.model import SECOND, Event
from holdfast.work.tasks.lists.list_reader import read_tasks

if TYPE_CHECKING:
    from helpers_postgres import Server

RESUMED = "the killed dispatcher left no half edit, even before another was started"
WAITED = "gift-cards waited for CHANGELOG.md, and continued from what discounts had written"
YIELDED = "dates yielded to cents in a deadlock, was undone, and was done after it"
CRASHED = "receipts crashed in shop/mail.py, and the next attempt found it restored"
ONCE = "every task was done exactly once"
EDITS = "every edit of every task is there, once"
ELSE = "apart from these edits, every file is unchanged to the byte"
CUT_OFF = "attempts that were cut off left nothing behind, in any file or commit"
COMMITS = "git has one commit for each task, with exactly its files"
WHOLE = "each commit adds the edits of its task to the one before, and nothing else"
TOGETHER = "no two tasks ever held one file at a time, according to the ledger"
CLOCKS = "nor according to the agents' own diaries"
LEFT = "no lease is left"


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True
    )
    return done.stdout


# The whole demo


@LINUX
@NEEDS_BROKER
def test_what_it_keeps_is_what_it_told_on_80_columns(tmp_path: Path) -> None:
    # A user's own git settings, and a caller inside another repository, must not matter.
    strange = tmp_path / "gitconfig"
    strange.write_text(
        "[commit]\n gpgsign = true\n[core]\n hooksPath = /nowhere\n autocrlf = true\n"
    )
    more = {"GIT_CONFIG_GLOBAL": str(strange), "GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere"}
    answer = play("--keep", TMPDIR=str(tmp_path), **more)
    assert answer.code == 0, answer
    assert answer.out.count("\n  ok  ") == 13
    assert "\n  NO  " not in answer.out
    assert "screen" not in (answer.out + answer.err).lower()
    assert "\x1b" not in answer.out
    [folder] = tmp_path.glob("holdfast-demo-*")
    shown = [line for line in answer.out.splitlines() if str(folder) not in line]
    assert [line for line in shown if len(line) > 80] == []
    told = " ".join(answer.out.split())
    for words in (
        "gift-cards is about to write CHANGELOG.md, which discounts is changing: the write waits",
        "s, as discounts left it",
        "cents is about to write shop/orders.py, which dates is changing: the write waits",
        "dates is in a deadlock: dates waits for cents (shop/prices.py), cents waits for dates",
        "The younger yields: its files are restored",
        "s, as it was before dates",
        "dates starts again, with shop/orders.py, shop/prices.py leased from the start",
        "receipts its agent is killed in the middle of an edit: its files are restored",
        "the dispatcher is killed (kill -9), with half a line written in texts/en.toml, docs/",
        "the dispatcher is gone, and every file is as last committed: git status is clean",
        "the dispatcher is started again: holdfast dispatch --resume",
        "8 of 8 tasks done",
    ):
        assert words in told, words
    assert told.endswith(
        "Next: docs/tasks.md, and in your repository: holdfast dispatch tasks.toml"
    )

    root = folder / stage.REPOSITORY
    assert git(root, "status", "--porcelain") == ""
    assert sorted(git(root, "log", "--format=%s").splitlines()) == sorted(
        [*stage.PROMPTS.values(), "a small shop"]
    )
    assert command(root, "status", "--json").json["grants"] == []
    head = git(root, "rev-parse", "HEAD")
    again = command(root, "dispatch", stage.LIST, "--json").json
    assert again["counts"]["done"] == len(stage.PROMPTS)
    assert git(root, "rev-parse", "HEAD") == head  # running the list again does nothing twice


@LINUX
@NEEDS_BROKER
def test_without_git_it_says_what_cannot_be_checked_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "temporary").mkdir()
    more = {"HOLDFAST_STORE": "sqlite:///nowhere/ledger.db", "MAX_CLAUDE_CONCURRENCY": "1"}
    answer = play("--json", TMPDIR=f"{tmp_path / 'temporary'}", PATH=f"{tmp_path / 'bin'}", **more)
    result = answer.json
    assert [one for one in result["checks"] if one["passed"] is False] == []
    cannot = {one["question"] for one in result["checks"] if one["passed"] is None}
    assert cannot == {RESUMED, COMMITS, WHOLE}
    assert (answer.code, result["passed"], result["done"]) == (0, True, len(stage.PROMPTS))
    assert [stage.SECOND, stage.FIRST, stage.SHARED] in result["waits"]
    assert sorted(result["killed"]["tasks_out"]) == sorted(stage.STALLS)
    assert (result["commits"], result["folder"]) == (None, None)
    assert list((tmp_path / "temporary").iterdir()) == []


@LINUX
@NEEDS_BROKER
def test_with_a_server_the_ledger_of_the_demo_is_there_as_a_repository_of_its_own(
    tmp_path: Path, postgres_server: Server
) -> None:
    url = postgres_server.url("another repository")  # which the demo leaves as it is
    answer = play("--json", TMPDIR=str(tmp_path), HOLDFAST_STORE=url)
    result = answer.json
    assert [one for one in result["checks"] if one["passed"] is not True] == []
    assert (answer.code, result["passed"], result["done"]) == (0, True, len(stage.PROMPTS))
    assert history_of(result, postgres_server) == result["events"] > 50
    assert list(tmp_path.iterdir()) == []
    with LockManager.open(url) as manager:
        assert list(manager.events()) == []


#: Loaded by the dispatcher and its launchers before anything else. Each of them breaks one promise.
BREAKS = {
    "nothing is put back": """
from holdfast.manager.files.keepsakes import Keepsake
def put_back(self, is_held=None):
    self.forget()
    return []
Keepsake.put_back = put_back
""",
    "old content is not refused": """
from holdfast.gate.broker.leasing.task_leases import TaskLeases
TaskLeases._demand_fresh = lambda self, caller, lease: None
""",
}


@LINUX
@NEEDS_BROKER
@pytest.mark.parametrize(
    ("broken", "noticed"),
    [
        ("nothing is put back", {CRASHED, RESUMED, EDITS, ELSE, CUT_OFF}),
        ("old content is not refused", {WAITED, EDITS}),
    ],
)
def test_the_audit_notices_a_promise_that_is_really_broken(
    broken: str, noticed: set[str], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(BREAKS[broken])
    answer = play("--json", PYTHONPATH=str(tmp_path), TMPDIR=str(tmp_path))
    failed = {one["question"] for one in answer.json["checks"] if one["passed"] is False}
    assert noticed <= failed, failed
    assert (answer.code, answer.json["passed"]) == (1, False)


@LINUX
@NEEDS_BROKER
@pytest.mark.parametrize(("passed", "code"), [(True, 0), (None, 0), (False, 1)])
def test_the_exit_code_is_what_the_audit_says(
    passed: bool | None,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo_tasks.Director, "_work", lambda self: None)
    monkeypatch.setattr(demo_tasks.Director, "_shown", lambda *_: [])
    monkeypatch.setattr(demo_tasks, "audit", lambda *_: [Finding("a question", passed, "a detail")])
    assert main(["demo"]) == code
    out = capsys.readouterr().out
    assert f"  {MARKS[passed][0]}  a question" in out
    assert ("please report this" in out) is (passed is False)


# The stage


def test_the_list_declares_no_files_and_can_be_read(tmp_path: Path) -> None:
    text = stage.task_list(str(tmp_path), commit=True)
    (tmp_path / stage.LIST).write_text(text)
    tasks = read_tasks(str(tmp_path / stage.LIST), str(tmp_path))
    assert [task.name for task in tasks] == list(stage.PARTS) == list(stage.PROMPTS)
    assert all(task.writes is None and task.commit for task in tasks)
    assert tomllib.loads(text)["slots"] == stage.SLOTS
    order = list(stage.PROMPTS)
    assert order.index(stage.OLDER) < order.index(stage.YOUNGER)


def test_agents_wait_only_for_what_another_does() -> None:
    said = {
        f"{name} {verb} {path}"
        for name in stage.PARTS for path in stage.files_of(name)
        for verb in ("read", "asks", "wrote", stage.WAITS)
    }  # fmt: skip
    awaited = {
        step[key] for steps in stage.PARTS.values() for step in steps
        for key in ("when", "until") if key in step
    }  # fmt: skip
    assert awaited
    assert awaited <= said


# The story


def changed(seq: int, name: str, state: str, at: float = 0, **more: Any) -> Event:
    data = {
        "name": name, "state": state, "item": f"{name}-1", "reason": "", "tries": 1, "needs": [],
        "files": [], "commit": "", **more,
    }  # fmt: skip
    return Event(seq, "task_changed", round(at * SECOND) + 1, data)


def queued(seq: int, name: str, path: str, at: float) -> Event:
    data = {"id": f"ticket-{seq}", "holder": {"id": f"{name}-1"}, "paths": [path, path]}
    return Event(seq, "ticket_added", round(at * SECOND) + 1, data)


def two_that_want_one_file() -> list[Event]:
    first = acquired(5, "one-1", 10, "a", at=1)
    return [
        changed(1, "one", "queued"), changed(2, "two", "queued"),
        changed(3, "one", "working"), changed(4, "two", "working"),
        first, queued(6, "two", "a", at=2), released(7, first, at=4),
        acquired(8, "two-1", 11, "a", at=4),
    ]  # fmt: skip


def test_a_task_gets_a_file_after_it_was_told_how_the_other_ended() -> None:
    story = Story()
    story.read(two_that_want_one_file())
    told = story.read([changed(9, "one", "done", 4, files=["a"], commit="1234567890")])
    assert [(one.who, one.text) for one in told] == [
        ("one", "is done, commit 1234567: a"),
        ("two", "gets a after 2.0 s, as one left it"),
    ]
    assert [(one.waiter, one.holder, one.seconds) for one in story.waits] == [("two", "one", 2.0)]


def test_a_deadlock_is_reported_with_the_names_of_the_tasks() -> None:
    story = Story()
    story.read(two_that_want_one_file())
    circle = "two-1 would wait for one-1 (a), one-1 would wait for two-1 (b)"
    why = f"it yielded to an older task: {circle}"
    told = story.read([changed(9, "one", "queued", 4, reason=why)])
    shown = "two waits for one (a), one waits for two (b)"
    put_back = "its files are restored, and it will be done again later"
    assert [(one.who, one.text) for one in told] == [
        ("one", f"is in a deadlock: {shown}. The younger yields: {put_back}"),
        ("two", "gets a after 2.0 s, as it was before one"),
    ]


def test_what_was_cut_off_with_the_dispatcher_is_told_once() -> None:
    story = Story()
    story.read(two_that_want_one_file())
    assert story.cut_off() == ["one", "two"]
    assert story.read([changed(9, "two", "queued", 5, reason="its dispatcher is gone")]) == []
    again = story.read([changed(10, "two", "working", 6, tries=2)])
    assert [one.text for one in again] == ["starts again"]


# The audit can fail


PLAN = Plan(
    {"a": b"a\n", "b": b"b\n"},
    {"one": ["a"], "two": ["a", "b"]},
    {"one": "Do one.", "two": "Do two."},
)
ONE, TWO = b"# 0000000001 one: Do one.\n", b"# 0000000003 two: Do two.\n"


def diary(begin: float, number: int, task: str, *entries: str) -> list[str]:
    lines = [f"begins {number:010} {task} task", *entries]
    return [f"{begin + 0.1 * at:.3f} {line}" for at, line in enumerate(lines)]


FIRST = diary(1, 1, "one", f"read a {checksum(b'a')}", "edits a", "wrote a", "ends")
CRASH = diary(1, 2, "two", f"read b {checksum(PLAN.files['b'])}", "edits b", "crashes b")
AGAIN = diary(
    3, 3, "two", f"read b {checksum(PLAN.files['b'])}", "edits b", "wrote b",
    f"read a {checksum(PLAN.files['a'])}", "stale a",
    f"read a {checksum(PLAN.files['a'] + ONE)}",
    "edits a", "wrote a", "ends",
)  # fmt: skip
BEGIN = Commit("begin", ["a", "b"], PLAN.files)
AFTER_ONE = {"a": b"a\n" + ONE, "b": b"b\n"}
COMMIT_ONE = Commit("Do one.", ["a"], AFTER_ONE)
END = {"a": b"a\n" + ONE + TWO, "b": b"b\n" + TWO}
COMMIT_TWO = Commit("Do two.", ["a", "b"], END)
GRANT = acquired(1, "one-1", 10, "a")
NEXT = acquired(3, "two-1", 11, "a", "b")
IN_LINE = Event(0, "ticket_added", 1, {**NEXT.data, "paths": ["a", "b"]})
YIELDS = changed(5, "two", "queued", reason="it yielded to an older task")
EVENTS = [
    IN_LINE, GRANT, released(2, GRANT), NEXT, released(4, NEXT), YIELDS,
    changed(6, "one", "done"), changed(7, "two", "done"),
]  # fmt: skip
GOOD: dict[str, Any] = {
    "events": EVENTS, "files": END, "diaries": [FIRST, CRASH, AGAIN],
    "commits": [BEGIN, COMMIT_ONE, COMMIT_TWO],
}  # fmt: skip


def failures(**other: Any) -> set[str]:
    found = Evidence(**{**GOOD, **other})
    shown = [waited(found, "one", "two", "a"), yielded(found, "one", "two"),
             crashed(PLAN, found, "two", "b")]  # fmt: skip
    return {one.question for one in [*shown, *audit(PLAN, found)] if one.passed is False}


def test_the_audit_passes_what_is_right() -> None:
    assert failures() == set()
    assert failures(commits=None) == set()


@pytest.mark.parametrize(
    ("files", "questions"),
    [
        ({"a": b"a\n" + ONE + TWO + ONE, "b": END["b"]}, {EDITS}),
        ({"a": b"a\n" + TWO, "b": END["b"]}, {EDITS, "waited"}),
        ({"a": b"a\n" + TWO + ONE, "b": END["b"]}, {"waited"}),
        ({"a": b"a" + ONE + TWO, "b": END["b"]}, {EDITS, ELSE, "waited"}),
        ({"a": END["a"] + b"\n", "b": END["b"]}, {ELSE}),
        ({**END, "c": b""}, {ELSE}),
        ({"a": END["a"]}, {EDITS, ELSE}),
        ({"a": END["a"], "b": END["b"] + b"# 0000000002 two: D"}, {ELSE, CUT_OFF}),
    ],
)
def test_the_audit_sees_edits_that_are_lost_doubled_half_or_strange(
    files: dict[str, bytes], questions: set[str]
) -> None:
    named = {"waited": "two waited for a, and continued from what one had written"}
    expected = {named.get(one, one) for one in questions}
    assert failures(files=files, commits=None) == expected
    assert failures(files=files) == {*expected, WHOLE}  # because git has other contents


@pytest.mark.parametrize(
    ("commits", "questions"),
    [
        ([BEGIN, COMMIT_TWO], {COMMITS, WHOLE}),
        ([BEGIN, COMMIT_ONE, COMMIT_ONE, COMMIT_TWO], {COMMITS, WHOLE}),
        ([BEGIN, COMMIT_ONE._replace(changed=["a", "b"]), COMMIT_TWO], {COMMITS}),
        ([BEGIN, COMMIT_ONE, COMMIT_TWO._replace(changed=["a"])], {COMMITS}),
        ([BEGIN, COMMIT_ONE._replace(files={**AFTER_ONE, "b": b"bb\n"}), COMMIT_TWO], {WHOLE}),
        ([BEGIN, COMMIT_ONE._replace(subject="else"), COMMIT_TWO], {COMMITS, WHOLE}),
        (
            [BEGIN, COMMIT_ONE._replace(files={**AFTER_ONE, "b": b"b\n# 0000000002"}),
             COMMIT_TWO],
            {WHOLE, CUT_OFF},
        ),
    ],
)  # fmt: skip
def test_the_audit_sees_commits_that_are_missing_doubled_or_not_of_one_task(
    commits: Sequence[Commit], questions: set[str]
) -> None:
    assert failures(commits=commits) == questions


def test_the_audit_sees_what_was_done_twice_or_never_or_is_still_held() -> None:
    assert failures(events=[*EVENTS, EVENTS[-1]]) == {ONCE}
    assert ONCE in failures(events=EVENTS[:-1])
    assert ONCE in failures(diaries=[FIRST, CRASH, AGAIN, AGAIN])
    assert failures(events=[*EVENTS, acquired(9, "one-1", 12, "c")]) == {LEFT}


def test_the_audit_sees_two_that_had_one_file() -> None:
    assert failures(events=[IN_LINE, GRANT, NEXT, released(8, GRANT), *EVENTS[4:]]) == {TOGETHER}
    early = [f"{1.15 + 0.01 * at:.3f} {line.split(' ', 1)[1]}" for at, line in enumerate(AGAIN)]
    assert CLOCKS in failures(diaries=[FIRST, CRASH, early])


def test_the_audit_sees_what_never_came_to_pass() -> None:
    fresh = [line for line in AGAIN if " stale " not in line]
    wait = "two waited for a, and continued from what one had written"
    assert failures(diaries=[FIRST, CRASH, fresh]) == {wait}
    assert failures(events=EVENTS[1:]) == {wait}
    calm = [line for line in CRASH if " crashes " not in line]
    crash = "two crashed in b, and the next attempt found it restored"
    assert failures(diaries=[FIRST, calm, AGAIN]) == {crash}
    dirty = [line.replace(checksum(PLAN.files["b"]), checksum(b"half")) for line in AGAIN]
    assert failures(diaries=[FIRST, CRASH, dirty]) == {crash}
    circle = "two yielded to one in a deadlock, was undone, and was done after it"
    assert failures(events=[one for one in EVENTS if one is not YIELDS]) == {circle}
    assert failures(events=[*EVENTS[:-2], EVENTS[-1], EVENTS[-2]]) == {circle}
    both = changed(8, "one", "queued", reason="it yielded to an older task")
    assert failures(events=[*EVENTS, both]) == {circle}
