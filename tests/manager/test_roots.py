"""Which root: the nearest ledger, git work trees, submodules and linked worktrees."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast import LockManager
from holdfast.core.errors import BadKeyError
from holdfast.manager.files import realpath
from holdfast.manager.files.paths import Tree, find_root, home_root

if TYPE_CHECKING:
    from collections.abc import Iterator

LINUX = sys.platform == "linux"
needs_linux = pytest.mark.skipif(not LINUX, reason="about /proc and O_PATH, which only Linux has")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git command")


@pytest.fixture(params=["look_by_descriptor", "look_by_name"], autouse=True)
def look(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule holds on both ways to look: Linux's quick one, and the one for all systems."""
    if request.param == "look_by_descriptor" and not LINUX:
        pytest.skip("only Linux has O_PATH")
    monkeypatch.setattr(realpath, "look", getattr(realpath, request.param))
    if request.param == "look_by_name":
        monkeypatch.setattr(realpath, "_QUICK_ACCESS", False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / ".holdfast").mkdir(parents=True)
    (root / "app" / "models").mkdir(parents=True)
    (root / "app" / "x.rb").write_text("x")
    return root


def refusal(tree: Tree, text: str) -> BadKeyError:
    with pytest.raises(BadKeyError) as caught:
        tree.place(text)
    return caught.value


def test_the_root_is_the_nearest_folder_with_a_ledger(root: Path, tmp_path: Path) -> None:
    inner = root / "app" / "models"
    (inner / ".holdfast").mkdir()
    assert find_root(str(root)) == str(root)
    assert find_root(str(root / "app" / "x.rb")) == str(root)
    assert find_root(str(root / "app" / "new" / "deep")) == str(root)
    assert find_root(str(inner / "user.rb")) == str(inner)
    assert find_root(str(inner)) == str(inner)
    assert find_root(str(root / ".holdfast")) == str(root)


def test_the_root_is_that_of_the_file_not_of_the_link_to_it(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / ".holdfast").mkdir(parents=True)
    (other / "link").symlink_to(root / "app" / "x.rb")
    (other / "new").symlink_to(root / "app" / "new.rb")
    assert find_root(str(other / "link")) == str(root)
    assert find_root(str(other / "new")) == str(root)


def test_a_relative_start_is_relative_to_the_current_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root / "app")
    assert find_root(".") == find_root("models") == find_root("..") == str(root)
    assert Tree("..").root == str(root)


@needs_linux
def test_a_current_folder_that_is_gone_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(BadKeyError, match="cannot be resolved"):
        find_root("x")


@pytest.fixture
def nowhere() -> Iterator[Path]:
    """A folder that surely lies below no ledger and no git work tree."""
    for parent in (tempfile.gettempdir(), "/dev/shm"):
        if os.path.isdir(parent) and find_root(parent) is None:
            folder = Path(os.path.realpath(tempfile.mkdtemp(dir=parent, prefix="holdfast-")))
            yield folder
            shutil.rmtree(folder)
            return
    pytest.skip("every temporary folder lies below a ledger")


def test_without_ledger_and_git_home_is_the_nearest_existing_folder(nowhere: Path) -> None:
    (nowhere / "file").write_text("x")
    assert find_root(str(nowhere)) is None
    assert home_root(str(nowhere)) == str(nowhere)
    assert home_root(str(nowhere / "file")) == str(nowhere)
    assert home_root(str(nowhere / "new" / "deep")) == str(nowhere)


def git(folder: Path, *words: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *words],
        cwd=folder, check=True, capture_output=True, timeout=60,
        env={
            "PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
        },
    )  # fmt: skip


def repository(folder: Path) -> Path:
    git(folder, "init", "-q")
    (folder / "app").mkdir()
    (folder / "app" / "x.rb").write_text("x")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    return folder


@needs_git
def test_without_ledger_home_is_the_root_of_the_git_work_tree(nowhere: Path) -> None:
    main = repository(nowhere / "main")
    assert home_root(str(main / "app" / "x.rb")) == str(main)
    assert home_root(str(main / "app" / "new")) == str(main)
    assert home_root(str(main / ".git" / "hooks")) == str(main)
    (main / "app" / ".holdfast").mkdir()
    assert home_root(str(main / "app" / "x.rb")) == str(main / "app")


@needs_git
def test_a_submodule_is_part_of_the_tree_around_it(nowhere: Path) -> None:
    library = repository(nowhere / "library")
    main = repository(nowhere / "main")
    git(main, "submodule", "add", "-q", str(library), "vendor/library")
    inside = main / "vendor" / "library"
    assert (inside / ".git").is_file()
    assert home_root(str(inside)) == str(main)
    (main / ".holdfast").mkdir()
    assert find_root(str(inside / "app" / "x.rb")) == str(main)
    assert Tree(str(main)).place("vendor/library/app/x.rb").key == "vendor/library/app/x.rb"


@needs_git
def test_a_submodule_of_a_linked_worktree_belongs_to_the_same_ledger(nowhere: Path) -> None:
    library = repository(nowhere / "library")
    main = repository(nowhere / "main")
    git(main, "submodule", "add", "-q", str(library), "library")
    git(main, "commit", "-qm", "two")
    git(main, "worktree", "add", "-q", str(nowhere / "linked"))
    git(nowhere / "linked", "submodule", "update", "-q", "--init")
    assert (nowhere / "linked" / "library" / ".git").is_file()
    assert home_root(str(nowhere / "linked" / "library" / "app")) == str(main)
    (main / ".holdfast").mkdir()
    place = Tree(str(main)).place(str(nowhere / "linked" / "library" / "app" / "x.rb"))
    assert place.key == "../linked/library/app/x.rb"


@needs_git
def test_a_linked_worktree_inside_a_tree_belongs_to_the_nearest_ledger(nowhere: Path) -> None:
    main = repository(nowhere / "main")
    (main / ".holdfast").mkdir()
    linked = main / "trees" / "one"
    git(main, "worktree", "add", "-q", str(linked))
    tree = Tree(str(main))
    assert home_root(str(linked)) == str(main)
    assert tree.place("trees/one/app/x.rb").key == "trees/one/app/x.rb"
    (linked / ".holdfast").mkdir()
    assert home_root(str(linked)) == str(linked)
    assert str(linked) in refusal(tree, "trees/one/app/x.rb").message


def test_a_git_folder_kept_elsewhere_does_not_make_a_submodule(nowhere: Path) -> None:
    (nowhere / ".git").mkdir()
    for pointer, expected in {
        "gitdir: ../.git/modules/x": nowhere,
        "gitdir: /srv/modules/x": nowhere / "inside",
        "gitdir: /srv/.git/worktrees/x": nowhere / "inside",
        "gitdir: /srv/.git/modules/x/worktrees/y": nowhere / "inside",
        "nonsense": nowhere / "inside",
        "": nowhere / "inside",
    }.items():
        (nowhere / "inside").mkdir(exist_ok=True)
        (nowhere / "inside" / ".git").write_text(f"{pointer}\n")
        assert home_root(str(nowhere / "inside")) == str(expected)


def test_a_ledger_is_not_made_through_a_symbolic_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    (repo / ".holdfast").symlink_to(elsewhere)
    with pytest.raises(BadKeyError, match="symbolic link"):
        LockManager.open(repo)
    assert list(elsewhere.iterdir()) == []


def test_a_place_behind_a_link_is_where_the_link_leads(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "inner")
    with LockManager.open(tmp_path / "link" / "..") as manager:
        assert manager.tree is not None
        assert manager.tree.root == str(tmp_path / "real")
