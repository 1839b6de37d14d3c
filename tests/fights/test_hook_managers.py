"""Commits under hook managers that put unstaged work aside: the real pre-commit framework, and one
that works as lint-staged does. Real agents, the real git.

Whether anything was put aside is seen by the file itself: whoever takes it out of the work tree and
puts it back writes it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_commits import ANN, BOB, Actor, Repo
from helpers_processes import LINUX_ONLY
from holdfast import LockManager
from holdfast.gate import githooks

pytestmark = [
    LINUX_ONLY,
    pytest.mark.skipif(
        importlib.util.find_spec("pre_commit") is None,
        reason="the pre-commit framework is not installed: pip install -e '.[dev]'",
    ),
]

#: Notes down that it ran, and what it saw.
SETTINGS = """repos:
- repo: local
  hooks:
  - id: look
    name: look
    language: system
    entry: sh -c 'cat b.py >> ../framework'
    always_run: true
    pass_filenames: false
    stages: [pre-commit, pre-merge-commit, commit-msg, post-commit]
"""


class Managed(Repo):
    """A repository with hook managers in it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.env["PRE_COMMIT_HOME"] = str(folder / "framework home")
        self.hooks = self.root / ".git/hooks"

    def configure(self) -> None:
        (self.root / ".pre-commit-config.yaml").write_text(SETTINGS)
        self.git("add", ".pre-commit-config.yaml")
        self.git("commit", "--quiet", "-m", "settings")

    def framework(self, person: Actor, *words: str) -> None:
        """Install the framework, as its users do."""
        done = person.run(sys.executable, "-m", "pre_commit", "install", *words)
        assert done.code == 0, done

    def ran(self) -> list[str]:
        """What the framework has seen in b.py, each time that it ran since the last question."""
        note = self.folder / "framework"
        lines = note.read_text().splitlines() if note.exists() else []
        note.unlink(missing_ok=True)
        return lines

    def states(self) -> set[str]:
        return {hook.state for hook in githooks.status(str(self.root))}

    def hook(self, name: str, text: str) -> Path:
        file = self.hooks / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        return file

    def name_of(self, actor: Actor) -> str:
        """What an agent is called by whoever meets its leases."""
        with LockManager.open(self.root) as manager:
            holders = [grant.owner for grant in manager.active_grants()]
        (name,) = {one.id for one in holders if one.session == actor.session}
        return name

    def names(self) -> list[str]:
        return sorted(file.name for file in self.hooks.iterdir() if file.suffix != ".sample")


