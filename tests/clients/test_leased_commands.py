"""Shell commands of real clients, leased at the write (`gate.shell = "lease"`)."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import LINUX_ONLY
from helpers_sandbox import NEEDS_LANDLOCK

from . import drive
from .crew import Crew
from .drive import CODEX_CODE_MODEL, Recorder, hooks_for, run_claude, run_codex
from .gated import AT_ONCE, Gated
from .servers import AnthropicServer, OpenAIServer, bash, code_shell, shell

pytestmark = [LINUX_ONLY, *([NEEDS_LANDLOCK] if sys.platform == "linux" else [])]

#: A program that makes a file and a folder in the root, then writes what another holds.
PROGRAM = "import os; open('made', 'w').close(); os.mkdir('new'); open('a.txt', 'w').write('bad')"
TOO_FAR = f'cd . && python3 -c {shlex.quote(PROGRAM)}; echo "it\'s over"; cd lib'


def with_lib(gated: Gated, **settings: object) -> None:
    (gated.root / "lib").mkdir()
    (gated.root / "lib/old").write_text("old\n")
    gated.git("add", "lib")
    gated.init(**{**AT_ONCE, **settings})


def test_a_program_cannot_write_what_another_holds(gated: Gated, crew: Crew) -> None:
    with_lib(gated)
    owner = crew.owner()
    other = crew.start("other", crew.shell(TOO_FAR), crew.shell("pwd; ls old made 2>&1"))
    other.has_done(2)
    first = other.results[0]
    assert "Permission denied: 'a.txt'" in first
    assert "Refused: a.txt" in first, "the command's output names the holder"
    assert owner.name in first
    assert "it's over" in first
    assert gated.text() == "mine\n"
    other.ends()
    here = gated.root / "lib" if crew.client == "claude" else gated.root
    assert f"{here}\n" in other.results[1], "the client uses the command's last folder as always"
    assert gated.happened("damage") == []
    (heartbeat,) = gated.happened("contention_heartbeat")
    assert heartbeat["data"]["paths"] == ["a.txt"]
    taken = [event["data"] for event in gated.happened("lock_acquired")]
    assert [one["keys"][0] for one in taken if one["keys"][0] != "a.txt"] == ["made"]
    owner.ends()


# Contracts that this relies on


@pytest.mark.parametrize(
    ("allow", "deny", "runs"),
    [
        (["Bash(make *)"], [], True),
        ([], [], False),
        (["Bash"], ["Bash(make *)"], False),
    ],
)
def test_claude_s_own_rules_see_the_command_as_it_was_written(
    gated: Gated,
    anthropic: AnthropicServer,
    monkeypatch: pytest.MonkeyPatch,
    allow: list[str],
    deny: list[str],
    runs: bool,
) -> None:
    with_lib(gated)
    assert gated.hold("lock", "a.txt", "--holder", "bob").code == 0
    (gated.root / "Makefile").write_text("all:\n\ttouch lib/made\n")
    home = gated.home()
    drive.write_json(home / "claude/settings.json", {"permissions": {"allow": allow, "deny": deny}})
    _without_tools(monkeypatch)
    anthropic.scripts["main"] = [bash("make all"), "Done."]
    assert run_claude(gated.root, "[[main]]", anthropic, home=home).code == 0
    assert (gated.root / "lib/made").exists() is runs


def _without_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start clients that allow no tool by themselves."""

    class Strict(drive.Running):
        def __init__(self, words: list[str], *rest: object, **more: object) -> None:
            at = words.index("--allowedTools")
            super().__init__([*words[:at], *words[at + 2 :]], *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(drive, "Running", Strict)


INSTEAD = {"command": "echo instead >instead"}


def _says(**more: object) -> dict[str, str]:
    inner = {"hookEventName": "PreToolUse", "updatedInput": INSTEAD, **more}
    return {"stdout": json.dumps({"hookSpecificOutput": inner})}


def test_claude_runs_another_line_and_tells_of_that_one_afterwards(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    hook.set(PreToolUse=_says())
    anthropic.scripts["main"] = [bash("echo first >first"), "Done."]
    run_claude(repo, "[[main]]", anthropic, settings=hooks_for(hook.command, drive.CLAUDE_EVENTS))
    assert (repo / "instead").exists()
    assert not (repo / "first").exists()
    (after,) = hook.told("PostToolUse", "Bash")
    assert after["data"]["tool_input"] == INSTEAD, "the whole input is replaced"


@pytest.mark.parametrize(
    ("mode", "decision"), [("direct", ""), ("direct", "allow"), ("code", "allow")]
)
def test_codex_runs_another_line_only_if_it_is_allowed(
    repo: Path, hook: Recorder, openai: OpenAIServer, mode: str, decision: str
) -> None:
    hook.set(PreToolUse=_says(**({"permissionDecision": decision} if decision else {})))
    more: dict[str, Any]
    call, more = shell, {}
    if mode == "code":
        call, more = code_shell, {"model": CODEX_CODE_MODEL}
    openai.scripts["main"] = [call("echo first >first"), "Done."]
    run_codex(repo, "[[main]]", openai, hooks=hooks_for(hook.command, drive.CODEX_EVENTS), **more)
    assert (repo / "instead").exists() is bool(decision)
    (after,) = hook.told("PostToolUse", "Bash")
    assert (after["data"]["tool_input"] == INSTEAD) is bool(decision)
