"""Commands that the documents list without their output work as they stand."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_broker import NEEDS_BROKER
from helpers_cli import Repository, Terminal
from helpers_guides import PAGES, ROOT, blocks, listed_commands

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="types into a terminal"),
    NEEDS_BROKER,
]

#: A diagram begins with this one, and explains it.
DIAGRAMS = ("docs/ARCHITECTURE.md",)
#: They go on until they are interrupted.
LASTING = re.compile(r"^holdfast (serve|top)\b|--serve\b")
#: Programs that the documents only mention.
PROGRAMS = {
    "make": 'echo "made $*"',
    "rake": 'echo "raked $*"',
    "claude": "cat >/dev/null; echo done > done-$$.txt",
}
LISTED = [
    (page, command)
    for page in (str(each.relative_to(ROOT)) for each in PAGES)
    if page not in DIAGRAMS
    for command in listed_commands(page)
]


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    bin, home = tmp_path / "bin", tmp_path / "home"
    for folder in (bin, home / ".zfunc", home / ".config/fish/completions"):
        folder.mkdir(parents=True)
    programs = {"holdfast": f'exec {sys.executable} -m holdfast "$@"', **PROGRAMS}
    for name, line in programs.items():
        (bin / name).write_text(f"#!/bin/sh\n{line}\n")
        (bin / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(home))
    repository = Repository(tmp_path / "project")
    (repository.root / "db").mkdir()
    (repository.root / "db/schema.rb").write_text("old\n")
    (repository.root / "new.rb").write_text("new\n")
    (repository.root / "TODO.md").write_text(blocks("docs/tasks.md", "markdown")[0])
    made = Terminal(repository)
    for line in (
        "git config user.name Ann; git config user.email ann@example.org",
        "git add -A; git commit -q -m 'the first'",
    ):
        assert made.do(line).code == 0
    (repository.root / "tasks.toml").write_text('[[task]]\nname = "one"\nprompt = "do it"\n')
    yield made
    made.close()


@pytest.mark.parametrize(("page", "command"), LISTED)
def test_a_listed_command_works(terminal: Terminal, page: str, command: str) -> None:
    if command.startswith("holdfast tree"):
        assert terminal.do("holdfast tree init ../trees && cd ../trees/main").code == 0
    if "--grant" in command:
        locked = terminal.do("holdfast lock app/x.rb --json").json
        command = re.sub(r"[0-9a-f]{8}-…", locked["grant"]["id"], command)
    lasts = LASTING.search(command) is not None
    answer = terminal.do(f"timeout -s INT 4 {command}" if lasts else command)
    assert answer.code in ((0, 124, 130) if lasts else (0,)), answer


def test_there_are_listed_commands() -> None:
    assert len(LISTED) >= 14
