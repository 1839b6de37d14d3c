"""A real git repository, and agents that run real commands in it through the guard."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from holdfast import LockManager
from holdfast.core.model import agent_key
from holdfast.gate import guard
from holdfast.gate.door import client_events
from holdfast.gate.intent import EDIT, EDITED, FAILED, SHELL, SHELLED, STOP, Answer, Intent
from holdfast.gate.rulebook import agent_records
from holdfast.manager import transactions
from stage import Actor, Stage, settled

#: The Python that runs the tests comes first, before any shim that would search for one.
_PYTHONS = os.path.dirname(os.path.realpath(sys.executable))
ENV = {
    "PATH": f"{_PYTHONS}{os.pathsep}{os.environ['PATH']}", "HOME": "/nonexistent", "LC_ALL": "C",
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b", "PYTHONDONTWRITEBYTECODE": "1",
}  # fmt: skip


def sh(root: Path, command: str, *, code: int | None = 0) -> str:
    """Run a command as a client would."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=root, env=ENV, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert code is None or done.returncode == code, (command, done.stdout, done.stderr)
    return done.stdout


def made_repository(root: Path) -> Path:
    """A small project with a branch `other` that differs in lib/y.py only."""
    if not _models:  # made once in this process, beside the folders of its tests
        _models.append(_model(Path(tempfile.mkdtemp(prefix="model-", dir=root.parent.parent))))
    return copied(_models[0], root)


_models: list[Path] = []


def _model(root: Path) -> Path:
    for name in ("app/x.py", "app/z.py", "lib/y.py", "README.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n")
    (root / ".gitignore").write_text(".holdfast/\n*.log\nbuild/\n")
    sh(root, "git init -q -b main . && git add -A && git commit -qm one")
    sh(root, "git checkout -q -b other && echo other >> lib/y.py && git commit -qam two")
    sh(root, "git checkout -q main && rm -f .git/hooks/*.sample")
    return root


def copied(model: Path, root: Path) -> Path:
    """A copy of a repository, in which git considers every file unchanged."""
    shutil.copytree(model, root, symlinks=True, dirs_exist_ok=True)
    subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=root, env=ENV, check=True)
    return root


class Shop(Stage):
    """A stage whose agents run commands."""

    def worker(self, session: str, agent: str = "") -> Worker:
        self.agent(session)
        return Worker(self, session, agent, ())


class Worker(Actor):
    """One agent with a shell."""

    def intent(self, event: str, command: str, cwd: str = "", tool: str = "Bash") -> Intent:
        folder = str(self.stage.root / cwd) if cwd else str(self.stage.root)
        return Intent(
            "claude", event, self.session, agent=self.agent, command=command, cwd=folder, tool=tool
        )

    def ask(self, command: str, cwd: str = "") -> Answer:
        """The guard's answer before a command."""
        return guard.around(
            self.intent(SHELL, command, cwd), self.gate(), self.stage.manager, self.stage.settings
        )

    def ended(self, command: str, cwd: str = "", *, event: str = SHELLED) -> Answer:
        """The guard's answer after a command."""
        return guard.around(
            self.intent(event, command, cwd), self.gate(), self.stage.manager, self.stage.settings
        )

    def run(self, command: str, cwd: str = "", *, code: int | None = 0) -> Answer:
        """The whole sequence: ask, run the command if allowed, and check."""
        said = self.ask(command, cwd)
        if said.kind not in ("allow", "quiet"):
            return said
        folder = self.stage.root / cwd if cwd else self.stage.root
        sh(folder, command, code=code)
        return self.ended(command, cwd, event=SHELLED if code == 0 else FAILED)

    def write(self, path: str, text: str) -> Answer:
        """An edit with a tool of the client, as its hooks see it."""
        file = f"{self.stage.root}/{path}"
        said = self.edit(path, write=None)
        if said.kind == "allow":
            guard.edited(self.stage.manager, self.holder, [file])
            (self.stage.root / path).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text(text)
            guard.edited(self.stage.manager, self.holder, [file])
        return said

    def pending(self) -> str:
        """The report on damage that the agent gets with its next event."""
        gate = self.gate()
        told = guard.pending(self.stage.manager, gate)
        gate.live_on()
        return told()

    def settle(self, event: str = STOP) -> str:
        """The report to the user on the agent's commands whose end was not reported."""
        gate = self.gate()
        told = guard.settle(self.intent(event, ""), gate, self.stage.manager)
        gate.live_on()
        return told()


