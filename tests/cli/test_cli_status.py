"""status and log: readable tables and sentences, which cannot control the reader's terminal."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser.task_scenes import Scene, dead_witness
from helpers_agents import Agent, blocked
from helpers_cli import COMMAND, QuickRepository, Repository, Terminal
from helpers_processes import until
from holdfast import LockManager
from holdfast.cli.locking.log_commands import EventSentences
from holdfast.cli.terminal.tables import (
    Cell,
    Column,
    cut,
    ended,
    render,
    shortened,
    wide,
)
from holdfast.core import rules
from holdfast.core.events import ENDINGS
from holdfast.core.model import Event, Holder, Request
from holdfast.gate.config.settings import Settings
from holdfast.gate.door import delegated_calls
from holdfast.gate.guard import guard_records, switch_files
from holdfast.gate.rulebook import agent_records as remembered
from holdfast.gate.rulebook import file_states
from holdfast.manager.ids import new_id
from holdfast.work.engine import item_store, scheduler, stop_requests
from holdfast.work.screens import assignment, merged_findings, workflow_records
from holdfast.work.tasks import review_decisions, task_records
from holdfast.work.tasks.lists.task import Task

DOCS = Path(__file__).parents[2] / "docs"
UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
LONG = "app/a_rather_long_folder_name/and_another_one_below_it/and_then_the_file_itself.rb"
#: What a terminal would obey: colours, titles, C1 controls, text that runs backwards.
EVIL = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202egnorw\r\n\x08"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return QuickRepository(tmp_path / "repo")


@pytest.fixture
def terminal(repo: Repository) -> Iterator[Terminal]:
    made = Terminal(repo)
    yield made
    made.close()


def tampered(repo: Repository, *, holder: str = "bob", reason: str = "", path: str = "p") -> None:
    """Write a grant that no command of ours would write."""
    request = Request(
        id=new_id(), holder=Holder(id=holder), keys=("app/x.rb",), modes="w", paths=(path,),
        reason=reason,
    )  # fmt: skip
    with LockManager.open(repo.root) as manager:
        manager.store.transact(
            lambda view: rules.acquire(view, request, wait=False), deadline=monotonic() + 10
        )


# The table


def test_when_nothing_is_locked_it_says_so(repo: Repository) -> None:
    answer = repo.hold("status")
    assert (answer.code, answer.out) == (0, "nothing is locked\n")
    assert answer.err == "there is no ledger here yet\n"
    repo.hold("lock", "app/x.rb")
    repo.hold("unlock", "app/x.rb")
    assert repo.hold("status").out == "nothing is locked\n"


def test_a_table_says_what_who_how_long_until_when_and_why(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--read", "lib", "--holder", "ann", "--reason", "fix it")
    repo.hold("lock", "port:5432", "--holder", "bob", "--ttl", "none")
    lines = repo.hold("status").out.splitlines()
    assert lines[0] == f"2 locks in {repo.root}"
    assert lines[1] == ""
    assert lines[2].split() == ["WHAT", "HOW", "WHO", "FOR", "UNTIL", "WHY"]
    assert re.fullmatch(r"lib/ +read +ann +\d+ s +(\w\w\w )?\d\d:\d\d +fix it", lines[3])
    assert re.fullmatch(r"app/x\.rb +write", lines[4])
    assert re.fullmatch(r"port:5432 +write +bob +\d+ s +unlocked", lines[5])
    starts = {lines[2].index("HOW"), lines[3].index("read"), lines[4].index("write")}
    assert len(starts) == 1, "the columns are aligned"


def test_requests_in_line_are_shown_in_order_with_what_is_in_their_way(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "ann")
    waiters = []
    for at, name in enumerate(("bob", "cid"), 1):
        waiters.append(
            repo.start("lock", "app/x.rb", "--wait", "60", "--holder", name, "--reason", f"r{at}")
        )
        until(lambda: len(repo.waiting()) == len(waiters), f"{name} waits")
    lines = repo.hold("status").out.splitlines()
    assert lines[0].startswith("1 lock, 2 waiting in ")
    at = lines.index("", 2) + 1
    assert lines[at].split() == ["WAITS", "FOR", "HOW", "WHO", "FOR", "PLACE", "BEHIND", "WHY"]
    assert re.fullmatch(r"app/x\.rb +write +bob +\d+ s +1 +ann +r1", lines[at + 1])
    assert re.fullmatch(r"app/x\.rb +write +cid +\d+ s +2 +ann +r2", lines[at + 2])
    for waiter in waiters:
        waiter.kill()
        waiter.communicate()
    assert "waiting" not in repo.hold("status").out, "the dead do not wait"
    assert "1 dead" in repo.hold("status", "--all").out


def test_a_reservation_is_marked(repo: Repository) -> None:
    with LockManager.open(repo.root) as manager:
        request = Request(
            id=new_id(), holder=Holder(id="bob"), keys=("app/x.rb",), modes="w", patience=0
        )
        repo.hold("lock", "app/x.rb", "--holder", "ann")
        for _ in range(2):
            manager.store.transact(
                lambda view: rules.acquire(view, request, wait=True), deadline=monotonic() + 10
            )
    assert re.search(r"bob +\d+ s +1 reserved +ann", repo.hold("status").out)
    [waiting] = repo.waiting()
    assert waiting["reserved"] is True
    assert repo.hold("log").out.count("has waited long enough: app/x.rb is reserved") == 1


def test_status_as_json_has_times_in_utc_and_whole_owners(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb")
    found = repo.hold("status", "--json").json
    assert set(found) == {
        "root", "store", "head", "now", "off", "grants", "waiting", "agents", "specs",
        "unfinished",
    }  # fmt: skip
    assert found["root"] == str(repo.root)
    assert UTC.fullmatch(found["now"])
    [grant] = found["grants"]
    assert UTC.fullmatch(grant["acquired_at"])
    assert grant["state"] == "live"
    assert grant["owner"]["id"] == grant["holder"]
    assert repo.hold("status", "--json", "-C", "..").json["grants"] == []


def test_all_shows_what_has_ended_and_every_detail(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "ann", "--ttl", "0.01s")
    repo.hold("lock", "app/y.rb", env={"CLAUDE_CODE_SESSION_ID": "11111111-aaaa"})
    until(lambda: len(repo.grants()) == 1, "the lease has run out")
    assert repo.hold("status").out.startswith("1 lock in ")
    shown = repo.hold("status", "--all").out
    assert re.search(r"app/x\.rb .* expired\n    grant [0-9a-f-]{36}, token \d+\n    ", shown)
    assert "client claude, session 11111111-aaaa" in shown
    assert [grant["state"] for grant in repo.grants("--all")] == ["expired", "live"]


def test_a_grant_of_many_files_does_not_fill_the_screen(repo: Repository) -> None:
    repo.hold("lock", *[f"new/{number}" for number in range(30)])
    lines = repo.hold("status").out.splitlines()
    assert lines[-1] == "and 22 more"
    assert len(repo.hold("status", "--all").out.splitlines()) > 30


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(repo: Repository, width: int) -> None:
    repo.hold("lock", LONG, "--holder", "a" * 60, "--reason", "because " * 20)
    repo.hold("lock", "app/漢字漢字漢字漢字漢字漢字漢字漢字.rb", "--holder", "ann")
    waiter = repo.start("lock", LONG, "--wait", "60", "--holder", "bob")
    until(lambda: len(repo.waiting()) == 1, "bob waits")
    for more in ([], ["--all"]):
        shown = repo.hold("status", *more, env={"COLUMNS": str(width)}).out
        assert max(map(wide, shown.splitlines())) <= width
        if width >= 60:
            assert re.search(r"^app/\S*…\S*itself\.rb", shown, re.M), "the ends of a path stay"
    assert LONG in repo.hold("status").out, "in a pipe nothing is shortened"
    waiter.kill()
    waiter.communicate()


def test_the_width_and_colours_are_those_of_the_terminal(
    repo: Repository, terminal: Terminal
) -> None:
    repo.hold("lock", LONG, "--holder", "ann", "--reason", "because " * 20)
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 70, 0, 0))
    terminal.type(f"clear; {' '.join(COMMAND)} status; echo e''nd\n")
    terminal.shows("end\r\n")
    text = terminal.screen.decode().rpartition("1 lock")[2]
    assert "\x1b[" in text
    bare = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(len(line) for line in bare.splitlines()) <= 70
    terminal.screen = b""
    terminal.type(f"NO_COLOR=1 {' '.join(COMMAND)} status; echo e''nd\n")
    terminal.shows("end\r\n")
    after = terminal.screen.decode().partition("1 lock")[2].partition("end\r\n")[0]
    assert "\x1b[" not in after.replace("\x1b[?2004h", "").replace("\x1b[?2004l", "")


def test_a_pipe_gets_no_colours(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb")
    assert "\x1b" not in repo.hold("status").out


@pytest.mark.parametrize("field", ["holder", "reason", "path"])
def test_nothing_in_the_ledger_can_send_a_control_sequence(repo: Repository, field: str) -> None:
    tampered(repo, **{field: f"x{EVIL}y"})
    for words in (
        ["status"], ["status", "--all"], ["log"], ["check", "app/x.rb"], ["lock", "app/x.rb"],
        ["unlock", "app/x.rb"], ["status", "--json"], ["log", "--json"],
        ["check", "app/x.rb", "--json"], ["lock", "app/x.rb", "--json"], ["reap"],
    ):  # fmt: skip
        answer = repo.hold(*words)
        for line in (answer.out + answer.err).splitlines():
            assert line.isprintable(), (words, line)
    assert repo.hold("status").out.count("\\x1b") >= 1, "it is spelled out"
    value = {"holder": "holder", "reason": "reason", "path": "write_paths"}[field]
    [grant] = repo.grants()
    assert grant[value] in (f"x{EVIL}y", [f"x{EVIL}y"]), "as JSON it is whole"


def test_a_locale_without_the_characters_stops_nothing(repo: Repository) -> None:
    repo.hold("lock", "app/漢字.rb", "--reason", "Öl …")
    repo.hold("lock", LONG)
    for words in (["status"], ["log"], ["status", "--json"]):
        env = {"PYTHONIOENCODING": "ascii", "COLUMNS": "60"}
        answer = repo.hold(*words, env=env)
        assert answer.code == 0
        assert answer.out.isascii()


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=5), st.integers(1, 60))
def test_a_table_never_exceeds_its_width(rows: list[tuple[str, str, str]], width: int) -> None:
    columns = [Column("ONE", 8), Column("TWO"), Column("THREE", 4, prose=True)]
    cells = [[Cell(text) for text in row] for row in rows]
    for line in render(columns, cells, width=width, colours=False):
        assert wide(line) <= width
        assert line.isprintable()


@given(texts, st.integers(0, 40))
def test_a_shortened_text_fits_and_keeps_its_ends(text: str, width: int) -> None:
    assert wide(shortened(text, width)) <= width
    assert wide(cut(text, width)) <= width
    assert wide(ended(text, width)) <= width
    if text.isascii() and len(text) > width >= 8:
        assert shortened(text, width)[0] == text[0]
        assert shortened(text, width)[-1] == text[-1]


# Watching


def test_watch_draws_again_when_something_changes(repo: Repository, terminal: Terminal) -> None:
    terminal.type(f"{' '.join(COMMAND)} status --watch; echo code:$?\n")
    terminal.shows("nothing is locked")
    repo.hold("lock", "app/x.rb", "--holder", "ann")
    terminal.shows("app/x.rb")
    repo.hold("lock", "app/y.rb", "--holder", "bob")
    terminal.shows("app/y.rb")
    terminal.type("\x03")
    terminal.shows("code:130")
    assert b"Traceback" not in terminal.read()


def test_watch_in_a_pipe_shows_changes_and_ends_with_its_reader(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "ann")
    watcher = repo.start("status", "--watch", "--json")
    assert watcher.stdout is not None
    first = json.loads(watcher.stdout.readline())
    assert [grant["holder"] for grant in first["grants"]] == ["ann"]
    repo.hold("lock", "app/y.rb", "--holder", "bob")
    second = json.loads(watcher.stdout.readline())
    assert [grant["holder"] for grant in second["grants"]] == ["ann", "bob"]
    watcher.stdout.close()
    assert watcher.wait(30) == 0
    assert watcher.stderr is not None
    assert watcher.stderr.read() == ""
    watcher.stderr.close()


def test_watch_sees_that_an_owner_has_died(repo: Repository) -> None:
    other = Terminal(repo)
    other.hold("lock", "app/x.rb")
    watcher = repo.start("status", "--watch", "--json")
    assert watcher.stdout is not None
    assert len(json.loads(watcher.stdout.readline())["grants"]) == 1
    other.close()
    assert json.loads(watcher.stdout.readline())["grants"] == []
    watcher.send_signal(signal.SIGINT)
    _out, err = watcher.communicate(timeout=30)
    assert (watcher.returncode, err) == (130, "")


def test_a_list_of_tasks_without_a_dispatcher_is_shown_with_the_command_that_continues_it(
    repo: Repository,
) -> None:
    with LockManager.open(str(repo.root)) as manager:
        tasks = [Task(name, "do it") for name in "abc"]
        scene = Scene(manager, tasks, by=dead_witness())
        scene.end("a")
        Scene(manager, tasks, name="alive.toml")
    told = (
        "the dispatcher of tasks.toml is gone, 2 tasks are left; "
        "to continue: holdfast dispatch tasks.toml"
    )
    answer = repo.hold("status", env={"COLUMNS": "40"})
    assert answer.out.splitlines() == ["nothing is locked", told]
    assert repo.hold("status", "--json").json["unfinished"] == [
        {"list": "tasks.toml", "left": 2, "command": "holdfast dispatch tasks.toml"}
    ]


# The log


def test_the_log_tells_each_event_in_words(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--read", "lib", "--holder", "ann", "--reason", "fix it")
    for _ in range(3):
        repo.hold("lock", "app/x.rb", "--holder", "bob")
    repo.hold("lock", "app/x.rb", "--holder", "bob", "--wait", "0.01")
    repo.hold("renew", "app/x.rb", "--holder", "ann", "--ttl", "9h")
    repo.hold("unlock", "app/x.rb", "lib", "--holder", "ann")
    repo.hold("lock", "app/y.rb", "--holder", "cid", "--ttl", "0.01s")
    until(lambda: repo.grants() == [], "the lease has run out")
    repo.hold("reap")
    lines = repo.hold("log").out.splitlines()
    clock = r"(\w\w\w )?\d\d:\d\d"
    expected = [
        rf"ann locked app/x\.rb and lib/ \(to read\) until {clock}: fix it",
        r"bob was refused app/x\.rb: another holder was in the way \(×3\)",
        r"bob waits for app/x\.rb",
        r"bob no longer waits for app/x\.rb: timeout",
        rf"ann renewed app/x\.rb and lib/ \(to read\) until {clock}",
        r"ann released (lib/, app/x\.rb|app/x\.rb, lib/)",
        rf"cid locked app/y\.rb until {clock}",
        r"cid lost app/y\.rb: its lease expired",
    ]
    assert len(lines) == len(expected)
    for number, (line, pattern) in enumerate(zip(lines, expected, strict=True), 1):
        stamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
        assert re.fullmatch(rf" *{number}  {stamp}  {pattern}", line), line


def test_the_log_as_json_is_one_document_a_line(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "ann")
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    first, second = repo.events()
    assert set(first) == {"seq", "type", "version", "timestamp", "repeats", "data"}
    assert (first["seq"], first["type"], first["version"]) == (1, "lock_acquired", 1)
    assert UTC.fullmatch(first["timestamp"])
    assert (second["type"], second["repeats"]) == ("lock_refused", 1)


def test_since_shows_what_came_after(repo: Repository) -> None:
    for name in ("x", "y"):
        repo.hold("lock", f"app/{name}.rb", "--holder", "ann")
    assert len(repo.hold("log", "--since", "1").out.splitlines()) == 1
    assert repo.hold("log", "--since", "2").out == ""
    assert repo.hold("log", "--since", "99").code == 0


@pytest.mark.parametrize("switch", ["--follow", "-f"])
def test_follow_continues_and_ends_with_its_reader(repo: Repository, switch: str) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "ann")
    follower = repo.start("log", switch)
    assert follower.stdout is not None
    assert "ann locked app/x.rb" in follower.stdout.readline()
    repo.hold("lock", "app/y.rb", "--holder", "bob")
    assert "bob locked app/y.rb" in follower.stdout.readline()
    follower.stdout.close()
    assert follower.wait(30) == 0
    assert follower.stderr is not None
    follower.stderr.close()


def test_follow_waits_for_a_ledger_that_is_not_there_yet(repo: Repository) -> None:
    follower = repo.start("log", "--follow", "--json")
    assert follower.stderr is not None
    assert follower.stdout is not None
    assert "no ledger" in follower.stderr.readline()
    repo.hold("lock", "app/x.rb", "--holder", "ann")
    assert json.loads(follower.stdout.readline())["type"] == "lock_acquired"
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=30)
    assert follower.returncode == 130


def test_an_event_of_a_later_version_is_shown_and_not_tripped_over(repo: Repository) -> None:
    types = [*ENDINGS, "lock_acquired", "lock_renewed", "lock_refused", "ticket_added",
             "ticket_reserved", "ticket_dropped", "something_new"]  # fmt: skip
    for type in types:
        line = EventSentences().line(Event(seq=1, type=type, at=0, data={}))
        assert line.startswith("     1  ")
    assert "does not know" in line


def test_every_event_of_the_gate_is_a_sentence() -> None:
    text = (DOCS / "ledger.md").read_text(encoding="utf-8")
    table = text.partition("### Events of the gate")[2].partition("\n## ")[0]
    types = [type for line in re.findall(r"^\| (`.*?) \|", table, re.M)
             for type in re.findall(r"`(\w+)`", line)]  # fmt: skip
    of_agents = {value for name, value in vars(remembered).items()
                 if name.isupper() and name[0] != "_" and isinstance(value, str)}  # fmt: skip
    assert {"contention_heartbeat", "agent_present", "blocker_free"} <= of_agents
    known = [*of_agents, delegated_calls.GAP, guard_records.DAMAGE, guard_records.TO_BE_TOLD,
    guard_records.TOLD,
             guard_records.UNDONE, guard_records.FORGOTTEN, switch_files.COMMAND_REFUSED,
             switch_files.EDIT_REFUSED]  # fmt: skip
    assert set(known) <= set(types)
    _are_sentences(types)


def test_every_event_of_the_dispatcher_is_documented_and_a_sentence() -> None:
    text = (DOCS / "ledger.md").read_text(encoding="utf-8")
    table = text.partition("### Events of the dispatcher")[2].partition("\n## ")[0]
    types = {type for line in re.findall(r"^\| (`.*?) \|", table, re.M)
             for type in re.findall(r"`(\w+)`", line)}  # fmt: skip
    known = {
        *item_store.ITEM_EVENTS, item_store.YIELD, scheduler.BROKEN, scheduler.MENDED,
        scheduler.STOPPED,
        stop_requests.ASKED, workflow_records.STATE_CHANGED, merged_findings.MERGED,
        assignment.ASSIGNED,
        task_records.LIST_BEGUN, task_records.TASK_CHANGED, task_records.TASK_FORGOTTEN,
        review_decisions.TASK_DECIDED,
    }  # fmt: skip
    assert known <= types
    _are_sentences(types)


def test_the_events_of_a_task_name_it() -> None:
    def told(type: str, **data: object) -> str:
        return EventSentences().line(Event(seq=1, type=type, at=0, data=data)).split("  ")[-1]

    failed = told("task_changed", name="one", state="failed", reason="no luck")
    assert failed == "task one failed: no luck"
    assert told("task_changed", name="one", state="skipped") == "task one was skipped"
    assert told("task_changed", name="one", state="queued") == "task one is queued now"
    assert told("task_list_begun", name="tasks.toml").endswith("started the list tasks.toml")
    assert told("task_forgotten", list="t.toml", task="one") == "task one of t.toml was forgotten"
    assert told("task_forgotten", list="t.toml") == "the list t.toml was forgotten"
    assert told("task_decided", task="one", approve=True, by="ann") == "ann approved task one"
    assert told("work_yield", item="one-4", why="a circle").endswith("an older task: a circle")
    assert told("work_yield", item="one-4", over=True) == "one-4 has yielded"


def test_the_state_of_a_task_is_printed_once() -> None:
    sentences = EventSentences()

    def told(type: str, **data: object) -> str:
        return sentences.line(Event(seq=1, type=type, at=0, data=data))[29:]

    one = {"list": "l", "name": "one", "state": "queued"}
    assert told("task_changed", **one, tries=1) == "task one is queued now"
    assert told("task_changed", **one, tries=2) == ""
    assert told("task_changed", **{**one, "list": "other"}) == "task one is queued now"
    assert told("task_changed", **one, reason="again") == "task one is queued now: again"
    assert told("task_changed", **{**one, "state": "working"}) == "task one is working now"
    assert told("task_changed", **one) == "task one is queued now"


def test_a_task_that_is_refused_a_file_waits_in_line_for_it() -> None:
    sentences = EventSentences()

    def told(type: str, **data: object) -> str:
        return sentences.line(Event(seq=1, type=type, at=0, data=data))[29:]

    refused = {"holder": "one-3", "paths": ["a.txt"], "modes": "w", "code": "E_LOCK_CONFLICT"}
    assert (
        told("lock_refused", **refused) == "one-3 was refused a.txt: another holder was in the way"
    )
    item = {"id": "one-3", "workflow": "one", "phase": "task", "data": {"task": "one"}}
    assert told("work_dispatched", **item) == "one was started"
    assert told("lock_refused", **refused) == "one-3 must wait for a.txt"
    assert told("lock_refused", **{**refused, "code": "E_LOCK_CYCLE"}).endswith("deadlocked")
    decided = {**item, "phase": "decided", "data": {"task": "one", "approve": False}}
    assert told("work_waits", **decided) == "one has been decided on and is about to be undone"
    assert told("work_dispatched", **decided) == "one is being undone"
    screen = {**item, "phase": "apply", "data": {"group": "one"}}
    assert told("work_dispatched", **screen) == "one was dispatched for apply"


def _are_sentences(types: Iterable[str]) -> None:
    for type in types:
        line = EventSentences().line(Event(seq=1, type=type, at=0, data={}))
        assert "does not know" not in line, line
        assert "None" not in line


FILE = {"path": "app/x.py", "owner": "claude:ann"}
DAMAGE = {"id": "9c41d07e", "by": "claude:bob", "command": "make all"}


@pytest.mark.parametrize(
    ("type", "data", "told"),
    [
        ("damage", {**DAMAGE, "files": [FILE]},
         "while claude:bob ran `make all`, app/x.py (claude:ann) was changed: damage 9c41d07e"),
        ("damage_to_be_told", {**DAMAGE, "paths": ["app/x.py"]},
         "an agent must be told of damage 9c41d07e: app/x.py"),
        ("damage_told", {"id": "9c41d07e", "agent": "claude:ann"},
         "claude:ann was told of damage 9c41d07e"),
        ("damage_undone", {**DAMAGE, "files": [], "restored": ["app/x.py"]},
         "damage 9c41d07e: restored app/x.py"),
        ("damage_undone", {**DAMAGE, "files": [FILE], "restored": []},
         "damage 9c41d07e: restored nothing; not restored: app/x.py"),
        ("damage_forgotten", {"id": "9c41d07e"}, "damage 9c41d07e is too old to be undone"),
        ("command_refused", {"agent": "claude:bob", "command": "git stash", "paths": ["x"]},
         "claude:bob was refused a command: `git stash`"),
        ("lock_moved", {"holder": "kid", "paths": ["x"], "to": [{"holder": "ann", "grant": "1"}]},
         "kid passed x on to ann"),
        ("lock_moved", {"holder": "ann", "paths": ["x"], "to": [{"holder": "ann", "grant": "1"}]},
         "ann keeps x"),
    ],
)  # fmt: skip
def test_damage_and_grants_that_change_hands_are_told_in_words(
    type: str, data: dict[str, Any], told: str
) -> None:
    line = EventSentences().line(Event(seq=1, type=type, at=0, data=data))
    assert line.endswith(f"  {told}")


WAIT = {"agent": "claude:bob", "blocked": ["x.rb"], "owner": "claude:ann", "retry_seconds": 180}


@pytest.mark.parametrize(
    ("type", "data", "told"),
    [
        ("contention_heartbeat", WAIT,
         "claude:bob may not write x.rb, which claude:ann holds; its one retry is due in 180 s"),
        ("contention_heartbeat", {**WAIT, "circle": [["x.rb", "claude:ann"]]},
         ("claude:bob may not write x.rb, which claude:ann holds, and waiting would deadlock; "
          "its one retry is due in 180 s")),
        ("stop_held", WAIT, "claude:bob waits for x.rb before it stops"),
        ("back_in_line", WAIT, "claude:bob waits in line again for x.rb"),
        ("back_in_line", {**WAIT, "circle": [["x.rb", "claude:ann"]]},
         "claude:bob may not wait again for x.rb: that would deadlock"),
        ("back_in_line", {**WAIT, "circle": []}, "claude:bob waits in line again for x.rb"),
        ("file_handed_over", {**WAIT, "cause": file_states.HANDED_OVER},
         "claude:bob was given x.rb: it came free"),
        ("file_handed_over", {**WAIT, "cause": file_states.RETRY_SUCCEEDED},
         "claude:bob was given x.rb: its retry succeeded"),
        ("contention_over", {"agent": "claude:bob", "cause": file_states.RETRY_FAILED,
                              "blocked": True},
         "claude:bob no longer waits: its retry failed"),
        ("contention_over", {"agent": "claude:bob", "cause": file_states.HANDED_OVER},
         "claude:bob has what it waited for: it came free"),
        ("contention_over", {"agent": "claude:bob"}, "claude:bob no longer waits"),
        ("agent_blocked",
         {"agent": "claude:bob", "report": {"blocked_file": "x.rb", "owner": "claude:ann"}},
         "claude:bob is blocked and waits for its user: claude:ann holds x.rb"),
        ("blocker_free", {"agent": "claude:bob", "key": "@claude/bob/", "file": "x.rb"},
         "x.rb, which blocks claude:bob, is free again"),
        ("blocker_free_told", {"agent": "claude:bob", "key": "@claude/bob/", "file": "x.rb"},
         "the user was notified that x.rb is free for claude:bob"),
        ("blocker_free_over", {"agent": "claude:bob", "file": "x.rb", "why": "taken"},
         "x.rb, which blocks claude:bob, is locked again"),
        ("blocker_free_over", {"agent": "claude:bob", "file": "x.rb", "why": "resumed"},
         "x.rb is no longer kept free for claude:bob"),
        ("agent_resting", {"agent": "claude:bob", "seconds": 30.0, "held_until": None},
         "claude:bob came to rest: its leases end in 30 s unless it continues"),
        ("agent_resting", {"agent": "claude:bob", "seconds": 200.0, "held_until": 5},
         "claude:bob has nothing left to do; its stop is delayed"),
        ("agent_named", {"agent": "claude:bob", "key": "@claude/bob/"},
         "claude:bob is the name of @claude/bob/"),
        ("leases_limited", {"agent": "claude:bob"},
         ("claude:bob cannot be observed by an agent it blocks: its leases end unless it is "
          "active")),
    ],
)  # fmt: skip
def test_the_life_of_an_agent_is_told_in_words(type: str, data: dict[str, Any], told: str) -> None:
    line = EventSentences().line(Event(seq=1, type=type, at=0, data=data))
    assert line.endswith(f"  {told}")


# Agents


def test_the_states_of_agents_are_shown_beside_what_they_hold_and_wait_for(
    repo: Repository,
) -> None:
    with LockManager.open(repo.root) as manager:
        ann, ben = Agent(manager, "ann"), Agent(manager, "ben")
        ann.edit("x.rb")
        ben.edit("y.rb")
        ann.edit("y.rb")
        ben.edit("x.rb")  # would deadlock, so it gets no place in line
        lines = repo.hold("status").out.splitlines()
        assert lines[0] == f"2 locks, 2 waiting in {repo.root}"
        due = r"due in (3 min|2 min \d+ s)"
        [owned] = [line for line in lines if re.match(rf"x.rb +write +{ann.name} ", line)]
        assert re.search(r"owner exits +owned +edit$", owned)
        [waits] = [line for line in lines if re.match(rf"y.rb +write +{ann.name} ", line)]
        assert re.search(rf" 1 +{ben.name} +retry pending, {due} +next edit$", waits)
        [stray] = [line for line in lines if re.match(rf"x.rb +write +{ben.name} ", line)]
        assert re.search(rf" {ann.name} +retry pending, in a circle, {due}$", stray)
        found = repo.hold("status", "--json").json["agents"]
        assert [(one["key"], one["file"], one["state"]) for one in found] == [
            (ann.key, "x.rb", "owned"),
            (ben.key, "y.rb", "owned"),
            (ann.key, "y.rb", "retry_pending"),
            (ben.key, "x.rb", "retry_pending"),
        ]


def test_a_blocked_agent_is_shown_also_when_nothing_is_locked_any_more(repo: Repository) -> None:
    with LockManager.open(repo.root) as manager:
        ann = Agent(manager, "ann")
        ann.edit("x.rb")
        eve = blocked(manager, "eve", "x.rb")
        ann.gate.fail()
        lines = repo.hold("status").out.splitlines()
        assert lines[0] == f"nothing is locked, 1 blocked in {repo.root}"
        assert re.match(r"BLOCKED AT +WHO +FOR +STATE$", lines[2])
        told = rf"x.rb +{eve.name} +\d+ s +blocked, waits for its user, the file is free now$"
        assert re.match(told, lines[3])


def test_watch_shows_that_a_retry_is_overdue_and_that_an_agent_is_blocked(
    repo: Repository,
) -> None:
    with LockManager.open(repo.root) as manager:
        Agent(manager, "ann").edit("x.rb")
        watcher = repo.start("status", "--watch", "--json")
        assert watcher.stdout is not None
        json.loads(watcher.stdout.readline())
        ben = Agent(manager, "ben", Settings(retry_seconds=1.5))
        ben.edit("x.rb")
        words = [json.loads(watcher.stdout.readline())["agents"][-1]["words"]]
        words.append(json.loads(watcher.stdout.readline())["agents"][-1]["words"])
        ben.edit("x.rb")
        words.append(json.loads(watcher.stdout.readline())["agents"][-1]["words"])
        watcher.send_signal(signal.SIGINT)
        watcher.communicate(timeout=30)
    assert words[0].startswith("retry pending, due in ")
    assert words[1].startswith("retry pending, overdue for ")
    assert words[2] == "blocked, waits for its user"


# Housekeeping


def test_reap_removes_grants_that_have_ended(repo: Repository) -> None:
    assert repo.hold("reap", "--json").json == {"reaped": []}
    for name in ("x", "y"):
        repo.hold("lock", f"app/{name}.rb", "--holder", "ann", "--ttl", "0.01s")
    until(lambda: repo.grants() == [], "the leases have run out")
    found = repo.hold("reap", "--json").json["reaped"]
    assert [(ending["holder"], ending["why"]) for ending in found] == [("ann", "expired")] * 2
    assert repo.hold("reap").out == ""
    assert repo.grants("--all") == []


def test_trim_forgets_history_and_keeps_what_is_locked(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "ann")
    for _ in range(3):
        repo.hold("lock", "app/y.rb", "--holder", "bob")
        repo.hold("unlock", "app/y.rb", "--holder", "bob")
    assert len(repo.events()) == 7
    assert repo.hold("trim", "--keep", "2").out == "forgot 4 events\n"
    assert [event["seq"] for event in repo.events()] == [1, 6, 7]
    assert repo.holders("app/x.rb") == ["ann"]
    assert repo.hold("trim", "--before", "7", "--json").json == {"trimmed": 1}


def test_a_long_log_stops_quietly_with_its_reader(repo: Repository) -> None:
    with LockManager.open(repo.root) as manager:
        for _ in range(600):
            grant = manager.try_acquire(holder="ann", write_paths=["app/x.rb"], reason="x" * 400)
            assert grant is not None
            manager.release(grant.id)
    log = repo.start("log")
    done = subprocess.run(["head", "-1"], stdin=log.stdout, capture_output=True, check=True)
    assert log.stdout is not None
    log.stdout.close()
    assert b"ann locked" in done.stdout
    _out, err = log.communicate(timeout=30)
    assert (log.returncode, err) == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_output_that_cannot_be_written_is_an_error(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb")
    with open("/dev/full", "w") as full:
        answer = repo.hold("status", stdout=full)
    assert answer.code == 1
    assert "No space left" in answer.err
    with open("/dev/full", "w") as full:
        assert repo.hold("status", "--json", stdout=full).code == 1
        assert repo.hold("whoami", stderr=full).code == 0
        assert repo.hold("lock", stdout=full, stderr=full).code == 2


def test_closed_streams_stop_nothing(repo: Repository) -> None:
    line = " ".join(COMMAND)
    for close in (">&-", "2>&-", ">&- 2>&-", "<&-"):
        done = subprocess.run(
            ["sh", "-c", f"{line} lock app/x.rb {close} && {line} unlock app/x.rb {close}"],
            cwd=repo.root, check=False, capture_output=True,
            env={**os.environ, "HOLDFAST_HOLDER": "ann"},
        )  # fmt: skip
        assert done.returncode == 0, done
        assert b"Traceback" not in done.stderr
