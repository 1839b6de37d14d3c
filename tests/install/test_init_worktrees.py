"""`holdfast init` once, for all checkouts of a repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers_agents import Agent
from holdfast import LockManager
from holdfast.gate.config import seals

CLIENTS = ("--client", "claude,codex", "--git")
CODEX = ".codex/hooks.json"
CLAUDE = ".claude/settings.local.json"


class Project:
    """A repository with one commit, and a person in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.main = self.folder / "main"
        self.main.mkdir()
        self.env = {
            **{name: text for name, text in os.environ.items() if "CLAUDE" not in name},
            "HOME": str(self.folder), "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
        }  # fmt: skip
        self.git("init", "--quiet")
        (self.main / "x.txt").write_text("x\n")
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "start")

    def git(self, *words: object, at: Path | None = None) -> str:
        return self.run("git", *words, at=at).stdout

    def run(
        self, *words: object, at: Path | None = None, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            list(map(str, words)), cwd=at or self.main, env=self.env, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, done
        return done

    def hold(self, *words: object, at: Path | None = None, code: int = 0) -> str:
        done = self.run(sys.executable, "-m", "holdfast", *words, at=at, code=code)
        return done.stdout + done.stderr

    def add(self, name: str, at: Path | None = None) -> Path:
        where = self.folder / name
        self.said = self.run("git", "worktree", "add", "-b", name, where, at=at).stderr
        return where


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_init_in_a_worktree_is_init_of_the_repository(project: Project) -> None:
    feature = project.add("feature")
    project.hold("init", *CLIENTS, at=feature)
    assert (project.main / CLAUDE).exists()  # Claude Code reads it in all checkouts
    assert (project.main / CODEX).exists()
    assert (feature / CODEX).exists()
    assert not (feature / ".holdfast").exists()
    for place in (project.main, feature):
        assert "all hooks are in place" in project.hold("init", "--check", at=place)
        assert project.git("status", "--porcelain", at=place) == ""


def test_a_worktree_that_comes_later_has_its_hooks_at_once(project: Project) -> None:
    project.hold("init", *CLIENTS)
    later = project.add("later")
    assert (later / CODEX).read_text() == (project.main / CODEX).read_text()
    assert "Codex has its hooks here" in project.said
    assert "all hooks are in place" in project.hold("init", "--check")
    assert project.git("status", "--porcelain", at=later) == ""


def test_an_ordinary_checkout_writes_nothing(project: Project) -> None:
    project.hold("init", *CLIENTS)
    later = project.add("later")
    (later / CODEX).unlink()
    assert "holdfast" not in project.run("git", "checkout", "--detach", at=later).stderr
    assert not (later / CODEX).exists()
    told = project.hold("init", "--check", code=1)
    assert f"in ../later: there is no {CODEX}" in told
    project.hold("init")
    assert (later / CODEX).exists()


def test_what_ran_after_a_checkout_still_runs(project: Project) -> None:
    theirs = project.main / ".git/hooks/post-checkout"
    theirs.write_text(
        '#!/bin/sh\necho "$1 $3" >> "$(git rev-parse --git-common-dir)/ran"\nexit 1\n'
    )
    theirs.chmod(0o755)
    project.hold("init", *CLIENTS)
    project.run("git", "checkout", "-b", "other", code=1)  # git exits so for the failed hook
    assert (project.main / ".git/ran").read_text().endswith(" 1\n")
    project.hold("init", "--undo")
    assert theirs.read_text().startswith("#!/bin/sh\necho")


def test_clients_that_were_left_out_get_no_hooks_in_a_new_worktree(project: Project) -> None:
    project.hold("init", "--client", "claude", "--git")
    later = project.add("later")
    assert sorted(one.name for one in later.iterdir()) == [".git", "x.txt"]


def test_undo_takes_everything_back_in_all_checkouts(project: Project) -> None:
    feature = project.add("feature")
    (feature / ".codex").mkdir()
    (feature / CODEX).write_text('{"hooks": {}}\n')
    project.hold("init", *CLIENTS)
    later = project.add("later")
    project.hold("init", "--undo", at=later)
    assert (feature / CODEX).read_text() == '{"hooks": {}}\n'
    assert not (later / ".codex").exists()
    assert not (project.main / ".codex").exists()
    assert project.git("status", "--porcelain", at=later) == ""


def test_a_worktree_that_is_gone_keeps_nothing_from_being_undone(project: Project) -> None:
    project.hold("init", *CLIENTS)
    later = project.add("later")
    project.git("worktree", "remove", "--force", later)
    project.hold("init", "--undo")
    assert not (project.main / ".holdfast/init.json").exists()


def test_hooks_of_a_worktree_that_a_script_changed_are_told(project: Project) -> None:
    project.hold("init", *CLIENTS)
    later, gone = project.add("later"), project.add("gone")
    root = str(project.main)
    assert seals.changed(root) == []
    (later / CODEX).write_text("{}")
    assert seals.changed(root) == [f"../later/{CODEX}"]
    assert f"../later/{CODEX} was changed" in "".join(
        seals.notice(root, seals.changed(root)).values()
    )
    project.git("worktree", "remove", "--force", gone)
    assert seals.notice(root, seals.changed(root)) == {}
    assert seals.changed(root) == []


@pytest.mark.parametrize("name", ["repo.git", ".git"])
def test_a_bare_repository_has_its_hooks_in_its_worktrees(project: Project, name: str) -> None:
    bare = project.folder / "project" / name
    bare.parent.mkdir()
    project.git("clone", "--quiet", "--bare", project.main, bare)
    one = project.add("one", at=bare)
    assert "bare repository" in project.hold("init", *CLIENTS, at=bare, code=2)
    project.hold("init", *CLIENTS, at=one)
    assert (bare / ".holdfast").is_dir()
    two = project.add("two", at=bare)
    for place in (one, two):
        assert (place / CODEX).exists()
        assert (place / CLAUDE).exists()
        assert project.git("status", "--porcelain", at=place) == ""
        assert "all hooks are in place" in project.hold("init", "--check", at=place)
    assert (bare.parent / CODEX).exists() == (
        name == ".git"
    )  # Codex treats it as the main checkout
    project.hold("init", "--undo", at=two)
    assert sorted(one.name for one in two.iterdir()) == [".git", "x.txt"]
    assert not (bare.parent / ".codex").exists()


# Ledgers that worktrees had before


def own_ledger(project: Project) -> tuple[Path, LockManager]:
    """A worktree with its own ledger, as earlier versions made it."""
    feature = project.add("feature")
    (feature / ".holdfast").mkdir()
    return feature, LockManager.open(feature)


def held(folder: Path) -> dict[str, str]:
    with LockManager.open(folder) as manager:
        return {path: one.holder for one in manager.active_grants() for path in one.write_paths}


def test_the_ledger_of_a_worktree_is_taken_over_with_its_agents_leases(project: Project) -> None:
    feature, old = own_ledger(project)
    ann = Agent(old, "ann")
    assert ann.edit("x.txt", "app/y.txt").kind == "allow"
    old.close()
    said = project.hold("init", *CLIENTS)
    assert "the ledger of ../feature is now part of this one (2 leases taken over)" in said
    assert not (feature / ".holdfast").exists()
    assert held(feature).keys() == {"../feature/x.txt", "../feature/app/y.txt"}
    with LockManager.open(project.main) as manager:
        place = str(feature / "x.txt")
        assert Agent(manager, "ann").gate.permit([place]).kind == "allow"
        assert Agent(manager, "bob").gate.permit([place]).kind == "deny"
    (kept,) = (project.main / ".holdfast/taken-over").iterdir()
    assert kept.name.startswith("feature-")
    assert (kept / "ledger.db").exists()


def test_a_ledger_that_a_person_uses_is_not_taken_over(project: Project) -> None:
    feature, old = own_ledger(project)
    with old:
        old.acquire(holder="Ann", write_paths=["x.txt"])
        told = project.hold("init", *CLIENTS, code=1)
        assert "Ann holds locks there" in told
        assert (feature / ".holdfast/ledger.db").exists()
        assert not (project.main / CODEX).exists()
        for grant in old.active_grants():
            old.release(grant.id)
    project.hold("init", *CLIENTS)
    assert not (feature / ".holdfast").exists()


def test_what_init_wrote_in_a_worktree_is_taken_back_after_the_take_over(project: Project) -> None:
    feature, old = own_ledger(project)
    old.close()
    (feature / ".claude").mkdir()
    (feature / CLAUDE).write_text('{"model": "small"}\n')
    record = {
        "version": "0.1.0", "git": False,
        "files": {CLAUDE: {"client": "claude", "path": str(feature / CLAUDE), "before": None,
                           "mark": "", "folder": True, "lines": []}},
    }  # fmt: skip
    (feature / ".holdfast/init.json").write_text(json.dumps(record))
    project.hold("init", *CLIENTS)
    found = json.loads((project.main / ".holdfast/init.json").read_text())
    assert f"../feature/{CLAUDE}" in found["files"]
    project.hold("init", "--undo")
    assert (feature / CLAUDE).read_text() == '{"model": "small"}\n'
