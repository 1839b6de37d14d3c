"""Every way in which git makes commits, through the installed hooks, with the real git: which of
them are checked, and which leases each of them releases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_commits import ANN, ANN_KEY, BOB, BOB_KEY, Actor, Repo
from helpers_processes import LINUX_ONLY

pytestmark = LINUX_ONLY


@pytest.fixture
def repo(tmp_path: Path, bundled: None) -> Iterator[Repo]:
    made = Repo(tmp_path)
    yield made
    made.close()


@pytest.fixture
def ann(repo: Repo) -> Actor:
    return repo.actor("claude", ANN)


@pytest.fixture
def bob(repo: Repo) -> Actor:
    return repo.actor("codex", BOB)


@pytest.fixture
def person(repo: Repo) -> Actor:
    return repo.actor("editor")


# Merges


def test_a_merge_of_files_that_others_hold_is_refused_and_can_be_aborted(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    repo.side("b.py")
    bob.lease("b.py")
    done = ann.run("git", "merge", "--no-edit", "side")
    assert done.code == 1
    assert f"b.py: {repo.name(BOB_KEY)}" in done.complained
    assert "git merge --abort" in done.complained
    assert repo.subjects() == ["main goes on", "start"]
    again = ann.commit()
    assert again.code == 1
    assert "git merge --abort" in again.complained
    ann.git("merge", "--abort")
    assert (repo.root / "b.py").read_text() == "old b.py\n"
    bob.kill()
    assert ann.run("git", "merge", "--no-edit", "side").code == 0


def test_a_refused_merge_is_finished_once_the_owner_is_done(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    repo.side("b.py")
    bob.lease("b.py")
    assert ann.run("git", "merge", "--no-edit", "side").code == 1
    bob.kill()
    assert ann.run("git", "commit", "--no-edit").code == 0
    assert len(repo.git("log", "--format=%P", "-1").split()) == 2


def test_a_merge_frees_what_it_changed(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("a.py", "b.py", "c.py", "d.py")
    repo.side("a.py", "d.py")
    ann.lease("a.py", "b.py")
    ann.lease("d.py", agent="sub")
    bob.edit("c.py")
    assert ann.run("git", "merge", "--no-edit", "side").code == 0
    assert repo.held() == {"b.py": ANN_KEY, "c.py": BOB_KEY}


def test_a_pull_that_merges_is_checked_too(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("a.py", "b.py")
    repo.side("a.py")
    repo.side("b.py", branch="other")
    bob.lease("b.py")
    ann.lease("a.py")
    pull = ("git", "pull", "--no-rebase", "--no-edit", ".")
    assert ann.run(*pull, "side").code == 0
    assert repo.held() == {"b.py": BOB_KEY}
    assert f"b.py: {repo.name(BOB_KEY)}" in ann.run(*pull, "other").complained


def test_a_fast_forward_or_a_squash_commits_nothing_and_frees_nothing(
    repo: Repo, ann: Actor
) -> None:
    repo.start("a.py", "b.py")
    repo.side("a.py")
    repo.side("b.py", branch="other")
    repo.git("switch", "--quiet", "-c", "merged")
    repo.git("merge", "--quiet", "--no-edit", "side")
    repo.git("switch", "--quiet", "main")
    ann.lease("a.py", "b.py")
    ann.git("merge", "--quiet", "--squash", "other")
    assert repo.held() == {"a.py": ANN_KEY, "b.py": ANN_KEY}
    assert ann.commit().code == 0
    assert repo.held() == {"a.py": ANN_KEY}
    repo.git("switch", "--quiet", "-c", "behind", "merged^1")
    done = ann.git("merge", "merged")
    assert "Fast-forward" in done.said
    assert repo.held() == {"a.py": ANN_KEY}


# Patches


def patch(repo: Repo, *names: str) -> Path:
    """A mail with a commit that changes these files."""
    repo.side(*names)
    file = repo.folder / "a.patch"
    file.write_text(repo.git("format-patch", "--stdout", "-1", "side"))
    return file


def test_a_patch_of_files_that_others_hold_is_refused_and_can_be_aborted(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    mail = patch(repo, "b.py")
    bob.lease("b.py")
    done = ann.run("git", "am", mail)
    assert done.code == 1
    assert f"b.py: {repo.name(BOB_KEY)}" in done.complained
    assert "git am --continue; or abort it: git am --abort" in done.complained
    ann.git("am", "--abort")
    assert (repo.root / "b.py").read_text() == "old b.py\n"
    assert ann.run("git", "am", mail).code == 1
    bob.kill()
    ann.git("am", "--continue")
    assert repo.subjects() == ["side", "main goes on", "start"]


def test_a_person_may_apply_a_patch_in_spite_of_that(repo: Repo, ann: Actor, person: Actor) -> None:
    repo.start("a.py")
    mail = patch(repo, "a.py")
    ann.lease("a.py")
    done = person.run("git", "am", mail)
    assert done.code == 1
    line = next(line for line in done.complained.split("\n") if "skips this check" in line)
    words = line.removeprefix("belong in this commit, ").removesuffix(" skips this check.").split()
    assert words[-2:] == ["am", "--continue"]
    assert person.run(*words).code == 0
    assert repo.last() == ["a.py"]


def test_a_patch_frees_what_it_changed(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("a.py", "b.py", "c.py")
    mail = patch(repo, "a.py")
    ann.lease("a.py", "b.py")
    bob.edit("c.py")
    ann.git("am", mail)
    assert repo.held() == {"b.py": ANN_KEY, "c.py": BOB_KEY}


# Commits that git makes itself


@pytest.mark.parametrize(
    "words",
    [("cherry-pick", "side"), ("revert", "--no-edit", "HEAD~1"), ("rebase", "side"),
     ("rebase", "--apply", "side")],
    ids=lambda words: " ".join(words[:2]),
)  # fmt: skip
def test_commits_that_git_makes_itself_free_what_they_contain(
    repo: Repo, ann: Actor, bob: Actor, words: tuple[str, ...]
) -> None:
    repo.start("a.py", "b.py", "c.py")
    if words[0] == "cherry-pick":
        repo.side("a.py")
    else:
        (repo.root / "a.py").write_text("ours\n")
        repo.git("commit", "--quiet", "-am", "ours")
        repo.git("branch", "base", "HEAD~1")
    if words[0] == "rebase":
        repo.git("switch", "--quiet", "-c", "side", "base")
        repo.git("commit", "--quiet", "--allow-empty", "-m", "side")
        repo.git("switch", "--quiet", "main")
    if words[0] == "revert":
        repo.git("commit", "--quiet", "--allow-empty", "-m", "more")
    ann.lease("a.py", "b.py")
    ann.git(*words)
    assert repo.held() == {"b.py": ANN_KEY}
    bob.lease("a.py")


def test_a_rebase_by_patches_is_refused_and_can_be_aborted(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    repo.side("a.py")
    repo.git("switch", "--quiet", "side")
    bob.lease("a.py")
    done = ann.run("git", "rebase", "--apply", "main")
    assert done.code == 1
    assert "abort it: git rebase --abort" in done.complained
    ann.git("rebase", "--abort")
    assert repo.subjects() == ["side", "start"]


def test_a_commit_after_a_conflict_is_checked_whoever_began_it(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    repo.side("a.py")
    (repo.root / "a.py").write_text("main\n")
    repo.git("commit", "--quiet", "-am", "main")
    assert ann.run("git", "cherry-pick", "side").code == 1
    ann.edit("a.py", content="both\n")
    bob.edit("b.py")
    ann.git("add", "a.py", "b.py")
    done = ann.run("git", "-c", "core.editor=true", "cherry-pick", "--continue")
    assert done.code == 1
    assert f"b.py: {repo.name(BOB_KEY)}" in done.complained
    ann.git("restore", "--staged", "b.py")
    assert ann.run("git", "-c", "core.editor=true", "cherry-pick", "--continue").code == 0
    assert repo.held() == {"b.py": BOB_KEY}


@pytest.mark.parametrize("words", [("rebase",), ("rebase", "--apply"), ("merge", "--no-edit")],
                         ids=" ".join)  # fmt: skip
def test_files_that_git_has_stashed_for_an_operation_are_not_clean(
    repo: Repo, ann: Actor, words: tuple[str, ...]
) -> None:
    """git restores them unchanged, so no other agent may lease them meanwhile."""
    repo.start("a.py", "b.py", "c.py")
    repo.side("c.py")
    if words[0] == "rebase":  # our own commits are rewritten, with a.py in one of them
        (repo.root / "a.py").write_text("ours\n")
        repo.git("commit", "--quiet", "-am", "ours")
        ann.edit("a.py", content="ours, and more\n")
    else:
        ann.edit("c.py", content="side c.py\nmore\n")
    held = repo.held()
    done = ann.run("git", words[0], "--autostash", *words[1:], "side")
    assert "Created autostash" in done.said + done.complained
    assert repo.held() == held


def test_an_amended_commit_is_refused_for_what_it_adds_and_not_for_what_it_repeats(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py", "c.py")
    ann.edit("a.py")
    assert ann.commit("-a").code == 0
    bob.edit("a.py", content="bob\n")
    ann.edit("b.py")
    ann.git("add", "b.py")
    amend = ("git", "commit", "--amend", "--no-edit")
    assert ann.run(*amend).code == 0
    ann.git("add", "a.py")
    assert f"a.py: {repo.name(BOB_KEY)}" in ann.run(*amend).complained
    assert repo.held() == {"a.py": BOB_KEY}
