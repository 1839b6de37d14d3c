"""One ledger for all checkouts of a repository, found by git's own pointers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast import BadKeyError, LockManager, LockTimeoutError
from holdfast.manager.files import checkouts
from holdfast.manager.files.paths import Tree, find_root, home_root

NOBODYS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def git(folder: Path, *words: object) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *map(str, words)], cwd=folder,
        env={**os.environ, **NOBODYS}, check=True, capture_output=True, timeout=60,
    )  # fmt: skip


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A repository with one commit."""
    root = tmp_path.resolve() / "main"
    root.mkdir()
    git(root, "init", "--quiet")
    (root / "x.txt").write_text("x\n")
    git(root, "add", "x.txt")
    git(root, "commit", "--quiet", "-m", "start")
    return root


def add(main: Path, where: Path) -> Path:
    git(main, "worktree", "add", "--quiet", "-b", where.name, where)
    return where


def test_a_worktree_that_comes_later_has_the_ledger_of_its_repository(main: Path) -> None:
    (main / ".holdfast").mkdir()
    feature = add(main, main.parent / "feature")
    assert find_root(str(feature / "x.txt")) == str(main)
    assert find_root(str(feature / "app" / "new")) == str(main)
    assert home_root(str(feature)) == str(main)


def test_without_a_ledger_it_is_made_in_the_main_checkout(main: Path) -> None:
    feature = add(main, main.parent / "feature")
    assert find_root(str(feature)) is None
    assert home_root(str(feature)) == str(main)
    with LockManager.open(feature) as manager:
        manager.acquire(holder="ann", write_paths=[str(feature / "x.txt")])
    assert (main / ".holdfast/ledger.db").exists()
    assert not (feature / ".holdfast").exists()


def test_the_same_file_in_two_checkouts_is_two_things(main: Path) -> None:
    (main / ".holdfast").mkdir()
    feature = add(main, main.parent / "feature")
    with LockManager.open(feature) as manager:
        one = manager.acquire(holder="ann", write_paths=[str(feature / "x.txt")])
        manager.acquire(holder="bob", write_paths=[str(main / "x.txt")])
        assert one.write_paths == ("../feature/x.txt",)
        manager.acquire(holder="cid", read_paths=[str(main / "lib")])
    with LockManager.open(main) as manager, pytest.raises(LockTimeoutError):
        manager.acquire(holder="bob", write_paths=[str(feature / "x.txt")], timeout=0)


def test_the_root_of_one_checkout_contains_no_other(main: Path) -> None:
    (main / ".holdfast").mkdir()
    feature = add(main, main.parent / "feature")
    with LockManager.open(main) as manager:
        manager.acquire(holder="ann", write_paths=[str(feature / "x.txt")])
        manager.acquire(holder="bob", read_paths=[str(main)])
        with pytest.raises(LockTimeoutError):
            manager.acquire(holder="bob", read_paths=[str(feature)], timeout=0)


def test_ports_and_databases_are_one_for_all_checkouts(main: Path) -> None:
    (main / ".holdfast").mkdir()
    feature = add(main, main.parent / "feature")
    with LockManager.open(main) as here, LockManager.open(feature) as there:
        here.acquire(holder="ann", write_paths=["port:5432"])
        with pytest.raises(LockTimeoutError):
            there.acquire(holder="bob", write_paths=["port:5432"], timeout=0)


def test_a_path_that_was_shown_leads_to_the_same_file_again(main: Path) -> None:
    (main / ".holdfast").mkdir()
    feature = add(main, main.parent / "deep" / "er" / "feature")
    tree = Tree(str(main))
    place = tree.place(str(feature / "app/new"))
    assert (place.path, place.real) == ("../deep/er/feature/app/new", str(feature / "app/new"))
    assert tree.place(place.path) == place
    assert tree.place(f"{feature}/").path == "../deep/er/feature/"


def test_a_worktree_inside_the_main_checkout_is_a_folder_of_it(main: Path) -> None:
    (main / ".holdfast").mkdir()
    inner = add(main, main / ".trees" / "inner")
    assert find_root(str(inner / "x.txt")) == str(main)
    assert Tree(str(main)).place(str(inner / "x.txt")).key == ".trees/inner/x.txt"


@pytest.mark.parametrize("name", ["repo.git", ".bare", ".git"])
def test_a_bare_repository_has_its_ledger_in_the_common_folder(main: Path, name: str) -> None:
    project = main.parent / "project"
    project.mkdir()
    git(project, "clone", "--quiet", "--bare", main, name)
    if name == ".bare":
        (project / ".git").write_text("gitdir: ./.bare\n")
    one = add(project / name, project / "one")
    assert home_root(str(one / "x.txt")) == str(project / name)
    with LockManager.open(one) as manager:
        manager.acquire(holder="ann", write_paths=[str(one / "x.txt")])
    assert (project / name / ".holdfast/ledger.db").exists()
    two = add(project / name, project / "two")
    assert find_root(str(two)) == str(project / name)


def test_a_folder_that_the_repository_does_not_know_of_is_no_part_of_it(main: Path) -> None:
    (main / ".holdfast").mkdir()
    feature = add(main, main.parent / "feature")
    stranger = main.parent / "stranger"
    stranger.mkdir()
    shutil.copy(feature / ".git", stranger / ".git")
    assert find_root(str(stranger)) is None
    with pytest.raises(BadKeyError, match="outside"):
        Tree(str(main)).place(str(stranger / "x.txt"))


def test_a_pointer_that_leads_nowhere_is_passed_over(main: Path) -> None:
    for text in ("", "gitdir:", "gitdir: \0", "gitdir: /nowhere/worktrees/x", "\xff" * 9000):
        folder = main.parent / "odd"
        folder.mkdir(exist_ok=True)
        (folder / ".git").write_text(text)
        assert find_root(str(folder)) is None
        assert home_root(str(folder)) == str(folder)


def test_a_ledger_that_a_worktree_has_already_counts_until_it_is_taken_over(main: Path) -> None:
    (main / ".holdfast").mkdir()
    feature = add(main, main.parent / "feature")
    (feature / ".holdfast").mkdir()
    assert find_root(str(feature / "x.txt")) == str(feature)
    with pytest.raises(BadKeyError, match="belongs to the ledger of"):
        Tree(str(main)).place(str(feature / "x.txt"))


def test_relative_pointers_are_followed(main: Path) -> None:
    (main / ".holdfast").mkdir()
    feature = add(main, main.parent / "feature")
    (feature / ".git").write_text("gitdir: ../main/.git/worktrees/feature\n")
    (main / ".git/worktrees/feature/gitdir").write_text("../../../../feature/.git\n")
    assert find_root(str(feature)) == str(main)
    assert list(checkouts.linked(str(main))) == [str(feature)]


def test_a_worktree_of_a_submodule_belongs_to_the_tree_around_it(main: Path) -> None:
    around = main.parent / "around"
    around.mkdir()
    git(around, "init", "--quiet")
    git(around, "-c", "protocol.file.allow=always", "submodule", "add", "--quiet", main, "sub")
    (around / ".holdfast").mkdir()
    feature = add(around / "sub", main.parent / "feature")
    assert home_root(str(feature)) == str(around)
    assert find_root(str(feature)) == str(around)


def test_all_linked_worktrees_are_known_that_are_there(main: Path) -> None:
    assert not checkouts.has_linked(str(main))
    one, two = add(main, main.parent / "one"), add(main, main / "two")
    gone = add(main, main.parent / "gone")
    shutil.rmtree(gone)
    assert checkouts.has_linked(str(main))
    assert list(checkouts.linked(str(main))) == [str(one), str(two)]
