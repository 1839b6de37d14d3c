"""The demo of screens, and the choice of a demo: it runs anywhere, its claims are true, and it
would report locks that do not hold."""

from __future__ import annotations

import errno
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers_cli import COMMAND, environment
from helpers_demo import (
    LINUX,
    NEEDS_BROKER,
    acquired,
    command,
    history_of,
    play,
    processes_below,
    released,
)
from helpers_processes import PATIENCE_SECONDS, until
from helpers_sandbox import NEEDS_LANDLOCK, WITHOUT_CALL
from holdfast.cli import main
from holdfast.cli.demo import (
    demo_screens,
    demo_screens_stage,
    demo_show,
    demo_words,
)
from holdfast.cli.demo.demo_checks import Finding, stays_in
from holdfast.cli.demo.demo_screens_audit import Evidence, audit
from holdfast.cli.demo.demo_screens_story import News, Story
from holdfast.cli.demo.demo_show import Show
from holdfast.cli.demo.demo_words import MARKS
from holdfast.core.model import SECOND, Event

if TYPE_CHECKING:
    from helpers_postgres import Server

CREATE_RULESET = 444


@LINUX
@NEEDS_LANDLOCK
def test_what_it_keeps_is_what_it_told_on_80_columns_without_git(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    answer = play("--screens", "--keep", TMPDIR=str(tmp_path), PATH=f"{tmp_path / 'bin'}")
    told = " ".join(answer.out.split())
    assert answer.code == 0, answer
    assert " NO " not in answer.out
    assert " -- " not in answer.out
    assert "there is no git here" in told
    assert "\x1b" not in answer.out
    [folder] = tmp_path.glob("holdfast-demo-*")
    shown = [line for line in answer.out.splitlines() if str(folder) not in line]
    assert [line for line in shown if len(line) > 80] == []
    assert re.search(r"Watch it in a browser: http://127\.0\.0\.1:\d+/", answer.out)
    assert "shop/orders its test failed; a fix is tried" in told
    assert "blog/comments apply was killed by signal 9" in told
    assert "the dispatcher is killed (kill -9) with" in told
    assert f"admin/reports is refused {demo_screens_stage.ORDER}, which it did not name" in told
    assert re.search(r"time +\d+\.\d s; one at a time, the same work takes \d+\.\d s", told)
    assert re.search(r"\n    config/\S+ +\d+ waits? +\d+\.\d s\n", answer.out)

    log = command(folder, "log").out
    assert f"Checked by reading {len(log.splitlines())} events" in answer.out
    assert [gap["path"] for gap in command(folder, "gaps", "--json").json["gaps"]] == [
        demo_screens_stage.ORDER
    ]
    assert command(folder, "status", "--json").json["grants"] == []
    assert (folder / demo_screens_stage.ORDER).read_text() == f"# {demo_screens_stage.ORDER}\n"


@LINUX
def test_without_landlock_the_screens_are_shown_and_nothing_is_left_behind(tmp_path: Path) -> None:
    # The caller's variables for stores and holders must not reach the dispatcher.
    strange = {"HOLDFAST_STORE": "sqlite:///nowhere/ledger.db", "MAX_CLAUDE_CONCURRENCY": "1"}
    hidden = [sys.executable, "-c", WITHOUT_CALL, str(CREATE_RULESET), str(errno.ENOSYS)]
    answer = play("--json", before=hidden, TMPDIR=str(tmp_path), **strange)
    result = answer.json
    assert "tasks cannot be dispatched on this machine (E_SANDBOX)" in answer.err
    assert "the demo of screens instead" in answer.err
    assert [check for check in result["checks"] if check["passed"] is False] == []
    assert result["passed"]
    assert answer.code == 0
    cannot = [check["question"] for check in result["checks"] if check["passed"] is None]
    assert cannot == [
        "the write to a file that no analysis had named was refused",
        "each line was written by the holder of its file",
        "interrupted and refused edits left nothing behind",
    ]
    assert "no Landlock" in result["unguarded"]
    assert (result["controllers"], result["screens"]) == (7, 23)
    assert 3 <= result["agents_at_once"] <= demo_screens_stage.SLOTS
    assert result["seconds"] < result["work_seconds"]
    assert result["conflicts_avoided"] == len(result["waits"]) >= 5
    assert sum(count for _path, count, _seconds in result["contended"]) == len(result["waits"])
    assert result["crash"]["workflow"] == "blog/comments"
    assert result["hang"]["workflow"] == "shop/orders"
    assert result["killed"]["agents_out"] >= 1
    assert result["folder"] is None
    assert list(tmp_path.iterdir()) == []


@LINUX
@NEEDS_LANDLOCK
def test_with_a_server_the_ledger_of_the_screens_is_there_too(
    tmp_path: Path, postgres_server: Server
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "kept").mkdir()
    words = ["--screens", "--json", "--keep", "--store", postgres_server.url()]
    answer = play(*words, TMPDIR=f"{tmp_path / 'kept'}", PATH=f"{tmp_path / 'bin'}")
    result = answer.json
    assert [one for one in result["checks"] if one["passed"] is not True] == []
    assert (answer.code, result["passed"]) == (0, True)
    assert history_of(result, postgres_server) == result["events"] > 100
    [folder] = (tmp_path / "kept").iterdir()
    assert not (folder / ".holdfast/ledger.db").exists()
    log = command(folder, "log", "--json", HOLDFAST_STORE=postgres_server.url())
    assert len(log.out.splitlines()) == result["events"]


@LINUX
@pytest.mark.parametrize(
    ("words", "sign"),
    [pytest.param((), "the write waits", marks=NEEDS_BROKER), (("--screens",), " applying")],
    ids=["tasks", "screens"],
)
def test_somebody_who_ends_it_leaves_no_agents_and_no_folder(
    tmp_path: Path, words: Sequence[str], sign: str
) -> None:
    with subprocess.Popen(
        [*COMMAND, "demo", *words], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
        env=environment(TMPDIR=str(tmp_path), PYTHONUNBUFFERED="1"),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            if sign in line:
                break
        working = processes_below(tmp_path)
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
    assert len(working) >= 2
    until(lambda: processes_below(tmp_path) == [], "the agents are gone")
    assert list(tmp_path.iterdir()) == []


def test_elsewhere_it_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert main(["demo"]) == 1
    assert "needs Linux" in capsys.readouterr().err


@LINUX
@pytest.mark.parametrize(("passed", "code"), [(True, 0), (None, 0), (False, 1)])
def test_the_exit_code_is_what_the_check_says(
    passed: bool | None,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo_screens.Director, "_work", lambda self: None)
    monkeypatch.setattr(demo_screens.Director, "_troubles", lambda *_: [])
    monkeypatch.setattr(
        demo_screens, "audit", lambda _: [Finding("a question", passed, "a detail")]
    )
    assert main(["demo", "--screens"]) == code
    out = capsys.readouterr().out
    assert f"  {MARKS[passed][0]}  a question" in out
    assert ("please report this" in out) is (passed is False)


# The stage


def test_the_stage_is_as_large_as_promised_and_its_files_are_shared() -> None:
    assert len(demo_screens_stage.SCREENS) >= 6
    assert len(demo_screens_stage.screen_names()) >= 20
    files = demo_screens_stage.application()
    writers: dict[str, set[str]] = {}
    for group, names in demo_screens_stage.SCREENS.items():
        for targets, _seconds in names.values():
            for path in targets:
                assert path in files
                writers.setdefault(path, set()).add(group)
    assert len([path for path, groups in writers.items() if len(groups) > 1]) >= 3
    for paths in demo_screens_stage.READS.values():
        assert set(paths) <= files.keys()


# The story


def work(seq: int, type: str, id: str, status: str, at: float = 0.0, **more: Any) -> Event:
    data = {
        "id": id, "workflow": more.pop("workflow", f"{id}/s"), "phase": "analyze",
        "status": status, "read_paths": [], "write_paths": [f"{id}.rb"], "grant_id": "",
        "token": 0, "dispatched": 0, "retries": 0, "reason": "", "data": {}, **more,
    }  # fmt: skip
    return Event(seq, type, round(at * SECOND) + 1, data)


def two_who_want_one_file() -> list[Event]:
    first = acquired(3, "a", 10, "x", at=1)
    return [
        work(1, "work_queued", "a", "queued", at=1, write_paths=["x"]),
        work(2, "work_queued", "b", "queued", at=1, write_paths=["x"]),
        first,
        work(4, "work_dispatched", "a", "dispatched", at=1, grant_id="grant-3", dispatched=1),
        released(5, first, at=3),
        work(6, "work_ended", "a", "completed", at=3),
        acquired(7, "b", 11, "x", at=3),
        work(8, "work_dispatched", "b", "dispatched", at=3, grant_id="grant-7", dispatched=3),
        work(9, "work_ended", "b", "completed", at=4),
    ]


def test_who_waits_for_whom_follows_from_who_had_what() -> None:
    story = Story("/root", slots=2)
    news = story.read(two_who_want_one_file())
    assert [(one.who, one.text) for one in news] == [("b/s", "waits for a/s: x")]
    [wait] = story.waits
    assert (wait.waiter, wait.holder, wait.path, wait.seconds) == ("b/s", "a/s", "x", 2.0)
    assert story.work_seconds == 3.0
    assert story.most_at_once == 1


def test_who_only_waits_for_a_slot_avoids_no_conflict() -> None:
    story = Story("/root", slots=1)
    assert story.read(two_who_want_one_file()) == []
    assert story.waits == []


def test_what_was_out_when_the_dispatcher_was_killed_is_no_work() -> None:
    story = Story("/root", slots=2)
    story.read(two_who_want_one_file()[:4])
    assert list(story.out) == ["a"]
    assert story.cut_off() == 1
    again = work(5, "work_retried", "a", "queued", at=9, reason="its dispatcher is gone")
    assert story.read([again]) == []
    assert story.work_seconds == 0.0
    assert story.waits == []
    assert story.retried == [("a/s", "analyze", "its dispatcher is gone")]


def test_a_gap_is_told_once_whoever_noticed_it() -> None:
    story = Story("/root", slots=2)
    story.read(two_who_want_one_file()[:4])
    gaps = [
        Event(5 + at, "coverage_gap", SECOND, {"grant": "grant-3", "path": path, "why": "no"})
        for at, path in enumerate(["/root/lib/y.rb", "lib/y.rb"])
    ]
    assert [one.text for one in story.read(gaps)] == ["is refused lib/y.rb, which it did not name"]
    assert list(story.gaps) == [("a/s", "lib/y.rb")]


# The show


def test_somebody_at_a_terminal_sees_one_screen_that_is_drawn_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_show, "_has_room", lambda lines: True)
    show = Show({"shop/carts": 2}, quiet=False)
    story = Story("/root", slots=2)
    news = [News(at, "shop/carts", f"news {at}", "") for at in range(20)]
    show.tell(story, news)
    assert capsys.readouterr().out == ""
    show.draw(story, 1.0)
    first = capsys.readouterr().out
    assert first.startswith(demo_show._HIDE_CURSOR)
    assert "news 19" in first
    assert "news 12" not in first
    show.draw(story, 2.0)
    again = capsys.readouterr().out
    assert again.startswith(f"\x1b[{first.count(chr(10))}A\r")
    assert again.count("\n") == first.count("\n")
    show.end()
    assert capsys.readouterr().out == f"{demo_show._SHOW_CURSOR}\n"


def test_colours_are_for_terminals_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Show({}, quiet=False).title("plain")
    monkeypatch.setattr(demo_words, "colours", lambda: True)
    Show({}, quiet=False).title("bold")
    Show({}, quiet=True).title("nothing")
    assert capsys.readouterr().out == "\nplain\n\n\x1b[1mbold\x1b[0m\n"


# Its check can fail


ONE = acquired(1, "ann", 10, "a/x")
TWO = acquired(3, "bob", 11, "a/x", "b")


def completed(seq: int, workflow: str, token: int, *paths: str) -> list[Event]:
    more: dict[str, Any] = {
        "workflow": workflow, "phase": "verify", "token": token, "write_paths": list(paths),
    }  # fmt: skip
    return [
        work(seq, "work_queued", workflow, "queued", **more),
        work(seq + 1, "work_ended", workflow, "completed", **more),
    ]


def diary(begin: float, token: int, who: str, *entries: str) -> list[str]:
    lines = [f"begins {token} {who} apply", *entries]
    return [f"{begin + 0.5 * at:.3f} {line}" for at, line in enumerate(lines)]


DONE = [*completed(5, "one/a", 10, "a/x"), *completed(7, "two/b", 11, "a/x", "b")]
GOOD: dict[str, Any] = {
    "events": [ONE, released(2, ONE), TWO, released(4, TWO), *DONE],
    "files": {
        "a/x": ["# 10 one/a apply", "# 11 two/b apply"],
        "b": ["# 11 two/b apply"],
        "c": [],
    },
    "diaries": [
        diary(1.0, 10, "one/a", "edits a/x", "wrote a/x"),
        diary(2.0, 11, "two/b", "edits a/x", "wrote a/x", "edits b", "wrote b"),
        diary(4.0, 12, "three/c", "reads a/"),
    ],
}
TOGETHER = "no writer ever shared a file, according to the ledger"
SEEN_TOGETHER = "nor according to the agents' own diaries"
CHANGED = "nothing changed under an analysis while it read"
TOKENS = "every token is larger than all before it"
ORDER = "in each file the tokens only grow"
HOLDERS = "each line was written by the holder of its file"
LOST = "every edit of a completed merge is there, once"
LEFT = "interrupted and refused edits left nothing behind"
ONCE = "each piece of work was completed exactly once"
GIVEN_BACK = "no lock is left"


def failures(**changed: Any) -> set[str]:
    found = audit(Evidence(**{**GOOD, **changed}))
    return {finding.question for finding in found if finding.passed is False}


def test_the_check_passes_what_is_right() -> None:
    assert failures() == set()


@pytest.mark.parametrize(
    "events",
    [
        [ONE, TWO],
        [ONE, acquired(2, "bob", 11, "a", mode="r")],
        [acquired(1, "ann", 10, "a", mode="r"), TWO],
    ],
)
def test_the_check_sees_two_who_had_one_file(events: Sequence[Event]) -> None:
    assert TOGETHER in failures(events=events)


def test_the_check_lets_readers_share_and_a_holder_take_over_from_itself() -> None:
    readers = [acquired(1, "ann", 10, "a", mode="r"), acquired(2, "bob", 11, "a/x", mode="r")]
    moved = Event(2, "lock_moved", 2, {"grant": ONE.data["id"]})
    for events in (readers, [ONE, moved, TWO], [ONE, acquired(2, "ann", 11, "a/x")]):
        assert TOGETHER not in failures(events=events)


@pytest.mark.parametrize(
    "late",
    [
        diary(1.4, 11, "two/b", "edits a/x", "wrote a/x", "edits b", "wrote b"),
        diary(1.4, 11, "two/b", "reads a/"),
        diary(0.8, 11, "two/b", "reads a/x", "reads b", "reads a/x"),
    ],
)
def test_the_check_sees_two_who_were_at_one_file_though_the_ledger_is_silent(
    late: list[str],
) -> None:
    assert SEEN_TOGETHER in failures(diaries=[GOOD["diaries"][0], late])


def test_the_check_lets_readers_read_together_and_follows_one_who_was_killed() -> None:
    readers = [diary(1, 10, "one", "reads a/", "reads a/"), diary(1, 11, "two", "reads a/x")]
    assert SEEN_TOGETHER not in failures(diaries=readers)
    killed = diary(1, 10, "one", "edits a/x", "edits a/x", "crashes a/x")
    [stay] = stays_in([killed])
    assert (stay.begin, stay.end, stay.writes) == (1.5, 2.5, True)


def test_the_check_sees_what_changed_under_a_reader() -> None:
    assert failures(diaries=[*GOOD["diaries"], ["9.0 changed a/x"]]) == {CHANGED}


def test_the_check_sees_a_token_that_came_back() -> None:
    again = acquired(3, "bob", 10, "a/x", "b")
    assert TOKENS in failures(events=[ONE, released(2, ONE), again, released(4, again), *DONE])


@pytest.mark.parametrize(
    ("lines", "questions"),
    [
        (["# 11 two/b apply"], {LOST}),
        (["# 10 one/a apply", "# 11 two/b apply", "# 11 two/b apply"], {LOST}),
        (["# 11 two/b apply", "# 10 one/a apply"], {ORDER}),
        (["# 10 one/a apply", "# 11 two/b apply", "# 11 two/b stray"], {LEFT}),
        (["# 10 one/a apply", "# 11 two/b apply", "# 11 two"], {LEFT, HOLDERS}),
    ],
)
def test_the_check_sees_lines_that_are_lost_doubled_late_or_strange(
    lines: list[str], questions: set[str]
) -> None:
    assert failures(files={**GOOD["files"], "a/x": lines}) == questions


def test_the_check_sees_who_wrote_without_holding() -> None:
    files = {**GOOD["files"], "c": ["# 10 one/a apply"]}
    wrote = diary(6.0, 10, "one/a", "edits c", "wrote c")
    assert failures(files=files, diaries=[*GOOD["diaries"], wrote]) == {HOLDERS}


def test_the_check_sees_a_merge_that_is_said_to_be_done_and_is_not() -> None:
    files = {**GOOD["files"], "b": []}
    silent = [*GOOD["diaries"][:1], diary(2.0, 11, "two/b", "edits a/x", "wrote a/x")]
    assert failures(files=files, diaries=silent) == {LOST}


def test_the_check_sees_what_was_done_twice_never_or_is_still_held() -> None:
    events: list[Event] = GOOD["events"]
    assert failures(events=[*events, events[-1]]) == {ONCE}
    never = work(9, "work_queued", "c", "queued")
    assert failures(events=[*events, never]) == {ONCE}
    assert failures(events=[*events, acquired(9, "cleo", 12, "c")]) == {GIVEN_BACK}


def test_where_nothing_guards_a_stray_line_is_told_and_is_no_failure() -> None:
    files = {**GOOD["files"], "c": ["# 10 one/a stray"]}
    assert failures(files=files) == {HOLDERS, LEFT}
    told = [
        (finding.question, "no Landlock" in finding.detail)
        for finding in audit(Evidence(**{**GOOD, "files": files, "unguarded": "no Landlock"}))
        if finding.passed is not True
    ]
    assert told == [(HOLDERS, True), (LEFT, True)]
