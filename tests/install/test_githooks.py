"""git's hooks, with the real git: what a commit contains, chaining, and restoring."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.gate.git import git_files, git_hooks, hook_folder, hook_scripts
from holdfast.gate.git.git_control_files import controls_of
from holdfast.gate.git.git_files import GitError, committed, dirty, staged
from holdfast.gate.git.git_hooks import GitHookError, Hook
from holdfast.gate.git.hook_folder import folders
from holdfast.gate.git.hook_managers import stashing_managers

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the hooks are scripts of a shell")

SOURCE = Path(holdfast.__file__).parent.parent

#: Takes the place of hook.py: records its arguments and its input, and exits with a chosen code.
STUB = """
import json, os, sys
sys.path.insert(0, {source!r})
from holdfast.gate.git.git_files import committed, staged
name = sys.argv[2]
seen = staged(os.getcwd()) if name.startswith("pre-") else committed(os.getcwd())
with open({log!r}, "a") as file:
    print(json.dumps([sys.argv[1:], seen, os.getcwd()]), file=file)
codes = json.load(open({codes!r})) if os.path.exists({codes!r}) else {{}}
sys.exit(codes.get(name, 0))
"""


class Repo:
    """A repository, and a record of what its hooks did."""

    def __init__(self, folder: Path, name: str = "it's a repo") -> None:
        self.folder = folder
        self.root = folder / name
        self.log = folder / "log"
        self.codes = folder / "codes"
        folder.mkdir(exist_ok=True)
        stub = folder / "a stub.py"
        stub.write_text(STUB.format(source=str(SOURCE), log=str(self.log), codes=str(self.codes)))
        self.words = (sys.executable, "-I", "-S", str(stub))
        self.root.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.hooks = self.root / ".git/hooks"

    def git(self, *words: object, at: Path | None = None, ok: bool = True) -> str:
        done = subprocess.run(
            ["git", *map(str, words)], cwd=at or self.root, capture_output=True, text=True,
            check=False, timeout=60, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (done.returncode == 0) is ok, done
        return done.stdout + done.stderr

    def write(self, *names: str, content: str = "new\n", at: Path | None = None) -> None:
        for name in names:
            file = (at or self.root) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)

    def commit(self, *names: str, content: str = "new\n") -> None:
        self.write(*names, content=content)
        self.git("add", "--", *names)
        self.git("commit", "-m", "a commit")

    def install(self, **more: Any) -> dict[str, str]:
        return by_name(git_hooks.install(str(self.root), words=self.words, **more))

    def states(self) -> dict[str, str]:
        return by_name(git_hooks.status(str(self.root), words=self.words))

    def uninstall(self) -> dict[str, str]:
        return by_name(git_hooks.uninstall(str(self.root)))

    def seen(self) -> list[list[Any]]:
        """The arguments and paths that the hooks have recorded since the last call."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        found = map(json.loads, lines)
        return [[" ".join(words[1:]), sorted(paths)] for words, paths, _where in found]

    def hook(self, name: str, text: str, mode: int = 0o755, folder: Path | None = None) -> Path:
        file = (folder or self.hooks) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file


def by_name(hooks: list[Hook]) -> dict[str, str]:
    return {hook.name: hook.state for hook in hooks}


