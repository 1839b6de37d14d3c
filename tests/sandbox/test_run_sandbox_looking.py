"""Read-only commands and hooks inside run --sandbox: both ask the runner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers_agents import Agent, blocked
from helpers_cli import COMMAND, environment
from helpers_processes import until
from helpers_sandbox import NEEDS_LANDLOCK, Room
from holdfast.gate import hook
from holdfast.gate.sandbox import SandboxError, runner_client
from holdfast.gate.sandbox.gaps import gap_records
from holdfast.gate.sandbox.runner import ledger_socket
from holdfast.manager.manager import LockManager

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")

HOOK = Path(hook.__file__)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    made = Room(tmp_path)
    made.repo.hold("lock", "app/y.rb", "--holder", "bob", "--reason", "busy")
    return made


# Read-only commands


@NEEDS_LANDLOCK
@pytest.mark.parametrize(
    "words",
    [["status"], ["status", "--all"], ["status", "--json"], ["check", "app/y.rb"],
     ["check", "lib/z.rb"], ["check", "--json", "app/y.rb", "--read", "lib/"],
     ["blockers"], ["blockers", "--json"], ["whoami", "--json"]],
    ids=" ".join,
)  # fmt: skip
def test_the_same_is_shown_inside_and_outside(room: Room, words: list[str]) -> None:
    (room.root / "both").write_text(f"{' '.join([*COMMAND, *words])} >$1 2>&1; echo code $? >>$1\n")
    inside = room.run("--", "sh", "both", "app/x.rb", write=["app/x.rb", "out"])
    assert inside.code == 0, inside
    outside = room.repo.hold(
        "run", "--write", "app/x.rb", "--write", "out", "--", "sh", "both", "out"
    )
    assert outside.code == 0, outside
    assert _shape(room.text("app/x.rb")) == _shape(room.text("out"))
    assert "E_STORE" not in room.text("app/x.rb")


def _shape(text: str) -> Any:
    """The output, without the parts that differ from run to run."""
    first, _, code = text.rpartition("code ")
    try:
        return _kinds(json.loads(first)), code
    except ValueError:
        words = [word for word in text.split() if word[0] not in "0123456789"]
        return [word for word in words if not word.startswith("run-")], code


def _kinds(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _kinds(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [_kinds(one, name) for one in value]
    fixed = ("path", "write_paths", "read_paths", "held_path", "reason", "state", "root", "store")
    return value if name in fixed else type(value).__name__


@NEEDS_LANDLOCK
def test_waiting_holders_are_shown_inside(room: Room) -> None:
    waiter = room.repo.start("lock", "app/y.rb", "--holder", "eve", "--wait", "60")
    try:
        with LockManager.open(room.root) as manager:
            until(lambda: bool(manager.queue()), "a request waits")
        (seen,) = room.run("--", *COMMAND, "status", "--json").json["waiting"]
        assert (seen["holder"], seen["behind"][0]["holder"]) == ("eve", "bob")
        shown = room.run("--", *COMMAND, "status").out
        assert "WAITS FOR" in shown
    finally:
        waiter.kill()
        waiter.communicate()


@NEEDS_LANDLOCK
def test_the_states_of_agents_are_shown_inside(room: Room) -> None:
    with LockManager.open(room.root) as manager:
        ann = Agent(manager, "ann")
        ann.edit("app/z.rb")
        eve = blocked(manager, "eve", "app/z.rb")
        found = room.run("--", *COMMAND, "status", "--json").json["agents"]
        assert [(one["key"], one["state"]) for one in found] == [
            (ann.key, "owned"),
            (eve.key, "blocked"),
        ]
        assert found == room.repo.hold("status", "--json").json["agents"]
        shown = room.run("--", *COMMAND, "status").out
        assert "BLOCKED AT" in shown
        assert "blocked, waits for its user" in shown


@NEEDS_LANDLOCK
def test_the_runner_knows_nothing_of_another_ledger(room: Room, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run(["git", "init", "-q", other], check=True)
    room.repo.hold("lock", "x", "--holder", "bob", cwd=other)
    answer = room.run("--", *COMMAND, "-C", other, "status", "--json")
    assert (answer.code, answer.error["code"]) == (1, "E_STORE_READONLY")


@NEEDS_LANDLOCK
def test_an_unknown_request_is_an_error_and_changes_nothing(room: Room) -> None:
    script = """
