"""Ten thousand hook inputs, true, broken and made up, through every adapter.

Nothing may raise, and a refusal must be one that the client obeys. A small model of each client
decides that, written from the real programs' reactions to such answers; it shares no code with the
adapters. Nor does the model of what a call would write: the file or command that the client would
use must be in the intent, or refused for a problem.
"""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.core import codec
from holdfast.gate import clients
from holdfast.gate.intent import Answer, Intent, Reply

INPUTS = 10_000
SEED = 20_231_116

HOME = "/home/ann"
KNOWN = frozenset((
    "edit", "edited", "shell", "shelled", "prompt", "stop", "agent_call", "agent_start",
    "agent_stop", "session_start", "session_end", "failed", "other",
))  # fmt: skip
MUTATING = ("edit", "shell")


# The clients, as far as they were observed to obey


def claude_blocks(reply: Reply) -> bool:
    """Whether Claude Code keeps the tool from running after this answer to PreToolUse."""
    if reply.code == 2:
        return True
    try:
        said = json.loads(reply.stdout)
    except ValueError:
        return False
    if not isinstance(said, dict):
        return False
    specific = said.get("hookSpecificOutput")
    if not isinstance(specific, dict) or specific.get("hookEventName") != "PreToolUse":
        return False
    return specific.get("permissionDecision") == "deny"


def claude_halts(reply: Reply) -> bool:
    """Whether it then stops, without having let the tool run."""
    return claude_blocks(reply) and json.loads(reply.stdout).get("continue") is False


CODEX_ROOT: dict[str, type] = {
    "continue": bool, "stopReason": str, "suppressOutput": bool, "systemMessage": str,
    "decision": str, "reason": str, "hookSpecificOutput": dict,
}  # fmt: skip
CODEX_SPECIFIC: dict[str, type] = {
    "hookEventName": str, "permissionDecision": str, "permissionDecisionReason": str,
    "additionalContext": str,
}  # fmt: skip


def fits(said: object, form: dict[str, type]) -> bool:
    return isinstance(said, dict) and all(
        name in form and isinstance(value, form[name]) for name, value in said.items()
    )


def codex_blocks(reply: Reply) -> bool:
    """Whether Codex keeps the tool from running after this answer to PreToolUse."""
    if reply.code == 2:
        return bool(reply.stderr.strip())
    if reply.code != 0:
        return False
    try:
        said = json.loads(reply.stdout)
    except ValueError:
        return False
    if not fits(said, CODEX_ROOT) or not fits(said.get("hookSpecificOutput"), CODEX_SPECIFIC):
        return False
    if "continue" in said or "stopReason" in said or "suppressOutput" in said:
        return False
    specific = said["hookSpecificOutput"]
    return (
        specific.get("hookEventName") == "PreToolUse"
        and specific.get("permissionDecision") == "deny"
        and bool(specific.get("permissionDecisionReason", "").strip())
    )


def goes_on(intent: Intent, reply: Reply) -> bool:
    """Whether an agent of either client continues after this answer to its stop. Codex knows only
    these keys, and requires a reason; Claude Code would loop if the hook blocked its stop twice."""
    said: dict[str, Any] = json.loads(reply.stdout)
    if reply.code or not fits(said, {"decision": str, "reason": str, "systemMessage": str}):
        return False
    return (
        said.get("decision") == "block"
        and bool(said.get("reason", "").strip())
        and not intent.is_repeated
    )


BLOCKS: dict[str, Callable[[Reply], bool]] = {"claude": claude_blocks, "codex": codex_blocks}

#: The events whose hooks may give the agent context in an answer that refuses nothing.
CONTEXT = {
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SubagentStart",
    "SessionStart",
}  # fmt: skip


def is_taken(intent: Intent, reply: Reply) -> bool:
    """Whether the client accepts an answer that refuses nothing, and changes nothing for it."""
    if reply.code or reply.stderr:
        return False
    if not reply.stdout:
        return True
    said = json.loads(reply.stdout)
    specific = said.pop("hookSpecificOutput", None)
    if not said.keys() <= {"systemMessage"}:
        return False
    if specific is None:
        return bool(said)
    is_spelled = specific.keys() == {"hookEventName", "additionalContext"}
    return is_spelled and intent.hook == specific["hookEventName"] and intent.hook in CONTEXT


# The file or command of a call, as far as it can be known at all


