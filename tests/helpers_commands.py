"""Agents whose shell commands are leased: hooks through the door, commands through the prefix.

`ClaudeLike` does around a command what Claude Code does: it calls its hook, runs the line in the
shell with the prefix script in front of it, and calls the hook at the end.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from helpers_guard import ENV
from helpers_processes import PATIENCE_SECONDS
from holdfast import LockManager
from holdfast.gate import hook
from holdfast.gate.commands import prefix_script
from holdfast.gate.door import client_events
from holdfast.gate.install.hook_command import Command
from holdfast.gate.install.shell_prefix import MODE, script

COMMAND = Command(sys.executable, hook.__file__)


def leased(root: Path, chained: str = "") -> Path:
    """A repository with a ledger and the script in front of shell commands."""
    (root / ".holdfast").mkdir(exist_ok=True)
    file = Path(prefix_script.path_of(str(root)))
    file.write_text(script(str(root), COMMAND, chained))
    file.chmod(MODE)
    return root


def line_of(command: str, cwd_file: str = "/dev/null", *, session_env: str = "") -> str:
    """How Claude Code wraps the command of its Bash tool. `session_env` is what hooks of a session
    have written into its CLAUDE_ENV_FILE."""
    quoted = "'" + command.replace("'", "'\"'\"'") + "'"
    prepared = f"{session_env}\n: && " if session_env else ""
    return (
        f"source /nowhere/shell-snapshots/snapshot-bash-1.sh 2>/dev/null || true && {prepared}"
        f"eval {quoted} < /dev/null && pwd -P >| {shlex.quote(cwd_file)}"
    )


class ClaudeLike:
    """A session of a client, with its hooks and its shell."""

    def __init__(self, root: Path, session: str, *, cwd: Path | None = None) -> None:
        self.root = root
        self.session = session
        self.cwd = cwd or root
        self.process = subprocess.Popen(["sleep", "600"])
        self.calls = 0
        self.more_environment: dict[str, str] = {}

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def environment(self) -> dict[str, str]:
        return {
            **ENV, "CLAUDE_PID": str(self.process.pid), "CLAUDE_CODE_SESSION_ID": self.session,
            "SHELL": "/bin/bash", prefix_script.VARIABLE: prefix_script.path_of(str(self.root)),
            **self.more_environment,
        }  # fmt: skip

    def tell(self, event: str, agent: str = "", **fields: Any) -> dict[str, Any]:
        """The hook's answer to an event."""
        told = {
            "session_id": self.session, "cwd": str(self.cwd), "hook_event_name": event,
            **({"agent_id": agent, "agent_type": "general"} if agent else {}), **fields,
        }  # fmt: skip
        env = {**self.environment, "CLAUDE_PROJECT_DIR": str(self.root)}
        reply = client_events.answer("claude", json.dumps(told).encode(), env)
        assert (reply.stderr, reply.code) == ("", 0)
        return json.loads(reply.stdout) if reply.stdout else {}

    def edit(self, path: str, text: str = "mine\n", agent: str = "") -> str:
        """Write a file with the edit tool; the reason if the hook refuses."""
        file = self.root / path
        tool = {"tool_name": "Write", "tool_input": {"file_path": str(file), "content": text}}
        said = self.tell("PreToolUse", agent, **tool).get("hookSpecificOutput", {})
        if said.get("permissionDecision") == "deny":
            return str(said["permissionDecisionReason"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.tell("PostToolUse", agent, **tool)
        return ""

    def before(self, command: str, agent: str = "", **more: Any) -> dict[str, Any]:
        """The hook's answer before a command."""
        self.calls += 1
        return self.tell(
            "PreToolUse", agent, tool_name="Bash", tool_use_id=f"call{self.calls}",
            tool_input={"command": command, **more},
        )  # fmt: skip

    def start(self, command: str, **more: Any) -> subprocess.Popen[str]:
        """Start the process that Claude Code starts for a command."""
        return subprocess.Popen(
            ["/bin/bash", "-c", f"{shlex.quote(prefix_script.path_of(str(self.root)))} "
             + shlex.quote(line_of(command))],
            cwd=self.cwd, env=self.environment, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, **more,
        )  # fmt: skip

    def after(self, command: str, code: int, agent: str = "", **more: Any) -> dict[str, Any]:
        """The hook's answer after a command has returned."""
        event = "PostToolUse" if code == 0 else "PostToolUseFailure"
        return self.tell(
            event, agent, tool_name="Bash", tool_use_id=f"call{self.calls}",
            tool_input={"command": command}, tool_response=more,
        )  # fmt: skip

    def run(self, command: str, agent: str = "") -> tuple[int, str]:
        """Run a command; its exit code and output. If the hook refuses it, the code is -1."""
        said = self.before(command, agent).get("hookSpecificOutput", {})
        if said.get("permissionDecision") == "deny":
            return -1, str(said["permissionDecisionReason"])
        running = self.start(command)
        out, _none = running.communicate(timeout=PATIENCE_SECONDS)
        self.after(command, running.returncode, agent)
        return running.returncode, out

    def stop(self, agent: str = "") -> dict[str, Any]:
        return self.tell("SubagentStop" if agent else "Stop", agent)


def held(root: Path) -> dict[str, str]:
    """The leased files, each with the key of its agent."""
    with LockManager.open(root) as manager:
        return {path: one.owner.key for one in manager.active_grants() for path in one.write_paths}


def is_running(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")
