"""The repository of an ordinary day, its remote, and a person elsewhere who pushes to it."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

from helpers_commits import environment
from holdfast.gate.git import git_hooks

from .agent import HOLD_SECONDS, IDLE_SECONDS, RETRY_SECONDS, SHARED, Agent
from .record import Record

FORMATTER = """
import os, sys
for name in sys.argv[1:]:
    old = open(name).read()
    new = "".join(line.rstrip() + "\\n" for line in old.splitlines())
    if new != old:
        open(name + ".tmp", "w").write(new)
        os.replace(name + ".tmp", name)
"""
TESTS = """
import importlib, os, sys, unittest
sys.path.insert(0, os.getcwd())

class EveryFile(unittest.TestCase):
    def test_it_can_be_imported(self):
        for folder in ("app", "shared", "vendor"):
            for name in os.listdir(folder):
                if name.endswith(".py") and not name.startswith("."):
                    try:
                        importlib.import_module(f"{folder}.{name[:-3]}")
                    except ModuleNotFoundError:
                        pass  # moved away in this moment

unittest.main()
"""
#: Files that the commands of all agents leave behind each time.
IGNORED = "node_modules/\nbuild/\n__pycache__/\n.pytest_cache/\n*.log\n.holdfast/\nholdfast.toml\n"


class Day:
    """The repository, its remote, a person elsewhere who pushes to it, and three agents."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.root, self.seed = folder, folder / "repo", seed
        self.env = environment(folder)
        self.record = Record(IDLE_SECONDS)
        self.counts: Counter[str] = Counter()
        self.topic = ""
        self.number = 0
        self._make()
        self.agents = [
            Agent(self, "ann", "claude"), Agent(self, "bob", "claude"), Agent(self, "cid", "codex"),
        ]  # fmt: skip

    def _make(self) -> None:
        self.root.mkdir()
        self.git("init", "--quiet")
        files = [*SHARED, *(f"app/{n}{i}.py" for n in ("ann", "bob", "cid") for i in range(4))]
        for name in (*files, "vendor/lib.py"):
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(f"# {name}\n")
        (self.root / "fmt.py").write_text(FORMATTER)
        (self.root / "test_all.py").write_text(TESTS)
        (self.root / ".gitignore").write_text(IGNORED)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "start")
        self.git("clone", "--quiet", "--bare", ".", str(self.folder / "remote.git"))
        self.git("remote", "add", "origin", str(self.folder / "remote.git"))
        self.git("clone", "--quiet", str(self.folder / "remote.git"), str(self.folder / "else"))
        self.git("fetch", "--quiet", "origin")
        (self.root / ".holdfast").mkdir()
        (self.root / "holdfast.toml").write_text(
            f"[gate]\nretry_seconds = {RETRY_SECONDS}\nidle_seconds = {IDLE_SECONDS}\n"
            f"hold_seconds = {HOLD_SECONDS}\n"
        )
        assert {hook.state for hook in git_hooks.install(str(self.root))} == {"installed"}

    def git(self, *words: str, at: Path | None = None) -> str:
        """Run git as a person, without hooks."""
        done = subprocess.run(
            ["git", "-c", f"core.hooksPath={os.devnull}", *words], env=self.env,
            cwd=at or self.root, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done
        return done.stdout

    def new(self) -> int:
        self.number += 1
        return self.number

    def someone_elsewhere_pushes(self) -> None:
        """Push commits of files that no agent here has."""
        other = self.folder / "else"
        self.git("fetch", "--quiet", "origin", at=other)
        self.git("reset", "--quiet", "--hard", "origin/main", at=other)
        (other / "vendor" / f"new{self.new() % 9}.py").write_text(f"{self.number}\n")
        (other / "vendor/lib.py").write_text(f"# lib {self.number}\n")
        self.git("add", "--all", at=other)
        self.git("commit", "--quiet", "-m", "elsewhere", at=other)
        self.git("push", "--quiet", "origin", "main", at=other)

    def changed(self) -> set[str]:
        """The paths that are not committed."""
        said = self.git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
        return {entry[3:] for entry in said.split("\0") if entry}

    def differs(self, branch: str) -> set[str]:
        said = self.git("diff", "--name-only", "-z", "--no-renames", "HEAD", branch, "--")
        return {name for name in said.split("\0") if name}

    def live(self) -> None:
        """Let all agents work until they have done their steps."""
        turns = random.Random(self.seed)
        at_work = {agent.name: agent.life() for agent in self.agents}
        end = time.monotonic() + 400
        while at_work:
            assert time.monotonic() < end, "the day did not end in time"
            name = turns.choice(sorted(at_work))
            try:
                next(at_work[name])
            except StopIteration:
                del at_work[name]

    def everything(self) -> str:
        """All lines in the work tree. No agent removes a line on this day, so none may be
        missing."""
        names = self.git("ls-files", "-co", "--exclude-standard").splitlines()
        files = (self.root / name for name in names)
        return "".join(file.read_text() for file in files if file.is_file())

    def close(self) -> None:
        for agent in self.agents:
            agent.client.close()