def claude_target(data: Any) -> tuple[str, str] | None:
    """The target of a call before its tool runs: ("shell", command) or ("edit", path)."""
    if not isinstance(data, dict) or data.get("hook_event_name") != "PreToolUse":
        return None
    tool, fields = data.get("tool_name"), data.get("tool_input")
    if not isinstance(tool, str) or not isinstance(fields, dict):
        return None
    if tool == "Bash" and isinstance(fields.get("command"), str):
        return "shell", fields["command"]
    name = {"Write": "file_path", "Edit": "file_path", "NotebookEdit": "notebook_path"}.get(tool)
    if name is not None and isinstance(fields.get(name), str):
        return "edit", fields[name]
    return None


def codex_target(data: Any) -> tuple[str, str] | None:
    if not isinstance(data, dict) or data.get("hook_event_name") != "PreToolUse":
        return None
    tool, fields = data.get("tool_name"), data.get("tool_input")
    command = fields.get("command") if isinstance(fields, dict) else None
    if not isinstance(command, str):
        return None
    if tool == "Bash":
        return "shell", command
    return ("patch", command) if tool == "apply_patch" else None


TARGETS = {"claude": claude_target, "codex": codex_target}


def is_covered(data: Any, intent: Intent) -> bool:
    """Whether the intent contains, or refuses, the command or file of this call."""
    target = TARGETS[intent.client](data)
    if target is None or (intent.event == "edit" and intent.problem):
        return True
    kind, text = target
    if kind == "shell":
        return intent.event == "shell" and intent.command == text
    if kind == "patch":
        names = [line.split(": ", 1)[1].strip() for line in text.splitlines() if is_header(line)]
        return intent.event == "edit" and set(names) == {name.strip() for name in intent.writes}
    path = text.strip()
    if path == "~" or path.startswith("~/"):  # as this client reads it
        path = HOME + path[1:]
    return intent.event == "edit" and intent.writes == (path,)


def is_header(line: str) -> bool:
    return line.startswith(("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move"))


# Inputs


def samples() -> list[dict[str, Any]]:
    """One valid input of every kind, for both clients."""
    base = {
        "session_id": "5e55-10",
        "transcript_path": "/t",
        "cwd": "/repo",
        "permission_mode": "x",
    }
    patch = (
        "*** Begin Patch\n*** Add File: a/b.txt\n+x\n*** Update File: c\n*** Move to: d\n@@\n-x\n"
        "+y\n*** Delete File: e\n*** End Patch\n"
    )
    tools: list[tuple[str, dict[str, Any]]] = [
        ("Write", {"file_path": "/repo/a", "content": "x\n"}),
        ("Edit", {"file_path": "/repo/a", "old_string": "x", "new_string": "y"}),
        ("NotebookEdit", {"notebook_path": "/repo/n.ipynb", "cell_id": "1", "new_source": ""}),
        ("Bash", {"command": "sed -i s/x/y/ a > b", "description": "edits"}),
        ("apply_patch", {"command": patch}),
        ("apply_patch", {"command": ["apply_patch", patch]}),
        ("shell", {"command": ["bash", "-lc", "echo x > a"]}),
        ("Read", {"file_path": "/repo/a"}),
        ("mcp__x__write", {"file_path": "/repo/a"}),
        ("Agent", {"prompt": "do it"}),
        ("spawn_agent", {"message": "do it"}),
    ]
    found: list[dict[str, Any]] = []
    for event in ("PreToolUse", "PreToolUse", "PostToolUse", "PostToolUseFailure"):
        for tool, fields in tools:
            call = {**base, "hook_event_name": event, "tool_name": tool, "tool_input": fields}
            found.append({**call, "tool_response": {"status": "completed", "agentId": "a1"}})
            found.append({**call, "agent_id": "a1", "agent_type": "x"})
    for event in ("Stop", "StopFailure", "Interrupt", "UserPromptSubmit", "SubagentStart",
                  "SubagentStop", "SessionStart", "SessionEnd", "Notification"):  # fmt: skip
        life = {**base, "hook_event_name": event, "prompt": "go", "source": "user"}
        found.append({**life, "background_tasks": [{"id": "b1", "status": "running"}]})
        found.append({**life, "agent_id": "a1"})
    return found


NAMES = [
    "session_id", "cwd", "hook_event_name", "tool_name", "tool_input", "command", "file_path",
    "notebook_path", "agent_id", "source", "background_tasks", "tool_response", "status", "agentId",
]  # fmt: skip
VALUES = [
    "PreToolUse", "PostToolUse", "Stop", "Write", "Edit", "Bash", "apply_patch", "shell", "", " ",
    "/repo/a", "../a", "~", "~/a", ".", "/", "\0", "a\0b", "\ud800", "a\udfffb", "\x1b[2J", "é",
    "\n", "日本", "\U0001f600", "\u2028", "*** Begin Patch", "*** Add File: z", "<<'EOF'",
    "x" * 300, "/" + "d/" * 3000,
    "*** Begin Patch\n" + "*** Delete File: q\n" * 50 + "*** End Patch",
]  # fmt: skip


