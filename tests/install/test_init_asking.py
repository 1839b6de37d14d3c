"""`init` with and without a terminal: its messages, its questions, and its refusals."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from helpers_cli import COMMAND, Terminal
from helpers_init import BOTH, Installation, Site, git, tree
from holdfast.gate.install.hook_command import cache_around

QUESTION = "Write this? [y/N]"


@pytest.fixture
def here(tmp_path: Path, stub_site: Site) -> Installation:
    return Installation(tmp_path, stub_site)


def typed(here: Installation, line: str, answer: str) -> str:
    """The screen's content after a person has answered."""
    terminal = Terminal(here.repository, **here.env)
    try:
        terminal.type(f"{line}; echo ended''-$?\n")
        terminal.shows(QUESTION)
        terminal.type(f"{answer}\n")
        terminal.shows("ended-", "it ends")
        return terminal.read().decode()
    finally:
        terminal.close()


INIT = " ".join([*COMMAND, "init", *BOTH])


def test_a_person_is_asked_before_anything_is_written(here: Installation) -> None:
    before = tree(here.root)
    screen = typed(here, INIT, "n")
    assert "would write .claude/settings.local.json" in screen
    assert "@@" not in screen, "only --diff shows the diff"
    assert "nothing was written" in screen
    assert "ended-1" in screen
    assert tree(here.root) == before
    assert not (here.root / ".holdfast").exists()


@pytest.mark.parametrize("answer", ["y", "yes", "Y"])
def test_a_person_who_says_yes_gets_the_hooks(here: Installation, answer: str) -> None:
    screen = typed(here, INIT, answer)
    assert "wrote .claude/settings.local.json" in screen
    assert "ended-0" in screen
    assert here.hold("init", "--check").code == 0


@pytest.mark.parametrize("answer", ["", "no", "yep", "\x04"])
def test_anything_but_yes_is_no(here: Installation, answer: str) -> None:
    assert "ended-1" in typed(here, INIT, answer)
    assert not here.claude.exists()


def test_with_the_diff_a_person_sees_every_line_before(here: Installation) -> None:
    screen = typed(here, f"{INIT} --diff", "n")
    assert screen.index("+++ b/.claude/settings.local.json") < screen.index(QUESTION)


@pytest.mark.parametrize("option", ["--yes", "--json", "--dry-run"])
def test_a_person_who_has_said_so_is_not_asked(here: Installation, option: str) -> None:
    terminal = Terminal(here.repository, **here.env)
    try:
        terminal.type(f"{INIT} {option}; echo ended''-$?\n")
        terminal.shows("ended-0", "it ends")
        assert QUESTION.encode() not in terminal.read()
    finally:
        terminal.close()
    assert here.claude.exists() is (option != "--dry-run")


def test_nobody_is_asked_when_there_is_nothing_to_write(here: Installation) -> None:
    here.init(*BOTH)
    terminal = Terminal(here.repository, **here.env)
    try:
        terminal.type(f"{INIT}; echo ended''-$?\n")
        terminal.shows("ended-0", "it ends")
    finally:
        terminal.close()


def test_without_a_terminal_it_writes_as_scripts_expect(here: Installation) -> None:
    answer = here.init(*BOTH)
    assert "wrote .claude/settings.local.json" in answer.out
    assert "@@" not in answer.out
    assert QUESTION not in answer.err


def test_the_summary_is_short_and_the_diff_is_there_if_wanted(here: Installation) -> None:
    short = here.init("--client", "claude", "--git", "--dry-run")
    assert len(short.out.splitlines()) <= 4, short.out
    assert "pre-commit" in short.out
    whole = here.init("--client", "claude", "--git", "--dry-run", "--diff")
    assert "+++ b/.claude/settings.local.json" in whole.out
    summary = short.out.rpartition("pre-commit")[0]
    assert summary in whole.out
    assert whole.out.index(summary) > whole.out.index("@@")


# Refusals


