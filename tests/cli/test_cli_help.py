"""Help: the commands in groups, two examples of each, and a hint for a line that is wrong."""

from __future__ import annotations

import fcntl
import json
import shlex
import struct
import sys
import termios
from pathlib import Path

import pytest

import holdfast
from helpers_broker import NEEDS_BROKER
from helpers_cli import COMMAND, Answer, QuickRepository, Repository, Terminal
from holdfast.cli.commands import (
    COMMANDS,
    EVERY_DAY,
    FAMILIES,
    GLOBALS,
    GROUPS,
    Command,
    everything,
)
from holdfast.cli.help import FAMILIES_TITLE
from holdfast.cli.parser import parse

EXAMPLES = [line for command in everything() for line in command.examples]


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return QuickRepository(tmp_path / "repo")


def holdfast_words(line: str) -> list[list[str]]:
    """The words of each `holdfast` in a line of the shell, up to a redirection or a bracket."""
    found: list[list[str]] = []
    for word in shlex.split(line.replace("<(", "<( ").replace(")", " )")):
        if word == "holdfast" and (not found or found[-1][-1:] == [";"]):
            found.append([])
        elif found and found[-1][-1:] != [";"]:
            found[-1].append(";" if word in ("<", ">", ">>", "|", "&&", ")") else word)
    return [[word for word in words if word != ";"] for words in found]


# Examples


@pytest.mark.parametrize("command", everything(), ids=lambda command: command.name)
def test_each_command_has_two_examples_of_itself(command: Command) -> None:
    assert len(set(command.examples)) == 2
    for line in command.examples:
        first = holdfast_words(line)[0]
        assert command.name in (parse(first).command.name, *first[:1])


@pytest.mark.parametrize("line", EXAMPLES)
def test_each_example_fits_a_terminal_and_names_only_options_that_exist(line: str) -> None:
    assert len(line) <= 78
    assert holdfast_words(line)
    for words in holdfast_words(line):
        parse(words)  # raises UsageError


@pytest.mark.parametrize("command", everything(), ids=lambda command: command.name)
def test_the_help_of_a_command_shows_its_options_and_examples(
    repo: Repository, command: Command
) -> None:
    told = repo.hold(*command.name.split(), "--help")
    assert told.code == 0
    assert told.out == repo.hold("help", *command.name.split()).out
    for option in (*command.options, *GLOBALS):
        assert f"  {option.spelled}  " in told.out
    for line in command.examples:
        assert f"\n  {line}\n" in told.out


# Running the examples of every day


@pytest.fixture
def everyday(tmp_path: Path) -> Repository:
    """A repository with what the examples name, and small programs under the names of others."""
    repo = Repository(tmp_path / "repo")
    for file in ("db/schema.rb", "tasks.toml", "TODO.md"):
        (repo.root / file).parent.mkdir(exist_ok=True)
        (repo.root / file).write_text("")
    (repo.root / "tasks.toml").write_text(
        f'command = ["{sys.executable}", "-c", "", "{{prompt}}"]\n'
        '[[task]]\nname = "docs"\nprompt = "write the docs"\nwrites = ["README.md"]\n'
    )
    (repo.root / "holdfast.toml").write_text(
        f'[work.agent]\ncommand = ["{sys.executable}", "-c", "", "{{prompt}}"]\n'
    )
    return repo