def anything(chance: random.Random, depth: int = 0) -> Any:
    """Any JSON value, most often a troublesome one."""
    kind = chance.randrange(9 if depth < 4 else 6)
    if kind < 3:
        return chance.choice(VALUES)
    if kind == 3:
        return chance.choice([None, True, False, 0, 1, -1, 2**80, 1.5, float("inf"), float("nan")])
    if kind == 4:
        return "".join(chr(chance.randrange(0x110000)) for _ in range(chance.randrange(20)))
    if kind == 5:
        return chance.choice([[], {}, [[]], [{}], {"": {}}])
    if kind == 6:
        return [anything(chance, depth + 1) for _ in range(chance.randrange(4))]
    count = chance.randrange(5)
    return {chance.choice(NAMES): anything(chance, depth + 1) for _ in range(count)}


def nested(value: Any, levels: int) -> Any:
    for level in range(levels):
        value = [value] if level % 2 else {"tool_input": value}
    return value


def mutated(chance: random.Random, data: dict[str, Any]) -> Any:
    """The input with one to four things wrong."""
    found: Any = copy.deepcopy(data)
    for _ in range(chance.randrange(1, 5)):
        if not isinstance(found, dict):
            return found
        place = found
        if isinstance(found.get("tool_input"), dict) and chance.random() < 0.5:
            place = found["tool_input"]
        name = chance.choice([*place, *NAMES[:3]])
        kind = chance.randrange(8)
        if kind == 0:
            place.pop(name, None)
        elif kind == 1:
            place[chance.choice([name.upper(), name + "s", f" {name}", ""])] = place.pop(name, None)
        elif kind == 2:
            place[name] = anything(chance)
        elif kind == 3:
            place[name] = nested(place.get(name), chance.randrange(1, 100))
        elif kind == 4:
            place[name] = str(place.get(name))[:40] * chance.choice([2, 100, 100, 5000])
        elif kind == 5:
            text = str(place.get(name))[:9000]
            at = chance.randrange(len(text) + 1)
            place[name] = text[:at] + chance.choice(VALUES) + text[at:]
        elif kind == 6:
            place[name] = chance.choice([[place.get(name)], {name: place.get(name)}, 7, [1, 2]])
        else:
            found = chance.choice([found, found, [found], {"data": found}, str(found)[:50]])
    return found


def inputs() -> Iterator[Any]:
    """The inputs, always the same. A third of them are converted to JSON and back as a client's
    would be, so that they have the types that the real hook's parser makes."""
    chance = random.Random(SEED)
    known = samples()
    yield from known
    for number in range(INPUTS - len(known)):
        data = anything(chance) if number % 10 == 0 else mutated(chance, chance.choice(known))
        yield codec.loads(json.dumps(data)) if number % 3 == 0 else data


ANSWERS = [
    Answer("deny", "Ben has it."), Answer("halt", "Ben has it.", user="Blocked."),
    Answer("deny", ""), Answer("halt", "\ud800\0 \x85", user="\ud800", context="\u2028" * 9000),
    Answer("deny", "y" * 50_000, user="u" * 50_000, context="c" * 50_000),
    Answer("halt", " ", report={"state": "waiting_for_instruction"}),
]  # fmt: skip
QUIET = [
    Answer("allow"), Answer("quiet"), Answer("allow", "granted", context="b changed\ud800"),
    Answer("allow", user="Ann waits."), Answer("quiet", context="x" * 9000, user="\0"),
]  # fmt: skip


ON = [
    Answer("continue", "It is yours."), Answer("continue", "", user="Ann goes on."),
    Answer("continue", "\ud800\0 \x85", user="\ud800", context="\u2028" * 9000),
]  # fmt: skip


def check_intent(client: str, intent: Intent) -> None:
    assert intent.client == client
    assert intent.event in KNOWN
    assert isinstance(intent.writes, tuple)
    for text in (intent.session, intent.agent, intent.tool, intent.cwd, *intent.writes):
        assert isinstance(text, str)
        text.encode()  # it is stored in the ledger
        assert "\0" not in text
        assert len(text) <= 4096
    assert isinstance(intent.command, str)
    assert type(intent.pid) is int
    assert type(intent.background) is bool
    assert type(intent.is_repeated) is bool
    assert type(intent.is_attended) is bool
    assert intent.call.isprintable()
    assert len(intent.call) <= 200
    if intent.event in KNOWN - {"edit", "other"}:
        assert intent.session
        assert not intent.problem
    if intent.event == "edit" and not intent.problem:
        assert intent.writes
        assert intent.session


