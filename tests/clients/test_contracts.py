"""The gate's assumptions about the real clients: which answers of a hook they obey, and how.

Each test runs the real program against a scripted model. Where one fails after an update of a
client, the client's contract has changed, and the code that relies on it must be reviewed.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from . import drive
from .drive import (
    CLAUDE_EVENTS,
    CODEX_CODE_MODEL,
    CODEX_EVENTS,
    Recorder,
    denial,
    hooks_for,
    run_claude,
    run_codex,
)
from .servers import (
    AnthropicServer,
    Call,
    OpenAIServer,
    Turn,
    agent,
    bash,
    code_patch,
    code_shell,
    edit,
    patch,
    read,
    shell,
    write,
)

REASON = "held by somebody else"
HALT = {"continue": False, "stopReason": "waiting for instruction"}
ADD = "*** Add File: new.txt\n+new"


def says(value: object, code: int = 0) -> dict[str, object]:
    return {"stdout": json.dumps(value), "code": code}


def inside(value: dict[str, Any], **more: object) -> dict[str, object]:
    """A denial with more keys in its inner part."""
    return {"hookSpecificOutput": {**value["hookSpecificOutput"], **more}}


CONTEXT = {"hookEventName": "PreToolUse", "additionalContext": "by the way"}

#: Answers of a hook before a tool, and whether each client then keeps the tool from running.
ANSWERS: dict[str, tuple[dict[str, object], bool, bool]] = {
    # name: (answer, Claude blocks, Codex blocks)
    "nothing": ({}, False, False),
    "deny": (says(denial(REASON)), True, True),
    "deny with a word for the user": (says(denial(REASON, systemMessage="hello")), True, True),
    "deny with context": (says(inside(denial(REASON), additionalContext="so")), True, True),
    "block": (says({"decision": "block", "reason": REASON}), True, True),
    "exit 2 with a reason": ({"stderr": REASON, "code": 2}, True, True),
    "deny without a reason": (says(denial("")), True, False),
    "deny and halt": (says(denial(REASON, **HALT)), True, False),
    "deny with an unknown key": (says(denial(REASON, surprise=1)), True, False),
    "deny with an unknown inner key": (says(inside(denial(REASON), surprise=1)), True, False),
    "deny and exit 1": (says(denial(REASON), code=1), True, False),
    "deny and exit 2": (says(denial(REASON), code=2), True, False),
    "exit 2 without a reason": ({"code": 2}, True, False),
    "halt alone": (says(HALT), False, False),
    "exit 1": ({"stderr": REASON, "code": 1}, False, False),
    "bad JSON": ({"stdout": "{nope"}, False, False),
    "only context": (says({"hookSpecificOutput": CONTEXT}), False, False),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_claude_blocks_an_edit_exactly_when_the_answer_says_so(
    repo: Path, hook: Recorder, anthropic: AnthropicServer, name: str
) -> None:
    answer, blocks, _ = ANSWERS[name]
    hook.set(PreToolUse=answer)
    anthropic.scripts["main"] = [write(repo / "new.txt", "new\n"), "Done."]
    run_claude(repo, "[[main]]", anthropic, settings=hooks_for(hook.command, ["PreToolUse"]))
    assert len(hook.told("PreToolUse", "Write")) == 1
    assert (repo / "new.txt").exists() is not blocks


@pytest.mark.parametrize("name", ANSWERS)
def test_codex_blocks_an_edit_exactly_when_the_answer_says_so(
    repo: Path, hook: Recorder, openai: OpenAIServer, name: str
) -> None:
    answer, _, blocks = ANSWERS[name]
    hook.set(PreToolUse=answer)
    openai.scripts["main"] = [patch(ADD), "Done."]
    run_codex(repo, "[[main]]", openai, hooks=hooks_for(hook.command, ["PreToolUse"]))
    assert len(hook.told("PreToolUse", "apply_patch")) == 1
    assert (repo / "new.txt").exists() is not blocks


BROKEN = {"missing": ("/nonexistent/hook", 60), "too slow": ("sleep 20", 1)}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_hook_lets_claude_write(repo: Path, anthropic: AnthropicServer, name: str) -> None:
    command, timeout = BROKEN[name]
    settings = hooks_for(command, ["PreToolUse"], timeout=timeout)
    anthropic.scripts["main"] = [write(repo / "new.txt", "new\n"), "Done."]
    run_claude(repo, "[[main]]", anthropic, settings=settings)
    assert (repo / "new.txt").exists()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_hook_lets_codex_write(repo: Path, openai: OpenAIServer, name: str) -> None:
    command, timeout = BROKEN[name]
    openai.scripts["main"] = [patch(ADD), "Done."]
    run_codex(repo, "[[main]]", openai, hooks=hooks_for(command, ["PreToolUse"], timeout=timeout))
    assert (repo / "new.txt").exists()


def test_claude_leaves_refused_files_alone_and_tells_the_model_why(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    hook.deny(REASON)
    change, command = edit(repo / "a.txt", "old", "new"), bash("echo new > b.txt")
    anthropic.scripts["main"] = [change, command, "Done."]
    settings = hooks_for(hook.command, ["PreToolUse"], matcher="Write|Edit|NotebookEdit|Bash")
    result = run_claude(repo, "[[main]]", anthropic, settings=settings)
    assert [(repo / name).read_text() for name in ("a.txt", "b.txt")] == ["old\n", "old\n"]
    assert anthropic.results("main") == (
        f"PreToolUse:Edit hook error: {REASON}",
        f"PreToolUse:Bash hook error: {REASON}",
    )
    assert result.code == 0


@pytest.mark.parametrize("model", [drive.CODEX_MODEL, CODEX_CODE_MODEL])
def test_codex_leaves_refused_files_alone_and_tells_the_model_why(
    repo: Path, hook: Recorder, openai: OpenAIServer, model: str
) -> None:
    hook.deny(REASON)
    in_code = model == CODEX_CODE_MODEL
    change = "*** Update File: a.txt\n@@\n-old\n+new"
    openai.scripts["main"] = [
        (code_patch if in_code else patch)(change),
        (code_shell if in_code else shell)("echo new > b.txt"),
        "Done.",
    ]
    hooks = hooks_for(hook.command, ["PreToolUse"], matcher="apply_patch|Bash")
    result = run_codex(repo, "[[main]]", openai, hooks=hooks, model=model)
    assert [(repo / name).read_text() for name in ("a.txt", "b.txt")] == ["old\n", "old\n"]
    for told in openai.results("main"):
        assert f"Command blocked by PreToolUse hook: {REASON}" in told
    assert [record["data"]["tool_name"] for record in hook.told()] == ["apply_patch", "Bash"]
    assert result.code == 0


def test_deny_with_halt_ends_claudes_work_without_a_stop_event(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    hook.deny(REASON, **HALT)
    anthropic.scripts["main"] = [write(repo / "a.txt", "new\n"), bash("echo new > b.txt"), "Done."]
    settings = hooks_for(hook.command, CLAUDE_EVENTS)
    result = run_claude(repo, "[[main]]", anthropic, settings=settings)
    assert [request.turn for request in anthropic.asked("main")] == [0]
    assert [(repo / name).read_text() for name in ("a.txt", "b.txt")] == ["old\n", "old\n"]
    assert result.events[-1]["terminal_reason"] == "hook_stopped"
    assert hook.told("Stop") == []
    assert len(hook.told("SessionEnd")) == 1


def test_a_halt_inside_a_sub_agent_ends_only_that_one_and_tells_nobody(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    hook.set(**{"PreToolUse:Write": says(denial(REASON, **HALT))})
    anthropic.scripts["main"] = [agent("[[child]]"), bash("echo new > b.txt"), "Done."]
    anthropic.scripts["child"] = [write(repo / "a.txt", "new\n"), "I go on."]
    run_claude(repo, "[[main]]", anthropic, settings=hooks_for(hook.command, CLAUDE_EVENTS))
    assert [request.turn for request in anthropic.asked("child")] == [0]
    assert [(repo / name).read_text() for name in ("a.txt", "b.txt")] == ["old\n", "new\n"]
    assert hook.told("SubagentStop") == []
    # Only the parent's own event reports its end.
    (started,) = hook.told("SubagentStart")
    (ended,) = hook.told("PostToolUse", "Agent")
    assert ended["data"]["tool_response"]["agentId"] == started["data"]["agent_id"]
    assert ended["data"]["tool_response"]["status"] == "completed"


def test_claude_goes_on_when_a_stop_hook_adds_context(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    context = {"hookEventName": "Stop", "additionalContext": "by the way"}
    hook.set(Stop=says({"hookSpecificOutput": context}))
    anthropic.scripts["main"] = ["Done."]
    run_claude(repo, "[[main]]", anthropic, settings=hooks_for(hook.command, ["Stop"]))
    assert len(anthropic.asked("main")) > 1


CONTEXT_EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse")


def context_for(event: str) -> dict[str, object]:
    more = {"hookEventName": event, "additionalContext": f"context of {event}"}
    return says({"systemMessage": f"for the user at {event}", "hookSpecificOutput": more})


def test_claude_passes_context_to_the_model_and_messages_to_the_user(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    hook.set(**{event: context_for(event) for event in CONTEXT_EVENTS})
    anthropic.scripts["main"] = [write(repo / "new.txt", "new\n"), "Done."]
    settings = hooks_for(hook.command, CONTEXT_EVENTS)
    result = run_claude(repo, "[[main]]", anthropic, settings=settings)
    last = anthropic.asked("main")[-1].text()
    for event in CONTEXT_EVENTS:
        assert f"context of {event}" in last
        assert f"for the user at {event}" in result.stdout
        assert f"for the user at {event}" not in last


def test_codex_passes_context_to_the_model(
    repo: Path, hook: Recorder, openai: OpenAIServer
) -> None:
    hook.set(**{event: context_for(event) for event in CONTEXT_EVENTS})
    openai.scripts["main"] = [patch(ADD), "Done."]
    run_codex(repo, "[[main]]", openai, hooks=hooks_for(hook.command, CONTEXT_EVENTS))
    last = openai.asked("main")[-1].text()
    for event in CONTEXT_EVENTS:
        assert f"context of {event}" in last
        assert f"for the user at {event}" not in last


#: Another program's change to a file while the hook keeps the call waiting.
OTHERS_EDIT = "printf 'old\\nanother line\\n' > a.txt"


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        ([edit("a.txt", "old", "new")], "new\nanother line\n"),
        ([read("a.txt"), write("a.txt", "new\n")], "old\nanother line\n"),
        ([write("a.txt", "new\n")], "new\n"),  # the only one that loses the other's change
    ],
    ids=["edit", "write after read", "blind write"],
)
def test_what_claude_does_when_the_file_changed_while_its_hook_waited(
    repo: Path, anthropic: AnthropicServer, steps: list[Call], left: str
) -> None:
    anthropic.scripts["main"] = [*steps, "Done."]
    settings = hooks_for(OTHERS_EDIT, ["PreToolUse"], matcher="Write|Edit")
    run_claude(repo, "[[main]]", anthropic, settings=settings)
    assert (repo / "a.txt").read_text() == left


def test_codex_patches_what_the_file_has_become_while_its_hook_waited(
    repo: Path, openai: OpenAIServer
) -> None:
    openai.scripts["main"] = [patch("*** Update File: a.txt\n@@\n-old\n+new"), "Done."]
    run_codex(repo, "[[main]]", openai, hooks=hooks_for(OTHERS_EDIT, ["PreToolUse"]))
    assert (repo / "a.txt").read_text() == "new\nanother line\n"


def test_claude_obeys_a_denial_beside_another_hook_that_allows(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    hook.deny(REASON)
    allow = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
    other = f"echo '{json.dumps({'hookSpecificOutput': allow})}'"
    settings = hooks_for(hook.command, ["PreToolUse"])
    settings["hooks"]["PreToolUse"] += hooks_for(other, ["PreToolUse"])["hooks"]["PreToolUse"]
    anthropic.scripts["main"] = [write(repo / "new.txt", "new\n"), "Done."]
    run_claude(repo, "[[main]]", anthropic, settings=settings)
    assert not (repo / "new.txt").exists()


def linked(repo: Path) -> Path:
    """A linked worktree beside a repository."""
    made = repo.parent / "linked"
    subprocess.run(["git", "worktree", "add", "-q", str(made)], cwd=repo, check=True)
    return made


def test_claude_reads_the_local_settings_of_the_main_checkout_in_a_worktree(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    settings = hooks_for(hook.command, ["PreToolUse"])
    drive.write_json(repo / ".claude/settings.local.json", settings)
    made = linked(repo)
    anthropic.scripts["main"] = [write(made / "new.txt", "new\n"), "Done."]
    run_claude(made, "[[main]]", anthropic)
    assert len(hook.told("PreToolUse", "Write")) == 1


@pytest.mark.parametrize("has_folder", [True, False])
def test_codex_reads_the_hooks_of_the_main_checkout_in_a_worktree_that_has_its_folder(
    repo: Path, hook: Recorder, openai: OpenAIServer, has_folder: bool
) -> None:
    drive.write_json(repo / ".codex/hooks.json", hooks_for(hook.command, ["PreToolUse"]))
    made = linked(repo)
    if has_folder:
        drive.write_json(made / ".codex/hooks.json", hooks_for("false", ["PreToolUse"]))
    openai.scripts["main"] = [patch(ADD), "Done."]
    run_codex(made, "[[main]]", openai)
    assert len(hook.told("PreToolUse", "apply_patch")) == has_folder
    assert (made / "new.txt").exists()


@pytest.mark.parametrize("is_trusted", [True, False])
def test_codex_runs_in_a_worktree_the_hooks_that_are_trusted_in_the_main_checkout(
    repo: Path, hook: Recorder, openai: OpenAIServer, is_trusted: bool
) -> None:
    hooks, home = hooks_for(hook.command, ["PreToolUse"]), repo.parent / "home"
    made = linked(repo)
    for checkout in (repo, made):
        drive.write_json(checkout / ".codex/hooks.json", hooks)
    home.mkdir()
    if is_trusted:
        drive.trust_codex_hooks(repo, home)
    else:
        drive.write_codex_config(home, repo)
    openai.scripts["main"] = [patch(ADD), "Done."]
    run_codex(made, "[[main]]", openai, home=home, vetted=False)
    assert len(hook.told("PreToolUse", "apply_patch")) == is_trusted


def of_tools(hook: Recorder) -> list[str]:
    """The hooks around tools, in their order."""
    told = [one["data"] for one in hook.told()]
    return [f"{one['hook_event_name']} {one['tool_name']}" for one in told if one.get("tool_name")]


def test_claude_runs_the_writing_tools_of_one_message_one_after_another(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    """So the next tool call of an agent shows that its earlier edit is over."""
    calls = (
        write(repo / "a.txt", "a\n"), bash("sleep 0.5; echo x > x.txt"),
        write(repo / "b.txt", "b\n"), agent("[[child]]"), write(repo / "c.txt", "c\n"),
    )  # fmt: skip
    anthropic.scripts["main"] = [Turn(calls=calls), "Done."]
    anthropic.scripts["child"] = ["Done."]
    run_claude(repo, "[[main]]", anthropic, settings=hooks_for(hook.command, CLAUDE_EVENTS))
    tools = ("Write", "Bash", "Write", "Agent", "Write")
    assert of_tools(hook) == [
        f"{when} {tool}" for tool in tools for when in ("PreToolUse", "PostToolUse")
    ]


def test_codex_runs_the_writing_tools_of_one_message_one_after_another(
    repo: Path, hook: Recorder, openai: OpenAIServer
) -> None:
    """And it does not report a patch that did not match."""
    calls = (
        patch(ADD), shell("sleep 0.5"), patch("*** Update File: none.txt\n@@\n-x\n+y"),
        patch("*** Add File: b.txt\n+b"),
    )  # fmt: skip
    openai.scripts["main"] = [Turn(calls=calls), "Done."]
    run_codex(repo, "[[main]]", openai, hooks=hooks_for(hook.command, CODEX_EVENTS))
    assert of_tools(hook) == [
        "PreToolUse apply_patch", "PostToolUse apply_patch", "PreToolUse Bash", "PostToolUse Bash",
        "PreToolUse apply_patch", "PreToolUse apply_patch", "PostToolUse apply_patch",
    ]  # fmt: skip
