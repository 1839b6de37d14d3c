"""The guide to the command line and the commands agree."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast.cli as cli
from holdfast.cli.commands import (
    COMMANDS,
    FAMILIES,
    GLOBALS,
    GROUPS,
    VARIABLES,
    Command,
    everything,
)
from holdfast.cli.help import EXIT_CODES, command_line
from holdfast.cli.parser import UsageError, duration
from holdfast.core import errors

GUIDE = (Path(__file__).parents[2] / "docs/commands.md").read_text()


@pytest.mark.parametrize("command", everything(), ids=lambda command: command.name)
def test_the_guide_shows_every_command_as_its_help_does(command: Command) -> None:
    line = command_line(command)
    assert f"`{line}`".replace("|", "\\|") in GUIDE


def tables() -> dict[str, list[str]]:
    """The lines of commands in the guide, by the heading above them."""
    sections = GUIDE.partition("\n## Commands\n")[2].partition("\n## ")[0].split("\n### ")[1:]
    return {
        heading: re.findall(r"^\| `(holdfast .*?)` \| ", rest, re.M)
        for heading, _, rest in (section.partition("\n") for section in sections)
    }


def test_the_guide_has_the_groups_of_the_help_and_no_other_command() -> None:
    found = tables()
    for title in GROUPS:
        listed = [command_line(command) for command in COMMANDS if command.group == title]
        assert found.pop(title.capitalize()) == [line.replace("|", "\\|") for line in listed]
    listed = [command_line(command) for family in FAMILIES for command in family.commands]
    assert found.pop("Families of commands") == [line.replace("|", "\\|") for line in listed]
    assert list(found) == ["Options of every command"]


def test_the_guide_knows_every_global_option_and_variable() -> None:
    for option in GLOBALS:
        assert f"`{option.short or '--' + option.name}" in GUIDE
    for name, _help in VARIABLES:
        assert f"`{name}`" in GUIDE


def test_the_exit_codes_are_the_documented_ones() -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", GUIDE, re.M)}
    assert documented == {code for code, _means in EXIT_CODES} | {cli.INTERRUPTED}
    assert [code for code, _means in EXIT_CODES] == [
        cli.DONE, cli.FAILED, cli.USAGE, cli.CONFLICT, cli.NOT_HELD, cli.TIMED_OUT,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.LockConflictError, 3), (errors.LockCycleError, 3), (errors.LockTimeoutError, 5),
        (errors.LockExpiredError, 4), (errors.LockNotHeldError, 4), (errors.FencingError, 4),
        (errors.OverLockError, 2), (errors.BadKeyError, 2), (errors.LockViolationError, 3),
        (errors.StoreCorruptError, 1), (errors.StoreVersionError, 1), (errors.StoreBusyError, 1),
        (errors.StoreReadonlyError, 1), (errors.StoreFullError, 1), (errors.StoreNetworkError, 1),
        (errors.RecordVersionError, 1),
    ],
)  # fmt: skip
def test_every_error_has_its_exit_code(error: type[errors.HoldfastError], code: int) -> None:
    assert cli.exit_code(error("said")) == code


@pytest.mark.parametrize(
    "text", ["", "s", "m", "-1", "+1", "1e3", "nan", "inf", "1.", ".5", "1w", "1 h", "１m", "1.5.5"]
)
def test_a_text_that_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        duration(text)


def test_starting_imports_nothing_heavy(tmp_path: Path) -> None:
    heavy = {
        "argparse", "json", "dataclasses", "typing", "logging", "subprocess", "pathlib", "re",
        "enum", "datetime", "sqlite3", "socket", "threading", "signal", "shutil", "inspect",
    }  # fmt: skip
    script = (
        "import sys; before = set(sys.modules); from holdfast.cli import main;"
        "main(['lock', 'x', '--holder', 'a']); main(['unlock', 'x', '--holder', 'a']);"
        "print(*(set(sys.modules) - before), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {script}"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "holdfast.cli.locking.lock_commands" in loaded
    assert loaded & heavy == set()
