"""What the documents show is what happens: each command that they show is typed, and what it prints
is compared with what they show."""

from __future__ import annotations

import getpass
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers_broker import NEEDS_BROKER
from helpers_cli import COMMAND, Repository, Terminal, environment
from helpers_doctor import Clinic
from helpers_guides import (
    PAGES,
    ROOT,
    Reader,
    Shown,
    alike,
    is_shown,
    named_commands,
    transcripts,
    words_of,
)
from helpers_jvs import Jvs
from helpers_processes import until
from helpers_sandbox import NEEDS_LANDLOCK
from holdfast.cli.commands import FAMILIES, GLOBALS, Command, everything

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="types into a terminal")

#: Pages whose commands other tests type, since they need agents, git or a dispatcher around them.
ELSEWHERE = {
    "docs/tasks.md": "tests/tasks/test_task_guide.py",
    "docs/dispatch.md": "tests/work/test_dispatch_guide.py",
    "docs/shell.md": "tests/commands/test_shell_guide.py",
    "docs/many-machines.md": "tests/guides/test_many_machines.py",
}


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal in a repository, with `holdfast` on its path, of a user with a home."""
    bin, home = tmp_path / "bin", tmp_path / "home"
    bin.mkdir()
    home.mkdir()
    (bin / "holdfast").write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    (bin / "holdfast").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(home))
    made = Terminal(Repository(tmp_path / "project"), USER="ann", LOGNAME="ann")
    yield made
    made.close()


def follow(reader: Reader, shown: list[Shown], **before: Callable[[], object]) -> None:
    """Do all that is shown; before a command of the given number comes what is needed for it."""
    for number, one in enumerate(shown):
        before.pop(f"before_{number}", lambda: None)()
        reader.follow(one)
    assert not before, "the page has fewer commands"


# Page by page


@NEEDS_BROKER
def test_the_readme(terminal: Terminal) -> None:
    follow(Reader(terminal), transcripts("README.md"))


def test_the_command_line(terminal: Terminal) -> None:
    follow(Reader(terminal), transcripts("docs/commands.md"))


def test_guarding_a_repository(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "home/.claude").mkdir()
    hooks, reader = tmp_path / "project/.claude/settings.local.json", Reader(terminal)
    dry_run, init, check, undo, init_again, snippet = transcripts("docs/init.md")
    reader.follow(dry_run)
    assert not hooks.exists()
    reader.follow(init, says="y\n")
    assert hooks.exists()
    reader.follow(check)
    reader.follow(undo, says="y\n")
    assert not hooks.exists()
    reader.follow(init_again, says="y\n")
    reader.follow(snippet)


@NEEDS_LANDLOCK
def test_the_sandbox(terminal: Terminal, tmp_path: Path) -> None:
    follow(Reader(terminal), transcripts("docs/sandbox.md"))
    assert (tmp_path / "project/app/x.rb").read_text() == "new\n"
    assert (tmp_path / "project/app/y.rb").read_text() == "old\n"


def test_specs(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "project/.kiro/specs/payments").mkdir(parents=True)
    terminal.do("git config user.name Ann")
    names = [(socket.gethostname(), "desk"), (f"({getpass.getuser()})", "(ann)")]
    follow(Reader(terminal, names), transcripts("docs/specs.md"))


def test_proofs(terminal: Terminal, tmp_path: Path) -> None:
    follow(
        Reader(terminal, [(tmp_path / "project", "/home/alice/work")]),
        transcripts("docs/proofs.md"),
    )


ANOTHER_PROCESSOR = """
import os
real = os.uname()
os.uname = lambda: os.uname_result((*real[:4], "aarch64"))
"""


@NEEDS_BROKER
def test_leases_at_the_write(terminal: Terminal, tmp_path: Path) -> None:
    *shown, elsewhere = transcripts("docs/leases-at-the-write.md")
    root, reader = tmp_path / "project", Reader(terminal)
    processes = []

    def one_writes() -> None:
        script = "echo one >app/z.rb; sleep 100"
        words = [*COMMAND, "run", "--lease", "--holder", "one", "--", "sh", "-c", script]
        processes.append(subprocess.Popen(words, cwd=root, env=environment()))
        until((root / "app/z.rb").exists, "the other command has written")

    def one_ends() -> None:
        for process in processes:
            process.terminate()
            process.wait(60)

    follow(reader, shown, before_5=one_writes, before_6=one_ends)
    (tmp_path / "sitecustomize.py").write_text(ANOTHER_PROCESSOR)
    command = f"PYTHONPATH={tmp_path} {elsewhere.command}"
    reader.follow(elsewhere._replace(command=command))


@NEEDS_BROKER
@NEEDS_LANDLOCK
def test_the_doctor(tmp_path: Path) -> None:
    clinic = Clinic(tmp_path)
    clinic.set(clinic.claude, lambda settings: settings["hooks"].pop("PreToolUse"))
    terminal = Terminal(clinic.repository, **clinic.env)
    try:
        terminal.do(f'holdfast() {{ {" ".join(COMMAND)} "$@"; }}')
        follow(Reader(terminal), transcripts("docs/doctor.md"))
    finally:
        terminal.close()


def test_trees(terminal: Terminal, tmp_path: Path) -> None:
    home, main = tmp_path / "home", tmp_path / "home/project/main"
    (home / "work/app").mkdir(parents=True)
    (home / "work/app/main.c").write_text("x" * 4300)
    for number in range(11):
        (home / f"work/data-{number}").write_text("x" * 100_000)
    terminal.do("cd ~")

    def changes() -> None:
        (main / "app/main.c").write_text("y" * 4100)
        (main / "notes.txt").write_text("y" * 210)

    def tries() -> None:
        """A worktree is tried, and given up."""
        for line in (
            "holdfast tree create try-3 --from v1.4; cd ../worktrees/try-3",
            "holdfast tree lock acquire && holdfast tree snapshot 'before the rewrite'",
            "cd ../../main && holdfast tree remove try-3 --force",
            "holdfast tree gc settings keep_last=0 keep_days=0",
        ):
            answer = terminal.do(line)
            assert answer.code == 0, answer

    def old() -> None:
        jvs = Jvs(home / "old/project")
        for number in range(3):
            jvs.write("a.txt", f"{number}\n")
            jvs.take(f"number {number}")

    shown = transcripts("docs/trees.md")
    follow(
        Reader(terminal, [(home, "/home/alice")]), shown,
        before_7=changes, before_12=tries, before_14=old,
    )  # fmt: skip


# All of them


def test_every_page_with_commands_is_followed_by_a_test() -> None:
    here = set(re.findall(r"transcripts\(\"(.*?)\"\)", Path(__file__).read_text()))
    pages = {str(page.relative_to(ROOT)) for page in PAGES}
    shown = {page for page in pages if transcripts(page)}
    assert shown == here | {page for page in ELSEWHERE if page in shown}
    for page, test in ELSEWHERE.items():
        text = (ROOT / test).read_text()
        assert page in text, f"{test} follows {page}"


#: What stands in a page in place of words.
_PLACEHOLDER = re.compile(r"…|[A-Z]+|\[.*")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_names_exists_with_its_options(page: Path) -> None:
    for line, text in named_commands(str(page.relative_to(ROOT))):
        words = words_of(text)
        found = _command(words)
        assert found is not None, f"{page.name}:{line}: there is no {text}"
        if isinstance(found, Command):
            known = {option.name for option in (*found.options, *GLOBALS)}
            given = words[: words.index("--")] if "--" in words else words
            for word in given:
                if word.startswith("--"):
                    name = word[2:].partition("=")[0]
                    assert name in known, f"{page.name}:{line}: {found.name} has no {word}"


def _command(words: list[str]) -> object:
    """The command or the family that some words name; None if there is none."""
    if _PLACEHOLDER.match(words[0]) or words[0].removeprefix("--") in ("help", "version", "-V"):
        return words
    names = {command.name: command for command in everything()}
    for count in (3, 2, 1):
        if " ".join(words[:count]) in names:
            return names[" ".join(words[:count])]
    if words[0] in ("ps", "help") or (
        len(words) < 3 and words[0] in {one.name for one in FAMILIES}
    ):
        return words
    return None


def test_what_makes_texts_alike_keeps_what_matters() -> None:
    assert alike("held by ann@pts/1:7 for 3 s") == alike("held by bob@x:99 for 12 min")
    assert alike("app/x.rb") != alike("app/y.rb")
    assert is_shown("a\nb\nc\nd\n", "a\n…\nd\n")
    assert is_shown("a long line\n", "a …\n")
    assert not is_shown("a\nb\nd\n", "a\nd\n")
