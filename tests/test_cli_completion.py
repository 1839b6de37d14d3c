"""Completions: in the real shells, where they are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from helpers_cli import Repository, environment
from holdfast.cli.commands import COMMANDS

BASH = """
source ./script
COMP_WORDS=(holdfast "$@")
COMP_CWORD=$#
_holdfast
printf '%s\\n' "${COMPREPLY[@]}"
"""


def needs(shell: str) -> str:
    """The shell, or no test."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    return found


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


def completed(repo: Repository, *words: str) -> list[str]:
    """What bash offers at the end of a line."""
    (repo.root / "script").write_text(repo.hold("completion", "bash").out)
    done = subprocess.run(
        [needs("bash"), "--norc", "-c", BASH, "bash", *words], cwd=repo.root, env=environment(),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_offers_the_commands(repo: Repository) -> None:
    assert completed(repo, "") == [command.name for command in COMMANDS]
    assert completed(repo, "lo") == ["lock", "log"]
    assert completed(repo, "--json", "unl") == ["unlock"]
    assert completed(repo, "-C", "app", "sta") == ["status"]


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_bash_offers_the_options_of_each_command(repo: Repository, command: str) -> None:
    [found] = [one for one in COMMANDS if one.name == command]
    offered = completed(repo, command, "-")
    for option in found.options:
        assert f"--{option.name}" in offered
    assert {"--json", "--store", "-C", "--help"} <= set(offered)


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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_knows_every_command_and_option(repo: Repository, shell: str) -> None:
    answer = repo.hold("completion", shell)
    assert answer.code == 0
    for command in COMMANDS:
        assert command.name in answer.out
        for option in command.options:
            spelling = f"-l {option.name}" if shell == "fish" else f"--{option.name}"
            assert spelling in answer.out
    found = repo.hold("completion", shell, "--json").json
    assert found == {"shell": shell, "script": answer.out.rstrip("\n") + "\n" * (shell != "fish")}