def test_a_bare_repository_is_refused_with_the_way_to_a_worktree(
    here: Installation, tmp_path: Path
) -> None:
    (here.root / "a.txt").write_text("a\n")
    git(here, "add", ".")
    git(here, "commit", "-qm", "first")
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "clone", "-q", "--bare", here.root, bare], check=True)
    answer = here.hold("-C", bare, "init", *BOTH)
    assert answer.code == 2
    assert f"{bare} is a bare repository" in answer.err
    assert "git worktree add" in answer.err
    assert not (bare / ".claude").exists()
    assert not (bare / ".holdfast").exists()
    work = tmp_path / "work"
    subprocess.run(["git", "-C", bare, "worktree", "add", "-q", work], check=True)
    answer = here.hold("-C", bare / "refs", "init", *BOTH)
    assert answer.code == 2
    assert f"holdfast -C {work} init" in answer.err
    assert here.hold("-C", work, "init", *BOTH).code == 0
    assert (work / ".claude/settings.local.json").exists(), "clients read this one"
    assert not (bare / ".claude").exists()
    assert not (work / ".holdfast").exists(), "a worktree uses the repository's ledger"
    assert here.hold("-C", work, "init", "--check").code == 0


def test_a_check_fails_while_the_gate_is_off(here: Installation) -> None:
    here.init(*BOTH)
    assert here.by_a_person("off", "--reason", "lunch").code == 0
    answer = here.hold("init", "--check")
    assert answer.code == 1
    assert "gate: the gate is off" in answer.out
    assert "lunch" in answer.out
    assert "holdfast on" in answer.err
    told = here.hold("init", "--check", "--json").json
    assert told["ok"] is False
    assert told["off"]["reason"] == "lunch"
    assert here.by_a_person("on").code == 0
    assert here.hold("init", "--check").code == 0


# Undo, byte for byte

EMPTY = {
    "nothing in hooks": '{"hooks":{}}',
    "a blank in hooks": '{ "hooks" : { } }\n',
    "lines in hooks": '{\n  "hooks": {\n  }\n}\n',
    "no groups": '{"hooks": {"PreToolUse": [], "Stop": []}}',
    "nothing": "{}",
    "an empty file": "",
    "blanks": " \n\t\n",
    "a mark of an editor": '\ufeff{"hooks":{}}',
    "windows": '{\r\n\t"hooks": {}\r\n}\r\n',
    "others": '{"model": "x", "hooks": {}, "env": {}}',
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("times", [1, 2])
def test_undo_gives_back_every_byte_of_settings_without_hooks(
    here: Installation, name: str, times: int
) -> None:
    for file in (here.claude, here.codex):
        file.parent.mkdir()
        file.write_text(EMPTY[name], newline="")
    before = tree(here.root)
    for number in range(times):
        (here.root / "holdfast.toml").write_text(f"[gate]\ntimeout_seconds = {60 + number}\n")
        here.init(*BOTH)
    (here.root / "holdfast.toml").unlink()
    here.undo()
    assert tree(here.root) == before


def test_undo_leaves_empty_hooks_alone_that_we_never_touched(here: Installation) -> None:
    here.claude.parent.mkdir()
    here.claude.write_text('{"hooks":{}}')
    here.init("--client", "codex")
    here.undo()
    assert here.claude.read_text() == '{"hooks":{}}'


# Caches


@pytest.mark.parametrize(
    ("tagged", "venv", "is_cache"),
    [
        ("cache", "cache/archive-v0/x", True),
        ("cache/x", "cache/x", False),  # uv adds a cache tag to every virtual environment
        ("elsewhere", "cache/x", False),
    ],
)
def test_a_cache_is_known_by_its_tag_wherever_it_is(
    tmp_path: Path, tagged: str, venv: str, is_cache: bool
) -> None:
    (tmp_path / venv / "bin").mkdir(parents=True)
    (tmp_path / venv / "pyvenv.cfg").touch()
    (tmp_path / tagged).mkdir(exist_ok=True)
    tag = "Signature: 8a477f597d28d172789f06886806bc55"
    (tmp_path / tagged / "CACHEDIR.TAG").write_text(tag)
    found = cache_around(str(tmp_path / venv / "bin/python"))
    assert found == (str(tmp_path / tagged) if is_cache else "")


def test_something_else_of_that_name_is_no_tag(tmp_path: Path) -> None:
    (tmp_path / "CACHEDIR.TAG").write_text("hello")
    assert cache_around(str(tmp_path / "bin/python")) == ""


def test_a_holdfast_that_runs_from_a_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    cache = tmp_path / "my cache"
    here = Installation(tmp_path / "home", site="../my cache/archive-v0/x")
    (cache / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n")
    answer = here.hold("init", *BOTH)
    assert answer.code == 1
    assert f"runs from a cache that is cleared without notice: {cache}" in answer.err
    assert "uv tool install" in answer.err
    assert not here.claude.exists()
