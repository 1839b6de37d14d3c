"""The hook as clients start it: a real process, its standard input, and its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import until
from helpers_processes import LINUX_ONLY
from holdfast import LockManager
from holdfast.cli.locking import run_command
from holdfast.core.draft import Draft
from holdfast.core.model import Decision, agent_key
from holdfast.gate import hook, pending_writes, sandbox
from holdfast.gate.config import off_switch
from holdfast.gate.door import client_events, delegated_calls, hook_process, ledger_answer
from holdfast.gate.git import committer
from holdfast.gate.guard import edit_marks, other_ledgers
from holdfast.gate.rulebook.agent_records import BLOCKED, Block, known, present
from holdfast.manager import transactions
from holdfast.manager.files import paths
from holdfast.manager.owners import running_calls
from holdfast.manager.owners.liveness import is_dead

if TYPE_CHECKING:
    from holdfast.core.view import View

HOOK = Path(hook.__file__)


class Client:
    """A client's process, on whose behalf hooks are called."""

    def __init__(self, root: Path, session: str, client: str = "claude") -> None:
        self.root = root
        self.session = session
        self.client = client
        self.process = subprocess.Popen(["sleep", "600"])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def name(self) -> str:
        """The name under which people see it."""
        with LockManager.open(self.root) as manager:
            key = agent_key(self.client, self.session)
            presence = transactions.look(manager, lambda view: known(view, key)).presence
        return presence.shown if presence is not None else "nobody"

    def start(self, event: str, env: dict[str, str] | None = None, **data: Any) -> Any:
        told = {"session_id": self.session, "cwd": str(self.root), "hook_event_name": event, **data}
        return self.start_raw(json.dumps(told).encode(), env)

    def start_raw(self, told: bytes, env: dict[str, str] | None = None) -> Any:
        kept = {name: value for name, value in os.environ.items() if "CLAUDE" not in name}
        hook = subprocess.Popen(
            [sys.executable, "-I", "-S", str(HOOK), self.client],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
            env={**kept, "CLAUDE_PID": str(self.process.pid), **(env or {})},
        )  # fmt: skip
        assert hook.stdin is not None
        hook.stdin.write(told)
        hook.stdin.close()
        hook.stdin = None
        return hook

    def tell(self, event: str, env: dict[str, str] | None = None, **data: Any) -> dict[str, Any]:
        return answer_of(self.start(event, env, **data))

    def edit(self, path: str, env: dict[str, str] | None = None, **more: Any) -> str:
        """The reason why an edit is refused; empty if it is allowed."""
        return refusal(self.tell("PreToolUse", env, **self.tool(path), **more))

    def tool(self, path: str) -> dict[str, Any]:
        if self.client == "codex":
            patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-old\n+new\n*** End Patch\n"
            return {"tool_name": "apply_patch", "tool_input": {"command": patch}}
        file = {"file_path": f"{self.root}/{path}", "content": "new\n"}
        return {"tool_name": "Write", "tool_input": file}


def answer_of(hook: Any) -> dict[str, Any]:
    out, err = hook.communicate(timeout=60)
    assert hook.returncode == 0, err
    assert not err
    return json.loads(out) if out.strip() else {}


def refusal(answer: dict[str, Any]) -> str:
    said = answer.get("hookSpecificOutput", {})
    return said["permissionDecisionReason"] if said.get("permissionDecision") == "deny" else ""