class Untouched:
    """Says whether nobody has written a file meanwhile."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.before = self._now()

    def _now(self) -> tuple[int, int, bytes]:
        status = self.file.stat()
        return status.st_ino, status.st_ctime_ns, self.file.read_bytes()

    def __bool__(self) -> bool:
        return self._now() == self.before


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Managed]:
    made = Managed(tmp_path)
    yield made
    made.close()


@pytest.fixture
def ann(repo: Managed) -> Actor:
    return repo.actor("claude", ANN)


@pytest.fixture
def bob(repo: Managed) -> Actor:
    return repo.actor("codex", BOB)


@pytest.fixture
def person(repo: Managed) -> Actor:
    return repo.actor("editor")


def unfinished(repo: Managed, ann: Actor, bob: Actor) -> Untouched:
    """ann has something to commit, and bob is in the middle of something."""
    ann.edit("a.py")
    ann.git("add", "a.py")
    bob.edit("b.py")
    return Untouched(repo.root / "b.py")


# The framework behind us


def test_the_framework_is_not_even_started_while_others_have_unfinished_work(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.framework(person)
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    done = ann.commit()
    assert done.code == 1
    assert f"b.py: {repo.name_of(bob)}" in done.complained
    assert "pre-commit.holdfast-before starts pre-commit" in done.complained
    assert repo.ran() == []
    assert unharmed
    bob.kill()
    assert ann.commit().code == 0
    assert repo.ran() == ["old b.py"], "it puts aside what is left of bob's, who is dead"
    assert (repo.root / "b.py").read_text() == "new\n"


def test_nothing_is_refused_where_nothing_of_others_would_be_put_aside(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.framework(person)
    repo.start("a.py", "b.py", "c.py")
    ann.edit("a.py", "c.py")
    ann.git("add", "a.py")
    bob.edit("new.py")
    bob.lease("b.py")
    assert ann.commit().code == 0
    assert repo.ran() == ["old b.py"]


def test_the_way_out_that_is_offered_works_in_the_folder_where_it_is_given(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.framework(person)
    repo.start("sub/a.py", "b.py")
    ann.edit("sub/a.py")
    ann.git("add", "--all")
    bob.edit("b.py")
    unharmed = Untouched(repo.root / "b.py")
    sub = repo.root / "sub"
    done = ann.commit(at=sub)
    assert "pre-commit run --files a.py\n" in done.complained
    assert "git commit --no-verify -- a.py\n" in done.complained
    run = (sys.executable, "-m", "pre_commit", "run", "--files", "a.py")
    assert ann.run(*run, at=sub).code == 0
    assert repo.ran() == ["new"], "it saw the files as they are"
    assert ann.run("git", "commit", "--no-verify", "-m", "x", "--", "a.py", at=sub).code == 0
    assert repo.last() == ["sub/a.py"]
    assert unharmed


def test_the_framework_stashes_for_a_message_too(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.framework(person, "--hook-type", "commit-msg")
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    done = ann.commit()
    assert done.code == 1
    assert ".git/hooks/commit-msg starts pre-commit" in done.complained
    assert repo.ran() == []
    assert unharmed
    bob.kill()
    assert ann.commit().code == 0
    assert repo.ran() == ["old b.py"]


def test_where_no_verify_does_not_skip_it_that_is_not_offered(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.framework(person, "--hook-type", "post-commit")
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    done = ann.commit()
    assert done.code == 1
    assert "--no-verify" not in done.complained
    assert unharmed


def test_a_merge_under_the_framework_is_refused_too(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.framework(person, "--hook-type", "pre-merge-commit")
    repo.start("a.py", "b.py", "c.py")
    repo.side("c.py")
    bob.edit("b.py")
    unharmed = Untouched(repo.root / "b.py")
    done = ann.run("git", "merge", "--no-edit", "side")
    assert done.code == 1
    assert "pre-merge-commit.holdfast-before starts pre-commit" in done.complained
    assert "git merge --abort" in done.complained
    assert "--no-verify" not in done.complained
    assert repo.ran() == []
    assert unharmed
    bob.kill()
    assert ann.run("git", "merge", "--abort").code == 0
    assert ann.run("git", "merge", "--no-edit", "side").code == 0
    assert repo.ran() == ["old b.py"]


# The framework in front of us


def test_the_framework_that_was_installed_after_us_is_ended_before_it_stashes(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    """It runs what it found first, but goes on whatever that says."""
    repo.configure()
    repo.start("a.py", "b.py")
    repo.framework(person)
    assert (repo.hooks / "pre-commit.legacy").exists()
    unharmed = unfinished(repo, ann, bob)
    done = ann.commit()
    assert done.code == 1
    assert f"b.py: {repo.name_of(bob)}" in done.complained
    assert "pre-commit takes unfinished work of others" in done.complained
    assert repo.ran() == []
    assert unharmed
    bob.kill()
    assert ann.commit().code == 0
    assert repo.ran() == ["old b.py"]


def test_it_is_ended_as_well_when_the_commit_contains_what_others_hold(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.start("a.py", "b.py", "c.py")
    repo.framework(person)
    unharmed = unfinished(repo, ann, bob)
    bob.edit("c.py")
    ann.git("add", "c.py")
    done = ann.commit()
    assert done.code == 1
    assert f"c.py: {repo.name_of(bob)}" in done.complained
    assert repo.ran() == []
    assert unharmed


def test_nobody_is_ended_who_only_runs_the_hook_by_hand(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.start("a.py", "b.py")
    repo.framework(person)
    unfinished(repo, ann, bob)
    script = "'.git/hooks/pre-commit.legacy'; echo ended with $?"
    done = ann.run("sh", "-c", script)
    assert done.said == "ended with 1\n"


@pytest.mark.parametrize("earlier", [False, True], ids=["new", "there before us"])
def test_the_framework_in_front_of_us_is_seen_and_put_behind_us(
    repo: Managed, ann: Actor, bob: Actor, person: Actor, earlier: bool
) -> None:
    repo.configure()
    if earlier:
        repo.framework(person)
    repo.start("a.py", "b.py")
    repo.framework(person)
    assert repo.states() == {"installed", "overtaken"}
    repo.install()
    assert "pre-commit.legacy" not in repo.names()
    unharmed = unfinished(repo, ann, bob)
    assert ann.commit().code == 1
    assert repo.ran() == []
    assert unharmed
    bob.kill()
    assert ann.commit().code == 0
    assert repo.ran() == ["old b.py"], "once, and not once for each of its hooks"
    githooks.uninstall(str(repo.root))
    assert repo.names() == ["pre-commit"]
    assert "File generated by pre-commit" in (repo.hooks / "pre-commit").read_text()


def test_taking_ours_away_from_behind_the_framework_leaves_it_alone(
    repo: Managed, person: Actor
) -> None:
    repo.configure()
    repo.start("a.py", "b.py")
    repo.framework(person)
    githooks.uninstall(str(repo.root))
    assert repo.names() == ["pre-commit"]


def test_the_framework_that_took_ours_away_is_put_behind_us_anew(
    repo: Managed, ann: Actor, person: Actor
) -> None:
    repo.configure()
    repo.framework(person)
    repo.start("a.py", "b.py")
    repo.framework(person, "--overwrite", "--allow-missing-config")
    assert repo.states() == {"installed", "foreign"}
    repo.install()
    kept = (repo.hooks / "pre-commit.holdfast-before").read_text()
    assert "--skip-on-missing-config" in kept, "the newer one counts"
    ann.edit("a.py")
    assert ann.commit("-a").code == 0
    assert repo.ran() == ["old b.py"]


# With a hook of one's own

OWN = "#!/bin/sh\necho own >> ../framework\n"


def test_a_hook_of_ones_own_is_where_the_framework_would_have_put_it(
    repo: Managed, ann: Actor, person: Actor
) -> None:
    repo.configure()
    repo.hook("pre-commit", OWN)
    repo.start("a.py", "b.py")
    repo.framework(person)
    ann.edit("a.py")
    assert ann.commit("-a").code == 0
    assert repo.ran() == ["own", "old b.py"]
    repo.install()
    ann.edit("a.py", content="2\n")
    assert ann.commit("-a").code == 0
    assert repo.ran() == ["own", "old b.py"]
    githooks.uninstall(str(repo.root))
    assert repo.names() == ["pre-commit", "pre-commit.legacy"]
    assert (repo.hooks / "pre-commit.legacy").read_text() == OWN


def test_a_hook_of_ones_own_is_not_lost_when_the_framework_is_installed_again(
    repo: Managed, ann: Actor, person: Actor
) -> None:
    """It moves whatever it finds over what it found the first time."""
    repo.configure()
    repo.hook("pre-commit", OWN)
    repo.framework(person)
    repo.start("a.py", "b.py")
    repo.framework(person)
    assert repo.states() == {"installed", "overtaken"}
    repo.install()
    ann.edit("a.py")
    assert ann.commit("-a").code == 0
    assert repo.ran() == ["own", "old b.py"]
    githooks.uninstall(str(repo.root))
    assert repo.names() == ["pre-commit", "pre-commit.legacy"]
    assert (repo.hooks / "pre-commit.legacy").read_text() == OWN


# Others

#: As lint-staged does: puts everything aside, runs a task, puts everything back.
LINT_STAGED = """#!/bin/sh
set -e
git stash push --quiet --keep-index
cat b.py >> ../framework
git stash pop --quiet
"""


def test_lint_staged_is_not_even_started_while_others_have_unfinished_work(
    repo: Managed, ann: Actor, bob: Actor
) -> None:
    program = repo.root / ".git/lint-staged"
    program.write_text(LINT_STAGED)
    program.chmod(0o755)
    repo.hook("pre-commit", "#!/bin/sh\n.git/lint-staged\n")
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    done = ann.commit()
    assert done.code == 1
    assert "lint-staged takes unfinished work of others" in done.complained
    assert repo.ran() == []
    assert unharmed
    bob.kill()
    assert ann.commit().code == 0
    assert repo.ran() == ["old b.py"]


def test_a_formatter_that_stages_what_others_hold_is_refused_after_it_ran(
    repo: Managed, ann: Actor, bob: Actor
) -> None:
    repo.hook("pre-commit", "#!/bin/sh\ngit add --update\n")
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    done = ann.commit()
    assert done.code == 1
    assert f"b.py: {repo.name_of(bob)}" in done.complained
    assert repo.subjects() == ["start"]
    assert unharmed


def test_a_formatter_does_not_get_its_hands_on_what_others_hold(
    repo: Managed, ann: Actor, bob: Actor
) -> None:
    repo.hook("pre-commit", "#!/bin/sh\nfor it in $(git diff --cached --name-only); do "
              "echo formatted >> $it; git add $it; done\n")  # fmt: skip
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    ann.git("add", "b.py")
    assert ann.commit().code == 1
    assert unharmed
    assert os.path.getsize(repo.root / "a.py") == len("new\n")
