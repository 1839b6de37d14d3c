"""The shell guard and git verbs on the whole tree, in real repositories.

Real git repositories, real commands, two or three agents.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_guard import Shop, made_repository, settled, sh, text
from holdfast.gate.guard import git_queries


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    root = made_repository(tmp_path / "work")
    made = Shop(root)
    settled(root / "app/x.py", root / "lib/y.py")
    yield made
    made.close()


# Verbs for the whole tree


@pytest.mark.parametrize(
    "command",
    ["git stash", "git stash -u", "git stash push -m wip", "git reset --hard",
     "git reset --hard HEAD", "git checkout .", "git checkout -- .", "git restore .",
     "git checkout -f", "git restore --staged --worktree .", "cd app && git checkout -- .",
     "git checkout -f other", "git stash && git pull && git stash pop", "git stash push app",
     "git -C app stash", "git switch --discard-changes other", "git stash --all"],
)  # fmt: skip
def test_a_verb_that_would_lose_anothers_changes_is_refused(shop: Shop, command: str) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    bob.write("lib/y.py", "bob\n")
    said = bob.run(command)
    assert said.kind == "deny"
    assert "app/x.py" in said.reason
    assert "claude:ann" in said.reason
    assert "claude:ann" in said.user
    assert text(shop, "app/x.py") == "ann\n"
    assert shop.events("contention_heartbeat") == []


@pytest.mark.parametrize(
    "command",
    ["git stash", "git stash -u", "git reset --hard", "git checkout .", "git restore .",
     "git checkout -- lib", "git clean -fd", "git stash push lib"],
)  # fmt: skip
def test_with_only_ones_own_changes_it_passes(shop: Shop, command: str) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.edit("app/x.py", write=None)  # held, but as committed
    bob.write("lib/y.py", "bob\n")
    assert bob.run(command).kind == "quiet"


@pytest.mark.parametrize("command", ["git checkout other", "git switch other", "git merge other",
                                     "git reset --hard other", "git rebase other",
                                     "git cherry-pick other", "git checkout -b new other",
                                     "git merge --squash other", "git reset --keep other",
                                     "git checkout other -- .",
                                     "git restore -s other ."])  # fmt: skip
def test_another_branch_is_refused_only_for_files_that_differ(shop: Shop, command: str) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.edit("lib/y.py", write=None)  # differs on the branch
    assert bob.ask(command).kind == "deny"
    ann.gate().end_session()
    ann.edit("app/x.py", "README.md", write=None)  # these do not differ
    assert bob.run(command).kind == "quiet"


def test_the_branch_before_and_one_that_only_a_remote_has(shop: Shop, tmp_path: Path) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    sh(shop.root, "git checkout -q other && git checkout -q main")
    clone = tmp_path / "clone"
    sh(tmp_path, f"git clone -q {shop.root} {clone}")
    sh(shop.root, f"git remote add up {clone} && cd {clone} && git checkout -q -b far && "
                  f"echo far >> app/z.py && git commit -qam far")  # fmt: skip
    sh(shop.root, "git fetch -q up")
    ann.edit("lib/y.py", "app/z.py", write=None)
    assert "lib/y.py" in bob.ask("git checkout -").reason
    assert "lib/y.py" in bob.ask("git switch -").reason
    assert "app/z.py" in bob.ask("git checkout far").reason
    assert "app/z.py" in bob.ask("git switch far").reason


def test_untracked_files_are_lost_with_clean_and_with_stash_u(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("fresh/one.py", "ann\n")
    ann.write('strange näme".py', "ann\n")
    for command in ("git clean -fd", "git clean -fdxq", "git stash -u", "git clean -f -d -- fresh"):
        assert "fresh/one.py" in bob.ask(command).reason
    assert "strange" in bob.ask("git clean -f").reason
    assert bob.ask("git clean -f").kind == "deny"
    assert bob.ask("git clean -fd lib").kind == "quiet"
    assert bob.ask("git clean -nd").kind == "quiet"
    assert bob.ask("git stash").kind == "quiet"  # it leaves untracked files alone
    assert bob.ask("git reset --hard").kind == "quiet"


@pytest.mark.parametrize(
    "command", ["git clean --no-dry-run -f", "git restore --source=--output=app/x.py ."]
)
def test_asking_git_what_a_verb_changes_changes_nothing(shop: Shop, command: str) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("fresh.py", "ann\n")
    before = text(shop, "app/x.py")
    bob.ask(command)
    assert text(shop, "fresh.py") == "ann\n"
    assert text(shop, "app/x.py") == before


def test_stash_pop_is_refused_if_it_brings_back_what_another_holds_now(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    bob.run("echo bob > app/x.py")
    sh(shop.root, "git stash -q")
    bob.gate().end_session()
    ann.edit("app/x.py", write=None)
    assert bob.ask("git stash pop").kind == "deny"
    assert bob.ask("git stash apply 0").kind == "deny"
    ann.gate().end_session()
    ann.edit("lib/y.py", write=None)
    said = bob.run("git stash pop")
    assert said.kind == "quiet"
    assert "unleased file changed: app/x.py." in said.context
    assert bob.held() == []


def test_a_line_may_restore_its_own_stash_whatever_was_stashed_before(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    sh(shop.root, "echo old > app/x.py && git stash -q")
    ann.edit("app/x.py", write=None)
    bob.write("lib/y.py", "bob\n")
    assert bob.ask("git stash pop").kind == "deny"
    assert bob.run("git stash && git stash pop").kind == "quiet"
    assert text(shop, "lib/y.py") == "bob\n"


def test_a_merge_does_not_change_what_both_branches_changed_alike(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    sh(shop.root, "echo same >> app/z.py && git commit -qam here")
    sh(shop.root, "git checkout -q other && echo same >> app/z.py && git commit -qam there")
    sh(shop.root, "git checkout -q main")
    ann.edit("app/z.py", write=None)
    assert bob.run("git merge --no-edit other").kind == "quiet"
    assert bob.ask("git reset --hard HEAD~2").kind == "deny"


def test_pull_is_refused_only_if_what_comes_is_known_and_held(shop: Shop, tmp_path: Path) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    clone = tmp_path / "clone"
    sh(tmp_path, f"git clone -q {shop.root} {clone}")
    sh(clone, "git checkout -q main && echo more >> app/z.py && git commit -qam more")
    sh(shop.root, f"git remote add origin {clone} && git fetch -q && "
                  "git branch -q -u origin/main")  # fmt: skip
    ann.edit("app/z.py", write=None)
    for command in ("git pull", "git pull origin main", "git pull --rebase", "git merge",
                    "git checkout main && git pull"):  # fmt: skip
        assert "app/z.py" in bob.ask(command).reason, command
    sh(shop.root, "git checkout -q other")
    assert bob.ask("git pull").kind == "quiet"
    assert "app/z.py" in bob.ask("git checkout main && git pull").reason
    sh(shop.root, "git checkout -q main")
    ann.gate().end_session()
    ann.write("app/x.py", "ann\n")
    assert bob.run("git pull").kind == "quiet"
    assert text(shop, "app/z.py").endswith("more\n")


def test_autostash_is_stash(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    assert bob.ask("git rebase other").kind == "quiet"  # git itself refuses, with dirty files
    assert bob.ask("git rebase --autostash other").kind == "deny"
    sh(shop.root, "git config rebase.autoStash true")
    assert bob.ask("git rebase other").kind == "deny"
    assert bob.ask("git rebase --no-autostash other").kind == "quiet"


def test_an_aborted_rebase_changes_every_file_back(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    sh(shop.root, "echo mine >> lib/y.py && git commit -qam mine")
    sh(shop.root, "git rebase other", code=1)
    ann.write("app/x.py", "ann\n")
    assert "app/x.py" in bob.ask("git rebase --abort").reason


def test_a_verb_whose_effect_is_unknown_passes(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    for command in ("git checkout no-such-branch", "git checkout $BRANCH", "git merge nowhere",
                    "git pull", "git rebase", "git am x.patch", "git bisect start",
                    "git switch no-such", "git cherry-pick none", "git stash pop"):  # fmt: skip
        assert bob.ask(command).kind == "quiet", command


def test_a_git_that_hangs_does_not_hold_the_command_up(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "git").write_text("#!/bin/sh\nsleep 60\n")
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    monkeypatch.setattr("holdfast.gate.guard.git_queries.GIT_SECONDS", 0.2)
    begun = time.monotonic()
    assert bob.ask("git stash").kind == "quiet"
    assert time.monotonic() - begun < 10


def test_without_git_the_guard_still_works(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert git_queries.Git(str(shop.root), time.monotonic() + 5).ask("status") is None
    assert bob.ask("git stash").kind == "quiet"
    assert bob.ask("echo x > app/x.py").kind == "deny"
    assert bob.ended("git stash").kind == "quiet"


def test_a_sub_agent_works_with_what_its_parent_holds_but_not_with_its_siblings(
    shop: Shop,
) -> None:
    ann, child, sibling = shop.worker("ann"), shop.worker("ann", "one"), shop.worker("ann", "two")
    ann.write("app/x.py", "ann\n")
    assert child.ask("git stash").kind == "quiet"
    sibling.write("lib/y.py", "two\n")
    assert child.ask("git stash").kind == "deny"


def test_files_of_a_dead_agent_stop_no_command(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    shop.kill("ann")
    assert bob.ask("git stash").kind == "quiet"


def test_files_that_a_person_holds_count_too(shop: Shop) -> None:
    bob = shop.worker("bob")
    shop.manager.ask("dora", write_paths=["app/x.py"])
    (shop.root / "app/x.py").write_text("dora\n")
    assert "dora" in bob.ask("git stash").reason