import json, os
from holdfast.gate.sandbox import SandboxError, runner_client
grant, token = os.environ["HOLDFAST_GRANT"], int(os.environ["HOLDFAST_TOKEN"])
gap = {"ask": "gap", "grant": grant, "token": token, "path": "lib/z.rb", "client": "claude"}
check = {"ask": "check", "id": "a", "key": "a", "read": [], "write": ["lib/z.rb"]}
bad = [
    {**check, "id": 5}, {**check, "key": None}, {**check, "read": "lib"}, {**check, "write": [5]},
    {**check, "write": []}, {**check, "write": ["../x"]}, {"ask": "check"},
    {**gap, "grant": "another"}, {**gap, "grant": 5}, {**gap, "token": token + 1},
    {**gap, "token": True}, {**gap, "token": str(token)}, {**gap, "path": 5}, {**gap, "path": ""},
    {**gap, "path": "x" * 5000}, {**gap, "path": "a\\0b"}, {**gap, "path": "../out"},
    {**gap, "path": "app/x.rb"}, {**gap, "client": "someone"}, {**gap, "client": ["claude"]},
    {"ask": "gap"}, {"ask": "gap", "path": "lib/z.rb"},
]
said = []
for one in bad:
    try:
        said.append(runner_client.ask(one))
    except SandboxError as error:
        said.append(error.fields["said"][:2])
