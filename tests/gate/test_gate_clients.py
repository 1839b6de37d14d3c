"""The input of the clients' hooks, and their answers.

The inputs have the form that the real programs sent; which answers they obey was observed, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.gate import clients
from holdfast.gate.clients import claude, codex
from holdfast.gate.intent import Answer, Intent, Reply

BASE = {"session_id": "5e55", "transcript_path": "/t.jsonl", "cwd": "/repo"}
PATCH = "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: b\n*** Move to: c\n@@\n-x\n+y\n*** End Patch\n"  # noqa: E501


def told(event: str, tool: str = "", fields: object = None, **more: Any) -> dict[str, Any]:
    data = {**BASE, "hook_event_name": event, **more}
    if tool:
        data |= {"tool_name": tool, "tool_input": fields, "tool_use_id": "use-1"}
    return data


def heard(data: object, env: dict[str, str] | None = None) -> Intent:
    return claude.read(data, env or {})


def summary(intent: Intent) -> tuple[str, tuple[str, ...], str, str]:
    return intent.event, intent.writes, intent.command, intent.problem


def parsed(reply: Reply) -> dict[str, Any]:
    assert reply.code == 0
    assert reply.stderr == ""
    assert reply.stdout.endswith("\n")
    assert len(reply.stdout.splitlines()) == 1
    found = json.loads(reply.stdout.encode("utf-8").decode())
    assert isinstance(found, dict)
    return found


# Which adapter


@pytest.mark.parametrize("name", clients.NAMES)
def test_every_client_has_an_adapter_with_its_facts(name: str) -> None:
    found = clients.adapter(name)
    assert found is not None
    assert name == found.NAME
    assert {"PreToolUse", "PostToolUse", "Stop", "SessionEnd"} <= found.EVENTS.keys()
    assert found.SETTINGS_FILES
    assert {"PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart"} <= found.TELLS
    assert found.EVENTS.keys() > found.TELLS
    assert found.TELLS.isdisjoint(
        {"Stop", "StopFailure", "Interrupt", "SubagentStop", "SessionEnd"}
    )
    assert set(found.TIMEOUT_SECONDS_MAX) <= found.EVENTS.keys()
    # a hook that may be held open must not end sooner, and shows a status meanwhile
    held = {"PreToolUse", "Stop", "SubagentStop"}
    assert held.isdisjoint(found.TIMEOUT_SECONDS_MAX)
    assert found.STATUS.keys() == held


@pytest.mark.parametrize("name", ["", "gemini", "Claude", "claude ", "../claude"])
def test_there_is_no_adapter_of_another_name(name: str) -> None:
    assert clients.adapter(name) is None


@pytest.mark.parametrize(("name", "other"), [("claude", "codex"), ("codex", "claude")])
def test_only_the_adapter_that_is_asked_for_is_loaded(name: str, other: str) -> None:
    heavy = ("json", "re", "typing", "dataclasses", "enum", "pathlib", "contextlib")
    script = (
        "import sys; from holdfast.gate.clients import adapter; "
        f"assert adapter({name!r}).NAME == {name!r}; "
        f"print([m for m in ('holdfast.gate.clients.{other}', *{heavy!r}) if m in sys.modules])"
    )
    source = clients.__file__.rsplit("/holdfast/", 1)[0]
    words = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {source!r}); {script}",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


# Claude Code: its input


@pytest.mark.parametrize(
    ("tool", "fields", "path"),
    [
        ("Write", {"file_path": "/repo/a", "content": "x"}, "/repo/a"),
        ("Edit", {"file_path": "/repo/a b", "old_string": "x", "new_string": "y"}, "/repo/a b"),
        ("MultiEdit", {"file_path": "sub/../a", "edits": []}, "sub/../a"),
        ("NotebookEdit", {"notebook_path": "/repo/n.ipynb", "new_source": ""}, "/repo/n.ipynb"),
        ("Write", {"file_path": "/elsewhere/\u00fc"}, "/elsewhere/\u00fc"),
        ("Write", {"file_path": " /repo/a\n"}, "/repo/a"),
        ("Write", {"file_path": "~/repo/a"}, "/home/ann/repo/a"),
        ("Write", {"file_path": "~ann/a"}, "~ann/a"),
    ],
)
def test_claude_before_and_after_an_edit(tool: str, fields: dict[str, str], path: str) -> None:
    env = {"CLAUDE_PID": "4711", "HOME": "/home/ann"}
    before = heard(told("PreToolUse", tool, fields), env)
    assert before == Intent(
        "claude", "edit", "5e55",
        tool=tool, call="use-1", writes=(path,), cwd="/repo", pid=4711, hook="PreToolUse",
    )  # fmt: skip
    after = heard(told("PostToolUse", tool, fields, tool_response={}), env)
    assert summary(after) == ("edited", (path,), "", "")
    failed = heard(told("PostToolUseFailure", tool, fields, error="no"), env)
    assert summary(failed) == ("failed", (path,), "", "")


@pytest.mark.parametrize("tool", ["Bash", "PowerShell"])
def test_claude_before_and_after_a_command(tool: str) -> None:
    fields = {"command": "echo x > a", "description": "writes"}
    assert heard(told("PreToolUse", tool, fields)) == Intent(
        "claude", "shell", "5e55", tool=tool, call="use-1", command="echo x > a", cwd="/repo",
        hook="PreToolUse",
    )  # fmt: skip
    after = heard(told("PostToolUse", tool, fields, tool_response={"stdout": ""}))
    assert summary(after) == ("shelled", (), "echo x > a", "")
    failed = heard(told("PostToolUseFailure", tool, fields, error="Exit code 3"))
    assert summary(failed) == ("failed", (), "echo x > a", "")


def test_claude_says_when_a_command_goes_on_in_the_background() -> None:
    plain, asked = {"command": "make"}, {"command": "make", "run_in_background": True}
    assert not heard(told("PreToolUse", "Bash", asked)).background
    assert not heard(told("PostToolUse", "Bash", plain, tool_response={})).background
    assert heard(told("PostToolUse", "Bash", asked, tool_response={})).background
    moved = told("PostToolUse", "Bash", plain, tool_response={"backgroundTaskId": "b1"})
    assert heard(moved).background
    assert heard(told("PostToolUse", "Monitor", plain)).background


def test_a_sub_agent_of_claude_is_named_by_its_id() -> None:
    data = told("PreToolUse", "Write", {"file_path": "/repo/a"}, agent_id="a1", agent_type="x")
    assert heard(data).agent == "a1"
    assert heard(told("SubagentStart", agent_id="a1")).event == "agent_start"
    stop = told("SubagentStop", agent_id="a1", background_tasks=[{"id": "a1", "status": "running"}])
    assert heard(stop) == Intent(
        "claude", "agent_stop", "5e55", agent="a1", cwd="/repo", hook="SubagentStop"
    )


def test_the_end_of_a_sub_agent_that_was_halted_is_told_by_its_parent() -> None:
    def after(**response: str) -> Intent:
        return heard(told("PostToolUse", "Agent", {"prompt": "x"}, tool_response=response))

    ended = after(status="completed", agentId="a1")
    assert (ended.event, ended.agent) == ("agent_stop", "a1")
    assert after(status="async_launched", agentId="a1").event == "other"
    assert after(status="completed").event == "other"
    assert heard(told("PostToolUse", "Agent", {}, tool_response="completed")).event == "other"
    nested = told("PostToolUse", "Agent", {}, agent_id="a1",
                  tool_response={"status": "completed", "agentId": "a2"})  # fmt: skip
    assert heard(nested).agent == "a2"


def test_that_an_agent_starts_another_is_told_before_it_does() -> None:
    call = heard(told("PreToolUse", "Agent", {"prompt": "x"}, agent_id="a1"))
    assert (call.event, call.agent) == ("agent_call", "a1")


def test_what_blocked_a_sub_agent_is_told_to_its_parent_after_the_tool_that_ran_it() -> None:
    ended = heard(
        told("PostToolUse", "Agent", {}, tool_response={"status": "completed", "agentId": "a1"})
    )
    said = json.loads(claude.say(ended, Answer("quiet", context="it was stopped")).stdout)
    assert said == {
        "hookSpecificOutput": {
            "hookEventName": "PostToolUse", "additionalContext": "it was stopped"
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "event"),
    [
        (told("UserPromptSubmit", prompt="do it"), "prompt"),
        (told("UserPromptSubmit", prompt="do it", source="user"), "prompt"),
        (told("UserPromptSubmit", prompt="do it", source="sdk"), "prompt"),
        (told("Stop", stop_hook_active=False, background_tasks=[]), "stop"),
        (told("StopFailure", error="overloaded"), "failed"),
        (told("SessionStart", source="startup"), "session_start"),
        (told("SessionStart", source="resume"), "session_start"),
        (told("SessionEnd", reason="other"), "session_end"),
        (told("Notification", message="x"), "other"),
        (told("PermissionRequest", "Write", {"file_path": "/repo/a"}), "other"),
        (told("PreToolUse", "Read", {"file_path": "/repo/a"}), "other"),
        (told("PreToolUse", "mcp__files__write", {"file_path": "/repo/a"}), "shell"),
        (told("PreToolUse", "Monitor", {"url": "ws://x"}), "other"),
    ],
)
def test_the_life_of_claude(data: dict[str, Any], event: str) -> None:
    found = heard(data)
    assert (found.event, found.problem, found.background) == (event, "", False)


@pytest.mark.parametrize(
    "more",
    [
        {"prompt": "<task-notification>\n<task-id>b1</task-id>"},
        {"prompt": "x", "source": "system"}, {"prompt": "x", "source": "loop_wakeup"},
        {"prompt": "x", "agent_id": "a1"},
        {"prompt": "<task-notification>", "source": "sdk"},
    ],
)  # fmt: skip
def test_what_claude_says_to_itself_is_not_a_users_prompt(more: dict[str, str]) -> None:
    assert heard(told("UserPromptSubmit", **more)).event == "other"


def test_a_stop_of_claude_tells_of_work_in_the_background() -> None:
    task = {"id": "b1", "type": "shell", "status": "running", "command": "sleep 2"}
    assert heard(told("Stop", background_tasks=[task])).background
    assert not heard(told("Stop", background_tasks=[])).background
    assert not heard(told("Stop")).background


@pytest.mark.parametrize(
    ("text", "pid"),
    [("4711", 4711), ("", 0), ("x", 0), ("-1", 0), ("4 7", 0), ("٤", 0), ("9" * 40, 0), ("1.0", 0)],
)
def test_the_process_of_claude_is_the_one_that_it_names(text: str, pid: int) -> None:
    assert heard(told("Stop"), {"CLAUDE_PID": text}).pid == pid


# Codex: its input


@pytest.mark.parametrize(
    ("tool", "command"),
    [
        ("apply_patch", PATCH), ("apply_patch", [PATCH]), ("apply_patch", ["apply_patch", PATCH]),
        ("apply_patch", f"apply_patch <<'EOF'\n{PATCH}EOF\n"), ("shell", ["apply_patch", PATCH]),
        ("apply_patch", ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}EOF\n"]),
    ],
)  # fmt: skip
def test_codex_before_and_after_a_patch(tool: str, command: object) -> None:
    before = codex.read(told("PreToolUse", tool, {"command": command}), {"CLAUDE_PID": "1"})
    assert before == Intent(
        "codex", "edit", "5e55", tool=tool, call="use-1", writes=("a", "b", "c"), cwd="/repo",
        hook="PreToolUse",
    )  # fmt: skip
    after = codex.read(told("PostToolUse", tool, {"command": command}, tool_response=""), {})
    assert summary(after) == ("edited", ("a", "b", "c"), "", "")


@pytest.mark.parametrize(
    ("tool", "command", "line"),
    [
        ("Bash", "echo x > a", "echo x > a"), ("exec_command", "ls", "ls"), ("Bash", "", ""),
        ("shell", ["bash", "-lc", "echo 'x' > a"], "bash -lc 'echo '\\''x'\\'' > a'"),
        ("local_shell", ["rm", "-f", "a b"], "rm -f 'a b'"), ("shell", ["ls", ""], "ls ''"),
    ],
)  # fmt: skip
def test_codex_before_and_after_a_command(tool: str, command: object, line: str) -> None:
    before = codex.read(told("PreToolUse", tool, {"command": command}), {})
    assert before == Intent(
        "codex", "shell", "5e55", tool=tool, call="use-1", command=line, cwd="/repo",
        hook="PreToolUse",
    )  # fmt: skip
    after = codex.read(told("PostToolUse", tool, {"command": command}, tool_response=""), {})
    assert summary(after) == ("shelled", (), line, "")


@pytest.mark.parametrize(
    ("data", "event", "agent"),
    [
        (told("UserPromptSubmit", prompt="do it"), "prompt", ""),
        (told("UserPromptSubmit", prompt="its task", agent_id="t1"), "other", "t1"),
        (told("Stop", stop_hook_active=False), "stop", ""),
        (told("Interrupt"), "stop", ""),
        (told("SubagentStart", agent_id="t1"), "agent_start", "t1"),
        (told("SubagentStop", agent_id="t1"), "agent_stop", "t1"),
        (told("SessionStart", source="resume"), "session_start", ""),
        (told("SessionEnd", reason="other"), "session_end", ""),
        (told("PreCompact", trigger="auto"), "other", ""),
        (told("PreToolUse", "spawn_agent", {"command": "x"}), "agent_call", ""),
        (told("PreToolUse", "collaborationspawn_agent", {}, agent_id="t1"), "agent_call", "t1"),
        (told("PostToolUse", "spawn_agent", {"command": "x"}), "other", ""),
        (told("PreToolUse", "mcp__files__write", {"path": "a"}), "shell", ""),
    ],
)
def test_the_life_of_codex(data: dict[str, Any], event: str, agent: str) -> None:
    found = codex.read(data, {"CLAUDE_PID": "4711"})
    assert (found.event, found.agent, found.problem, found.pid) == (event, agent, "", 0)


# The input of the real programs


SAMPLES = sorted((Path(__file__).parents[1] / "clients" / "samples").glob("*.json"))
EXPECTED = {
    "Stop": "stop", "StopFailure": "failed", "SubagentStart": "agent_start",
    "SubagentStop": "agent_stop", "SessionStart": "session_start", "SessionEnd": "session_end",
    "PreToolUse-Write": "edit", "PreToolUse-Edit": "edit", "PreToolUse-NotebookEdit": "edit",
    "PreToolUse-apply_patch": "edit", "PreToolUse-Bash": "shell", "PostToolUse-Write": "edited",
    "PostToolUse-Edit": "edited", "PostToolUse-NotebookEdit": "edited",
    "PostToolUse-apply_patch": "edited", "PostToolUse-Bash": "shelled",
    "PostToolUseFailure-Bash": "failed",
}  # fmt: skip


def test_everything_that_was_recorded_of_the_clients_is_understood() -> None:
    assert SAMPLES
    for file in SAMPLES:
        client, event, *rest = file.stem.split("-")
        adapter = clients.adapter(client)
        assert adapter is not None
        found = adapter.read(json.loads(file.read_text()), {})
        assert (found.problem, found.client) == ("", client), file.name
        kind = "-".join((event, *rest[:1])) if "Tool" in event else event
        if kind in EXPECTED:
            assert found.event == EXPECTED[kind], file.name
        assert bool(found.writes) is (found.event in ("edit", "edited")), file.name
        assert bool(found.agent) or "subagent" not in rest, file.name


# Input that cannot be understood


WRITE = told("PreToolUse", "Write", {"file_path": "/repo/a"})
APPLY = told("PreToolUse", "apply_patch", {"command": PATCH})
BASH = told("PreToolUse", "Bash", {"command": "ls"})


def without(data: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in names}


UNCLEAR: list[object] = [
    None, 1, "x", [], [WRITE], {}, without(BASH, "hook_event_name"), BASH | {"hook_event_name": 3},
    without(BASH, "tool_name"), BASH | {"tool_name": ["Bash"]}, without(BASH, "tool_input"),
    BASH | {"tool_input": "ls"}, BASH | {"tool_input": {"command": 3}}, BASH | {"tool_input": []},
    BASH | {"tool_input": {"command": ["ls", 3]}}, without(BASH, "session_id"),
    BASH | {"session_id": 3}, BASH | {"session_id": ""}, BASH | {"session_id": "x" * 1000},
    BASH | {"session_id": "a\nb"}, BASH | {"session_id": "\ud800"}, BASH | {"agent_id": 3},
    BASH | {"agent_id": []}, BASH | {"agent_id": False}, BASH | {"agent_id": "\0"},
    without(BASH, "cwd"), BASH | {"cwd": "somewhere"}, BASH | {"cwd": "/a\0b"}, BASH | {"cwd": 3},
    BASH | {"tool_name": "Bash" + "x" * 1000},
]  # fmt: skip


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
@pytest.mark.parametrize("number", range(len(UNCLEAR)))
def test_a_call_that_cannot_be_understood_is_an_edit_with_a_problem(
    adapter: Any, number: int
) -> None:
    found = adapter.read(UNCLEAR[number], {})
    assert found.event == "edit"
    assert found.problem


@pytest.mark.parametrize(
    "path",
    [None, 3, ["/repo/a"], {"path": "/repo/a"}, "", "  ", "/repo/a\0", "/repo/\ud800", "x" * 5000],
)
def test_a_path_that_no_file_can_have_is_a_problem(path: object) -> None:
    found = heard(told("PreToolUse", "Write", {"file_path": path}))
    assert (found.event, found.writes, found.problem) == ("edit", (), "it names no file")
    text = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"
    if isinstance(path, str):
        found = codex.read(told("PreToolUse", "apply_patch", {"command": text}), {})
        assert (found.writes, found.problem) == ((), "the patch cannot be parsed")


def test_without_a_folder_only_full_paths_are_understood() -> None:
    assert not heard(without(WRITE, "cwd")).problem
    relative = told("PreToolUse", "Write", {"file_path": "a"})
    assert heard(without(relative, "cwd")).problem
    assert codex.read(without(APPLY, "cwd"), {}).problem


def test_without_a_home_a_path_in_it_is_not_understood() -> None:
    assert heard(told("PreToolUse", "Write", {"file_path": "~/a"})).problem


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
@pytest.mark.parametrize(
    "data",
    [
        told("Stop", session_id=3), told("SessionEnd", session_id=None), told("SubagentStop"),
        told("SubagentStart", agent_id=""), told("SubagentStop", agent_id=7),
        told("PostToolUse", "Bash", {"command": "ls"}, session_id=""),
        told("UserPromptSubmit", session_id=[]),
    ],
)  # fmt: skip
def test_what_ends_nobody_knows_whose_work_ends_nothing(adapter: Any, data: object) -> None:
    found = adapter.read(data, {})
    assert found.event == "other"
    assert found.problem


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
@pytest.mark.parametrize("event", ["Stop", "SubagentStop"])
def test_a_stop_says_whether_a_hook_has_made_the_agent_go_on_before(
    adapter: Any, event: str
) -> None:
    stop = told(event, agent_id="a1")
    assert not adapter.read(stop, {}).is_repeated
    assert not adapter.read(stop | {"stop_hook_active": False}, {}).is_repeated
    assert adapter.read(stop | {"stop_hook_active": True}, {}).is_repeated
    assert adapter.read(stop | {"stop_hook_active": "yes"}, {}).is_repeated


def test_an_interruption_of_codex_is_a_stop_at_which_nobody_is_made_to_go_on() -> None:
    found = codex.read(told("Interrupt"), {})
    assert (found.event, found.is_repeated) == ("stop", True)


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
@pytest.mark.parametrize(
    ("id", "call"),
    [("use-1", "use-1"), ("", ""), (None, ""), (3, ""), ("a\nb", ""), ("x" * 999, "")],
)
def test_a_call_has_the_id_that_its_client_gave_it(adapter: Any, id: object, call: str) -> None:
    for event in ("PreToolUse", "PostToolUse"):
        data = told(event, "Bash", {"command": "ls"}) | {"tool_use_id": id}
        assert adapter.read(data, {}).call == call
    assert adapter.read(told("Stop"), {}).call == ""


@pytest.mark.parametrize(
    ("env", "attended"),
    [
        ({}, True),
        ({"CLAUDE_CODE_SESSION_ATTENDED": "1", "CLAUDE_CODE_ENTRYPOINT": "cli"}, True),
        ({"CLAUDE_CODE_SESSION_ATTENDED": "0", "CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}, False),
        ({"CLAUDE_CODE_SESSION_ATTENDED": "1", "CLAUDE_CODE_ENTRYPOINT": "sdk-ts"}, True),
        ({"CLAUDE_CODE_ENTRYPOINT": "cli"}, True),
        ({"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}, False),
    ],
)
def test_claude_says_whether_a_person_sits_before_it(env: dict[str, str], attended: bool) -> None:
    task = told("PostToolUse", "Task", {}, tool_response={"status": "completed", "agentId": "a1"})
    for data in (told("SessionEnd"), told("PreToolUse", "Bash", {"command": "ls"}), task):
        assert heard(data, env).is_attended is attended


# The answers


BEFORE = [
    Intent("claude", "edit", "s", tool="Write"), Intent("claude", "shell", "s", tool="Bash"),
    Intent("claude", "edit", "", problem="unclear"),
    Intent("claude", "agent_call", "s", tool="Agent", hook="PreToolUse"),
]  # fmt: skip


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
@pytest.mark.parametrize("intent", BEFORE)
def test_a_refusal_has_the_form_that_the_clients_obey(adapter: Any, intent: Intent) -> None:
    found = parsed(adapter.say(intent, Answer("deny", "Ben has it.")))
    assert found == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "Ben has it.",
        }
    }


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
def test_a_refusal_tells_the_user_and_keeps_the_context(adapter: Any) -> None:
    answer = Answer("deny", "Ben has it.", user="Ann waits.", context="Ben changed b.")
    found = parsed(adapter.say(BEFORE[0], answer))
    assert found["systemMessage"] == "Ann waits."
    reason = found["hookSpecificOutput"]["permissionDecisionReason"]
    assert reason == "Ben has it.\nBen changed b."


@pytest.mark.parametrize("intent", BEFORE)
def test_a_halt_of_claude_refuses_and_stops(intent: Intent) -> None:
    found = parsed(claude.say(intent, Answer("halt", "Ben has it.", user="Blocked.")))
    assert found["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert found["hookSpecificOutput"]["permissionDecisionReason"] == "Ben has it."
    assert found["continue"] is False
    assert found["stopReason"] == "Blocked."
    assert parsed(claude.say(intent, Answer("halt", "Why.")))["stopReason"] == "Why."


@pytest.mark.parametrize("intent", BEFORE)
def test_a_halt_of_codex_is_a_refusal_that_says_that_it_stays(intent: Intent) -> None:
    found = parsed(codex.say(intent, Answer("halt", "Ben has it. " + "x" * 9000, user="Blocked.")))
    assert found.keys() == {"hookSpecificOutput", "systemMessage"}
    assert found["hookSpecificOutput"].keys() == {
        "hookEventName", "permissionDecision", "permissionDecisionReason",
    }  # fmt: skip
    reason = found["hookSpecificOutput"]["permissionDecisionReason"]
    assert reason.startswith("Ben has it.")
    assert reason.endswith(codex.HALTED)


EVENTS = [
    "edit", "edited", "shell", "shelled", "prompt", "stop", "agent_call", "agent_start",
    "agent_stop", "session_start", "session_end", "failed", "other",
]  # fmt: skip


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("kind", ["allow", "quiet"])
def test_nothing_is_printed_when_there_is_nothing_to_say(
    adapter: Any, event: str, kind: str
) -> None:
    assert adapter.say(Intent("x", event, "s"), Answer(kind, "granted")) == Reply()


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("kind", ["allow", "quiet", "deny", "halt"])
def test_nothing_is_ever_allowed_for_the_user_or_stopped_without_a_refusal(
    adapter: Any, event: str, kind: str
) -> None:
    answer = Answer(kind, "reason", user="user", context="context")
    reply = adapter.say(Intent("x", event, "s", tool="t"), answer)
    found = parsed(reply) if reply.stdout else {}
    specific = found.get("hookSpecificOutput", {})
    assert specific.get("permissionDecision") != "allow"
    assert "decision" not in found
    if "continue" in found:
        assert event in ("edit", "shell", "agent_call")
        assert specific["permissionDecision"] == "deny"
    if event in ("stop", "agent_stop", "session_end"):
        assert found.keys() <= {"systemMessage"}


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
@pytest.mark.parametrize("event", ["stop", "agent_stop"])
def test_at_a_stop_an_agent_is_made_to_go_on_once(adapter: Any, event: str) -> None:
    answer = Answer("continue", "a is yours.", user="Ann goes on.", context="b changed.")
    said = parsed(adapter.say(Intent("x", event, "s"), answer))
    assert said == {
        "decision": "block", "reason": "a is yours.\nb changed.", "systemMessage": "Ann goes on.",
    }  # fmt: skip
    said = parsed(adapter.say(Intent("x", event, "s"), Answer("continue", "a is yours.")))
    assert said == {"decision": "block", "reason": "a is yours."}
    # Codex lets an agent stop unless the hook gives a reason to continue
    said = parsed(adapter.say(Intent("x", event, "s"), Answer("continue", " ")))
    assert said == {"decision": "block", "reason": clients.GO_ON}
    again = Intent("x", event, "s", is_repeated=True)
    assert parsed(adapter.say(again, answer)) == {"systemMessage": "Ann goes on."}
    said = parsed(adapter.say(again, Answer("continue", "a is yours.")))
    assert said == {"systemMessage": "a is yours."}


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
@pytest.mark.parametrize(
    "event", [event for event in EVENTS if event not in ("stop", "agent_stop")]
)
def test_elsewhere_nobody_is_made_to_go_on(adapter: Any, event: str) -> None:
    for hook in adapter.EVENTS:
        intent = Intent("x", event, "s", tool="t", hook=hook)
        reply = adapter.say(intent, Answer("continue", "a is yours."))
        found = parsed(reply) if reply.stdout else {}
        assert "decision" not in found
        assert "permissionDecision" not in found.get("hookSpecificOutput", {})
        if hook in adapter.TELLS and reply.stdout:
            assert found["hookSpecificOutput"]["additionalContext"] == "a is yours."


def test_after_the_tool_that_ran_it_a_sub_agent_of_claude_is_not_made_to_go_on() -> None:
    ended = Intent("claude", "agent_stop", "s", agent="a1", tool="Agent", hook="PostToolUse")
    assert parsed(claude.say(ended, Answer("continue", "a is yours."))) == {
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "a is yours."}
    }


def test_a_claude_without_a_person_hears_at_its_end_that_it_was_blocked() -> None:
    end = Intent("claude", "session_end", "s", is_attended=False)
    blocked = Answer("halt", "Stop.", user="Blocked:\n  a\x1b[31m")
    assert claude.say(end, blocked) == Reply(stderr="\nBlocked:\n  a\ufffd[31m\n", code=1)
    assert claude.say(end, Answer("halt", "Stop.")) == Reply(stderr="\nStop.\n", code=1)
    assert claude.say(end, Answer("quiet")) == Reply()
    assert parsed(claude.say(end, Answer("quiet", user="Bye."))) == {"systemMessage": "Bye."}
    attended = Intent("claude", "session_end", "s")
    assert parsed(claude.say(attended, Answer("halt", "Stop."))) == {"systemMessage": "Stop."}
    assert codex.say(Intent("codex", "session_end", "s"), blocked) == Reply()


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
@pytest.mark.parametrize("event", EVENTS)
def test_context_reaches_the_agent_exactly_where_the_adapter_says_so(
    adapter: Any, event: str
) -> None:
    for hook in (*adapter.EVENTS, "Notification", ""):
        intent = Intent(adapter.NAME, event, "s", tool="t", hook=hook)
        reply = adapter.say(intent, Answer("allow", context="look at b"))
        is_told = hook in adapter.TELLS and (adapter, event) != (codex, "session_end")
        if is_told:
            assert parsed(reply) == {
                "hookSpecificOutput": {"hookEventName": hook, "additionalContext": "look at b"}
            }
        else:
            assert reply == Reply()
        if event not in ("agent_stop", "session_end"):
            assert clients.hears(intent) is is_told


def test_a_model_that_cannot_be_reached_is_told_nothing() -> None:
    failed = Intent("claude", "failed", "s", hook="StopFailure")
    assert claude.say(failed, Answer("allow", context="x")) == Reply()


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
def test_a_refusal_after_the_fact_is_told_and_not_lost(adapter: Any) -> None:
    edited = Intent("x", "edited", "s", hook="PostToolUse")
    after = parsed(adapter.say(edited, Answer("deny", "b was damaged")))
    assert after["hookSpecificOutput"]["additionalContext"] == "b was damaged"
    stop = parsed(adapter.say(Intent("x", "stop", "s"), Answer("halt", "b was damaged")))
    assert stop == {"systemMessage": "b was damaged"}


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
@pytest.mark.parametrize("kind", ["deny", "halt"])
@pytest.mark.parametrize("reason", ["", " ", "\n\t", "\r", "\x1c", "\u2003", "\u2028", "\x85"])
def test_a_refusal_always_gives_a_reason(adapter: Any, kind: str, reason: str) -> None:
    found = parsed(adapter.say(BEFORE[0], Answer(kind, reason)))
    assert found["hookSpecificOutput"]["permissionDecisionReason"].strip()


@pytest.mark.parametrize("adapter", [claude, codex], ids=lambda adapter: str(adapter.NAME))
@pytest.mark.parametrize("kind", ["allow", "deny", "halt"])
@pytest.mark.parametrize(
    "text",
    [
        "a\ud800b", "\udcff", "a\0b", "\x1b[31mred", "a\nb\r\nc\x85d\u2028e\u2029f", '"quoted\\"',
        "x" * 100_000, "\ud800" * 100_000, "\n" * 100_000 + "x", "日本語 \U0001f600" * 2000, "\x7f",
    ],
)  # fmt: skip
def test_every_text_goes_out_as_one_bounded_line_of_json(
    adapter: Any, kind: str, text: str
) -> None:
    for event in EVENTS:
        intent = Intent("x", event, "s", tool="t")
        reply = adapter.say(intent, Answer(kind, text, user=text, context=text))
        if not reply.stdout:
            continue
        found = parsed(reply)
        specific = found.pop("hookSpecificOutput", {})
        for value in (*found.values(), *specific.values()):
            if isinstance(value, str):
                assert len(value) <= 4000
                assert all(char.isprintable() or char in "\n\t\xa0\u3000" for char in value)


def test_of_a_long_text_the_beginning_and_the_end_are_kept() -> None:
    text = clients.plain("First this. " + "x" * 10_000 + " Then do that.")
    assert len(text) == 4000
    assert text.startswith("First this.")
    assert text.endswith("Then do that.")
    assert clients.plain("y" * 4000) == "y" * 4000