def each(state: str, **but: str) -> dict[str, str]:
    """All hooks in one state, with some exceptions."""
    return dict.fromkeys(git_hooks.HOOKS, state) | {
        name.replace("_", "-"): other for name, other in but.items()
    }


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    (tmp_path / "gitconfig").write_text(
        "[user]\n\tname = Ann\n\temail = ann@example.org\n[diff]\n\trenames = copies\n"
        '\trelative = true\n[core]\n\tquotePath = true\n[protocol "file"]\n\tallow = always\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    return Repo(tmp_path)


def picture(folder: Path) -> dict[str, tuple[int, int, bytes, float]]:
    """The visible state of the files in a folder: inode, mode, content or target, time."""
    found = {}
    for file in sorted(folder.iterdir()) if folder.exists() else []:
        status = file.lstat()
        content = os.readlink(file).encode() if file.is_symlink() else file.read_bytes()
        found[file.name] = (status.st_ino, status.st_mode, content, status.st_mtime)
    return found


# The content of a commit


def both(*paths: str) -> list[list[Any]]:
    return [["pre-commit", sorted(paths)], ["post-commit", sorted(paths)]]


def around(*paths: str) -> list[list[Any]]:
    """The records expected when another hook ran before ours."""
    _alone, last = both(*paths)
    return [["pre-commit first", sorted(paths)], ["pre-commit again", sorted(paths)], last]


def test_the_hooks_see_what_the_commit_contains(repo: Repo) -> None:
    assert repo.install() == each("installed")
    repo.write("a", "b", "sub/c", "unstaged")
    repo.git("add", "a", "b", "sub/c")
    repo.git("commit", "-m", "the first")
    assert repo.seen() == both("a", "b", "sub/c")

    repo.write("a", "b", content="2\n")
    repo.git("add", "a")
    repo.git("commit", "-m", "only what is staged")
    assert repo.seen() == both("a")

    repo.git("mv", "a", "A")
    repo.git("rm", "--quiet", "sub/c")
    repo.git("commit", "-m", "renamed and deleted")
    assert repo.seen() == both("a", "A", "sub/c")

    repo.write("A", content="3\n")
    repo.git("commit", "-am", "everything that is tracked")
    assert repo.seen() == both("A", "b")


def test_the_hooks_see_only_the_paths_that_are_named(repo: Repo) -> None:
    repo.commit("a", "sub/b", "c")
    repo.install()
    repo.write("a", "sub/b", "c", content="2\n")
    repo.git("add", "c")
    repo.git("commit", "-m", "by its path", "b", at=repo.root / "sub")
    assert repo.seen() == both("sub/b")
    repo.git("commit", "-m", "with what is staged", "--include", "a")
    assert repo.seen() == both("a", "c")


def test_names_of_any_kind_come_through(repo: Repo) -> None:
    names = ["new\nline", "tab\tquote\"'", "ümlaut", " blank ", "-dash", ":(glob)*", "*", "\udcff"]
    repo.install()
    repo.write(*names)
    repo.git("add", "--all")
    repo.git("commit", "-m", "odd names")
    assert repo.seen() == both(*names)
    assert sorted(committed(str(repo.root))) == sorted(names)
    repo.write(*names, content="2\n")
    assert dirty(str(repo.root), names) == names
    assert dirty(str(repo.root), ["*", "nothing"]) == ["*"]


def test_a_linked_worktree_has_the_same_hooks_and_its_own_index(repo: Repo) -> None:
    repo.commit("a", "b")
    repo.install()
    other = repo.folder / "other tree"
    repo.git("worktree", "add", "-b", "other", other)
    assert folders(str(other)).now == str(repo.hooks)
    assert by_name(git_hooks.status(str(other), words=repo.words)) == each("installed")
    repo.write("a", content="in main\n")
    repo.git("add", "a")
    repo.write("b", content="in other\n", at=other)
    assert [name for name, _ in repo.seen()] == ["post-checkout"]  # run in the new worktree
    repo.git("commit", "-am", "in the other", at=other)
    assert repo.seen() == both("b")
    assert staged(str(repo.root)) == ["a"]
    assert staged(str(other)) == []
    assert dirty(str(other), ["a", "b"]) == []
    assert by_name(git_hooks.uninstall(str(other))) == each("absent")
    assert repo.states() == each("absent")


def test_a_relative_environment_of_git_is_read_from_where_the_hook_started(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit("a", "sub/b")
    repo.write("a", content="2\n")
    repo.git("add", "a")
    monkeypatch.chdir(repo.root)
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    monkeypatch.setenv("GIT_PREFIX", "sub/")
    assert staged(str(repo.root)) == ["a"]
    assert dirty(str(repo.root), ["a", "sub/b"]) == ["a"]
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert folders(str(repo.root)).now == str(repo.hooks)
    assert repo.install() == each("installed")  # found by its folder, whatever the cwd


def test_the_last_commit_may_be_the_first_or_a_merge_or_an_amended_one(repo: Repo) -> None:
    root = str(repo.root)
    assert committed(root) == []
    assert staged(root) == []
    repo.commit("a", "sub/b")
    assert committed(root) == ["a", "sub/b"]
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit("side")
    repo.git("checkout", "--quiet", "main")
    repo.commit("c")
    repo.git("merge", "--no-edit", "side")
    assert committed(root) == ["side"]
    repo.commit("d")
    repo.write("e")
    repo.git("add", "e")
    repo.git("commit", "--amend", "--no-edit")
    assert committed(root) == ["d", "e"]
    repo.git("commit", "--allow-empty", "-m", "nothing")
    assert committed(root) == []
    repo.git("clone", "--quiet", "--depth=1", repo.root.as_uri(), repo.folder / "shallow")
    assert "sub/b" in committed(str(repo.folder / "shallow"))


def test_a_repository_with_longer_hashes_works_too(repo: Repo) -> None:
    new = repo.folder / "sha256"
    repo.git("init", "--quiet", "--object-format=sha256", new, at=repo.folder)
    repo.write("a", at=new)
    repo.git("add", "a", at=new)
    assert staged(str(new)) == ["a"]


def test_a_submodule_is_one_path(repo: Repo) -> None:
    inner = Repo(repo.folder / "inner")
    inner.commit("x")
    repo.commit("a")
    repo.git("submodule", "--quiet", "add", inner.root.as_uri(), "module")
    repo.git("config", "submodule.module.ignore", "all")
    assert staged(str(repo.root)) == [".gitmodules", "module"]
    repo.git("commit", "-m", "with a submodule")
    assert committed(str(repo.root)) == [".gitmodules", "module"]


def test_what_is_dirty_differs_from_the_last_commit(repo: Repo) -> None:
    names = ["same", "changed", "staged", "removed", "renamed", "gone"]
    repo.commit(*names)
    repo.write(".gitignore", content="ignored\n")
    repo.git("add", ".gitignore")
    repo.git("commit", "-m", "ignore")
    repo.write("changed", "staged", "untracked/deep/file", "ignored", content="2\n")
    repo.git("add", "staged")
    repo.git("rm", "--quiet", "removed")
    repo.git("mv", "renamed", "new name")
    (repo.root / "gone").unlink()
    asked = [*names, "new name", "untracked/deep/file", "ignored", "never/was", "same"]
    assert dirty(str(repo.root), asked) == [
        "changed", "staged", "removed", "renamed", "gone", "new name", "untracked/deep/file",
    ]  # fmt: skip
    assert dirty(str(repo.root), []) == []
    assert dirty(str(repo.root / "untracked"), ["same", "changed"]) == ["changed"]


def test_what_is_dirty_does_not_depend_on_the_index_that_a_commit_made_for_itself(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit("a", "b")
    other = repo.folder / "next-index"
    shutil.copy(repo.root / ".git/index", other)
    monkeypatch.setenv("GIT_INDEX_FILE", str(other))
    repo.write("b", content="2\n")
    repo.git("add", "b")
    repo.write("b", content="new\n")
    assert staged(str(repo.root)) == ["b"]
    assert dirty(str(repo.root), ["a", "b"]) == []


def test_many_paths_are_asked_in_portions(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"folder/file {number}" for number in range(50)]
    repo.commit(*names)
    repo.write(*names[::7], content="2\n")
    monkeypatch.setattr(git_files, "_PATHS_BYTES_MAX", 100)
    assert dirty(str(repo.root), names) == names[::7]


def test_no_repository_is_an_error_that_says_so(repo: Repo, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for ask in (staged, committed, git_hooks.status, git_hooks.install, stashing_managers):
        with pytest.raises(GitError, match="not a git repository"):
            ask(str(empty))


# Ours


def test_a_hook_that_refuses_stops_the_commit(repo: Repo) -> None:
    repo.commit("a")
    repo.install()
    repo.codes.write_text('{"pre-commit": 7}')
    repo.write("a", content="2\n")
    repo.git("commit", "-am", "refused", ok=False)
    assert repo.seen() == [["pre-commit", ["a"]]]
    assert committed(str(repo.root)) == ["a"]
    repo.codes.unlink()
    repo.git("commit", "-am", "allowed")
    assert repo.seen() == both("a")


def test_the_command_is_absolute_and_has_nothing_in_between() -> None:
    python, *flags, script = git_hooks.command()
    assert os.path.isabs(python)
    assert flags == ["-I", "-S"]
    assert script == str(SOURCE / "holdfast/gate/hook.py")


def test_installing_again_changes_nothing(repo: Repo) -> None:
    repo.hook("pre-commit", "#!/bin/sh\nexit 0\n")
    repo.install()
    before = picture(repo.hooks)
    assert repo.install() == each("installed")
    assert picture(repo.hooks) == before


def test_another_command_makes_it_outdated_and_rewrites_it(repo: Repo) -> None:
    repo.hook("pre-commit", "#!/bin/sh\necho theirs\n")
    git_hooks.install(str(repo.root), words=("/old/python", "-I", "-S", "/old/hook.py"))
    assert repo.states() == each("outdated")
    assert repo.install() == each("installed")
    repo.write("a")
    repo.git("add", "a")
    assert "theirs" in repo.git("commit", "-m", "x")
    assert repo.seen() == around("a")


def test_a_program_that_is_gone_refuses_with_what_to_do(repo: Repo) -> None:
    git_hooks.install(str(repo.root), words=("/old/python", "-I", "-S", "/old/hook.py"))
    repo.write("a")
    repo.git("add", "a")
    said = repo.git("commit", "-m", "x", ok=False)
    assert "its program is missing" in said
    assert "holdfast init" in said
    repo.git("commit", "--no-verify", "-m", "x")


# The other hook


BEFORE = "#!/bin/sh\necho \"{name} before: $0 $# $PWD\" >> '{log}.before'\nexit {code}\n"


def ran_before(repo: Repo) -> list[str]:
    file = Path(f"{repo.log}.before")
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return [line.split()[0] for line in lines]


def put_before(repo: Repo, name: str, code: int = 0, mode: int = 0o755) -> Path:
    log = str(repo.log).replace("'", "'\\''")
    return repo.hook(name, BEFORE.format(name=name, log=log, code=code), mode)


def test_our_hook_runs_before_the_other_and_again_after_it(repo: Repo) -> None:
    for name in git_hooks.HOOKS:
        put_before(repo, name)
    repo.install()
    repo.write("a")
    repo.git("add", "a")
    repo.git("commit", "-m", "x")
    assert ran_before(repo) == ["pre-commit", "post-commit"]
    assert repo.seen() == around("a")


def test_the_other_hook_does_not_run_if_ours_refuses(repo: Repo) -> None:
    """The other hook may stash other agents' changes, or format them."""
    put_before(repo, "pre-commit")
    repo.install()
    repo.codes.write_text('{"pre-commit": 1}')
    repo.write("a")
    repo.git("add", "a")
    repo.git("commit", "-m", "x", ok=False)
    assert ran_before(repo) == []
    assert repo.seen() == [["pre-commit first", ["a"]]]


def test_a_refusal_by_the_other_hook_counts(repo: Repo) -> None:
    put_before(repo, "pre-commit", code=3)
    repo.install()
    repo.write("a")
    repo.git("add", "a")
    repo.git("commit", "-m", "x", ok=False)
    assert ran_before(repo) == ["pre-commit"]
    assert repo.seen() == [["pre-commit first", ["a"]]]


def test_files_that_the_other_hook_staged_are_checked_too(repo: Repo) -> None:
    repo.hook("pre-commit", "#!/bin/sh\necho x > more\ngit add more\n")
    repo.install()
    repo.write("a")
    repo.git("add", "a")
    repo.git("commit", "-m", "x")
    assert repo.seen() == [
        ["pre-commit first", ["a"]], ["pre-commit again", ["a", "more"]],
        ["post-commit", ["a", "more"]],
    ]  # fmt: skip


def test_a_post_commit_that_fails_does_not_keep_ours_from_running(repo: Repo) -> None:
    put_before(repo, "post-commit", code=5)
    repo.install()
    repo.write("a")
    repo.git("add", "a")
    repo.git("commit", "-m", "x")  # the commit is made whatever the hook returns
    assert repo.seen() == both("a")
    done = subprocess.run([repo.hooks / "post-commit"], cwd=repo.root, check=False)
    assert done.returncode == 5


def test_a_hook_that_was_not_executable_does_not_run_now_either(repo: Repo) -> None:
    put_before(repo, "pre-commit", code=1, mode=0o644)
    before = picture(repo.hooks)
    repo.install()
    repo.write("a")
    repo.git("add", "a")
    repo.git("commit", "-m", "x")
    assert ran_before(repo) == []
    repo.uninstall()
    assert picture(repo.hooks) == before


@pytest.mark.parametrize("mode", [0o755, 0o700, 0o644, 0o775])
def test_removing_our_hook_restores_exactly_the_other(repo: Repo, mode: int) -> None:
    put_before(repo, "pre-commit", mode=mode)
    (repo.folder / "real hook").write_bytes(b"#!/bin/sh\nexit 0\n")
    (repo.folder / "real hook").chmod(0o755)
    (repo.hooks / "post-commit").symlink_to("../../../real hook")
    repo.hook("pre-push", "#!/bin/sh\n")
    before = picture(repo.hooks)
    for _ in range(2):
        repo.install()
        assert picture(repo.hooks) != before
        repo.uninstall()
        assert picture(repo.hooks) == before
    repo.uninstall()
    assert picture(repo.hooks) == before


def test_a_link_that_was_there_still_runs(repo: Repo) -> None:
    put_before(repo, "real")
    (repo.hooks / "real").rename(repo.root / ".git/real")
    (repo.hooks / "pre-commit").symlink_to("../real")
    repo.install()
    repo.write("a")
    repo.git("add", "a")
    repo.git("commit", "-m", "x")
    assert ran_before(repo) == ["real"]


def test_a_folder_that_was_made_is_removed_again(repo: Repo) -> None:
    shutil.rmtree(repo.hooks)
    assert repo.install() == each("installed")
    repo.install()
    repo.write("a")
    repo.git("add", "a")
    repo.git("commit", "-m", "x")
    assert repo.seen() == both("a")
    assert repo.uninstall() == each("absent")
    assert not repo.hooks.exists()
    repo.hooks.mkdir()
    repo.install()
    repo.uninstall()
    assert repo.hooks.exists()


def test_a_hook_that_cannot_be_chained_is_not_touched(repo: Repo) -> None:
    def untouched(match: str) -> None:
        before = picture_or_folders(repo.hooks)
        with pytest.raises(GitHookError, match=match) as caught:
            repo.install()
        assert caught.value.hint
        assert picture_or_folders(repo.hooks) == before

    (repo.hooks / "post-commit").mkdir(parents=True)
    put_before(repo, "pre-commit")
    untouched("not a file")
    (repo.hooks / "post-commit").rmdir()
    (repo.hooks / "post-commit").symlink_to("nowhere")
    untouched("dangling link")
    (repo.hooks / "post-commit").unlink()
    repo.hook("post-commit", "#!/usr/bin/env ruby\nhook_type = File.basename($0)\n")
    untouched("own file name")
    repo.hook("post-commit", "#!/bin/sh\necho new\n")
    repo.hook("post-commit.holdfast-before", "#!/bin/sh\necho old\n")
    untouched("rewritten after")
    (repo.hooks / "post-commit").unlink()
    assert repo.install() == each("installed")
    with (repo.hooks / "pre-commit").open("a") as file:
        file.write("echo more\n")
    assert repo.states() == each("installed", pre_commit="edited")
    untouched("Holdfast's hook was edited")
    before = picture(repo.hooks)
    with pytest.raises(GitHookError):
        repo.uninstall()
    assert picture(repo.hooks) == before


def picture_or_folders(folder: Path) -> object:
    return [
        (file.name, file.lstat().st_ino, b"" if file.is_dir() or file.is_symlink() else
         file.read_bytes())
        for file in sorted(folder.iterdir())
    ]  # fmt: skip


def test_a_crash_between_keeping_and_writing_is_repaired(repo: Repo) -> None:
    put_before(repo, "pre-commit")
    before = picture(repo.hooks)
    os.link(repo.hooks / "pre-commit", repo.hooks / "pre-commit.holdfast-before")
    assert repo.uninstall() == each("absent", pre_commit="foreign")
    assert picture(repo.hooks) == before
    os.link(repo.hooks / "pre-commit", repo.hooks / "pre-commit.holdfast-before")
    assert repo.install() == each("installed")
    repo.uninstall()
    assert picture(repo.hooks) == before


# Where git looks for hooks


@pytest.mark.parametrize("kind", ["relative", "absolute", "outside", "for all repositories"])
def test_a_folder_that_is_set_is_not_touched_and_its_hooks_still_run(repo: Repo, kind: str) -> None:
    folder = repo.root / "tools/hooks"
    if kind in ("outside", "for all repositories"):
        folder = repo.folder / "outside"
    scope = "--global" if kind == "for all repositories" else "--local"
    repo.git("config", scope, "core.hooksPath", "tools/hooks" if kind == "relative" else folder)
    log = str(repo.log).replace("'", "'\\''")
    for name in ("pre-commit", "commit-msg", "post-commit", "post-checkout"):
        repo.hook(name, f"#!/bin/sh\necho {name} $# $0 >> '{log}.before'\n", folder=folder)
    before, settings = picture(folder), (repo.root / ".git/config").read_bytes()
    (repo.root / "sub").mkdir()
    found = git_hooks.install(str(repo.root / "sub"), words=repo.words)
    assert by_name(found) == each("installed")
    assert {Path(hook.path).parent for hook in found} == {repo.root / ".git/holdfast/hooks"}
    assert picture(folder) == before
    repo.write("a", "sub/b")
    repo.git("add", "a", "sub/b")
    repo.git("commit", "-m", "x", at=repo.root / "sub")
    assert repo.seen() == around("a", "sub/b")
    assert ran_before(repo) == ["pre-commit", "commit-msg", "post-commit"]
    repo.git("checkout", "-b", "other")
    assert ran_before(repo) == ["post-checkout"]
    assert repo.git("status", "--porcelain").replace("?? tools/\n", "") == ""
    assert repo.uninstall() == each("absent")
    assert picture(folder) == before
    assert (repo.root / ".git/config").read_bytes() == settings
    assert not (repo.root / ".git/holdfast").exists()


def test_nothing_that_git_tracks_is_written(repo: Repo) -> None:
    """Some projects share their hooks, but the command is valid on this machine only."""
    repo.git("config", "core.hooksPath", ".husky")
    repo.hook("pre-commit", "#!/bin/sh\nexit 0\n", folder=repo.root / ".husky")
    repo.commit(".husky/commit-msg", content="#!/bin/sh\n")
    repo.git("add", "--all")
    repo.git("commit", "-m", "shared")
    repo.install()
    assert repo.git("status", "--porcelain", "--ignored") == ""
    repo.commit("a")
    assert repo.seen() == around("a")


def test_ours_that_an_earlier_version_left_in_such_a_folder_are_taken_out_of_it(repo: Repo) -> None:
    shared = repo.root / ".husky"
    repo.hook("pre-commit", "#!/bin/sh\nexit 0\n", folder=shared)
    repo.git("add", "--all")
    repo.git("commit", "-m", "shared")
    before = picture(shared)
    ours = hook_scripts.render(
        "pre-commit", repo.words, b"", kind=hook_scripts.CHECKS, made=False
    ).decode()
    (shared / "pre-commit").rename(shared / "pre-commit.holdfast-before")
    repo.hook("pre-commit", ours, folder=shared)
    repo.hook("post-merge", ours, folder=shared)
    repo.git("config", "core.hooksPath", ".husky")
    assert "outdated" in repo.states().values()
    assert repo.install() == each("installed")
    assert picture(shared) == before
    assert repo.git("status", "--porcelain") == ""


def test_what_git_executes_is_still_known_to_control_it(repo: Repo) -> None:
    repo.git("config", "core.hooksPath", "tools")
    hook = repo.hook("pre-commit", "#!/bin/sh\n", folder=repo.root / "tools")
    repo.install()
    control = controls_of(str(repo.root)).of(str(hook))
    assert control is not None
    assert control.name == "core.hooksPath"


def test_a_manager_that_sets_the_folder_again_does_not_get_past_us(repo: Repo) -> None:
    """husky sets it at each installation of packages, and may choose another folder."""
    husky(repo)
    repo.install()
    husky(repo)
    assert repo.states() == each("installed")
    repo.hook("pre-commit", "#!/bin/sh\nexit 9\n", folder=repo.root / "new")
    repo.git("config", "core.hooksPath", "new")
    repo.write("a")
    repo.git("add", "a")
    repo.git("commit", "-m", "x", ok=False)
    assert repo.seen() == [["pre-commit first", ["a"]]]
    repo.git("config", "--unset", "core.hooksPath")
    assert repo.states() == each("passed by")
    assert repo.install() == each("installed")
    assert (repo.hooks / "pre-commit").exists()
    assert not (repo.root / ".git/holdfast").exists()


def test_settings_that_were_added_after_ours_are_noticed_and_repaired(repo: Repo) -> None:
    husky(repo)
    repo.install()
    settings = repo.root / ".git/config"
    with settings.open("a") as file:
        file.write("[core]\n\thooksPath = .husky/_\n")
    assert repo.states() == each("passed by")
    assert repo.install() == each("installed")
    repo.commit("a")
    assert repo.seen() == around("a")
    repo.uninstall()
    assert settings.read_text().endswith("[core]\n\thooksPath = .husky/_\n")
    assert "holdfast" not in settings.read_text()


@pytest.mark.parametrize("end", ["", "\n", "\n\n# mine"])
def test_gits_settings_come_back_byte_by_byte(repo: Repo, end: str) -> None:
    husky(repo)
    settings = repo.root / ".git/config"
    settings.write_text(f"{settings.read_text().strip()}  ; husky's{end}")
    settings.chmod(0o640)
    before, mode = settings.read_bytes(), settings.stat().st_mode
    for _ in range(2):
        assert repo.install() == each("installed")
        assert settings.stat().st_mode == mode
        repo.uninstall()
        assert settings.read_bytes() == before


def test_settings_that_another_process_writes_are_waited_for(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    husky(repo)
    lock = repo.root / ".git/config.lock"
    lock.touch()
    monkeypatch.setattr(hook_folder, "_LOCK_SECONDS", 0.1)
    with pytest.raises(GitError, match="another process is writing git's settings"):
        repo.install()
    lock.unlink()
    assert repo.install() == each("installed")


@pytest.mark.parametrize("name", ["moved", 'it\'s [a] "repo" *? \\ ümlaut'])
def test_a_repository_that_was_moved_runs_its_hooks_as_without_us(repo: Repo, name: str) -> None:
    husky(repo)
    log = str(repo.log).replace("'", "'\\''")
    repo.hook("pre-commit", f"echo x >> '{log}.before'\n", 0o644, repo.root / ".husky")
    repo.install()
    moved = repo.folder / name
    repo.root.rename(moved)
    repo.write("a", at=moved)
    repo.git("add", "a", at=moved)
    repo.git("commit", "-m", "x", at=moved)
    assert ran_before(repo) == ["x"]
    assert repo.seen() == []
    repo.root = moved
    assert repo.states() == each("passed by")
    assert repo.install() == each("installed")
    repo.commit("b")
    assert repo.seen() == around("b")


def test_a_folder_that_is_set_serves_all_linked_worktrees(repo: Repo) -> None:
    """A relative folder is a different one in each worktree, and some worktrees may not have it."""
    repo.commit("a")
    repo.git("config", "core.hooksPath", "tools")
    repo.hook("pre-commit", "#!/bin/sh\nexit 9\n", folder=repo.root / "tools")
    repo.install()
    other = repo.folder / "other tree"
    repo.git("worktree", "add", "-b", "other", other)
    assert by_name(git_hooks.status(str(other), words=repo.words)) == each("installed")
    repo.write("a", content="2\n", at=other)
    assert [name for name, _ in repo.seen()] == ["post-checkout"]  # run in the new worktree
    repo.git("commit", "-am", "in the other", at=other)
    assert repo.seen() == both("a")
    repo.hook("pre-commit", "#!/bin/sh\nexit 9\n", folder=other / "tools")
    repo.write("a", content="3\n", at=other)
    repo.git("commit", "-am", "in the other", at=other, ok=False)


def test_a_hook_that_only_some_repositories_have_is_passed_on_if_it_is_there(repo: Repo) -> None:
    """git does more work, or runs slower, if a hook of that name exists."""
    folder = repo.root / ".githooks"
    log = str(repo.log).replace("'", "'\\''")
    repo.git("config", "core.hooksPath", ".githooks")
    repo.install()
    assert not (repo.root / ".git/holdfast/hooks/reference-transaction").exists()
    repo.hook("reference-transaction", f"#!/bin/sh\necho x >> '{log}.before'\n", folder=folder)
    assert set(repo.states().values()) == {"outdated"}
    repo.install()
    repo.commit("a")
    assert "x" in ran_before(repo)


def test_a_hooks_arguments_and_input_pass_through_ours(repo: Repo) -> None:
    folder = repo.root / ".githooks"
    log = str(repo.log).replace("'", "'\\''")
    repo.git("config", "core.hooksPath", ".githooks")
    repo.hook("pre-push", f"#!/bin/sh\ncat >> '{log}.before'; exit 7\n", folder=folder)
    repo.install()
    repo.commit("a")
    bare = repo.folder / "bare.git"
    repo.git("init", "--quiet", "--bare", bare)
    repo.git("push", bare, "main", ok=False)
    assert ran_before(repo) == ["refs/heads/main"]


def test_a_submodule_has_hooks_of_its_own(repo: Repo) -> None:
    inner = Repo(repo.folder / "inner")
    inner.commit("x")
    repo.commit("a")
    repo.git("submodule", "--quiet", "add", inner.root.as_uri(), "module")
    repo.install()
    module = repo.root / "module"
    assert by_name(git_hooks.status(str(module), words=repo.words)) == each("absent")
    assert by_name(git_hooks.install(str(module), words=repo.words)) == each("installed")
    assert (repo.root / ".git/modules/module/hooks/pre-commit").exists()
    repo.write("x", content="2\n", at=module)
    repo.git("commit", "-am", "inside", at=module)
    assert repo.seen() == both("x")


@pytest.mark.parametrize("name", git_hooks.HOOKS)
def test_a_hook_that_can_no_longer_be_run_is_noticed_and_repaired(repo: Repo, name: str) -> None:
    repo.install()
    (repo.hooks / name).chmod(0o644)
    assert repo.states() == each("installed") | {name: "outdated"}
    assert repo.install() == each("installed")
    assert os.access(repo.hooks / name, os.X_OK)


def test_hooks_that_are_switched_off_stay_so(repo: Repo) -> None:
    repo.git("config", "core.hooksPath", os.devnull)
    with pytest.raises(GitHookError, match="switched off"):
        repo.install()


#: From husky: every script in its folder sources this one, which acts by the caller's name.
HUSKY = """#!/usr/bin/env sh
n=$(basename "$0")
s=$(dirname "$(dirname "$0")")/$n
[ ! -f "$s" ] && exit 0
sh -e "$s" "$@"
c=$?
exit $c
"""


def husky(repo: Repo) -> Path:
    folder = repo.root / ".husky/_"
    repo.hook("h", HUSKY, folder=folder)
    for name in git_hooks.HOOKS:
        repo.hook(name, '#!/usr/bin/env sh\n. "$(dirname "$0")/h"', folder=folder)
    repo.git("config", "core.hooksPath", ".husky/_")
    return folder


def test_huskys_hooks_still_run_under_their_names(repo: Repo) -> None:
    folder = husky(repo)
    log = str(repo.log).replace("'", "'\\''")
    for name in git_hooks.HOOKS:
        repo.hook(name, f"echo {name} >> '{log}.before'\n", 0o644, repo.root / ".husky")
    before = picture(folder)
    assert repo.install() == each("installed")
    repo.write("a")
    repo.git("add", "a")
    repo.git("commit", "-m", "x")
    assert ran_before(repo) == ["pre-commit", "post-commit"]
    assert repo.seen() == around("a")
    repo.hook("pre-commit", "exit 9\n", 0o644, repo.root / ".husky")
    repo.write("a", content="2\n")
    repo.git("commit", "-am", "x", ok=False)
    assert repo.seen() == [["pre-commit first", ["a"]]]
    repo.uninstall()
    assert picture(folder) == before


def test_a_hook_that_starts_itself_again_does_not_loop(repo: Repo) -> None:
    log = str(repo.log).replace("'", "'\\''")
    repo.hook(
        "pre-commit",
        f"#!/bin/sh\nname=$(basename \"$0\")\necho $name >> '{log}.before'\n"
        'if [ -z "$AGAIN" ]; then AGAIN=1 sh -e "$0" "$@"; exit $?; fi\nexit 0\n',
    )
    repo.install()
    repo.write("a")
    repo.git("add", "a")
    repo.git("commit", "-m", "x")
    assert ran_before(repo) == ["pre-commit", "pre-commit.holdfast-before"]
    assert repo.seen() == around("a")


#: In the form of the pre-commit framework's. fights/test_hook_managers.py tests the real one.
PRE_COMMIT = """#!/usr/bin/env bash
# File generated by pre-commit: https://pre-commit.com
ARGS=(hook-impl --config=.pre-commit-config.yaml --hook-type=pre-commit)
echo "checked by the framework"
"""


# Managers that stash


@pytest.fixture
def managers(repo: Repo) -> Callable[[], list[tuple[str, str]]]:
    def found() -> list[tuple[str, str]]:
        stashers = stashing_managers(str(repo.root))
        assert all(one.evidence for one in stashers)
        return [(one.name, one.takes) for one in stashers]

    assert found() == []
    return found


def test_the_pre_commit_framework_is_found_by_hook_and_settings(repo: Repo, managers: Any) -> None:
    repo.hook("pre-commit", PRE_COMMIT)
    assert managers() == []
    repo.write(".pre-commit-config.yaml")
    assert managers() == [("pre-commit", "all")]
    [stasher] = stashing_managers(str(repo.root))
    assert ".git/hooks/pre-commit" in stasher.evidence
    assert ".pre-commit-config.yaml" in stasher.evidence
    repo.install()
    assert managers() == [("pre-commit", "all")]  # also when it runs after our hook
    git_hooks.uninstall(str(repo.root))
    (repo.hooks / "pre-commit").unlink()
    assert managers() == []  # settings that no hook reads
    (repo.root / ".pre-commit-config.yaml").unlink()
    repo.hook("pre-commit", PRE_COMMIT.replace(".pre-commit-config.yaml", "ci/hooks.yaml"))
    assert managers() == []
    repo.write("ci/hooks.yaml")
    assert managers() == [("pre-commit", "all")]


@pytest.mark.parametrize(
    ("hook", "is_skipped"),
    [("pre-merge-commit", True), ("commit-msg", True), ("prepare-commit-msg", False),
     ("post-commit", False), ("post-merge", False)],
)  # fmt: skip
def test_the_pre_commit_framework_is_found_in_every_hook_of_a_commit(
    repo: Repo, managers: Any, hook: str, is_skipped: bool
) -> None:
    """The framework stashes unstaged work in each of them, even with nothing to check."""
    repo.write(".pre-commit-config.yaml")
    repo.hook(hook, PRE_COMMIT)
    [found] = stashing_managers(str(repo.root))
    assert (found.name, found.takes, found.is_skipped) == ("pre-commit", "all", is_skipped)
    assert f".git/hooks/{hook} " in found.evidence
    assert stashing_managers(str(repo.root), ("pre-commit",)) == []
    assert len(stashing_managers(str(repo.root), ("pre-commit", hook))) == 1


def test_a_hook_that_is_not_executable_stashes_nothing(repo: Repo, managers: Any) -> None:
    repo.write(".pre-commit-config.yaml")
    hook = repo.hook("pre-commit", PRE_COMMIT, 0o644)
    assert managers() == []
    hook.chmod(0o755)
    assert managers() == [("pre-commit", "all")]


@pytest.mark.parametrize(
    ("line", "takes"),
    [
        ("npx lint-staged\n", "all"),
        ("# npx lint-staged\n", None),
        ("npx lint-staged --no-stash\n", "partly staged"),
        ("npx lint-staged --no-stash --hide-unstaged\n", "all"),
        ("npm run staged -- --quiet\n", "all"),
        ("npm run test\n", None),
    ],
)
def test_lint_staged_is_found_by_the_hook_that_calls_it(
    repo: Repo, managers: Any, line: str, takes: str | None
) -> None:
    scripts = {"staged": "lint-staged --verbose", "test": "jest"}
    repo.write("package.json", content=json.dumps({"lint-staged": {}, "scripts": scripts}))
    assert managers() == []
    husky(repo)
    repo.hook("pre-commit", line, 0o644, repo.root / ".husky")
    expected = [] if takes is None else [("lint-staged", takes)]
    assert managers() == expected
    repo.install()
    assert managers() == expected
    if takes:
        [stasher] = stashing_managers(str(repo.root))
        assert ".husky/pre-commit" in stasher.evidence
        assert "package.json" in stasher.evidence
    repo.git("config", "--unset", "core.hooksPath")
    assert managers() == []  # husky's folder exists, but git does not use it


def test_lint_staged_in_package_json_is_found_if_a_hook_leads_there(
    repo: Repo, managers: Any
) -> None:
    hooks = {"husky": {"hooks": {"pre-commit": "lint-staged"}}}
    repo.write("package.json", content=json.dumps(hooks))
    repo.write(".lintstagedrc.json", content="{}")
    assert managers() == []
    repo.hook("pre-commit", '#!/bin/sh\n. "$(dirname "$0")/husky.sh"\n')
    assert managers() == [("lint-staged", "all")]
    repo.write("package.json", content="{broken")
    assert managers() == []


def test_lefthook_is_found_with_or_without_staging_what_it_fixed(repo: Repo, managers: Any) -> None:
    repo.hook("pre-commit", '#!/bin/sh\ncall_lefthook run "pre-commit" "$@"\n')
    assert managers() == []
    repo.write("lefthook.yml", content="pre-push:\n  jobs: []\n")
    assert managers() == []
    repo.write("lefthook.yml", content="pre-commit:\n  jobs: []\n")
    assert managers() == [("lefthook", "partly staged")]


def test_overcommit_is_found(repo: Repo, managers: Any) -> None:
    repo.hook("pre-commit", "#!/usr/bin/env ruby\nrequire 'overcommit'\n")
    repo.write(".overcommit.yml")
    assert managers() == [("overcommit", "all")]


def test_an_ordinary_hook_stashes_nothing(repo: Repo, managers: Any) -> None:
    put_before(repo, "pre-commit")
    repo.install()
    assert managers() == []
    assert stat.S_IMODE((repo.hooks / "pre-commit").stat().st_mode) & 0o100
