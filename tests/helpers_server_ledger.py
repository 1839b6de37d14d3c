"""Clones of one repository whose ledger is on a real PostgreSQL server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from uuid import uuid4

from helpers_cli import COMMAND, Answer, environment
from helpers_postgres import Server
from helpers_processes import PATIENCE_SECONDS


class Clones:
    """Two clones, `here` and `there`, which have nothing in common but the server."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.server = server
        self.here, self.there = folder / "here", folder / "there"
        self.here.mkdir()
        self.git(self.here, "init", "-q", "-b", "main")
        (self.here / "app").mkdir()
        for name in ("app/x.rb", "app/y.rb"):
            (self.here / name).write_text("old\n")
        self.git(self.here, "add", ".")
        self.git(self.here, "commit", "-qm", f"begin {uuid4()}")  # no other has this first commit
        self.git(folder, "clone", "-q", str(self.here), str(self.there))
        self.name = self.git(self.here, "rev-parse", "HEAD")

    @staticmethod
    def git(folder: Path, *words: str) -> str:
        own = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    @property
    def store(self) -> dict[str, str]:
        """The variable with the URL, password included."""
        return {"HOLDFAST_STORE": self.server.url()}

    @property
    def shown(self) -> str:
        """The URL of the ledger as it may be shown."""
        return f"{self.server.url(password=False)}#{self.name}"

    def hold(
        self, folder: Path, *words: object, env: dict[str, str] | None = None, told: str = ""
    ) -> Answer:
        """Run a command to its end, with the URL in its environment unless another is given."""
        done = subprocess.run(
            [*COMMAND, *map(str, words)], cwd=folder, input=told, capture_output=True, text=True,
            env=environment(**(self.store if env is None else env)), timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        assert self.server.password not in done.stdout + done.stderr, "a password was shown"
        return Answer(done.returncode, done.stdout, done.stderr)

    def set(self, folder: Path, **settings: str) -> None:
        """Write the settings of a clone."""
        lines = [f"{name} = {json.dumps(text)}\n" for name, text in settings.items()]
        (folder / "holdfast.toml").write_text("".join(lines))
