"""The hook as clients start it: a real process, its standard input, what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import until
from holdfast import LockManager
from holdfast.core.model import agent_key
from holdfast.gate import hook
from holdfast.gate.rulebook.records import known
from holdfast.manager import services

HOOK = Path(hook.__file__)


class Client:
    """A client's process, in whose name hooks are called."""

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
        """What people read for it."""
        with LockManager.open(self.root) as manager:
            key = agent_key(self.client, self.session)
            presence = services.look(manager, lambda view: known(view, key)).presence
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
        """Why an edit is refused; empty if it may be done."""
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
    (repository / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\n")  # nobody is held
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
    """The name of whoever has each file."""
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
        held = services.look(manager, lambda view: view.held_by(agent_key("claude", ann.session)))
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
    assert ann.tell("Stop") == {}  # what cannot write is not in anybody's way
    shell: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "holdfast status"}}
    assert ann.tell("PreToolUse", **shell) == {}
    assert refusal(ann.tell("PreToolUse", tool_name="Bash", tool_input={"command": "make"}))


def test_a_ledger_that_somebody_keeps_locked_refuses_in_time(ann: Client, root: Path) -> None:
    import fcntl

    ann.edit("app/x.rb")
    with open(root / ".holdfast/gate", "rb+") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        begun = time.monotonic()
        assert "busy" in ann.edit("lib/y.rb")
        assert time.monotonic() - begun < 30


def test_a_sub_agents_edit_is_its_own(ann: Client, root: Path) -> None:
    assert ann.edit("app/x.rb", agent_id="one", agent_type="general") == ""
    (root / "app/x.rb").write_text("new\n")
    assert ann.edit("app/x.rb", agent_id="two", agent_type="general")
    ann.tell("SubagentStop", agent_id="one", agent_type="general")
    of_the_session = owners(root)["app/x.rb"]  # of which nothing had been heard before
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
        assert ann.edit("app/x.rb", env) == "", "the rest can be done"
        assert len(manager.active_grants()) == 1  # never a new lease
        assert ann.edit("app/x.rb", {**env, "HOLDFAST_TOKEN": str(grant.token - 1)})


def test_while_the_gate_is_off_everything_passes_and_says_so(
    ann: Client, bob: Client, root: Path
) -> None:
    ann.edit("app/x.rb")
    (root / ".holdfast/off").write_text("{}")
    assert bob.edit("app/x.rb") == ""
    assert "off" in bob.tell("SessionStart", source="startup")["systemMessage"]
