"""Completions: in the real shells, where they are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from helpers_cli import Repository, environment
from holdfast.cli.commands import COMMANDS, FAMILIES, Command, everything
from holdfast.cli.completion import bash

BASH = """
source ./script
COMP_WORDS=(holdfast "$@")
COMP_CWORD=$#
_holdfast
printf '%s\\n' "${COMPREPLY[@]}"
"""

#: The words that can be typed first.
NAMES = [*(one.name for one in COMMANDS), *(one.name for one in FAMILIES)]


def needs(shell: str) -> str:
    """The shell, or no test."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    return found


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


def completed(repo: Repository, *words: str, script: str = "") -> list[str]:
    """What bash offers at the end of a line."""
    (repo.root / "script").write_text(script or repo.hold("completion", "bash").out)
    done = subprocess.run(
        [needs("bash"), "--norc", "-c", BASH, "bash", *words], cwd=repo.root, env=environment(),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_offers_the_commands(repo: Repository) -> None:
    assert completed(repo, "") == NAMES
    assert completed(repo, "lo") == ["lock", "log"]
    assert completed(repo, "--json", "unl") == ["unlock"]
    assert completed(repo, "-C", "app", "sta") == ["status", "statusline"]


@pytest.mark.parametrize("command", everything(), ids=lambda command: command.name)
def test_bash_offers_the_options_of_each_command(repo: Repository, command: Command) -> None:
    offered = completed(repo, *command.name.split(), "-", script=bash())
    expected = {f"--{option.name}" for option in command.options}
    assert {name for name in offered if name.startswith("--")} == expected | {
        "--json", "--store", "--help", "--version",
    }  # fmt: skip
    assert "-C" in offered


def after(words: tuple[str, ...]) -> list[str]:
    """The words that may follow some others, by the table."""
    names = [command.name.split() for command in everything()]
    rest = [name[len(words)] for name in names if tuple(name[: len(words)]) == words]
    return list(dict.fromkeys(rest))


#: Words that are not a command by themselves: `spec`, and perhaps words after it.
BEGINNINGS = sorted(
    {
        tuple(command.name.split()[:length])
        for family in FAMILIES
        for command in family.commands
        for length in range(1, len(command.name.split()))
    }
)


@pytest.mark.parametrize("words", BEGINNINGS, ids=" ".join)
def test_bash_offers_what_follows_the_name_of_a_family(
    repo: Repository, words: tuple[str, ...]
) -> None:
    script = bash()
    assert completed(repo, *words, "", script=script) == after(words)
    assert completed(repo, "--json", "-C", ".", *words, "", script=script) == after(words)
    assert completed(repo, *words, "-", script=script) == [
        "--json", "--store", "-C", "-h", "--help", "-V", "--version",
    ]  # fmt: skip


def test_bash_offers_the_commands_after_help(repo: Repository) -> None:
    assert completed(repo, "help", "") == NAMES
    assert completed(repo, "help", "unl") == ["unlock"]


def test_bash_tells_a_family_s_lock_from_the_other(repo: Repository) -> None:
    assert completed(repo, "spec", "l") == ["lock"]
    assert "--timeout" in completed(repo, "spec", "lock", "--")
    assert "--ttl" not in completed(repo, "spec", "lock", "--")
    assert "--timeout" not in completed(repo, "lock", "--")
    assert completed(repo, "lock", "spec", "l") == []


def test_bash_leaves_paths_to_the_shell_and_offers_what_it_knows(repo: Repository) -> None:
    assert completed(repo, "lock", "ap") == []
    assert completed(repo, "lock", "--read", "ap") == []
    assert completed(repo, "lock", "--reason", "ap") == []
    assert completed(repo, "-C", "a") == ["app"]
    assert completed(repo, "completion", "") == ["bash", "zsh", "fish"]
    assert "true" in completed(repo, "run", "--write", "app/x.rb", "--", "tru")


def test_bash_takes_the_whole_script_and_registers_it(repo: Repository) -> None:
    script = repo.hold("completion", "bash").out
    done = subprocess.run(
        [needs("bash"), "--norc", "-uec", f"{script}\ncomplete -p holdfast"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "complete -o bashdefault -o default -F _holdfast holdfast\n"


def test_zsh_parses_its_script(repo: Repository) -> None:
    shell = needs("zsh")
    script = repo.root / "_holdfast"
    script.write_text(repo.hold("completion", "zsh").out)
    subprocess.run([shell, "-n", script], check=True)


def test_fish_parses_its_script(repo: Repository) -> None:
    shell = needs("fish")
    script = repo.root / "holdfast.fish"
    script.write_text(repo.hold("completion", "fish").out)
    subprocess.run([shell, "--no-execute", script], check=True)


def offered_by_fish(repo: Repository, *lines: str) -> list[list[str]]:
    """What fish offers at the end of each line."""
    shell = needs("fish")
    script = repo.root / "holdfast.fish"
    script.write_text(repo.hold("completion", "fish").out)
    asked = "; ".join(f"complete -C '{line}'; echo =" for line in lines)
    home = {"HOME": str(repo.root), "XDG_CONFIG_HOME": str(repo.root)}
    done = subprocess.run(
        [shell, "--no-config", "-c", f"source {script}; {asked}"], cwd=repo.root,
        env=environment(**home), capture_output=True, text=True, check=True,
    )  # fmt: skip
    answers = done.stdout.split("=\n")[: len(lines)]
    return [[line.partition("\t")[0] for line in one.splitlines()] for one in answers]


def test_fish_offers_families_and_tells_their_commands_from_others(repo: Repository) -> None:
    first, *rest = offered_by_fish(
        repo, "holdfast ", "holdfast spec lock --t", "holdfast lock --t", "holdfast -C x spec u",
        *(f"holdfast {' '.join(words)} " for words in BEGINNINGS),
    )  # fmt: skip
    assert set(NAMES) <= set(first)
    assert rest[:3] == [["--timeout"], ["--ttl"], ["unlock"]]
    for words, offered in zip(BEGINNINGS, rest[3:], strict=True):
        assert sorted(offered) == sorted(after(words))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_knows_every_command_and_option(repo: Repository, shell: str) -> None:
    answer = repo.hold("completion", shell)
    assert answer.code == 0
    for command in everything():
        assert command.name.split()[-1] in answer.out
        for option in command.options:
            spelling = f"-l {option.name}" if shell == "fish" else f"--{option.name}"
            assert spelling in answer.out
    found = repo.hold("completion", shell, "--json").json
    assert found == {"shell": shell, "script": answer.out.rstrip("\n") + "\n" * (shell != "fish")}
