"""Commits of tasks: exactly their files, on top of the branch as it is by then."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from helpers_tasks import Checkout
from holdfast.work.tasks import landing, task_states
from holdfast.work.tasks.landing import CommitError


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def commit(checkout: Checkout, files: list[str], message: str = "a task") -> str:
    planned = landing.plan(str(checkout.root), files, message, str(checkout.home))
    return landing.land(str(checkout.root), planned, str(checkout.home))


def test_a_commit_has_exactly_the_files_of_its_task(checkout: Checkout) -> None:
    checkout.write({"a.txt": "task\n", "b.txt": "of another\n", "new/n.txt": "task\n"})
    (checkout.root / "c.txt").unlink()
    id = commit(checkout, ["a.txt", "new/n.txt", "c.txt"])
    assert checkout.git("show", "--format=%s", "--name-status", id).split("\n") == [
        "a task", "", "M\ta.txt", "D\tc.txt", "A\tnew/n.txt", "",
    ]  # fmt: skip
    assert checkout.status() == " M b.txt\n"


def test_changes_that_a_person_has_staged_stay_staged_and_uncommitted(checkout: Checkout) -> None:
    checkout.write({"b.txt": "staged\n"})
    checkout.git("add", "b.txt")
    checkout.write({"a.txt": "task\n"})
    commit(checkout, ["a.txt"])
    assert checkout.status() == "M  b.txt\n"
    assert checkout.git("show", "--name-only", "--format=").split() == ["a.txt"]


def test_a_commit_that_another_made_meanwhile_is_not_undone(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.write({"a.txt": "task\n"})
    planned = landing.plan(str(checkout.root), ["a.txt"], "a task", str(checkout.home))
    made = landing._commit

    def and_then_a_person_commits(*words: object) -> str:
        monkeypatch.setattr(landing, "_commit", made)
        found = made(*words)  # type: ignore[arg-type]
        checkout.write({"b.txt": "person\n"})
        checkout.git("commit", "-qm", "by a person", "b.txt")
        return found

    monkeypatch.setattr(landing, "_commit", and_then_a_person_commits)
    landing.land(str(checkout.root), planned, str(checkout.home))
    assert checkout.log() == ["a task", "by a person", "first"]
    assert checkout.git("show", "HEAD:b.txt") == "person\n"
    assert checkout.status() == ""


def test_landing_twice_makes_one_commit(checkout: Checkout) -> None:
    checkout.write({"a.txt": "task\n"})
    planned = landing.plan(str(checkout.root), ["a.txt"], "a task", str(checkout.home))
    first = landing.land(str(checkout.root), planned, str(checkout.home))
    assert landing.land(str(checkout.root), planned, str(checkout.home)) == ""
    assert landing.find(str(checkout.root), planned) == first
    assert checkout.log() == ["a task", "first"]


def test_a_late_landing_does_not_undo_what_a_later_task_has_committed(checkout: Checkout) -> None:
    checkout.write({"a.txt": "first task\n"})
    planned = landing.plan(str(checkout.root), ["a.txt"], "late", str(checkout.home))
    checkout.write({"a.txt": "first task\nsecond task\n"})
    commit(checkout, ["a.txt"], "second")
    with pytest.raises(landing.OvertakenError, match=r"another commit has changed a\.txt"):
        landing.land_patiently(str(checkout.root), planned, str(checkout.home), threading.Lock())
    assert checkout.git("show", "HEAD:a.txt") == "first task\nsecond task\n"


def test_many_commits_at_the_same_moment_are_all_there(checkout: Checkout) -> None:
    names = [f"file{number}.txt" for number in range(8)]
    checkout.write(dict.fromkeys(names, "task\n"))
    rooms = [checkout.home / name for name in names]
    for room in rooms:
        room.mkdir()

    def land(name: str, room: Path) -> None:
        planned = landing.plan(str(checkout.root), [name], f"task {name}", str(room))
        landing.land(str(checkout.root), planned, str(room))

    threads = [threading.Thread(target=land, args=pair) for pair in zip(names, rooms, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(checkout.log()) == sorted(["first", *(f"task {name}" for name in names)])
    assert checkout.status() == ""


def test_the_first_commit_of_a_branch_can_be_that_of_a_task(tmp_path: Path) -> None:
    root = tmp_path / "fresh"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name in ("user.name", "user.email"):
        subprocess.run(["git", "-C", str(root), "config", name, "Ann"], check=True)
    (root / "a.txt").write_text("task\n")
    planned = landing.plan(str(root), ["a.txt"], "a task", str(tmp_path))
    id = landing.land(str(root), planned, str(tmp_path))
    shown = subprocess.run(
        ["git", "-C", str(root), "show", "--format=%s", "--name-only", id],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert shown.stdout.split() == ["a", "task", "a.txt"]


@pytest.mark.parametrize(
    "name", ["-odd", "with space", "ümläut", "*.txt", ":(top)x", "line\nbreak"]
)
def test_names_that_git_would_read_as_something_else_are_files(
    checkout: Checkout, name: str
) -> None:
    checkout.write({name: "task\n", "other.txt": "not mine\n"})
    commit(checkout, [name])
    assert checkout.git("show", "--format=", "--name-only", "-z").strip("\0\n") == name
    assert checkout.status() == "?? other.txt\n"


def test_a_link_and_a_mode_are_committed(checkout: Checkout) -> None:
    (checkout.root / "link").symlink_to("a.txt")
    (checkout.root / "b.txt").chmod(0o755)
    commit(checkout, ["link", "b.txt"])
    modes = checkout.git("ls-tree", "HEAD", "link", "b.txt").split()[::4]
    assert modes == ["100755", "120000"]


def test_no_hook_of_git_is_run(checkout: Checkout) -> None:
    hook = checkout.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    checkout.write({"a.txt": "task\n"})
    assert commit(checkout, ["a.txt"])


def test_without_a_name_for_its_author_nothing_is_begun(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("user.name", "user.email"):
        checkout.git("config", "--unset", name)
    checkout.git("config", "user.useConfigOnly", "true")
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, "/dev/null")
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(CommitError, match="commits cannot be made here"):
        landing.demand_identity(str(checkout.root))


def test_without_a_repository_nothing_is_begun(checkout: Checkout) -> None:
    shutil.rmtree(checkout.root / ".git")
    with pytest.raises(CommitError, match="not a git repository") as caught:
        landing.demand_identity(str(checkout.root))
    assert caught.value.hint.startswith("git init")


# Git as people have it


def test_a_repository_below_the_top_of_the_checkout_is_committed_as_well(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, {"inner/a.txt": "a0\n", "b.txt": "b0\n"})
    inner, room = str(checkout.root / "inner"), str(checkout.home)
    checkout.write({"inner/a.txt": "task\n"})
    planned = landing.plan(inner, ["a.txt"], "a task", room)
    made = landing.land(inner, planned, room)
    assert checkout.git("show", "--format=%s", "--name-status", made).split("\n") == [
        "a task", "", "M\tinner/a.txt", "",
    ]  # fmt: skip
    assert landing.find(inner, planned) == made
    assert checkout.status() == ""


@pytest.mark.parametrize("is_there", [True, False])
def test_a_submodule_is_never_replaced_by_files(tmp_path: Path, is_there: bool) -> None:
    inner = Checkout(tmp_path / "inner")
    checkout = Checkout(tmp_path / "outer")
    add = ("submodule", "add", "-q", str(inner.root), "sub")
    checkout.git("-c", "protocol.file.allow=always", *add)
    checkout.git("commit", "-qm", "a submodule")
    if not is_there:
        shutil.rmtree(checkout.root / "sub")
    checkout.write({"sub/a.txt": "task\n"})
    with pytest.raises(CommitError, match=r"^sub is a (repository of its own|submodule)"):
        landing.plan(str(checkout.root), ["sub/a.txt"], "a task", str(checkout.home))
    assert checkout.git("ls-tree", "HEAD", "sub").startswith("160000 commit ")


def test_nor_is_a_repository_that_git_does_not_know_yet_swallowed(checkout: Checkout) -> None:
    checkout.git("init", "-q", "nest")
    checkout.write({"nest/n.txt": "task\n"})
    with pytest.raises(CommitError, match="nest is a repository of its own"):
        landing.plan(str(checkout.root), ["nest/n.txt"], "a task", str(checkout.home))


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_files_that_git_was_told_to_ignore_are_in_its_index_as_committed(
    checkout: Checkout, flag: str
) -> None:
    checkout.git("update-index", flag, "a.txt")
    checkout.write({"a.txt": "task\n"})
    commit(checkout, ["a.txt"])
    assert checkout.status() == ""
    checkout.write({"b.txt": "person\n"})
    checkout.git("commit", "-qam", "by a person")
    assert checkout.git("show", "HEAD:a.txt") == "task\n"


def test_an_index_that_stays_locked_is_reported_with_what_to_do(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing, "INDEX_SECONDS", 0.1)
    (checkout.root / ".git/index.lock").touch()
    found = checkout.dispatch(checkout.task("one", "echo task >> a.txt", commit=True))["one"]
    assert found.state == task_states.DONE
    assert found.commit == checkout.git("rev-parse", "HEAD").strip()
    assert "git's index is locked" in found.reason
    command = found.reason.rpartition(": ")[2]
    (checkout.root / ".git/index.lock").unlink()
    subprocess.run(command, shell=True, check=True, cwd=checkout.root)
    assert checkout.status() == ""