print(json.dumps(said))
"""
    answer = room.run("--", sys.executable, "-c", script)
    assert answer.json == ["E_"] * 22, answer
    assert [event for event in room.repo.events() if event["type"] == "coverage_gap"] == []


# Hooks


def told(room: Room, event: str, tool: str, **fields: str) -> str:
    return json.dumps({
        "session_id": "s", "cwd": str(room.root), "hook_event_name": event, "tool_name": tool,
        "tool_input": fields,
    })  # fmt: skip


def refused(room: Room, *data: str) -> list[str]:
    """The refusals of a hook inside, for some calls."""
    script = f'while read -r line; do echo "$line" | {sys.executable} -I -S {HOOK} claude; done'
    lines = [json.loads(line) for line in _fed(room, script, data).splitlines()]
    return [line["hookSpecificOutput"]["permissionDecisionReason"] for line in lines]


def _fed(room: Room, script: str, data: tuple[str, ...]) -> str:
    done = subprocess.run(
        [*COMMAND, *room.line("--", "sh", "-c", script)], cwd=room.root,
        env=environment(**room.env), input="".join(f"{one}\n" for one in data),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def gaps_of(room: Room) -> list[str]:
    found = [event["data"] for event in room.repo.events() if event["type"] == "coverage_gap"]
    assert all(gap["client"] == "claude" and gap["grant"] for gap in found)
    return [os.path.relpath(gap["path"], room.root) for gap in found]


@NEEDS_LANDLOCK
def test_a_write_outside_the_grant_is_refused_inside_and_recorded_as_a_gap(room: Room) -> None:
    file = {"file_path": f"{room.root}/lib/z.rb", "content": "new"}
    mine = {"file_path": f"{room.root}/app/x.rb", "content": "new"}
    said = refused(
        room,
        told(room, "PreToolUse", "Write", **mine),
        told(room, "PreToolUse", "Write", **file),
        told(room, "PreToolUse", "Bash", command="echo > app/models/user.rb"),
        told(room, "PreToolUse", "Bash", command="echo > app/x.rb"),
    )
    assert [text.partition(" is not covered")[0] for text in said] == [
        f"Refused: {room.root}/lib/z.rb", f"Refused: {room.root}/app/models/user.rb",
    ]  # fmt: skip
    assert gaps_of(room) == ["lib/z.rb", "app/models/user.rb"]
    assert room.text("lib/z.rb") == "old\n"


def committed(room: Room) -> None:
    """A history with two commits that differ in lib/z.rb and app/models/user.rb."""
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    (room.root / ".gitignore").write_text(".holdfast/\n")
    for words in (["add", "."], ["commit", "-qm", "one"], ["branch", "first"]):
        subprocess.run(["git", *name, *words], cwd=room.root, check=True)
    for path in ("lib/z.rb", "app/models/user.rb"):
        (room.root / path).write_text("newer\n")
    subprocess.run(["git", *name, "commit", "-qam", "two"], cwd=room.root, check=True)


@NEEDS_LANDLOCK
@pytest.mark.parametrize("sandbox", [True, False])
def test_a_git_verb_that_would_change_more_than_the_grant_is_refused_and_recorded(
    room: Room, sandbox: bool
) -> None:
    committed(room)
    (room.root / "lib/z.rb").write_text("dirty\n")
    (room.root / "app/x.rb").write_text("dirty\n")
    calls = [
        told(room, "PreToolUse", "Bash", command=command)
        for command in ("git reset --hard", "git checkout first", "git status", "git stash list",
                        "git checkout -- app/x.rb", "git log")
    ]  # fmt: skip
    if sandbox:
        said = refused(room, *calls)
    else:
        with LockManager.open(room.root) as manager:
            grant = manager.try_acquire(holder="runner", write_paths=["app/x.rb"])
            assert grant is not None
            env = {"HOLDFAST_GRANT": grant.id, "HOLDFAST_TOKEN": str(grant.token)}
            said = [text for text in (_asked(call, env) for call in calls) if text]
            manager.release(grant.id)
    hard, branch = said
    assert f"{room.root}/lib/z.rb is not covered" in hard
    assert f"{room.root}/app/models/user.rb, {room.root}/lib/z.rb is not covered" in branch
    assert gaps_of(room) == ["lib/z.rb", "app/models/user.rb", "lib/z.rb"]
    assert room.text("lib/z.rb") == "dirty\n"


def _asked(call: str, env: dict[str, str]) -> str:
    from holdfast.gate.door import client_events

    reply = client_events.answer("claude", call.encode(), env)
    said = json.loads(reply.stdout) if reply.stdout else {"hookSpecificOutput": {}}
    return str(said["hookSpecificOutput"].get("permissionDecisionReason", ""))


def test_a_git_verb_on_what_the_grant_covers_passes(room: Room) -> None:
    committed(room)
    (room.root / "app/x.rb").write_text("dirty\n")
    with LockManager.open(room.root) as manager:
        grant = manager.try_acquire(holder="runner", write_paths=["app/x.rb"])
        assert grant is not None
        env = {"HOLDFAST_GRANT": grant.id, "HOLDFAST_TOKEN": str(grant.token)}
        call = told(room, "PreToolUse", "Bash", command="git reset --hard && git stash")
        assert _asked(call, env) == ""
        manager.release(grant.id)
    assert gaps_of(room) == []


# The request


def test_a_loop_inside_does_not_fill_the_ledger(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gap_records, "RECORDED_MAX", 3)
    with LockManager.open(repository) as manager:
        grant = manager.try_acquire(holder="a", write_paths=["app/x.rb"])
        assert grant is not None
        made = ledger_socket.LedgerSocket(
            str(tmp_path / "socket"), {"gap": gap_records.GapRecorder(grant)}
        )
        made.start(manager)
        try:
            about = {"token": grant.token, "client": "codex", "where": made.path}
            said = [runner_client.gap(grant.id, f"lib/{at}", **about) for at in range(5)]  # type: ignore[arg-type]
            with pytest.raises(SandboxError, match="covers this"):
                runner_client.gap(grant.id, "app/x.rb", **about)  # type: ignore[arg-type]
        finally:
            made.close()
        assert said == [True, True, True, False, False]
        found = [event.data for event in manager.events() if event.type == "coverage_gap"]
        assert [gap["path"] for gap in found] == ["lib/0", "lib/1", "lib/2"]
        why = manager.verify(grant.id, "lib/0", token=grant.token).reason
        assert found[0]["why"] == why, "the reason is our own"


def test_the_guide_has_every_question() -> None:
    from holdfast.gate.people.ledger_picture import QUESTIONS

    guide = (Path(__file__).parents[2] / "docs/sandbox.md").read_text()
    for name in (*QUESTIONS, "gap"):
        assert json.dumps({"ask": name})[:-1] in guide
