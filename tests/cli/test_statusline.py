"""statusline: one line on a session, or an empty one; never an error, never slow."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from helpers_cli import Answer, Repository, Terminal
from helpers_hook import InProcesses

SESSION = "5b2c0f6e-9d1a-4c1e-8a51-0c6f0d6a77ab"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


def asked(repo: Repository, told: str, *words: str, cwd: Path | None = None) -> Answer:
    """What it prints for a session; it never fails and never complains."""
    with repo.start("statusline", *words, stdin=subprocess.PIPE, cwd=cwd) as process:
        out, err = process.communicate(told, timeout=60)
    assert (process.returncode, err) == (0, "")
    return Answer(0, out, err)


def session(repo: Repository) -> str:
    place = {"current_dir": str(repo.root), "project_dir": str(repo.root)}
    return json.dumps({"session_id": SESSION, "cwd": str(repo.root), "workspace": place})


def test_a_session_sees_what_its_hooks_have_leased(repo: Repository) -> None:
    agent = InProcesses(repo.root, SESSION)
    try:
        (repo.root / ".holdfast").mkdir()
        assert agent.edit("app/x.rb") == ""
        assert asked(repo, session(repo)).out == "holdfast: 1 file held\n"
        found = asked(repo, session(repo), "--json").json
        assert (found["held"], found["session"]) == (["app/x.rb"], SESSION)
    finally:
        agent.close()
    assert asked(repo, session(repo)).out == "holdfast: nothing held\n"


@pytest.mark.parametrize("told", ["", "{", "[]", '{"session_id": "a"}', "\0"])
def test_broken_input_is_an_empty_line_and_no_error(repo: Repository, told: str) -> None:
    assert asked(repo, told).out == "\n"
    assert asked(repo, told, "--json").out == "null\n"


def test_without_a_repository_it_is_an_empty_line(repo: Repository, tmp_path: Path) -> None:
    told = json.dumps({"session_id": SESSION, "cwd": str(tmp_path)})
    assert asked(repo, told, cwd=tmp_path).out == "\n"
    assert not (tmp_path / ".holdfast").exists()


def test_a_person_who_tries_it_at_a_terminal_does_not_wait(repo: Repository) -> None:
    terminal = Terminal(repo)
    try:
        began = time.monotonic()
        assert terminal.hold("statusline").code == 0
        assert time.monotonic() - began < 30
    finally:
        terminal.close()
