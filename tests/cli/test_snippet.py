"""snippet: a paragraph for agents' instructions in which every command is real."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from helpers_cli import Repository
from holdfast.cli.commands import everything
from holdfast.gate.install.agent_snippet import SNIPPET

COMMANDS = re.findall(r"`holdfast ([^`]+)`", SNIPPET)
#: What the words in capitals stand for.
MEANT = {"PATH": "app/x.rb", "COMMAND": "true"}


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


def test_it_prints_the_paragraph(repo: Repository) -> None:
    answer = repo.hold("snippet")
    assert (answer.code, answer.out, answer.err) == (0, SNIPPET, "")
    assert repo.hold("snippet", "--json").json == {"text": SNIPPET}
    assert not (repo.root / ".holdfast").exists()


def test_it_can_be_appended_to_a_file_of_instructions(repo: Repository) -> None:
    file = repo.root / "AGENTS.md"
    file.write_text("# Instructions\n\n")
    with file.open("a") as stream:
        assert repo.start("snippet", stdout=stream, stderr=subprocess.DEVNULL).wait(60) == 0
    assert file.read_text() == f"# Instructions\n\n{SNIPPET}"


def test_it_names_the_commands_that_an_agent_needs() -> None:
    named = {command.split()[0] for command in COMMANDS}
    assert named == {"run", "status", "check"}
    assert named <= {command.name for command in everything()}
    for promise in ("Do not work around", "one retry", "--no-verify", "tell your user"):
        assert promise in SNIPPET


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_in_it_runs(repo: Repository, command: str) -> None:
    answer = repo.hold(*(MEANT.get(word, word) for word in shlex.split(command)))
    assert answer.code == 0, answer


def test_its_lines_fit_a_screen() -> None:
    assert max(map(len, SNIPPET.splitlines())) <= 100
    assert len(SNIPPET) < 1500
