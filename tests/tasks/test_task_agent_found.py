"""Which client is found for tasks, and how it is called."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from holdfast.core.root_errors import SettingsError
from holdfast.work.screens.layout import AgentSettings, Layout
from holdfast.work.tasks.task_agent import (
    AgentMissingError,
    PromptTooLongError,
    agent_of,
    find_agent,
)


def programs(folder: Path, *names: str) -> dict[str, str]:
    """An environment in which these programs are found, and no others."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder), "HOME": "/home/tess"}


def settings(root: Path, text: str) -> None:
    (root / "holdfast.toml").write_text(text)


def test_claude_code_is_taken_before_codex(tmp_path: Path) -> None:
    found = find_agent(str(tmp_path), programs(tmp_path / "bin", "claude", "codex"))
    assert (found.name, found.program) == ("Claude Code", str(tmp_path / "bin/claude"))
    assert (found.stdin, found.writes, found.environment) == (True, (), {})


def test_codex_needs_one_file_of_its_home(tmp_path: Path) -> None:
    environ = programs(tmp_path / "bin", "codex")
    found = find_agent(str(tmp_path), environ)
    assert (found.name, found.stdin) == ("Codex", True)
    assert found.writes == ("/home/tess/.codex/installation_id",)
    moved = find_agent(str(tmp_path), {**environ, "CODEX_HOME": "/elsewhere"})
    assert moved.writes == ("/elsewhere/installation_id",)


def test_without_any_client_the_error_names_those_that_were_looked_for(tmp_path: Path) -> None:
    with pytest.raises(AgentMissingError, match="neither claude nor codex") as caught:
        find_agent(str(tmp_path), programs(tmp_path / "bin"))
    assert caught.value.code == "E_NO_AGENT"
    assert caught.value.fields["looked_for"] == ["claude", "codex"]
    assert "[work.agent] of holdfast.toml" in caught.value.hint


def test_the_settings_come_first(tmp_path: Path) -> None:
    settings(
        tmp_path,
        '[work.agent]\ncommand = ["mine", "{name}", "{prompt}"]\ntimeout_seconds = 5\n'
        'environment = { MODEL = "large" }\n',
    )
    found = find_agent(str(tmp_path), programs(tmp_path / "bin", "claude", "mine"))
    assert (found.name, found.stdin, found.timeout_seconds) == ("mine", False, 5)
    assert found.environment == {"MODEL": "large"}
    assert found.words("n", "-p {name}") == [str(tmp_path / "bin/mine"), "n", "-p {name}"]


def test_a_program_of_the_settings_that_is_missing_is_named(tmp_path: Path) -> None:
    settings(tmp_path, '[work.agent]\ncommand = ["mine", "{prompt}"]\n')
    with pytest.raises(AgentMissingError, match="no program 'mine'"):
        find_agent(str(tmp_path), programs(tmp_path / "bin", "claude"))


def test_a_program_with_a_slash_starts_at_the_root(tmp_path: Path) -> None:
    programs(tmp_path / "bin", "mine")
    found = agent_of(["bin/mine", "{prompt}"], str(tmp_path), {"PATH": ""})
    assert found.program == str(tmp_path / "bin/mine")


def test_a_file_that_cannot_be_executed_is_not_a_program(tmp_path: Path) -> None:
    environ = programs(tmp_path / "bin", "claude")
    (tmp_path / "bin/claude").chmod(0o644)
    with pytest.raises(AgentMissingError):
        find_agent(str(tmp_path), environ)


def test_a_prompt_longer_than_a_word_goes_to_standard_input_only(tmp_path: Path) -> None:
    environ = programs(tmp_path / "bin", "claude", "mine")
    long = "é" * 100_000
    assert long not in find_agent(str(tmp_path), environ).words("n", long)
    with pytest.raises(PromptTooLongError, match="131071"):
        agent_of(["mine", "{prompt}"], str(tmp_path), environ).words("n", long)


def test_the_call_is_shown_as_one_line_that_a_shell_would_split_alike(tmp_path: Path) -> None:
    environ = programs(tmp_path / "bin", "claude", "mine")
    shown = find_agent(str(tmp_path), environ).shown("it's")
    assert shown.startswith("claude -p --permission-mode acceptEdits --allowedTools Bash <")
    assert shlex.split(shown)[-1] == "<prompt of it's"
    mine = agent_of(["mine", "--x={name}", "{prompt}"], str(tmp_path), environ)
    assert shlex.split(mine.shown("a b")) == ["mine", "--x=a b", "prompt of a b"]


@pytest.mark.parametrize(
    ("lines", "line", "told"),
    [
        (['command = ["mine"]'], 2, "the prompt is not used"),
        (["stdin = true"], 1, "work.agent has no command"),
        (['command = ["mine", "{promt}", "{prompt}"]'], 2, "did you mean {prompt}?"),
        (['command = ["{prompt}"]'], 2, "is not a program"),
        (['command = ["mine"]', "stdin = 1"], 3, "work.agent.stdin cannot be 1"),
        (['command = ["m", "{prompt}"]', "timeout_seconds = 0"], 3, "timeout_seconds cannot be 0"),
        (['command = ["m", "{prompt}"]', "environment = { A = 1 }"], 3, "environment cannot be"),
        (['command = ["m", "{prompt}"]', "promt = 1"], 3, "there is no 'promt' in [work.agent]"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_with_their_line(
    lines: list[str], line: int, told: str
) -> None:
    text = "\n".join(["[work.agent]", *lines, ""])
    with pytest.raises(SettingsError) as caught:
        Layout.of("/r/holdfast.toml", text, {})
    assert told in caught.value.message
    assert f"line {line}: " in caught.value.message


def test_a_command_with_standard_input_needs_no_gap() -> None:
    text = '[work.agent]\ncommand = ["mine"]\nstdin = true\n'
    assert Layout.of("/r/holdfast.toml", text, {}).agent == AgentSettings(("mine",), stdin=True)
    assert Layout.of("/r/holdfast.toml", "", {}).agent is None