@NEEDS_BROKER
def test_the_everyday_examples_work_one_after_the_other(everyday: Repository) -> None:
    programs = everyday.root.parent / "bin"
    programs.mkdir()
    for name, does in {
        "holdfast": f'exec {shlex.join(COMMAND)} "$@"',
        "rake": "echo migrated >> db/schema.rb",
        "make": "echo tested > made.txt",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    home = everyday.root.parent / "home"
    home.mkdir()
    path = f"{programs}:/usr/bin:/bin"  # no agent's client, whatever is installed here
    terminal = Terminal(everyday, PATH=path, HOME=str(home), PYTHONSAFEPATH="1")
    try:
        for command in COMMANDS:
            for line in command.examples if command.group == EVERY_DAY else ():
                answer = terminal.do(line)
                assert answer.code == 0, (line, answer)
    finally:
        terminal.close()


# The whole help


def test_help_lists_every_command_under_its_heading_the_everyday_ones_first(
    repo: Repository,
) -> None:
    told = repo.hold("--help").out
    assert told == repo.hold("help").out == repo.hold("-h").out
    places = [told.index(f"\n{title}:\n") for title in (*GROUPS, FAMILIES_TITLE)]
    assert places == sorted(places)
    assert sum(command.group == EVERY_DAY for command in COMMANDS) == 10
    for command in COMMANDS:
        part = told[places[GROUPS.index(command.group)] :].split("\n\n")[0]
        assert f"\n  {command.name}" in part
    for family in FAMILIES:
        assert f"\n  {family.name} " in told[places[-1] :]


@pytest.mark.parametrize("columns", [30, 46, 60, 80, 100])
@pytest.mark.parametrize("words", ["--help", "help run", "help dispatch", "help tree"])
def test_help_is_as_wide_as_the_terminal(repo: Repository, words: str, columns: int) -> None:
    told = repo.hold(*words.split(), env={"COLUMNS": str(columns)}).out
    lines = told.partition("\nexamples:\n")[0].splitlines()
    wide = [line for line in lines if len(line) > columns]
    assert all(" " not in line.strip() or "[" in line for line in wide), wide
    assert "".join(told.split()) == "".join(repo.hold(*words.split()).out.split())
    assert max(map(len, lines)) > columns - 20, "the room is used"


def test_help_on_a_terminal_follows_its_width(repo: Repository) -> None:
    terminal = Terminal(repo)
    try:
        fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
        terminal.type(f"clear; {shlex.join(COMMAND)} help lock\n")
        terminal.shows("examples:")
    finally:
        terminal.close()
    shown = terminal.screen.decode().rpartition("usage: ")[2].partition("examples:")[0]
    assert max(len(line) for line in shown.splitlines()) <= 50
    assert "[--ttl TIME]" in shown


@pytest.mark.parametrize("words", ["-V", "--version", "lock -V", "-V lock", "version"])
def test_the_version_is_printed_as_people_ask_for_it(repo: Repository, words: str) -> None:
    answer = repo.hold(*words.split())
    if words == "version":
        assert "did you mean --version?" in answer.err
    else:
        assert (answer.code, answer.out) == (0, f"holdfast {holdfast.__version__}\n")


def test_ps_is_status(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    assert "app/x.rb" in repo.hold("ps").out
    assert repo.hold("ps", "--json").json["grants"] == repo.hold("status", "--json").json["grants"]
    assert "holdfast ps" in repo.hold("help", "ps").out


@pytest.mark.parametrize(
    "words",
    [
        "help spec lock",
        "spec help lock",
        "spec lock --help",
        "help spec lock --json",
        "-h spec lock",
    ],
)
def test_help_finds_a_command_of_a_family_in_each_spelling(repo: Repository, words: str) -> None:
    assert "usage: holdfast spec lock NAME" in repo.hold(*words.split()).out


@pytest.mark.parametrize("words", ["help tree", "tree help", "tree --help", "tree lock help"])
def test_help_for_a_family_lists_its_commands(repo: Repository, words: str) -> None:
    told = repo.hold(*words.split()).out
    assert "usage: holdfast tree COMMAND" in told
    assert "\n  tree gc plan " in told


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("statsu", "did you mean status?"),
        ("psx", "did you mean ps?"),
        ("release app/x.rb", "did you mean unlock?"),
        ("releas app/x.rb", "did you mean unlock?"),
        ("LOCK app/x.rb", "did you mean lock?"),
        ("exec make", "did you mean run?"),
        ("uninstall", "did you mean init --undo?"),
        ("help dispach", "did you mean dispatch?"),
        ("tree verfy", "did you mean tree verify?"),
        ("spec qqqq", "holdfast help spec lists its commands"),
        ("qqqq", "holdfast help lists the commands"),
        ("lock x --raeson=y", "did you mean --reason?"),
        ("log --folow", "did you mean --follow?"),
        ("lock -x", "write ./-x or put -- before it if it is a path"),
    ],
)
def test_an_unknown_word_gets_the_nearest_known_one(repo: Repository, line: str, hint: str) -> None:
    answer = repo.hold(*line.split())
    assert answer.code == 2
    assert answer.err.splitlines()[1].endswith(hint)


# The last events, and the newest first


def seqs(answer: Answer) -> list[int]:
    """The numbers of the events that a log shows."""
    assert answer.code == 0
    return [int(line.split()[0]) for line in answer.out.splitlines()]


def test_log_shows_the_last_events_or_the_newest_first(repo: Repository) -> None:
    for name in ("one", "two", "three"):
        repo.hold("lock", name, "--holder", "bob")
    repo.hold("unlock", "one", "--holder", "bob")
    every = seqs(repo.hold("log"))
    assert len(every) == 4
    assert seqs(repo.hold("log", "-n", "2")) == every[-2:]
    assert seqs(repo.hold("log", "-n3", "--reverse")) == every[:0:-1]
    assert seqs(repo.hold("log", "-r")) == every[::-1]
    assert seqs(repo.hold("log", "-n", "9", "--since", every[1])) == every[2:]
    assert repo.hold("log", "-n", "0").out == ""
    assert "released one" in repo.hold("log", "-n1").out, "as in the whole log"
    found = [
        json.loads(one)["seq"] for one in repo.hold("log", "-r", "-n2", "--json").out.splitlines()
    ]
    assert found == every[:-3:-1]


def test_log_does_not_follow_in_reverse(repo: Repository) -> None:
    answer = repo.hold("log", "--follow", "--reverse")
    assert answer.code == 2
    assert "--reverse" in answer.err


def test_log_follows_after_the_last_events(repo: Repository) -> None:
    for name in ("one", "two"):
        repo.hold("lock", name, "--holder", "bob")
    with repo.start("log", "-n", "1", "--follow") as process:
        assert process.stdout is not None
        assert "locked two" in process.stdout.readline()
        repo.hold("lock", "three", "--holder", "bob")
        assert "locked three" in process.stdout.readline()
        process.kill()
