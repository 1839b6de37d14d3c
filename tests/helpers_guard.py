"""A real git repository, and agents that run real commands in it through the guard."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from holdfast.gate import guard
from holdfast.gate.intent import EDIT, EDITED, FAILED, SHELL, SHELLED, Answer, Intent
from stage import Actor, Stage, settled

ENV = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C",
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
    for name in ("app/x.py", "app/z.py", "lib/y.py", "README.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n")
    (root / ".gitignore").write_text(".holdfast/\n*.log\nbuild/\n")
    sh(root, "git init -q -b main . && git add -A && git commit -qm one")
    sh(root, "git checkout -q -b other && echo other >> lib/y.py && git commit -qam two")
    sh(root, "git checkout -q main")
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
        """What the guard says before a command."""
        return guard.around(
            self.intent(SHELL, command, cwd), self.gate(), self.stage.manager, self.stage.settings
        )

    def ended(self, command: str, cwd: str = "", *, event: str = SHELLED) -> Answer:
        """What it says afterwards."""
        return guard.around(
            self.intent(event, command, cwd), self.gate(), self.stage.manager, self.stage.settings
        )

    def run(self, command: str, cwd: str = "", *, code: int | None = 0) -> Answer:
        """The whole of it: asked, run if it may be, and looked at."""
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
        return guard.pending(self.stage.manager, self.holder)


def text(shop: Shop, path: str) -> str:
    return (shop.root / path).read_text()


def sneaky(path: str, what: str = "sneaky") -> str:
    """A program of which nobody can see what it writes."""
    code = f"import sys; open(sys.argv[1], 'a').write({what!r} + chr(10))"
    return f"python3 -c {shlex.quote(code)} $(echo {path})"


__all__ = ["EDIT", "EDITED", "Shop", "Worker", "made_repository", "settled", "sh", "sneaky", "text"]
