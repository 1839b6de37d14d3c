"""`holdfast tree …` as people and agents use it: from inside a worktree, by its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import COMMAND, Repository, Terminal, environment, wait_for_file
from helpers_processes import LINUX_ONLY, PATIENCE_SECONDS, until
from helpers_trees import BOB, World, picture, told, tree
from holdfast.cli.families.tree import COMMANDS
from holdfast.cli.tree.tree_context import counted, size
from holdfast.cli.tree.tree_progress import Bar
from holdfast.core.model import Holder, agent_key
from holdfast.trees import status, steal
from holdfast.trees.locking.worktree_holders import holder_id


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    made.write("app/x", "one\n")
    monkeypatch.chdir(made.payload)
    return made


def ask(capsys: pytest.CaptureFixture[str], *words: str, holder: str | None = None) -> Any:
    capsys.readouterr()
    assert tree(*words, "--json", holder=holder) == 0, capsys.readouterr()
    return told(capsys)


def test_a_day_with_trees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = ask(capsys, "init", "project")
    main = Path(made["worktree"]["path"])
    monkeypatch.chdir(main)
    assert made["repository"]["lease_seconds_default"] == 300
    ask(capsys, "lock", "acquire", "--lease", "1h", holder="ann")
    (main / "x").write_text("one")
    first = ask(capsys, "snapshot", "the first", "one", holder="ann")["snapshot"]
    assert first["note"] == "the first one"
    (main / "x").write_text("two")
    second = ask(capsys, "snapshot", holder="ann")["snapshot"]
    assert second["parent_snapshot_id"] == first["snapshot_id"]
    listed = ask(capsys, "history")["snapshots"]
    assert [one["snapshot_id"] for one in listed] == [
        second["snapshot_id"], first["snapshot_id"],
    ]  # fmt: skip
    assert len(ask(capsys, "history", "--limit", "1")["snapshots"]) == 1
    again = ask(capsys, "restore", first["snapshot_id"][:9], "--name", "again")["worktree"]
    assert Path(again["path"], "x").read_text() == "one"
    assert again["head_snapshot"] == first["snapshot_id"]
    (main / "deep").mkdir()
    monkeypatch.chdir(main / "deep")
    assert ask(capsys, "path")["path"] == str(main)
    assert ask(capsys, "path", "again")["path"] == again["path"]
    assert [one["name"] for one in ask(capsys, "list")["worktrees"]] == ["main", "again"]
    info = ask(capsys, "info")
    assert info["worktree"]["lock"]["state"] == "held"
    assert info["worktree"]["engine"] in ("copy", "reflink-copy")
    assert info["warning"] is False
    assert ask(capsys, "verify", "--all")["ok"] is True
    assert ask(capsys, "doctor", "--strict")["healthy"] is True
    ask(capsys, "lock", "release", holder="ann")
    assert ask(capsys, "lock", "status")["lock"]["state"] == "free"
    assert Path.cwd() == main / "deep"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_help(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = command.name.split()[1:]
    assert tree(*words, "--help", holder=None) == 0
    assert f"usage: holdfast {command.name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["init", "a", "b"], ["create"], ["init", "app/x"], ["restore"], ["diff"], ["diff", "a"],
        ["history", "x", "--all"],
        ["tag", "add"], ["tag", "remove", "none"], ["tag"], ["gc"], ["gc", "run"], ["import"],
        ["restore", "x", "y"],
        ["path", "a", "b"], ["verify", "x", "--all"], ["snapshot", "--consistency", "none"],
        ["lock"], ["lock", "grab"], ["fly"], ["history", "--limit", "x"], ["run"],
        ["create", "x", "--isolation", "none"], ["restore", "0", "--force"],
        ["lock", "acquire", "--lease", "soon"], ["snapshot", "--engine", "magic"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_line_that_means_nothing_is_refused_and_changes_nothing(
    world: World, words: list[str]
) -> None:
    world.lock("here:ann:0:0")
    before = picture(world.root)
    holder = None if words[0] not in ("snapshot",) else "ann"
    assert tree(*words, holder=holder) in (2, 4)
    assert picture(world.root) == before


def test_outside_of_a_repository_everything_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["info"], ["list"], ["history"], ["doctor"], ["lock", "status"]):
        assert tree(*words, "--json", holder=None) == 2
        assert told(capsys)["error"]["code"] == "E_NO_TREE"


def test_from_the_top_of_the_repository_a_worktree_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.root)
    assert tree("lock", "acquire") == 2
    assert tree("lock", "acquire", "--worktree", "main") == 0
    assert tree("snapshot", "--worktree", "main") == 0
    assert len(ask(capsys, "history", "--worktree", "main")["snapshots"]) == 1


def test_words_for_people_go_to_the_right_streams(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    tree("lock", "acquire")
    tree("snapshot", "a", "note")
    tree("history", holder=None)
    tree("info", holder=None)
    tree("list", holder=None)
    tree("doctor", holder=None)
    tree("verify", holder=None)
    shown = capsys.readouterr()
    for text in ("locked main for", "snapshot ", "a note", "300 s", "exclusive", "whole"):
        assert text in shown.out
    assert "Traceback" not in shown.err


# Run


def run(world: World, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "tree", "run", *words], cwd=world.payload, env=environment(**more),
        capture_output=True, text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip


INSIDE = f"{sys.executable} -m holdfast tree"


@LINUX_ONLY
def test_run_acquires_the_lock_for_its_command_and_releases_it(world: World) -> None:
    done = run(
        world, "--", "sh", "-c",
        f"echo more >> app/x && {INSIDE} snapshot inside --json && {INSIDE} lock status --json",
    )  # fmt: skip
    assert done.returncode == 0, done
    made, lock = map(json.loads, done.stdout.splitlines())
    assert lock["lock"]["mine"] is True
    assert made["snapshot"]["fencing_token"] == lock["lock"]["record"]["fencing_token"]
    assert status(world.main).state == "free"
    assert world.snapshots() == [made["snapshot"]["snapshot_id"]]


@LINUX_ONLY
def test_run_uses_the_lock_of_its_caller_and_leaves_it(world: World) -> None:
    assert tree("lock", "acquire") == 0
    mine = status(world.main).record
    assert mine is not None
    done = run(world, "--holder", "ann", "--", "sh", "-c", "echo $HOLDFAST_TREE_TOKEN; exit 7")
    assert done.returncode == 7
    assert done.stdout.strip() == f"{world.main.id}:{mine.fencing_token}"
    still = status(world.main).record
    assert still is not None
    assert (still.lock_id, still.fencing_token) == (mine.lock_id, mine.fencing_token)


@LINUX_ONLY
def test_run_is_refused_while_another_has_the_lock(world: World) -> None:
    world.lock(BOB)
    assert run(world, "--", "true").returncode == 3


@LINUX_ONLY
def test_run_says_when_a_command_cannot_be_started(world: World) -> None:
    assert run(world, "--", "/no/such/program").returncode == 127
    assert status(world.main).state == "free"


@LINUX_ONLY
def test_run_renews_the_lock_as_long_as_its_command_runs(world: World) -> None:
    done = run(
        world, "--lease", "0.6s", "--", "sh", "-c",
        f"sleep 1.5; {INSIDE} lock status --json",
    )  # fmt: skip
    assert json.loads(done.stdout)["lock"]["state"] == "held", done


@LINUX_ONLY
def test_a_failed_renewal_ends_the_command_of_a_run(world: World, tmp_path: Path) -> None:
    note, late = tmp_path / "started", tmp_path / "late"
    program = (
        "import pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text('yes\\n');"
        "time.sleep(5); pathlib.Path(sys.argv[2]).write_text('it still writes')"
    )
    with subprocess.Popen(
        [*COMMAND, "tree", "run", "--lease", "1s", "--", sys.executable, "-c", program,
         str(note), str(late)],
        cwd=world.payload, env=environment(), stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        wait_for_file(note)
        # Another program removes the lock, as only one that ignores the rules can.
        record = world.control / "locks" / f"{world.main.id}.json"
        record.write_text(record.read_text().replace('"fencing_token": ', '"fencing_token": 9'))
        _out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 4
    assert "is lost" in err
    assert not late.exists()


# People


def test_a_bar_is_drawn_for_what_lasts_longer_than_a_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr("holdfast.cli.tree.tree_progress.monotonic", lambda: now[0])
    bar = Bar()
    bar.begin("snapshot", 100, 1000)
    bar.advance(10, 100)
    now[0] += 0.9
    bar.advance(10, 100)
    assert capsys.readouterr().err == ""
    now[0] += 0.2
    bar.advance(30, 300)
    assert "50%" in capsys.readouterr().err
    bar.end()
    assert capsys.readouterr().err.endswith("\r\x1b[K")


def test_sizes_and_counts_are_words() -> None:
    assert [size(count) for count in (0, 999, 1500, 2_000_000_000, 3 * 10**12)] == [
        "0 B", "999 B", "1.5 KB", "2.0 GB", "3.0 TB",
    ]  # fmt: skip
    assert (counted(1, "file"), counted(2000, "file")) == ("1 file", "2,000 files")


def test_agents_without_a_visible_process_are_told_apart_by_their_whole_sessions() -> None:
    ids = set()
    for session in ("019a1b2c-aaaa", "019a1b2c-bbbb"):
        key = agent_key("claude", session)
        ids.add(holder_id(Holder(id="claude@x:same", key=key, client="claude", session=session)))
    assert len(ids) == 2
    assert all(id.endswith(":0:0") and len(id.split(":")) == 4 for id in ids)


@LINUX_ONLY
def test_at_a_terminal_the_holder_is_its_session(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    terminal = Terminal(repository)
    try:
        assert terminal.do(f"cd {tmp_path} && {INSIDE} init trees").code == 0
        assert terminal.do(f"cd {tmp_path}/trees/main && {INSIDE} lock acquire --json").code == 0
        answer = terminal.do(f"{INSIDE} lock status --json")
        lock = answer.json["lock"]
        assert lock["mine"] is True
        assert lock["record"]["holder_id"].split(":")[2] == str(terminal.pid)
        assert terminal.do(f"{INSIDE} snapshot").code == 0
    finally:
        terminal.close()


def test_nothing_of_trees_is_imported_by_other_commands() -> None:
    script = (
        "import sys; from holdfast.cli import main; main(['whoami']); main(['tree', '--help']);"
        "print([name for name in sys.modules if name.startswith('holdfast.trees')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env=environment(), timeout=60,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_steal_by_a_command_names_the_former_holder(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tree("lock", "acquire", "--lease", "0.1s") == 0
    until(lambda: status(world.main).state == "expired", "the lease has run out")
    assert tree("lock", "steal", "--reason", "gone home", holder="bob") == 0
    capsys.readouterr()
    log = (world.control / "audit" / "audit.jsonl").read_text().splitlines()
    stolen = json.loads(log[-1])
    assert (stolen["event"], stolen["reason"]) == ("lock_stolen", "gone home")
    host = os.uname().nodename.replace(":", "%3A")
    assert stolen["holder_id"] == f"{host}:bob:0:0"
    assert stolen["stolen_from"]["holder_id"] == f"{host}:ann:0:0"
    with pytest.raises(Exception, match="not expired"):
        steal(world.main, BOB)
