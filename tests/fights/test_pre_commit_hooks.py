"""The hooks that `.pre-commit-hooks.yaml` offers, run by the real pre-commit from a clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers_cli import Answer, Repository, environment

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    shutil.which("pre-commit", path=str(Path(sys.executable).parent)) is None,
    reason="pre-commit is not installed: pip install -e '.[dev]'",
)


class Team(Repository):
    """A repository whose `.pre-commit-config.yaml` names our hooks."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "project")
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        self.env = environment(PRE_COMMIT_HOME=str(folder / "cache"), HOME=str(folder), PATH=path)
        clone = folder / "holdfast"
        for name in ("src", "pyproject.toml", "setup.py", "README.md", "LICENSE"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            clone.mkdir(exist_ok=True)
            copy(ROOT / name, clone / name)
        shutil.copy(ROOT / ".pre-commit-hooks.yaml", clone)
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
            self.git(*words, cwd=clone)
        rev = self.git("rev-parse", "HEAD", cwd=clone).strip()
        hooks = "".join(f"  - id: {name}\n" for name in ("holdfast-check", "holdfast-guarded"))
        config = f"repos:\n- repo: {clone}\n  rev: {rev}\n  hooks:\n{hooks}"
        (self.root / ".pre-commit-config.yaml").write_text(config)
        self.git("add", "-A")

    def git(self, *words: str, cwd: Path | None = None) -> str:
        identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
        done = subprocess.run(
            ["git", *identity, *words], cwd=cwd or self.root, env=self.env, check=True,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        return done.stdout

    def type(self, *words: str) -> Answer:
        """A command of the PATH, as a person types it."""
        done = subprocess.run(
            words, cwd=self.root, env=self.env, capture_output=True, text=True, timeout=600,
            check=False,
        )  # fmt: skip
        return Answer(done.returncode, done.stdout, done.stderr)

    def run(self, hook: str) -> Answer:
        """The result of a hook on the staged files."""
        return self.type("pre-commit", "run", hook)


def test_both_hooks_say_what_is_wrong_and_pass_when_it_is_right(tmp_path: Path) -> None:
    team = Team(tmp_path)
    assert team.hold("lock", "app/x.rb", "--holder", "alice").code == 0
    refused = team.run("holdfast-check")
    assert refused.code == 1
    assert "app/x.rb has been locked for writing by alice" in refused.out
    assert team.hold("unlock", "app/x.rb", "--holder", "alice").code == 0
    assert team.run("holdfast-check").code == 0
    assert team.run("holdfast-guarded").code == 1
    assert team.type("holdfast", "init", "--client", "claude", "--git").code == 0
    assert team.run("holdfast-guarded").code == 0
