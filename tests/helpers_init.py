"""Holdfast installed in a folder, and a person's home without any client in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import holdfast
from helpers_cli import Answer, Repository, Terminal
from holdfast.gate.install import hook_entries
from holdfast.gate.install.hook_command import LOADER

SOURCE = Path(holdfast.__file__).parent

#: A hook that lets everything pass: `init` only needs an answer from its hook.
STUB = "import sys\nsys.stdin.read()\n"


BOTH = ("--client", "claude,codex", "--no-git")
THEIR_HOOK = '{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}'
THEIRS = (
    '{\n\t"permissions": {"allow": ["Bash(ls:*)"]},\n\t"hooks": {\n\t\t"PreToolUse": [\n\t\t\t'
    + THEIR_HOOK
    + '\n\t\t]\n\t},\n\t"unknown": 1.50\n}'
)


#: Not copied: unneeded files, files that apply to the original only, and files that another process
#: is writing. Compiled files are copied: they are valid as long as their sources are unchanged.
_NOT_COPIED = shutil.ignore_patterns("testing", "*.bundle*", "*.pyc.*")


class Site:
    """A copy of the package that many tests share, and that no test may change."""

    def __init__(self, folder: Path, hook: str = STUB) -> None:
        self.folder = folder
        self.package = copied(folder, hook)
        self._stamps = self._now()

    def check(self) -> None:
        """Check that no test has changed the package."""
        assert self._now() == self._stamps, "a test has changed the package that it shares"

    def _now(self) -> dict[Path, tuple[int, int]]:
        found = {file: file.lstat() for file in self.package.rglob("*.py")}
        return {file: (status.st_mtime_ns, status.st_size) for file, status in found.items()}


def copied(site: Path, hook: str = STUB) -> Path:
    """A copy of the package with that hook."""
    package = site / "holdfast"
    shutil.copytree(SOURCE, package, ignore=_NOT_COPIED)
    (package / "gate/hook.py").write_text(hook)
    return package


class Installation:
    """A package, a home and a repository.

    The package is a copy of its own, which a test may move, break and date back, unless the caller
    passes a shared one.
    """

    def __init__(self, folder: Path, site: str | Site = "site") -> None:
        self.folder = folder
        self.is_shared = isinstance(site, Site)
        if isinstance(site, Site):
            site.check()
            self.site, self.package = site.folder, site.package
        else:
            self.site = folder / site
            self.package = copied(self.site)
        self.script = self.package / "gate/hook.py"
        self.home = folder / "home"
        self.home.mkdir()
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.repository = Repository(folder / "project")
        self.root = self.repository.root
        self.claude = self.root / ".claude/settings.local.json"
        self.codex = self.root / ".codex/hooks.json"
        self.exclude = self.root / ".git/info/exclude"

    @property
    def env(self) -> dict[str, str]:
        system = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin"))
        found = [name for name in ("claude", "codex") if shutil.which(name, path=system)]
        assert not found, f"these tests need a system without {found} in {system}"
        return {
            "PYTHONPATH": str(self.site),
            # A file that a test changes twice in a second would count as already compiled.
            "PYTHONDONTWRITEBYTECODE": "" if self.is_shared else "1",
            "HOME": str(self.home),
            "PATH": f"{self.bin}{os.pathsep}{system}",
        }

    def hold(self, *words: object, env: Mapping[str, str] | None = None, **more: Any) -> Answer:
        """Run a command of this installation."""
        return self.repository.hold(*words, env={**self.env, **(env or {})}, **more)

    def by_a_person(self, *words: str) -> Answer:
        """Run a command typed at a terminal, not started by an agent."""
        terminal = Terminal(self.repository, **self.env)
        try:
            return terminal.hold(*words)
        finally:
            terminal.close()

    def init(self, *words: object, **more: Any) -> Answer:
        """Run init, which must succeed."""
        answer = self.hold("init", *words, **more)
        assert answer.code == 0, answer
        return answer

    def undo(self, *words: str) -> Answer:
        """Run init --undo as a person, which must succeed."""
        answer = self.by_a_person("init", "--undo", *words)
        assert answer.code == 0, answer
        return answer

    def line(self, client: str) -> str:
        """The command of a hook as earlier versions wrote it."""
        return f"{sys.executable} -I -S {self.script} {client}"

    def words(self, client: str) -> list[str]:
        """The command that a client's hook should run."""
        return [sys.executable, "-I", "-S", "-c", LOADER, str(self.script), client]

    def program(self, name: str, text: str = "#!/bin/sh\n") -> Path:
        """A program on the PATH."""
        file = self.bin / name
        file.write_text(text)
        file.chmod(0o755)
        return file


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """All files of a folder except git's objects and the ledger: each with its mode and content."""
    found = {}
    for folder, _folders, names in os.walk(root):
        for name in names:
            file = Path(folder, name)
            relative = file.relative_to(root).as_posix()
            if not relative.startswith((".git/objects/", ".holdfast/")):
                found[relative] = (file.lstat().st_mode, file.read_bytes())
    return found


def commands(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Our hooks in a client's settings: event to handlers."""
    found: dict[str, list[dict[str, Any]]] = {}
    for event, groups in json.loads(file.read_text("utf-8-sig")).get("hooks", {}).items():
        for group in groups:
            for handler in group["hooks"]:
                if hook_entries.is_ours(handler):
                    found.setdefault(event, []).append(handler)
    return found


def git(here: Installation, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", here.root, "-c", "user.name=a", "-c", "user.email=a@b", *words],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout


def drifted(here: Installation, *words: str) -> str:
    """The problem that `init --check` reports, which must find one."""
    answer = here.hold("init", "--check", *words)
    assert answer.code == 1, answer
    assert "holdfast init repairs" in answer.err
    [found, *_] = here.hold("init", "--check", *words, "--json").json["problems"]
    assert found["problem"] in answer.out
    return answer.out