@pytest.fixture
def root(repository: Path) -> Path:
    (repository / ".holdfast").mkdir()
    (repository / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\n")  # no call is held open
    return repository


@pytest.fixture
def ann(root: Path) -> Iterator[Client]:
    made = Client(root, "ann-session")
    yield made
    made.close()


@pytest.fixture
def bob(root: Path) -> Iterator[Client]:
    made = Client(root, "bob-session")
    yield made
    made.close()


@pytest.fixture
def cid(root: Path) -> Iterator[Client]:
    made = Client(root, "cid-session", "codex")
    yield made
    made.close()


def owners(root: Path) -> dict[str, str]:
    """The name of each file's holder."""
    with LockManager.open(root) as manager:
        return {grant.write_paths[0]: grant.holder for grant in manager.active_grants()}


def test_an_edit_of_a_free_file_passes_without_a_word(ann: Client, root: Path) -> None:
    assert ann.tell("PreToolUse", **ann.tool("app/x.rb")) == {}
    assert owners(root) == {"app/x.rb": ann.name}


def test_an_edit_of_anothers_file_is_refused_with_the_facts(ann: Client, bob: Client) -> None:
    ann.edit("app/x.rb")
    reason = bob.edit("app/x.rb")
    for fact in ("app/x.rb", ann.name, "retry"):
        assert fact in reason


def test_clients_of_different_kinds_exclude_each_other(ann: Client, cid: Client) -> None:
    ann.edit("app/x.rb")
    assert ann.name in cid.edit("app/x.rb")
    assert cid.edit("lib/y.rb") == ""
    assert cid.name in ann.edit("lib/y.rb")


def test_the_lease_hangs_on_the_clients_life_and_not_on_the_hooks(ann: Client, bob: Client) -> None:
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    ann.close()
    assert bob.edit("lib/y.rb") == ""
    assert bob.edit("app/x.rb") == ""
    assert owners(bob.root) == {"app/x.rb": bob.name, "lib/y.rb": bob.name}


def test_a_file_outside_of_any_repository_passes(ann: Client, tmp_path: Path) -> None:
    data: dict[str, Any] = {
        "tool_name": "Write",
        "tool_input": {"file_path": str(tmp_path / "x"), "content": ""},
    }
    assert ann.tell("PreToolUse", **data) == {}


def test_a_file_of_another_repository_has_that_ones_gate(
    ann: Client, bob: Client, tmp_path: Path
) -> None:
    (tmp_path / "other" / ".holdfast").mkdir(parents=True)
    (tmp_path / "other" / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\n")
    data: dict[str, Any] = {
        "tool_name": "Write",
        "tool_input": {"file_path": str(tmp_path / "other/x")},
    }
    assert ann.tell("PreToolUse", **data) == {}
    assert refusal(bob.tell("PreToolUse", **data))
    with LockManager.open(tmp_path / "other") as manager:
        held = transactions.look(
            manager, lambda view: view.held_by(agent_key("claude", ann.session))
        )
    assert [grant.paths for grant in held] == [("x",)]


def test_where_nobody_asked_for_a_gate_everything_passes(tmp_path: Path) -> None:
    client = Client(tmp_path, "s")
    try:
        assert client.tell("PreToolUse", **client.tool("x")) == {}
        assert not (tmp_path / ".holdfast").exists()
    finally:
        client.close()


@pytest.mark.parametrize("told", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'"x"', b"{" * 100_000])
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_what_is_no_json_object_is_refused(root: Path, told: bytes, name: str) -> None:
    client = Client(root, "s", name)
    try:
        hook = subprocess.Popen(
            [sys.executable, "-I", "-S", str(HOOK), name], cwd=root,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, _err = hook.communicate(told, timeout=60)
        assert refusal(json.loads(out))
        assert hook.returncode == 0
    finally:
        client.close()


def test_an_unknown_client_is_refused_by_the_exit_code(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(HOOK), "nobody"], cwd=root, input=b"{}",
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert b"nobody" in done.stderr


def test_a_broken_ledger_refuses_edits_and_says_what_to_do(ann: Client, root: Path) -> None:
    (root / ".holdfast/ledger.db").write_bytes(b"this is no database" * 100)
    reason = ann.edit("app/x.rb")
    assert "ledger.db" in reason
    assert "holdfast doctor" in reason
    said = ann.tell("Stop")  # a stop writes nothing, so it is not refused
    assert said.keys() == {"systemMessage"}
    assert "ledger.db" in said["systemMessage"]
    shell: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "holdfast status"}}
    assert ann.tell("PreToolUse", **shell) == {}
    assert refusal(ann.tell("PreToolUse", tool_name="Bash", tool_input={"command": "make"}))


