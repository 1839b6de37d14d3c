"""Real Claude Code as the agent of a dispatch: it analyses, it merges, and it cannot write files
that it did not declare."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from helpers_sandbox import NEEDS_LANDLOCK
from helpers_work import manifest
from holdfast.manager.manager import LockManager
from holdfast.work.screens.run_report import report

from .drive import MARK, RUN_SECONDS
from .install import program
from .servers import AnthropicServer, Step, edit, read, write

pytestmark = NEEDS_LANDLOCK

CONTROLLER = "app/controllers/blog/posts_controller.rb"
UNDECLARED = "app/models/blog/post.rb"
GUIDE = Path(__file__).parents[2] / "docs" / "dispatch.md"


class Newsroom:
    """A repository with one controller and two screens, and the settings that the guide shows."""

    def __init__(self, folder: Path, server: AnthropicServer) -> None:
        self.root = folder / "repository"
        self.home = folder / "home"
        self.server = server
        for path in (CONTROLLER, UNDECLARED):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text("old\n")
        self.home.mkdir()
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        (self.root / "screens.json").write_text(
            json.dumps(manifest({"blog/posts": ["index", "show"]}))
        )
        (self.root / "holdfast.toml").write_text(self._settings())
        for screen in ("index", "show"):
            self._script_analysis(screen)

    def _settings(self) -> str:
        """The guide's settings, with prompts that name the script to follow."""
        found = re.search(
            r"### Claude Code as the agent.*?```toml\n(.*?)```", GUIDE.read_text(), re.S
        )
        assert found is not None, "the guide shows no settings"
        prompts = {"analyze": "{screen}: [[analyze-{screen}]]", "apply": "{files}: [[apply]]"}
        text = found[1]
        for phase, prompt in prompts.items():
            text = text.replace(f"[work.{phase}]\n", f'[work.{phase}]\nprompt = "{prompt}"\n')
            assert prompt in text
        return text

    def _script_analysis(self, screen: str) -> None:
        output = self.root / f".analysis/blog/posts/{screen}/findings.json"
        found = {"screen": screen, "findings": ["say new"], "write_targets": [CONTROLLER]}
        steps: list[Step] = [write(output, json.dumps(found)), "Analysed."]
        self.server.scripts[f"analyze-{screen}"] = steps

    def dispatch(self) -> subprocess.CompletedProcess[str]:
        links = self.home / "bin"
        links.mkdir(exist_ok=True)
        if not (links / "claude").exists():
            (links / "claude").symlink_to(program("claude"))
        environment = {
            "PATH": f"{links}:{os.environ['PATH']}", "HOME": str(self.home), "LANG": "C.UTF-8",
            "NO_PROXY": "127.0.0.1", MARK: str(self.home), "ANTHROPIC_API_KEY": "dummy",
            "ANTHROPIC_BASE_URL": self.server.url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }  # fmt: skip
        return subprocess.run(
            [sys.executable, "-m", "holdfast", "dispatch", "screens.json"], cwd=self.root,
            env=environment, capture_output=True, text=True, timeout=3 * RUN_SECONDS, check=False,
        )  # fmt: skip

    def text(self, path: str) -> str:
        return (self.root / path).read_text()

    def printed(self) -> str:
        """The agents' output, to explain a failure."""
        logs = sorted((self.root / ".holdfast/runs").glob("*/*.log"))
        return "\n".join(f"{log.parent.name}/{log.name}: {log.read_text()}" for log in logs)


def test_claude_code_analyses_and_merges(tmp_path: Path, anthropic: AnthropicServer) -> None:
    room = Newsroom(tmp_path, anthropic)
    file = room.root / CONTROLLER
    anthropic.scripts["apply"] = [read(file), edit(file, "old", "new"), "Merged."]
    done = room.dispatch()
    assert done.returncode == 0, f"{done.stderr}\n{room.printed()}"
    assert room.text(CONTROLLER) == "new\n"
    assert "Analysed." in room.printed()
    with LockManager.open(room.root) as manager:
        assert report(manager).gaps == []
        assert manager.active_grants() == []


def test_what_claude_code_did_not_declare_is_refused_and_recorded(
    tmp_path: Path, anthropic: AnthropicServer
) -> None:
    room = Newsroom(tmp_path, anthropic)
    file, other = room.root / CONTROLLER, room.root / UNDECLARED
    anthropic.scripts["apply"] = [
        read(other), write(other, "mine\n"), read(file), edit(file, "old", "new"), "Merged.",
    ]  # fmt: skip
    done = room.dispatch()
    assert done.returncode == 0, f"{done.stderr}\n{room.printed()}"
    assert room.text(UNDECLARED) == "old\n"
    assert room.text(CONTROLLER) == "new\n"
    refused = anthropic.results("apply")[1]
    assert re.search("EACCES|permission denied", refused), refused
    with LockManager.open(room.root) as manager:
        assert [gap.path for gap in report(manager).gaps] == [UNDECLARED]
