"""Agents in linked worktrees: one ledger, a lease for each checkout, and messages across them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_hook import AtTheDoor, Scene, refusal

NOBODYS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def git(folder: Path, *words: object) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *map(str, words)], cwd=folder,
        env={**os.environ, **NOBODYS}, check=True, capture_output=True, timeout=60,
    )  # fmt: skip


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    root = tmp_path.resolve() / "main"
    root.mkdir()
    git(root, "init", "--quiet")
    for name in ("x.txt", "y.txt"):
        (root / name).write_text("old\n")
    (root / ".gitignore").write_text("build/\n.holdfast/\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "start")
    (root / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\n")
    made = Scene(root, monkeypatch)
    yield made
    made.close()


@pytest.fixture
def feature(scene: Scene) -> Path:
    """A worktree that was made after the ledger."""
    folder = scene.root.parent / "feature"
    git(scene.root, "worktree", "add", "--quiet", "-b", "feature", folder)
    return folder


def agent(scene: Scene, session: str, at: Path) -> AtTheDoor:
    """An agent whose client was started in a checkout."""
    made = scene.at_the_door(session)
    made.root = at
    return made


def context(answer: dict[str, Any]) -> str:
    said: str = answer.get("hookSpecificOutput", {}).get("additionalContext", "")
    return said


def test_two_agents_in_one_worktree_are_kept_apart(scene: Scene, feature: Path) -> None:
    ann, bob = agent(scene, "ann", feature), agent(scene, "bob", feature)
    assert not ann.edit("x.txt")
    assert "../feature/x.txt" in bob.edit("x.txt")
    assert scene.owners() == {"../feature/x.txt": "ann"}
    assert not (feature / ".holdfast").exists()


def test_seed002_03_the_same_file_in_two_worktrees_is_no_conflict_and_is_told(
    scene: Scene, feature: Path
) -> None:
    ann, bob = agent(scene, "ann", scene.root), agent(scene, "bob", feature)
    assert context(ann.ask("x.txt")) == ""
    said = bob.ask("x.txt")
    assert not refusal(said)
    told = context(said)
    for fact in (
        "is changing ../feature/x.txt in another checkout",
        "it has held x.txt for",
        "claude@",
    ):
        assert fact in told
    assert context(bob.ask("x.txt")) == ""  # its session has begun already
    assert context(bob.ask("y.txt")) == ""
    assert scene.owners() == {"x.txt": "ann", "../feature/x.txt": "bob", "../feature/y.txt": "bob"}


def test_with_refuse_the_same_file_in_two_worktrees_is_a_conflict(
    scene: Scene, feature: Path
) -> None:
    (scene.root / "holdfast.toml").write_text(
        '[gate]\nhold_seconds = 0\nacross_worktrees = "refuse"\n'
    )
    ann, bob = agent(scene, "ann", scene.root), agent(scene, "bob", feature)
    assert not ann.edit("x.txt")
    assert "x.txt" in bob.edit("x.txt")
    assert not bob.edit("y.txt")
    ann.commit("x.txt")
    assert not bob.edit("x.txt")
    assert "y.txt" in ann.edit("y.txt")


def test_with_off_nothing_is_said(scene: Scene, feature: Path) -> None:
    (scene.root / "holdfast.toml").write_text('[gate]\nacross_worktrees = "off"\n')
    agent(scene, "ann", scene.root).edit("x.txt")
    assert context(agent(scene, "bob", feature).ask("x.txt")) == ""


def test_what_a_dead_agent_had_in_another_worktree_is_not_told(scene: Scene, feature: Path) -> None:
    ann = agent(scene, "ann", scene.root)
    ann.edit("x.txt")
    ann.kill()
    assert context(agent(scene, "bob", feature).ask("x.txt")) == ""


def test_a_worktree_that_an_agent_made_is_guarded_at_once(scene: Scene) -> None:
    ann = agent(scene, "ann", scene.root)
    made = scene.root.parent / "made"
    assert not refusal(ann.command(f"git worktree add {made}"))
    git(scene.root, "worktree", "add", "--quiet", made)
    bob, cid = agent(scene, "bob", made), agent(scene, "cid", made)
    assert not bob.edit("x.txt")
    assert cid.edit("x.txt")


def test_a_session_of_one_worktree_that_stops_gives_back_its_files(
    scene: Scene, feature: Path
) -> None:
    ann = agent(scene, "ann", feature)
    ann.edit("x.txt")
    ann.tell("SessionEnd")
    assert scene.owners() == {}
    assert not (scene.root / ".holdfast/abroad").exists()  # its session began there


def test_a_command_in_a_worktree_leases_what_it_writes_there(scene: Scene, feature: Path) -> None:
    ann, bob = agent(scene, "ann", feature), agent(scene, "bob", feature)
    assert not refusal(ann.command("echo new > x.txt; echo o > build/out"))
    assert scene.owners() == {"../feature/x.txt": "ann"}
    assert "x.txt" in refusal(bob.command("sed -i s/o/n/ x.txt"))


def test_a_git_verb_in_a_worktree_is_judged_by_what_it_changes_there(
    scene: Scene, feature: Path
) -> None:
    ann, bob = agent(scene, "ann", feature), agent(scene, "bob", feature)
    ann.edit("x.txt", "ann's work\n")
    assert "../feature/x.txt" in refusal(bob.command("git reset --hard"))
    cid = agent(scene, "cid", scene.root)
    assert not refusal(cid.command("git reset --hard"))  # that is another checkout


def test_what_changed_during_a_command_is_looked_for_where_it_ran(
    scene: Scene, feature: Path
) -> None:
    bob = agent(scene, "bob", feature)
    bob.command("make")
    (feature / "y.txt").write_text("made\n")
    (scene.root / "x.txt").write_text("somebody else's\n")
    said = context(bob.command("make", "PostToolUse-Bash"))
    assert "../feature/y.txt" in said
    assert " x.txt" not in said


def test_a_commit_in_a_worktree_frees_its_files(scene: Scene, feature: Path) -> None:
    ann, bob = agent(scene, "ann", feature), agent(scene, "bob", scene.root)
    ann.edit("x.txt", "new\n")
    bob.edit("x.txt", "new\n")
    ann.commit("x.txt")
    assert scene.owners() == {"x.txt": "bob"}
