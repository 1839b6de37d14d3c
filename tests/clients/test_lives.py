"""How the real clients start a hook, and how their sessions continue and end."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY, until

from . import drive
from .drive import (
    CLAUDE_EVENTS,
    CODEX_EVENTS,
    Recorder,
    hooks_for,
    run_claude,
    run_codex,
    start_claude,
    start_codex,
)
from .servers import (
    AnthropicServer,
    Call,
    OpenAIServer,
    bash,
    patch,
    write,
)

REASON = "held by somebody else"
ADD = "*** Add File: new.txt\n+new"


@pytest.mark.parametrize("file", ["settings.json", "settings.local.json"])
def test_claude_reads_hooks_from_both_of_the_projects_files(
    repo: Path, hook: Recorder, anthropic: AnthropicServer, file: str
) -> None:
    (repo / ".claude").mkdir()
    (repo / ".claude" / file).write_text(json.dumps(hooks_for(hook.command, ["PreToolUse"])))
    hook.deny(REASON)
    anthropic.scripts["main"] = [write(repo / "new.txt", "new\n"), "Done."]
    run_claude(repo, "[[main]]", anthropic)
    assert not (repo / "new.txt").exists()


def test_codex_runs_no_hook_that_nobody_has_trusted_and_says_nothing(
    repo: Path, hook: Recorder, openai: OpenAIServer, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    hook.deny(REASON)
    openai.scripts["main"] = [patch(ADD), "Done."]
    hooks = hooks_for(hook.command, ["PreToolUse"])
    result = run_codex(repo, "[[main]]", openai, home=home, hooks=hooks, vetted=False)
    assert (repo / "new.txt").exists()
    assert hook.told() == []
    assert "hook" not in (result.stdout + result.stderr).replace(str(tmp_path), "")
    assert [known["trustStatus"] for known in drive.codex_hooks(repo, home)] == ["untrusted"]


def test_codex_runs_hooks_once_they_are_trusted_until_they_change(
    repo: Path, hook: Recorder, openai: OpenAIServer, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    hook.deny(REASON)
    openai.scripts["main"] = [patch(ADD), "Done."]
    drive.write_json(repo / ".codex" / "hooks.json", hooks_for(hook.command, ["PreToolUse"]))
    drive.trust_codex_hooks(repo, home)
    run_codex(repo, "[[main]]", openai, home=home, vetted=False)
    assert not (repo / "new.txt").exists()
    (known,) = drive.codex_hooks(repo, home)
    assert known["key"] == f"{repo}/.codex/hooks.json:pre_tool_use:0:0"
    assert known["trustStatus"] == "trusted"

    changed = hooks_for(hook.command + " ", ["PreToolUse"], timeout=59)
    run_codex(repo, "[[main]]", openai, home=home, hooks=changed, vetted=False)
    assert (repo / "new.txt").exists()
    assert [known["trustStatus"] for known in drive.codex_hooks(repo, home)] == ["modified"]


def test_codex_rejects_a_hooks_file_with_an_unknown_key_at_its_root_only(
    repo: Path, hook: Recorder, openai: OpenAIServer
) -> None:
    hook.deny(REASON)
    openai.scripts["main"] = [patch(ADD), "Done."]
    hooks = hooks_for(hook.command, ["PreToolUse", "PostToolUseFailure"])
    hooks["hooks"]["PreToolUse"][0]["hooks"][0]["surprise"] = 1
    run_codex(repo, "[[main]]", openai, hooks=hooks)
    assert not (repo / "new.txt").exists()
    result = run_codex(repo, "[[main]]", openai, hooks={**hooks, "surprise": 1})
    assert (repo / "new.txt").exists()
    assert "unknown field `surprise`" in result.stdout


def test_claude_keeps_its_session_and_says_so_when_it_is_resumed(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    anthropic.scripts |= {name: [f"{name} done"] for name in ("one", "two", "three")}
    settings = hooks_for(hook.command, ["SessionStart"])
    first = run_claude(repo, "[[one]]", anthropic, settings=settings)
    second = run_claude(repo, "[[two]]", anthropic, resume=first.session)
    third = run_claude(repo, "[[three]]", anthropic, resume=True)
    assert first.session == second.session == third.session
    assert [record["data"]["source"] for record in hook.told()] == ["startup", "resume", "resume"]
    assert {record["data"]["session_id"] for record in hook.told()} == {first.session}
    assert len({record["env"]["CLAUDE_PID"] for record in hook.told()}) == 3
    assert "one done" in anthropic.asked("three")[0].text()


def test_codex_keeps_its_session_and_says_so_when_it_is_resumed(
    repo: Path, hook: Recorder, openai: OpenAIServer
) -> None:
    openai.scripts |= {name: [f"{name} done"] for name in ("one", "two", "three")}
    hooks = hooks_for(hook.command, ["SessionStart"])
    first = run_codex(repo, "[[one]]", openai, hooks=hooks)
    second = run_codex(repo, "[[two]]", openai, resume=first.session)
    third = run_codex(repo, "[[three]]", openai, resume=True)
    assert first.session == second.session == third.session
    assert [record["data"]["source"] for record in hook.told()] == ["startup", "resume", "resume"]
    assert {record["data"]["session_id"] for record in hook.told()} == {first.session}
    assert "one done" in openai.asked("three")[0].text()


#: Writes its pid, and then waits for a file that exists only if the test lets it continue.
LONG = "echo $$ > pid.tmp; mv pid.tmp pid; until [ -e go ]; do sleep 0.05; done; echo late > a.txt"


@LINUX_ONLY
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_claude_ends_its_session_on_a_signal_and_takes_its_command_along(
    repo: Path, hook: Recorder, anthropic: AnthropicServer, number: int
) -> None:
    anthropic.scripts["main"] = [bash(LONG), "Done."]
    running = start_claude(
        repo, "[[main]]", anthropic, settings=hooks_for(hook.command, CLAUDE_EVENTS)
    )
    pid = started(repo)
    running.stop(number)
    running.wait()
    assert len(hook.told("SessionEnd")) == 1
    assert hook.told("Stop") == []
    until(lambda: not os.path.exists(f"/proc/{pid}"), "its command ended")


@LINUX_ONLY
def test_a_killed_claude_says_nothing_and_leaves_its_command_with_its_name_on_it(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    anthropic.scripts["main"] = [bash(LONG), "Done."]
    running = start_claude(
        repo, "[[main]]", anthropic, settings=hooks_for(hook.command, CLAUDE_EVENTS)
    )
    pid = started(repo)
    running.kill()
    assert hook.told("SessionEnd") == []
    session = hook.told("SessionStart")[0]["data"]["session_id"]
    assert f"CLAUDE_CODE_SESSION_ID={session}" in environment(pid)
    assert f"CLAUDE_PID={running.pid}" in environment(pid)
    (repo / "go").touch()
    until(lambda: (repo / "a.txt").read_text() == "late\n", "the orphan wrote")


@LINUX_ONLY
@pytest.mark.parametrize(
    ("number", "told"), [(signal.SIGKILL, 0), (signal.SIGTERM, 0), (signal.SIGINT, 1)]
)
def test_codex_tells_of_its_end_only_when_it_is_interrupted(
    repo: Path, hook: Recorder, openai: OpenAIServer, number: int, told: int
) -> None:
    openai.scripts["main"] = [Call("exec_command", {"cmd": LONG, "yield_time_ms": 30000}), "Done."]
    running = start_codex(repo, "[[main]]", openai, hooks=hooks_for(hook.command, CODEX_EVENTS))
    pid = started(repo)
    running.stop(number)
    running.wait()
    assert len(hook.told("SessionEnd")) == told
    until(lambda: not os.path.exists(f"/proc/{pid}"), "its command ended")


@LINUX_ONLY
def test_a_killed_codex_leaves_what_its_command_started_with_its_name_on_it(
    repo: Path, hook: Recorder, openai: OpenAIServer
) -> None:
    openai.scripts["main"] = [
        Call("exec_command", {"cmd": f"bash -c '{LONG}' & wait", "yield_time_ms": 30000}),
        "Done.",
    ]
    running = start_codex(repo, "[[main]]", openai, hooks=hooks_for(hook.command, CODEX_EVENTS))
    pid = started(repo)
    running.kill()
    session = hook.told("SessionStart")[0]["data"]["session_id"]
    assert f"CODEX_SESSION_ID={session}" in environment(pid)
    (repo / "go").touch()
    until(lambda: (repo / "a.txt").read_text() == "late\n", "the orphan wrote")


def started(repo: Path) -> int:
    until(lambda: (repo / "pid").exists(), "the command began")
    return int((repo / "pid").read_text())


def environment(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/environ").read_text().split("\0")
