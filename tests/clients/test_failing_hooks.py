"""The fate of an edit when its hook fails, in the real clients; and of other events then.

The contracts come first: each client's reaction to a failure, event by event. Then the gate as
`init` writes it, with its Python removed, its package deleted, its process killed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import environment
from helpers_init import copied
from holdfast.gate.install import exec_form_check

from .crew import Crew
from .drive import Recorder, hooks_for, run_claude, run_codex
from .gated import AT_ONCE, Gated
from .install import program
from .servers import AnthropicServer, OpenAIServer, patch, write

GONE = "/gone/venv/bin/python"
ADD = "*** Add File: new.txt\n+new"

#: Ways to fail: the command, its arguments, its timeout, and whether `onFailure` closes it.
FAILURES: dict[str, tuple[str, list[str], int, bool]] = {
    "missing": (GONE, ["-I", "hook.py"], 60, True),
    "exit 1": ("/bin/sh", ["-c", "exit 1"], 60, True),
    "killed": ("/bin/sh", ["-c", "kill -9 $$"], 60, True),
    "too slow": ("/bin/sleep", ["20"], 1, True),
    "bad JSON": ("/bin/sh", ["-c", "echo '{nope'"], 60, False),
    "plain words": ("/bin/sh", ["-c", "echo hello"], 60, False),
}


def failing(event: str, name: str, *, closed: bool = True) -> dict[str, Any]:
    """Settings of Claude Code with a hook that fails."""
    command, more, timeout, _ = FAILURES[name]
    handler = {"type": "command", "command": command, "args": more, "timeout": timeout}
    if closed:
        handler["onFailure"] = "block"
    return {"hooks": {event: [{"hooks": [handler]}]}}


@pytest.mark.parametrize("name", FAILURES)
def test_claude_refuses_an_edit_whose_hook_fails_if_it_is_told_to_block(
    repo: Path, anthropic: AnthropicServer, name: str
) -> None:
    anthropic.scripts["main"] = [write(repo / "new.txt", "new\n"), "Done."]
    run_claude(repo, "[[main]]", anthropic, settings=failing("PreToolUse", name))
    blocks = FAILURES[name][3]
    assert (repo / "new.txt").exists() is not blocks
    if blocks:
        [told] = anthropic.results("main")
        command = " ".join([FAILURES[name][0], *FAILURES[name][1]])
        assert told.startswith(f"PreToolUse:Write hook error: [{command}]: "), "not in full"
        assert 'blocking because onFailure is "block"' in told


@pytest.mark.parametrize(
    ("event", "passes"),
    [
        ("UserPromptSubmit", False),
        ("SessionStart", True),
        ("PostToolUse", True),
        ("Stop", True),
        ("SessionEnd", True),
    ],
)
def test_claude_loses_a_prompt_whose_hook_is_told_to_block_and_fails(
    repo: Path, anthropic: AnthropicServer, event: str, passes: bool
) -> None:
    anthropic.scripts["main"] = [write(repo / "new.txt", "new\n"), "Done."]
    run_claude(repo, "[[main]]", anthropic, settings=failing(event, "missing"))
    assert (repo / "new.txt").exists() is passes
    assert len(anthropic.asked("main")) == (2 if passes else 0)


def test_claude_keeps_a_prompt_whose_hook_only_fails(
    repo: Path, anthropic: AnthropicServer
) -> None:
    anthropic.scripts["main"] = [write(repo / "new.txt", "new\n"), "Done."]
    settings = failing("UserPromptSubmit", "missing", closed=False)
    run_claude(repo, "[[main]]", anthropic, settings=settings)
    assert (repo / "new.txt").exists()


def test_claude_runs_a_hook_in_exec_form_without_a_shell_and_without_the_users_prefix(
    repo: Path, hook: Recorder, anthropic: AnthropicServer
) -> None:
    anthropic.scripts["main"] = [write(repo / "new.txt", "new\n"), "Done."]
    first, *more = shlex.split(hook.command)
    settings = hooks_for(first, ["PreToolUse"])
    settings["hooks"]["PreToolUse"][0]["hooks"][0]["args"] = more
    env = {"CLAUDE_CODE_SHELL_PREFIX": "/gone/prefix"}
    run_claude(repo, "[[main]]", anthropic, settings=settings, env=env)
    [told] = hook.told("PreToolUse")
    assert "claude" in str(told["ancestors"][0]["command"][0])


@pytest.mark.parametrize("more", [{"onFailure": "block"}, {"args": ["-c", "exit 2"]}])
def test_codex_knows_neither_exec_form_nor_what_a_failure_does(
    repo: Path, openai: OpenAIServer, more: dict[str, Any]
) -> None:
    openai.scripts["main"] = [patch(ADD), "Done."]
    hooks = hooks_for("/bin/false", ["PreToolUse"])
    hooks["hooks"]["PreToolUse"][0]["hooks"][0].update(more)
    run_codex(repo, "[[main]]", openai, hooks=hooks)
    assert (repo / "new.txt").exists()


def test_codex_lets_an_edit_pass_whose_hook_is_late_whatever_its_line_says(
    repo: Path, openai: OpenAIServer
) -> None:
    openai.scripts["main"] = [patch(ADD), "Done."]
    line = "sleep 20 || /bin/sh -c 'echo no >&2; exit 2'"
    run_codex(repo, "[[main]]", openai, hooks=hooks_for(line, ["PreToolUse"], timeout=1))
    assert (repo / "new.txt").exists()


# The gate


class Removable:
    """An installation of Holdfast that a test can remove, and its gate in a repository."""

    def __init__(self, gated: Gated, folder: Path) -> None:
        self.site, self.python = folder / "site", folder / "venv/bin/python"
        self.package = copied(
            self.site, Path(exec_form_check.__file__).parents[1].joinpath("hook.py").read_text()
        )
        self.python.parent.mkdir(parents=True)
        self.python.symlink_to(os.path.realpath(sys.executable))
        lines = [f"{name} = {str(value).lower()}" for name, value in AT_ONCE.items()]
        gated.root.joinpath("holdfast.toml").write_text("\n".join(["[gate]", *lines, ""]))
        words = [str(self.python), "-m", "holdfast", "init", "--yes", "--client", "claude,codex"]
        env = environment() | {"PYTHONPATH": str(self.site)}
        subprocess.run(words, cwd=gated.root, env=env, check=True, capture_output=True)

    def remove_python(self) -> None:
        self.python.unlink()

    def remove_package(self) -> None:
        """Leave the state of a virtual environment that was created anew."""
        shutil.rmtree(self.package)

    def kill_hooks(self) -> None:
        script = self.package / "gate/hook.py"
        script.write_text("import os\nos.kill(os.getpid(), 9)\n")


@pytest.mark.parametrize("what", ["remove_python", "remove_package", "kill_hooks"])
def test_without_its_hook_an_edit_is_refused_with_what_to_do_and_prompts_and_stops_pass(
    crew: Crew, gated: Gated, tmp_path: Path, what: str
) -> None:
    holdfast = Removable(gated, tmp_path)
    getattr(holdfast, what)()
    ann = crew.run("ann", crew.edit("a.txt", "old", "new"), "Done.")
    assert gated.text() == "old\n"
    [told] = ann.results
    assert "runs holdfast init here" in told
    assert len(crew.server.asked("ann")) == 2, "the prompt arrived, and the stop took effect"


def test_before_that_it_edits(crew: Crew, gated: Gated, tmp_path: Path) -> None:
    Removable(gated, tmp_path)
    crew.run("ann", crew.edit("a.txt", "old", "new"), "Done.")
    assert gated.text() == "new\n"


def test_the_client_of_these_tests_obeys_the_form_of_our_hooks(
    anthropic: AnthropicServer,
) -> None:
    path = f"{program('claude').parent}{os.pathsep}{os.environ['PATH']}"
    obeyed = exec_form_check.tried({"PATH": path})
    assert obeyed is not None
    assert (obeyed.exec_form, obeyed.blocks, obeyed.why, obeyed.problem) == (True, True, "", "")
