"""Commands of a Codex that runs as a whole below a broker: which lines tell that broker for which
agent they run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers_guard import made_repository
from holdfast.gate.commands import codex_lines
from holdfast.gate.door import client_events, ledger_answer


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = made_repository(tmp_path / "repo")
    (made / ".holdfast").mkdir()
    return made


def said(root: Path, tool: str, **fields: str) -> Any:
    """The hook's answer before a tool call; no broker listens."""
    told = {
        "session_id": "ann", "cwd": str(root), "hook_event_name": "PreToolUse",
        "tool_name": tool, "tool_use_id": "1", "tool_input": fields,
    }  # fmt: skip
    env = {ledger_answer.SOCKET_VARIABLE: str(root.parent / "socket")}
    reply = client_events.answer("codex", json.dumps(told).encode(), env)
    assert (reply.stderr, reply.code) == ("", 0)
    return json.loads(reply.stdout) if reply.stdout else {}


def test_our_program_stands_in_front_of_a_command(root: Path) -> None:
    line = said(root, "Bash", command="make all")["hookSpecificOutput"]["updatedInput"]["command"]
    assert codex_lines.command_of(line) == "make all"


def test_no_slip_is_left(root: Path) -> None:
    said(root, "Bash", command="make all")
    assert not list((root / ".holdfast").glob("slips/*"))


def test_a_line_that_would_be_too_long_runs_as_it_is(root: Path) -> None:
    assert said(root, "Bash", command=f": {'x' * codex_lines.BYTES_MAX}") == {}


def test_a_tool_of_an_mcp_server_keeps_its_arguments(root: Path) -> None:
    assert said(root, "mcp__shell__run", command="make all") == {}
