"""Files that control us, a client or git: known by name, by link and as a file, in every room."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers_sandbox import NEEDS_LANDLOCK, Room
from holdfast.core.errors import HoldfastError
from holdfast.gate.git.git_control_files import controls_of
from holdfast.gate.guard import switch_files
from holdfast.manager.files.control_files import (
    TABLE,
    Control,
    ControlFileError,
    Controls,
    control_of,
)
from holdfast.manager.files.paths import Tree
from holdfast.work.screens.findings import Findings
from holdfast.work.screens.manifest import Screen

SCREEN = Screen("index", "blog", "posts", "index")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    made.mkdir()
    subprocess.run(["git", "init", "-q", made], check=True)
    (made / "holdfast.toml").write_text("")
    (made / "app").mkdir()
    (made / "app/x.rb").write_text("old\n")
    return made


def found(root: Path, target: str) -> Findings:
    said = {"screen": "index", "findings": [], "write_targets": ["app/x.rb", target]}
    return Findings.parse(json.dumps(said).encode(), SCREEN, Tree(str(root)))


# By name


@pytest.mark.parametrize("control", TABLE, ids=lambda control: str(control.name))
def test_every_file_of_the_table_is_refused_as_a_target_wherever_it_lies(
    root: Path, control: Control
) -> None:
    name = f"{control.name}x" if control.is_folder else control.name
    for target in (name, f"./{name}", name.upper(), f"vendor/lib/{name}", f".//{name}"):
        with pytest.raises(ControlFileError) as refused:
            found(root, target)
        (problem,) = refused.value.fields["problems"]
        assert problem["place"] == "write_targets[1]"
        assert control.of in problem["problem"]
        assert control.why in problem["problem"]


@pytest.mark.parametrize(
    "target", ["x/../holdfast.toml", "../repository/holdfast.toml", "app/../.claude/settings.json"]
)
def test_a_way_round_by_dots_is_refused(root: Path, target: str) -> None:
    (root / "x").mkdir()
    with pytest.raises(HoldfastError):
        found(root, target)


@pytest.mark.parametrize(
    "target",
    [".gitignore", ".gitmodules", "app/holdfast.toml.erb", ".claude/settings.json.bak", "CLAUDE.md",
     ".github/workflows/ci.yml", "docs/hooks/pre-commit", "opencode.json.md", ".claude/notes.md",
     "Makefile", "app/pre-commit"],
)  # fmt: skip
def test_a_file_that_only_looks_like_one_is_ordinary(root: Path, target: str) -> None:
    assert found(root, target).write_targets == ("app/x.rb", target)


# By link, as a file, and where git looks


@pytest.mark.parametrize("name", ["link.toml", "app/link.toml"])
def test_a_link_to_one_is_that_one(root: Path, name: str) -> None:
    (root / name).symlink_to(root / "holdfast.toml")
    with pytest.raises(ControlFileError, match="Holdfast"):
        found(root, name)


def test_a_link_to_one_that_is_not_there_yet_is_that_one(root: Path) -> None:
    (root / ".claude").mkdir()
    (root / "config").symlink_to(".claude")
    with pytest.raises(ControlFileError, match="Claude Code"):
        found(root, "config/settings.json")


@pytest.mark.parametrize(
    ("link", "leads", "target"),
    [
        (".claude", "conf", "conf/settings.json"),
        ("holdfast.toml", "conf/ours.toml", "conf/ours.toml"),
        (".codex/hooks", "../conf", "conf/any.sh"),
    ],
)
def test_the_target_of_a_control_file_is_one(
    root: Path, link: str, leads: str, target: str
) -> None:
    (root / "conf").mkdir()
    (root / ".codex").mkdir()
    (root / "holdfast.toml").unlink()
    (root / link).symlink_to(leads)
    with pytest.raises(ControlFileError):
        found(root, target)


@pytest.mark.parametrize(
    "control", ["holdfast.toml", ".claude/hooks/deep/a.sh", ".git/config", ".git/hooks/pre-push"]
)
def test_another_name_of_one_is_that_one(root: Path, control: str) -> None:
    (root / control).parent.mkdir(parents=True, exist_ok=True)
    (root / control).touch()
    os.link(root / control, root / "other")
    with pytest.raises(ControlFileError):
        found(root, "other")
    os.link(root / "app/x.rb", root / "app/z.rb")
    assert found(root, "app/z.rb").write_targets == ("app/x.rb", "app/z.rb")


def test_the_folder_of_gits_hooks_is_asked_for_wherever_it_is(root: Path) -> None:
    (root / "tools/hooks").mkdir(parents=True)
    assert found(root, "tools/hooks/pre-commit").write_targets
    subprocess.run(["git", "-C", root, "config", "core.hooksPath", "tools/hooks"], check=True)
    with pytest.raises(ControlFileError, match="git"):
        found(root, "tools/hooks/pre-commit")
    assert found(root, "tools/other/pre-commit").write_targets
    (root / "tools/hooks/pre-commit").touch()
    with pytest.raises(ControlFileError, match="git"):
        found(root, "tools/hooks/common.sh")


def test_without_git_nothing_is_a_hook(tmp_path: Path) -> None:
    assert controls_of(str(tmp_path)).of(f"{tmp_path}/pre-commit") is None


def test_an_ordinary_file_costs_no_question_to_git(root: Path) -> None:
    def never(root: str) -> str:
        raise AssertionError("git was asked")

    assert Controls(str(root), never).of(f"{root}/app/x.rb") is None


# One table


def test_the_gate_judges_by_the_same_table() -> None:
    judged = [control for control in TABLE if control.judge]
    assert {control.judge for control in judged} == set(switch_files._JUDGES)
    assert all(control.name == control.name.casefold() for control in TABLE)


@pytest.mark.parametrize("path", ["", "/", "app", "a/b/", "é/x"])
def test_any_text_can_be_asked_about(path: str) -> None:
    assert control_of(path) is None


# In the sandbox


@NEEDS_LANDLOCK
@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")
@pytest.mark.parametrize("target", ["holdfast.toml", ".claude/settings.json", "other"])
def test_a_sandbox_opens_no_control_file_even_if_it_is_locked(tmp_path: Path, target: str) -> None:
    room = Room(tmp_path)
    room.set()
    os.link(room.root / "holdfast.toml", room.root / "other")
    answer = room.run("--json", "--", "touch", target, write=[target])
    assert (answer.code, answer.error["code"]) == (2, "E_CONTROL_FILE")
    assert room.repo.grants() == [], "the lock is given back"
    assert room.left_over() == []


@NEEDS_LANDLOCK
@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")
@pytest.mark.parametrize("listed", [".claude/", "holdfast.toml", ".claude/hooks/", "./.codex/"])
def test_no_setting_opens_a_control_file(tmp_path: Path, listed: str) -> None:
    room = Room(tmp_path)
    room.set(listed)
    answer = room.run("--json", "--", "true")
    assert answer.error["code"] == "E_SANDBOX"
    assert "would open" in answer.error["message"]
    room.set(".claude/projects/")
    assert room.run("--", "touch", ".claude/projects/x").code == 0