def test_a_ledger_that_somebody_keeps_locked_refuses_in_time(ann: Client, root: Path) -> None:
    ann.edit("app/x.rb")
    with kept_locked(root):
        begun = time.monotonic()
        assert "busy" in ann.edit("lib/y.rb")
        assert time.monotonic() - begun < 30


def test_a_hook_answers_before_the_shortest_time_that_can_be_set(ann: Client, root: Path) -> None:
    ann.edit("app/x.rb")
    (root / "holdfast.toml").write_text("[gate]\ntimeout_seconds = 15\nhold_seconds = 3600\n")
    with kept_locked(root):
        begun = time.monotonic()
        assert "busy" in ann.edit("lib/y.rb")
        assert time.monotonic() - begun < 7.5


@pytest.mark.parametrize("event", ["Interrupt", "SessionEnd"])
def test_a_hook_answers_before_the_time_is_up_that_its_client_sets(
    cid: Client, root: Path, event: str
) -> None:
    cid.edit("app/x.rb")
    with kept_locked(root):
        begun = time.monotonic()
        cid.tell(event)
        assert time.monotonic() - begun < 3


def test_whatever_takes_so_long_the_answer_comes_in_time(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / ".holdfast").mkdir()
    (repository / "holdfast.toml").write_text("[gate]\ntimeout_seconds = 15\n")
    monkeypatch.setattr(
        "holdfast.gate.lease_gate.LeaseGate.permit", lambda *_, **__: time.sleep(60)
    )
    said = {"session_id": "s", "cwd": str(repository), "hook_event_name": "PreToolUse",
            "tool_name": "Write", "tool_input": {"file_path": f"{repository}/x"}}  # fmt: skip
    begun = time.monotonic()
    env = {"CLAUDE_PID": str(os.getpid())}
    try:
        reply = client_events.answer(
            "claude", json.dumps(said).encode(), env, started=begun - 4.5, limit=hook_process.limit
        )
    finally:
        hook_process.limit(0)
    assert "took too long" in refusal(json.loads(reply.stdout))
    assert time.monotonic() - begun < 5


@contextmanager
def kept_locked(root: Path) -> Iterator[None]:
    """No other process can decide anything meanwhile."""
    import fcntl

    with open(root / ".holdfast/gate", "rb+") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def reads(hook: Any, root: Path) -> None:
    """Wait until a hook has opened the ledger: by then it has read its whole input."""
    folder, ledger = f"/proc/{hook.pid}/fd", str(root / ".holdfast/gate")

    def has_it() -> bool:
        return any(os.path.realpath(one) == ledger for one in Path(folder).iterdir())

    until(has_it, "the hook has opened the ledger")


BEFORE_A_WRITE: dict[str, dict[str, Any]] = {
    "edit": {"event": "PreToolUse", "tool_name": "Write", "tool_input": {"file_path": "/x"}},
    "shell": {"event": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "make"}},
    "agent": {"event": "PreToolUse", "tool_name": "Agent", "tool_input": {"prompt": "x"}},
}
OTHERWISE: dict[str, dict[str, Any]] = {
    "prompt": {"event": "UserPromptSubmit", "prompt": "go on"},
    "start": {"event": "SessionStart", "source": "startup"},
    "end": {"event": "SessionEnd", "reason": "other"},
    "stop": {"event": "Stop"},
    "agent stop": {"event": "SubagentStop", "agent_id": "one"},
    "edited": {"event": "PostToolUse", "tool_name": "Write", "tool_input": {"file_path": "/x"}},
}