class Session:
    """A session of a client, which sends the door the events of its hooks."""

    def __init__(self, name: str, home: Path, client: str = "claude") -> None:
        self.name = name
        self.home = home
        self.client = client

    def tell(self, event: str, cwd: Path | None = None, **more: Any) -> dict[str, Any]:
        """The hook's output for an event."""
        said = {"session_id": self.name, "cwd": str(cwd or self.home), "hook_event_name": event,
                **more}  # fmt: skip
        env = {"CLAUDE_PID": str(os.getpid()), "CLAUDE_PROJECT_DIR": str(self.home)}
        reply = client_events.answer(self.client, json.dumps(said).encode(), env)
        assert reply.code == 0
        found = json.loads(reply.stdout) if reply.stdout else {}
        assert isinstance(found, dict)
        return found

    def tool(self, event: str, name: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
        return self.tell(event, tool_name=name, tool_input=fields, tool_use_id="1", **more)

    def ask(self, command: str, cwd: Path | None = None) -> str:
        """The reason why a command is refused; empty if it may run."""
        return refusal(self.tool("PreToolUse", "Bash", {"command": command}, cwd=cwd))

    def run(self, command: str, cwd: Path | None = None, *, code: int | None = 0) -> str:
        """Ask, run the command if allowed, and return its report: a refusal, or the effects."""
        fields = {"command": command}
        said = self.tool("PreToolUse", "Bash", fields, cwd=cwd)
        if refusal(said):
            return refusal(said)
        told = [context(said)]
        sh(cwd or self.home, command, code=code)
        failed = self.client == "claude" and code != 0
        event = "PostToolUseFailure" if failed else "PostToolUse"
        told.append(context(self.tool(event, "Bash", fields, cwd=cwd)))
        return "\n".join(filter(None, told))

    def write(self, file: Path, text: str = "new\n") -> str:
        """Write a file with the client's tool if that is allowed, else return the reason."""
        if self.client == "codex":
            lines = "".join(f"+{line}\n" for line in text.splitlines())
            patch = f"*** Begin Patch\n*** Add File: {file}\n{lines}*** End Patch\n"
            call = ("apply_patch", {"command": patch})
        else:
            call = ("Write", {"file_path": str(file), "content": text})
        said = refusal(self.tool("PreToolUse", *call))
        if not said:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            self.tool("PostToolUse", *call)
        return said


def refusal(said: dict[str, Any]) -> str:
    """The reason for a hook's refusal; empty if it did not refuse."""
    found = said.get("hookSpecificOutput", {})
    denied = found.get("permissionDecision") == "deny"
    return str(found["permissionDecisionReason"]) if denied else ""


def context(said: dict[str, Any]) -> str:
    """The context that a hook gave the agent without refusing anything."""
    return str(said.get("hookSpecificOutput", {}).get("additionalContext", ""))


def owners(root: Path) -> dict[str, str]:
    """The holders in a repository: agents by client and session, not by name."""
    with LockManager.open(root) as manager:
        return {
            path: f"{one.owner.client}:{one.owner.session}" if one.owner.client else one.holder
            for one in manager.active_grants()
            for path in one.write_paths
        }


def called(root: Path, session: str, client: str = "claude") -> str:
    """The name that people see for a session in a repository."""
    with LockManager.open(root) as manager:
        known = transactions.look(
            manager, lambda view: agent_records.known(view, agent_key(client, session))
        )
    assert known.presence is not None
    return known.presence.shown


def gated(root: Path) -> Path:
    """A small project with a ledger, in which no call is held open for long."""
    made_repository(root)
    (root / ".holdfast").mkdir()
    (root / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\n")
    settled(root / "app/x.py", root / "lib/y.py")
    return root


def text(shop: Shop, path: str) -> str:
    return (shop.root / path).read_text()


def sneaky(path: str, what: str = "sneaky") -> str:
    """A program whose command line does not show what it writes."""
    code = f"import sys; open(sys.argv[1], 'a').write({what!r} + chr(10))"
    return f"python3 -c {shlex.quote(code)} $(echo {path})"


__all__ = [
    "EDIT", "EDITED", "Session", "Shop", "Worker", "called", "context", "copied", "gated",
    "made_repository", "owners", "refusal", "settled", "sh", "sneaky", "text",
]  # fmt: skip
