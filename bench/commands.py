"""A shell command of an agent, leased at the write, beside the same command alone.

It measures what Claude Code runs for a Bash call: its shell, the script in front of the line, and
the line. The hooks before and after are called too, and measured in rows of their own. The extra
time is given in multiples of a bare interpreter of the same virtual environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path

from bench.harness import Row, Samples, at_most, compare
from bench.shell import BARE, install, milliseconds

FILES = 100_000
SESSION = "bench"
LINES = {"ls": "ls > /dev/null", "writes a file": "echo x > made.txt"}


class Agent:
    """A client with one agent, in a repository in which `init` has run."""

    def __init__(self, commands: Path, folder: Path, scratch: Path) -> None:
        subprocess.run(
            [commands / "holdfast", "-C", folder, "init", "--client", "claude"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        settings = json.loads((folder / ".claude/settings.local.json").read_text())
        (handler,) = settings["hooks"]["PreToolUse"][0]["hooks"]
        self._hook = [handler["command"], *handler["args"]]
        self._folder = folder
        self._scratch = scratch
        self.script = settings["env"]["CLAUDE_CODE_SHELL_PREFIX"]
        self._environment = {
            "CLAUDE_PID": str(os.getpid()), "CLAUDE_CODE_SESSION_ID": SESSION, "SHELL": "/bin/sh",
            "CLAUDE_CODE_SHELL_PREFIX": self.script,
        }  # fmt: skip

    def tell(self, event: str, command: str) -> float:
        """Call a hook; the milliseconds that it takes."""
        told = self._scratch / "told"
        told.write_text(json.dumps({
            "session_id": SESSION, "cwd": str(self._folder), "hook_event_name": event,
            "tool_name": "Bash", "tool_use_id": "call", "tool_input": {"command": command},
            "tool_response": {},
        }))  # fmt: skip
        with self._as_hook():
            return milliseconds(self._hook, self._scratch / "complaints", str(told))[0]

    @contextlib.contextmanager
    def _as_hook(self):  # type: ignore[no-untyped-def]
        os.environ.update({**self._environment, "CLAUDE_PROJECT_DIR": str(self._folder)})
        try:
            yield
        finally:
            del os.environ["CLAUDE_PROJECT_DIR"]

    def alone(self, command: str) -> float:
        os.environ.update(self._environment)
        return milliseconds(["/bin/sh", "-c", _line(command)], self._scratch / "complaints")[0]

    def leased(self, command: str) -> float:
        os.environ.update(self._environment)
        line = [self.script, _line(command)]
        return milliseconds(line, self._scratch / "complaints")[0]


def _line(command: str) -> str:
    return f"true && eval '{command}' < /dev/null && pwd -P >| /dev/null"


def run(scratch: Path, quick: bool) -> list[Row]:
    rounds = 10 if quick else 40
    commands = install(scratch / "installed")
    bare = [str(commands / "python"), "-c", "pass"]
    rows: list[Row] = []
    small, large = (scratch / name for name in ("small", "large"))
    _repository(small, 10)
    _repository(large, 2_000 if quick else FILES)
    for what, folder in (("", small), (f", {FILES:,} files", large)):
        agent = Agent(commands, folder, scratch)
        with contextlib.chdir(folder):
            for name, command in LINES.items():
                found = _measured(agent, command, bare, rounds, scratch)
                rows += [
                    compare(f"{name}: the command{what}", "ms", found, "command", BARE, at_most(2)),
                    compare(f"{name}: with both hooks{what}", "ms", found, "call", BARE),
                ]
    return rows


def _measured(agent: Agent, command: str, bare: list[str], rounds: int, scratch: Path) -> Samples:
    """The extra time of the command, and of the whole call with its hooks."""
    found: dict[str, list[float]] = {BARE: [], "command": [], "call": []}
    for number in range(rounds + 2):
        interpreter = milliseconds(bare, scratch / "complaints")[0]
        alone = agent.alone(command)
        before = agent.tell("PreToolUse", command)
        leased = agent.leased(command)
        after = agent.tell("PostToolUse", command)
        Path("made.txt").unlink(missing_ok=True)
        time.sleep(0.1)  # its broker ends
        if number >= 2:  # the first runs compile, and fill the system's caches
            found[BARE].append(interpreter)
            found["command"].append(leased - alone)
            found["call"].append(before + leased + after - alone)
    return found


def _repository(folder: Path, files: int) -> None:
    for number in range(files):
        file = folder / f"f/{number // 500}/{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x\n")
    git = ["git", "-C", str(folder), "-c", "user.name=b", "-c", "user.email=b@example.org"]
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "files"]):
        subprocess.run([*git, *words], check=True)