@pytest.mark.parametrize("what", [*BEFORE_A_WRITE, *OTHERWISE])
def test_a_hook_that_is_interrupted_refuses_what_may_write_and_nothing_else(
    ann: Client, root: Path, what: str
) -> None:
    ann.edit("app/x.rb")
    told = {**BEFORE_A_WRITE, **OTHERWISE}[what]
    if what in ("edit", "edited"):
        told = {**told, "tool_input": {"file_path": f"{root}/lib/y.rb"}}
    with kept_locked(root):
        hook = ann.start(**told)
        reads(hook, root)
        hook.send_signal(signal.SIGINT)
        out, err = hook.communicate(timeout=60)
    assert out == b""
    if what in BEFORE_A_WRITE:
        assert (hook.returncode, err[:9]) == (2, b"holdfast:")
    else:
        assert (hook.returncode, err) == (0, b"")


LIVES = {
    "start": "the start of this session",
    "prompt": "this prompt",
    "stop": "this stop",
    "agent stop": "this stop",
    "end": "the end of this session",
}


@pytest.mark.parametrize("what", LIVES)
@pytest.mark.parametrize("name", ["claude", "codex"])
def test_the_user_hears_of_what_the_gate_could_not_note(root: Path, what: str, name: str) -> None:
    client = Client(root, "s", name)
    try:
        client.edit("app/x.rb")
        (root / ".holdfast/ledger.db").write_bytes(b"this is no database" * 100)
        said = client.tell(**OTHERWISE[what])
    finally:
        client.close()
    if (name, what) == ("codex", "end"):  # Codex accepts no answer there
        assert said == {}
        return
    assert said.keys() == {"systemMessage"}
    assert said["systemMessage"].startswith(f"holdfast: {LIVES[what]} could not be recorded")
    assert "ledger.db" in said["systemMessage"]