def check_line(reply: Reply) -> None:
    assert reply.code == 0
    assert reply.stderr == ""
    assert len(reply.stdout.encode()) < 80_000
    assert len(reply.stdout.splitlines()) <= 1


@pytest.mark.parametrize("client", clients.NAMES)
def test_no_input_raises_and_every_refusal_is_obeyed(client: str) -> None:
    adapter = clients.adapter(client)
    assert adapter is not None
    chance = random.Random(SEED + 1)
    env = {"CLAUDE_PID": "4711", "HOME": HOME}
    events: dict[str, int] = {}
    begin = time.process_time()  # other processes may keep the machine busy
    total = went_on = 0
    for data in inputs():
        total += 1
        intent = adapter.read(data, env)
        check_intent(client, intent)
        assert not intent.hook or intent.hook == data["hook_event_name"]
        assert is_covered(data, intent), (data, intent)
        events[intent.event] = events.get(intent.event, 0) + 1
        refusal, word = chance.choice(ANSWERS), chance.choice(QUIET)
        reply = adapter.say(intent, refusal)
        check_line(reply)
        if intent.event in (*MUTATING, "agent_call"):
            assert BLOCKS[client](reply), (data, refusal, reply)
            if client == "claude":
                assert claude_halts(reply) is (refusal.kind == "halt")
        elif intent.event == "other":
            assert BLOCKS[client](reply)
            assert not claude_halts(reply)
        else:
            assert is_taken(intent, reply), (intent, reply)
        reply = adapter.say(intent, word)
        check_line(reply)
        assert is_taken(intent, reply), (intent, reply)
        if not word.context and not word.user:
            assert reply == Reply()
        reply = adapter.say(intent, chance.choice(ON))
        check_line(reply)
        is_stop = intent.event == "stop" or (
            intent.event == "agent_stop" and intent.tool not in ("Agent", "Task")
        )
        if is_stop and not intent.is_repeated:
            assert goes_on(intent, reply), (intent, reply)
            went_on += 1
        else:
            assert is_taken(intent, reply), (intent, reply)
    assert total == INPUTS
    assert time.process_time() - begin < 40
    # a test with nothing but refusals would prove little
    assert events["edit"] > 500
    assert events["shell"] > 100
    assert went_on > 50
    assert min(events.get(name, 0) for name in KNOWN - {"failed"}) > 20


def test_the_model_of_the_clients_knows_what_makes_an_agent_go_on() -> None:
    stop = Intent("codex", "stop", "s")
    block = {"decision": "block", "reason": "It is yours."}
    assert goes_on(stop, Reply(json.dumps(block)))
    assert goes_on(stop, Reply(json.dumps(block | {"systemMessage": "Ann goes on."})))
    assert not goes_on(Intent("codex", "stop", "s", is_repeated=True), Reply(json.dumps(block)))
    assert not goes_on(stop, Reply(json.dumps(block), code=1))
    for more in ({"reason": " "}, {"decision": "approve"}, {"surprise": 1}, {"continue": False}):
        assert not goes_on(stop, Reply(json.dumps(block | more)))


def test_the_models_of_the_clients_know_what_lets_a_write_through() -> None:
    specific = {
        "hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": "no",
    }  # fmt: skip

    def said(code: int = 0, **more: Any) -> Reply:
        return Reply(json.dumps({"hookSpecificOutput": specific, **more}), code=code)

    assert claude_blocks(said())
    assert codex_blocks(said())
    assert claude_halts(said(**{"continue": False}))
    assert not codex_blocks(said(**{"continue": False}))
    assert not codex_blocks(said(zzz=1))
    assert not codex_blocks(said(code=1))
    assert not codex_blocks(Reply(code=2))
    assert codex_blocks(Reply(code=2, stderr="no"))
    for broken in ("", "{", "[]", '{"continue":false}', '{"hookSpecificOutput":{}}'):
        assert not claude_blocks(Reply(broken))
        assert not codex_blocks(Reply(broken))
    specific["permissionDecisionReason"] = " "
    assert claude_blocks(said())
    assert not codex_blocks(said())
    specific["hookEventName"] = "PostToolUse"
    assert not claude_blocks(said())