def test_the_user_hears_of_a_stop_that_meets_what_a_newer_version_wrote(
    ann: Client, root: Path
) -> None:
    ann.edit("app/x.rb")

    def newer(view: View) -> Decision[None]:
        draft = Draft(view)
        name = Block.named(agent_key("claude", ann.session), "1")
        draft.say(BLOCKED, {"agent": "ann"}, name=name, version=99)
        return draft.done(None)

    with LockManager.open(root) as manager:
        transactions.decide(manager, newer)
    said = ann.tell("Stop")
    assert "this stop could not be recorded" in said["systemMessage"]
    assert "newer version" in said["systemMessage"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_that_is_held_and_interrupted_sends_nobody_back_to_work(
    ann: Client, bob: Client, root: Path, number: signal.Signals
) -> None:
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    hook = bob.start("Stop")
    key = agent_key("claude", bob.session)
    with LockManager.open(root) as manager:
        until(
            lambda: transactions.look(manager, lambda view: known(view, key)).rest is not None,
            "the stop is held",
        )
    hook.send_signal(number)
    out, err = hook.communicate(timeout=60)
    assert (out, err) == (b"", b"")
    assert hook.returncode in (0, -signal.SIGTERM)


def test_a_sub_agents_edit_is_its_own(ann: Client, root: Path) -> None:
    assert ann.edit("app/x.rb", agent_id="one", agent_type="general") == ""
    (root / "app/x.rb").write_text("new\n")
    assert ann.edit("app/x.rb", agent_id="two", agent_type="general")
    ann.tell("SubagentStop", agent_id="one", agent_type="general")
    of_the_session = owners(root)["app/x.rb"]  # the gate had not seen the session before
    ann.tell("UserPromptSubmit", prompt="go on")
    assert owners(root)["app/x.rb"] == ann.name == of_the_session


def test_the_end_of_the_session_frees_its_files(ann: Client, bob: Client) -> None:
    ann.edit("app/x.rb")
    ann.tell("SessionEnd", reason="other")
    assert bob.edit("app/x.rb") == ""


def test_a_resumed_session_goes_on_with_its_files(ann: Client, bob: Client) -> None:
    ann.edit("app/x.rb")
    ann.close()
    ann.process = subprocess.Popen(["sleep", "600"])
    ann.tell("SessionStart", source="resume")
    assert bob.edit("app/x.rb")
    assert ann.edit("app/x.rb") == ""


def test_a_refused_call_is_held_open_until_its_file_comes_free(
    ann: Client, bob: Client, root: Path
) -> None:
    (root / "holdfast.toml").unlink()
    ann.edit("app/x.rb")
    waiting = bob.start("PreToolUse", **bob.tool("app/x.rb"))
    with LockManager.open(root) as manager:
        until(lambda: bool(manager.queue()), "it stands in line")
    assert waiting.poll() is None
    ann.tell("SessionEnd", reason="other")
    assert answer_of(waiting) == {}
    assert owners(root) == {"app/x.rb": bob.name}


def test_a_refused_call_is_answered_after_a_moment_and_stays_in_line(
    ann: Client, bob: Client, root: Path
) -> None:
    (root / "holdfast.toml").write_text("[gate]\nhold_seconds = 0.7\n")
    ann.edit("app/x.rb")
    begun = time.monotonic()
    assert "number 1 in line" in bob.edit("app/x.rb")
    assert time.monotonic() - begun > 0.7
    ann.tell("SessionEnd", reason="other")
    assert owners(root) == {"app/x.rb": bob.name}


def test_a_call_in_a_crowd_without_hand_overs_is_not_held(
    ann: Client, bob: Client, root: Path
) -> None:
    (root / "holdfast.toml").write_text("[gate]\nwake = false\nhold_seconds = 60\n")
    ann.edit("app/x.rb")
    begun = time.monotonic()
    assert bob.edit("app/x.rb")
    assert bob.tell("Stop")["systemMessage"]
    assert time.monotonic() - begun < 30


def test_a_retry_that_fails_halts_the_agent_with_a_report(
    ann: Client, bob: Client, root: Path
) -> None:
    (root / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\nretry_seconds = 0.2\n")
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    time.sleep(0.2)
    answer = bob.tell("PreToolUse", **bob.tool("app/x.rb"))
    assert answer["continue"] is False
    assert "state=waiting_for_instruction" in refusal(answer)
    shown = subprocess.run(
        [sys.executable, "-m", "holdfast", "blockers", "--json"], cwd=root,
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    (report,) = json.loads(shown.stdout)["blockers"]
    assert (report["agent"], report["blocked_file"]) == (bob.name, "app/x.rb")
    assert bob.edit("lib/y.rb")
    bob.tell("UserPromptSubmit", prompt="go on")
    assert bob.edit("lib/y.rb") == ""


def test_a_stop_is_held_until_the_retry_which_may_fail(
    ann: Client, bob: Client, root: Path
) -> None:
    (root / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\nretry_seconds = 1.5\n")
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    told = bob.tell("Stop")
    assert "state=waiting_for_instruction" in told["systemMessage"]
    with LockManager.open(root) as manager:
        (heartbeat,) = (one for one in manager.events() if one.type == "contention_heartbeat")
        (blocked,) = (one for one in manager.events() if one.type == "agent_blocked")
    assert blocked.at >= heartbeat.data["retry_at"]
    assert bob.edit("lib/y.rb")


@pytest.mark.parametrize("entrypoint", ["sdk-cli", "cli"])
def test_a_session_that_ends_blocked_says_so_where_it_is_heard(
    ann: Client, bob: Client, root: Path, entrypoint: str
) -> None:
    (root / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\nretry_seconds = 0.1\n")
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    time.sleep(0.1)
    assert "state=waiting_for_instruction" in bob.edit("app/x.rb")
    hook = bob.start("SessionEnd", {"CLAUDE_CODE_ENTRYPOINT": entrypoint}, reason="other")
    out, err = hook.communicate(timeout=60)
    said = err if entrypoint == "sdk-cli" else out
    assert hook.returncode == (1 if entrypoint == "sdk-cli" else 0)
    assert b"ended blocked (state=waiting_for_instruction)" in said
    assert b"app/x.rb" in said


def test_with_a_grant_in_the_environment_that_grant_decides(ann: Client, root: Path) -> None:
    with LockManager.open(root) as manager:
        grant = manager.try_acquire(holder="runner", write_paths=["app/x.rb"])
        assert grant is not None
        env = {"HOLDFAST_GRANT": grant.id, "HOLDFAST_TOKEN": str(grant.token)}
        assert ann.edit("app/x.rb", env) == ""
        assert "not covered" in ann.edit("lib/y.rb", env)
        (gap,) = [event.data for event in manager.events() if event.type == "coverage_gap"]
        assert (gap["grant"], gap["path"]) == (grant.id, f"{root}/lib/y.rb")
        assert "lib/y.rb" in gap["why"]
        assert ann.edit("app/x.rb", env) == "", "an edit that the grant covers is allowed"
        assert len(manager.active_grants()) == 1  # no new lease was made
        assert ann.edit("app/x.rb", {**env, "HOLDFAST_TOKEN": str(grant.token - 1)})


def test_while_the_gate_is_off_everything_passes_and_says_so(
    ann: Client, bob: Client, root: Path
) -> None:
    ann.edit("app/x.rb")
    (root / ".holdfast/off").write_text("{}")
    assert bob.edit("app/x.rb") == ""
    assert "off" in bob.tell("SessionStart", source="startup")["systemMessage"]


def test_what_the_door_looks_for_is_where_its_owners_put_it(root: Path) -> None:
    assert f"{root}/{ledger_answer.OFF_FILE}" == off_switch.file_of(str(root))
    assert f"{root}/{ledger_answer.ASIDE_FOLDER}" == edit_marks.guard_path(str(root))
    assert client_events.ABROAD_FOLDER == other_ledgers.FOLDER
    assert ledger_answer.CALLS_FOLDER == running_calls.FOLDER
    assert f"{paths.LEDGER_FOLDER}/busy" == pending_writes.FOLDER
    for module in (committer, run_command):
        ours = (module.GRANT_VARIABLE, module.TOKEN_VARIABLE)
        assert ours == (ledger_answer.GRANT_VARIABLE, delegated_calls.TOKEN_VARIABLE)
    assert ledger_answer.SOCKET_VARIABLE == sandbox.SOCKET_VARIABLE


# A client that was killed


ORPHAN = """
import os, subprocess, sys
program, told, said = sys.argv[1:]
env = {**os.environ, "CLAUDE_PID": str(os.getpid())}
call = f"{sys.executable} -I -S {program} claude <{told} >{said}.new"
line = f"sleep 0.3; {call}; mv {said}.new {said}"
subprocess.Popen(["sh", "-c", line], env=env, start_new_session=True)
"""


@LINUX_ONLY
@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_a_hook_that_begins_after_its_client_was_killed_leaves_nothing_for_ever(
    root: Path, tmp_path: Path, event: str
) -> None:
    told, said = tmp_path / "told", tmp_path / "said"
    fields = {"file_path": str(root / "app/x.rb"), "content": "x\n"}
    told.write_text(
        json.dumps(
            {"session_id": "ann", "cwd": str(root), "hook_event_name": event, "tool_name": "Write",
             "tool_input": fields}
        )
    )  # fmt: skip
    env = {name: text for name, text in os.environ.items() if not name.startswith("CLAUDE")}
    subprocess.run(
        [sys.executable, "-c", ORPHAN, str(HOOK), str(told), str(said)], env=env, check=True,
        timeout=60,
    )  # fmt: skip
    until(said.exists, "the hook has answered")
    with LockManager.open(root) as manager:
        assert manager.active_grants() == []
        keys = transactions.look(manager, lambda view: [one.witness for one in present(view)])
        assert all(one is not None and is_dead(one, ()) for one in keys)
