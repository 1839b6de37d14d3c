"""Commits under hook managers that set unstaged work aside: the real pre-commit framework, and one
that is not known to respect the index. The agents and git are real.

The file itself shows whether it was set aside: removing it from the work tree and restoring it
writes it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_commits import ANN, BOB, Actor, Repo
from helpers_processes import LINUX_ONLY
from holdfast import LockManager
from holdfast.gate.git import git_hooks

pytestmark = [
    LINUX_ONLY,
    pytest.mark.skipif(
        None in (importlib.util.find_spec("pre_commit"), importlib.util.find_spec("prek")),
        reason="pre-commit or prek is not installed: pip install -e '.[dev]'",
    ),
]

#: A hook that records that it ran, and what it saw.
SETTINGS = """repos:
- repo: local
  hooks:
  - id: look
    name: look
    language: system
    entry: {entry}
    always_run: true
    {more}
"""
LOOK = "sh -c 'cat b.py >> ../framework'"


class Managed(Repo):
    """A repository with hook managers in it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.env["PRE_COMMIT_HOME"] = str(folder / "framework home")
        self.hooks = self.root / ".git/hooks"

    def configure(self, entry: str = LOOK, files: str = "") -> None:
        more = f"files: ^{files}$" if files else "pass_filenames: false"
        text = SETTINGS.format(entry=entry, more=more)
        (self.root / ".pre-commit-config.yaml").write_text(text)
        self.git("add", ".pre-commit-config.yaml")
        self.git("commit", "--quiet", "-m", "settings")

    def framework(self, person: Actor, *words: str) -> None:
        """Install the framework, as its users do."""
        done = person.run(sys.executable, "-m", "pre_commit", "install", *words)
        assert done.code == 0, done

    def ran(self) -> list[str]:
        """What the framework saw in b.py, for each of its runs since the last call."""
        note = self.folder / "framework"
        lines = note.read_text().splitlines() if note.exists() else []
        note.unlink(missing_ok=True)
        return lines

    def left_over(self) -> list[str]:
        """The remaining copies of the index."""
        folder = self.root / ".git/holdfast"
        return sorted(file.name for file in folder.iterdir()) if folder.exists() else []

    def states(self) -> set[str]:
        return {hook.state for hook in git_hooks.status(str(self.root))}

    def hook(self, name: str, text: str) -> Path:
        file = self.hooks / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        return file

    def name_of(self, actor: Actor) -> str:
        """The name that others see in an agent's leases."""
        with LockManager.open(self.root) as manager:
            holders = [grant.owner for grant in manager.active_grants()]
        (name,) = {one.id for one in holders if one.session == actor.session}
        return name

    def names(self) -> list[str]:
        return sorted(file.name for file in self.hooks.iterdir() if file.suffix != ".sample")


class Untouched:
    """Whether a file has remained unwritten since this object was made."""

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
    """ann has something to commit, and bob has unfinished work."""
    ann.edit("a.py")
    ann.git("add", "a.py")
    bob.edit("b.py")
    return Untouched(repo.root / "b.py")


# The framework behind us


def test_the_framework_runs_and_leaves_the_unfinished_work_of_others_alone(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.framework(person)
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    assert ann.commit().code == 0
    assert repo.ran() == ["new"], "the framework saw bob's file as it is"
    assert repo.last() == ["a.py"]
    assert unharmed
    assert repo.left_over() == []
    ann.edit("a.py", content="3\n")
    bob.kill()
    assert ann.commit("-a").code == 0
    assert repo.last() == ["a.py", "b.py"], "the work of a dead agent is not hidden"


def test_a_committer_who_is_alone_has_the_checks_as_without_us(
    repo: Managed, ann: Actor, person: Actor
) -> None:
    repo.configure()
    repo.framework(person)
    repo.start("a.py", "b.py")
    ann.edit("a.py", "b.py")
    ann.git("add", "a.py")
    assert ann.commit().code == 0
    assert repo.ran() == ["old b.py"], "the framework puts the committer's own unstaged work aside"
    assert (repo.root / "b.py").read_text() == "new\n"


def test_an_agent_that_holds_nothing_yet_may_begin_while_the_framework_runs(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    """We hide files that are written meanwhile, too."""
    repo.configure("sh -c 'echo begun > b.py'")
    repo.framework(person)
    repo.start("a.py", "b.py", "c.py")
    bob.edit("c.py")
    assert bob.commit("--no-verify", "--", "c.py").code == 0
    assert repo.held() == {}
    ann.edit("a.py")
    ann.git("add", "a.py")
    assert ann.commit().code == 0
    assert (repo.root / "b.py").read_text() == "begun\n"
    assert repo.last() == ["a.py"]


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (("--", "a.py"), ["a.py"]),
        (("-a",), ["a.py", "c.py"]),
        (("--include", "a.py"), ["a.py", "c.py"]),
        (("--amend",), ["a.py", "b.py", "c.py"]),
    ],
)
def test_the_framework_runs_with_each_index_that_a_commit_may_have(
    repo: Managed, ann: Actor, bob: Actor, person: Actor, words: tuple[str, ...], last: list[str]
) -> None:
    repo.configure()
    repo.framework(person)
    repo.start("a.py", "b.py", "c.py")
    ann.edit("a.py", "c.py")
    ann.git("add", "c.py")
    bob.edit("other.py")
    done = ann.commit(*words)
    assert done.code == 0, done
    assert repo.ran() == ["old b.py"]
    assert repo.last() == last
    assert repo.left_over() == []


FORMATTER = "sh -c 'for it in \"$@\"; do echo formatted >> $it; done' --"


def test_a_check_that_fails_leaves_everything_as_it_was(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure(FORMATTER, files="a.py")
    repo.framework(person)
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    index = repo.git("ls-files", "--stage")
    done = ann.commit()
    assert done.code == 1
    assert "files were modified by this hook" in done.complained
    assert repo.git("ls-files", "--stage") == index
    assert repo.subjects() == ["start", "settings"]
    assert (repo.root / "a.py").read_text() == "new\nformatted\n"
    assert unharmed
    assert repo.left_over() == []


def test_what_others_write_while_it_runs_is_no_failure_of_the_check(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    """Without us it takes every concurrent change for one of its own."""
    repo.configure("sh -c 'echo meanwhile >> b.py'")
    repo.framework(person)
    repo.start("a.py", "b.py")
    unfinished(repo, ann, bob)
    assert ann.commit().code == 0
    assert (repo.root / "b.py").read_text() == "new\nmeanwhile\n"
    assert repo.last() == ["a.py"]


def test_the_framework_stashes_for_a_message_too(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    """This holds even if its message hook comes after ours: the next event puts ours in front."""
    repo.configure()
    repo.start("a.py", "b.py")
    repo.framework(person, "--hook-type", "commit-msg")
    unharmed = unfinished(repo, ann, bob)
    assert ann.commit().code == 0
    assert repo.ran() == ["new"]
    assert unharmed
    assert repo.left_over() == []
    git_hooks.uninstall(str(repo.root))
    assert repo.names() == ["commit-msg"]


def test_a_message_under_the_framework_is_refused_while_ours_is_not_in_front(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    repo.framework(person, "--hook-type", "commit-msg")
    done = ann.commit()
    assert done.code == 1
    assert ".git/hooks/commit-msg starts pre-commit" in done.complained
    assert repo.ran() == []
    assert unharmed


@pytest.mark.parametrize("hook", ["post-commit", "post-checkout", "pre-push", "prepare-commit-msg"])
def test_the_framework_leaves_unfinished_work_alone_in_other_hooks_too(
    repo: Managed, ann: Actor, bob: Actor, person: Actor, hook: str
) -> None:
    repo.configure()
    repo.framework(person, "--hook-type", hook)
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    repo.git("init", "--quiet", "--bare", "../bare")
    assert ann.commit().code == 0
    assert ann.run("git", "push", "../bare", "main").code == 0
    assert ann.run("git", "checkout", "--quiet", "-b", "other").code == 0
    assert repo.ran() == ["new"]
    assert unharmed
    assert repo.left_over() == []


def test_a_merge_under_the_framework(repo: Managed, ann: Actor, bob: Actor, person: Actor) -> None:
    repo.configure()
    repo.framework(person, "--hook-type", "pre-merge-commit")
    repo.start("a.py", "b.py", "c.py")
    repo.side("c.py")
    bob.edit("b.py")
    unharmed = Untouched(repo.root / "b.py")
    done = ann.run("git", "merge", "--no-edit", "side")
    assert done.code == 0, done
    assert repo.ran() == ["new"]
    assert repo.git("show", "HEAD:c.py") == "side c.py\n"
    assert unharmed


def test_a_conflict_that_was_solved_is_committed_under_the_framework(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.framework(person)
    repo.start("a.py", "b.py", "c.py")
    repo.side("c.py")
    (repo.root / "c.py").write_text("main c.py\n")
    repo.git("commit", "--quiet", "-am", "main too")
    bob.edit("b.py")
    unharmed = Untouched(repo.root / "b.py")
    assert ann.run("git", "merge", "--no-edit", "side").code == 1
    (repo.root / "c.py").write_text("both\n")
    ann.git("add", "c.py")
    assert ann.commit().code == 0
    assert repo.git("show", "HEAD:c.py") == "both\n"
    assert unharmed


def test_part_of_a_file_that_an_agent_below_is_changing_is_refused(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    """The framework would set it aside, and we cannot hide it, because it is in the commit."""
    repo.configure()
    repo.framework(person)
    repo.start("a.py", "b.py")
    ann.edit("a.py", agent="sub")
    ann.git("add", "a.py")
    ann.edit("a.py", content="more\n", agent="sub")
    unharmed = Untouched(repo.root / "a.py")
    done = ann.commit()
    assert done.code == 1
    assert "a.py: " in done.complained
    assert "partly staged" in done.complained
    assert "git add -- a.py" in done.complained
    assert repo.ran() == []
    assert unharmed
    ann.git("add", "a.py")
    assert ann.commit().code == 0


def test_part_of_ones_own_file_is_set_aside_as_without_us(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.framework(person)
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    ann.edit("a.py", content="new\nmore\n")
    done = ann.commit()
    assert done.code == 0, done
    assert repo.git("show", "HEAD:a.py") == "new\n"
    assert (repo.root / "a.py").read_text() == "new\nmore\n"
    assert unharmed


def test_in_a_sparse_checkout_nothing_is_set_aside_either(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    """There git concludes from a file's existence that it should exist."""
    repo.configure()
    repo.framework(person)
    repo.start("a.py", "b.py", "sub/c.py", "gone/d.py")
    repo.git("sparse-checkout", "set", "sub")
    assert not (repo.root / "gone").exists()
    unharmed = unfinished(repo, ann, bob)
    assert ann.commit().code == 0
    assert repo.ran() == ["new"]
    assert unharmed
    assert repo.git("status", "--porcelain") == " M b.py\n"


def test_a_framework_that_is_killed_leaves_everything_as_it_was(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure("sh -c 'kill -9 $PPID'")
    repo.framework(person)
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    index = repo.git("ls-files", "--stage")
    assert ann.commit().code != 0
    assert repo.git("ls-files", "--stage") == index
    assert unharmed
    assert repo.left_over() == []


def test_files_of_a_killed_hook_are_removed_a_day_later(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.framework(person)
    repo.start("a.py", "b.py")
    unfinished(repo, ann, bob)
    folder = repo.root / ".git/holdfast"
    folder.mkdir()
    for name, age in (("index-1-1", 90_000), ("index-2-2", 3600)):
        (folder / name).write_text("")
        os.utime(folder / name, (time.time() - age,) * 2)
    assert ann.commit().code == 0
    assert repo.left_over() == ["index-2-2"]


def test_a_check_that_stages_is_as_without_us(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    """The commit's index gets what the check staged, changed, added and removed."""
    script = repo.folder / "stages"
    script.write_text("#!/bin/sh\necho formatted >> a.py\necho more > more.py\n"
                      "git add a.py more.py\ngit rm --quiet --cached c.py\n")  # fmt: skip
    script.chmod(0o755)
    repo.hook("pre-commit", f"#!/bin/sh\n{script} && : lint-staged\n")
    repo.start("a.py", "b.py", "c.py")
    unharmed = unfinished(repo, ann, bob)
    ann.edit("c.py")
    ann.git("add", "c.py")
    assert ann.commit().code == 0
    assert repo.last() == ["a.py", "c.py", "more.py"]
    assert repo.git("show", "HEAD:a.py") == "new\nformatted\n"
    assert repo.git("status", "--porcelain") == " M b.py\n?? c.py\n"
    assert unharmed


def test_prek_leaves_the_unfinished_work_of_others_alone_too(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure("sh -c 'echo meanwhile >> b.py'")
    done = person.run(Path(sys.executable).with_name("prek"), "install")
    assert done.code == 0, done
    repo.start("a.py", "b.py")
    unfinished(repo, ann, bob)
    done = ann.commit()
    assert done.code == 0, done
    assert "Passed" in done.complained
    assert (repo.root / "b.py").read_text() == "new\nmeanwhile\n"
    assert repo.last() == ["a.py"]
    assert repo.left_over() == []


# The framework in front of us


def test_the_framework_that_was_installed_after_us_is_ended_before_it_stashes(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    """The framework first runs the hook that it found, but ignores its result."""
    repo.configure()
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    repo.framework(person)
    assert (repo.hooks / "pre-commit.legacy").exists()
    done = ann.commit()
    assert done.code == 1
    assert f"b.py: {repo.name_of(bob)}" in done.complained
    assert "pre-commit removes unfinished work of others" in done.complained
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
    unharmed = unfinished(repo, ann, bob)
    bob.edit("c.py")
    repo.framework(person)
    ann.git("add", "c.py")
    done = ann.commit()
    assert done.code == 1
    assert f"c.py: {repo.name_of(bob)}" in done.complained
    assert repo.ran() == []
    assert unharmed


def test_a_hook_run_by_hand_is_not_ended(
    repo: Managed, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.configure()
    repo.start("a.py", "b.py")
    unfinished(repo, ann, bob)
    repo.framework(person)
    script = "'.git/hooks/pre-commit.legacy'; echo ended with $?"
    done = ann.run("sh", "-c", script)
    assert done.said == "ended with 1\n"


@pytest.mark.parametrize("earlier", [False, True], ids=["new", "there before us"])
def test_the_framework_in_front_of_us_is_noticed_and_put_behind_us(
    repo: Managed, ann: Actor, bob: Actor, person: Actor, earlier: bool
) -> None:
    repo.configure()
    if earlier:
        repo.framework(person)
    repo.start("a.py", "b.py")
    repo.framework(person)
    assert repo.states() == {"installed", "overtaken"}
    unharmed = unfinished(repo, ann, bob)
    assert repo.states() == {"installed"}, "the next event puts it behind our hook"
    assert "pre-commit.legacy" not in repo.names()
    assert ann.commit().code == 0
    assert repo.ran() == ["new"], "the framework runs once, not once for each of its hooks"
    assert unharmed
    git_hooks.uninstall(str(repo.root))
    assert repo.names() == ["pre-commit"]
    assert "File generated by pre-commit" in (repo.hooks / "pre-commit").read_text()


def test_removing_our_hook_from_behind_the_framework_leaves_it_alone(
    repo: Managed, person: Actor
) -> None:
    repo.configure()
    repo.start("a.py", "b.py")
    repo.framework(person)
    git_hooks.uninstall(str(repo.root))
    assert repo.names() == ["pre-commit"]


def test_a_framework_that_removed_our_hook_is_put_behind_us_again(
    repo: Managed, ann: Actor, person: Actor
) -> None:
    repo.configure()
    repo.framework(person)
    repo.start("a.py", "b.py")
    repo.framework(person, "--overwrite", "--allow-missing-config")
    assert repo.states() == {"installed", "foreign"}
    repo.install()
    kept = (repo.hooks / "pre-commit.holdfast-before").read_text()
    assert "--skip-on-missing-config" in kept, "the newer of its hooks is kept"
    ann.edit("a.py")
    assert ann.commit("-a").code == 0
    assert repo.ran() == ["old b.py"]


# With a hook of the user's own

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
    git_hooks.uninstall(str(repo.root))
    assert repo.names() == ["pre-commit", "pre-commit.legacy"]
    assert (repo.hooks / "pre-commit.legacy").read_text() == OWN


def test_a_hook_of_ones_own_is_not_lost_when_the_framework_is_installed_again(
    repo: Managed, ann: Actor, person: Actor
) -> None:
    """The framework moves the hook that it finds now over the one that it found the first time."""
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
    git_hooks.uninstall(str(repo.root))
    assert repo.names() == ["pre-commit", "pre-commit.legacy"]
    assert (repo.hooks / "pre-commit.legacy").read_text() == OWN


# Other managers

#: Sets everything aside, runs a task, restores everything.
OVERCOMMIT = """#!/bin/sh
set -e
git stash push --quiet --keep-index
cat b.py >> ../framework
git stash pop --quiet
"""


def overcommit(repo: Managed) -> None:
    program = repo.root / ".git/overcommit"
    program.write_text(OVERCOMMIT)
    program.chmod(0o755)
    repo.hook("pre-commit", "#!/bin/sh\n.git/overcommit\n")


def test_a_manager_not_known_to_respect_the_index_is_not_started(
    repo: Managed, ann: Actor, bob: Actor
) -> None:
    overcommit(repo)
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    done = ann.commit()
    assert done.code == 1
    assert f"b.py: {repo.name_of(bob)}" in done.complained
    assert "overcommit removes unfinished work of others" in done.complained
    assert repo.ran() == []
    assert unharmed
    bob.kill()
    assert ann.commit().code == 0
    assert repo.ran() == ["old b.py"]


def test_the_way_out_that_is_offered_works_in_the_folder_where_it_is_given(
    repo: Managed, ann: Actor, bob: Actor
) -> None:
    overcommit(repo)
    repo.start("sub/a.py", "b.py")
    ann.edit("sub/a.py")
    ann.git("add", "--all")
    bob.edit("b.py")
    unharmed = Untouched(repo.root / "b.py")
    sub = repo.root / "sub"
    done = ann.commit(at=sub)
    assert "git commit --no-verify -- a.py\n" in done.complained
    assert ann.run("git", "commit", "--no-verify", "-m", "x", "--", "a.py", at=sub).code == 0
    assert repo.last() == ["sub/a.py"]
    assert unharmed


def test_a_merge_under_such_a_manager_is_refused_too(repo: Managed, ann: Actor, bob: Actor) -> None:
    overcommit(repo)
    (repo.hooks / "pre-commit").rename(repo.hooks / "pre-merge-commit")
    repo.start("a.py", "b.py", "c.py")
    repo.side("c.py")
    bob.edit("b.py")
    unharmed = Untouched(repo.root / "b.py")
    done = ann.run("git", "merge", "--no-edit", "side")
    assert done.code == 1
    assert "git merge --abort" in done.complained
    assert "--no-verify" not in done.complained
    assert repo.ran() == []
    assert unharmed
    assert ann.run("git", "merge", "--abort").code == 0


def test_with_such_an_index_git_itself_sets_nothing_aside(
    repo: Managed, ann: Actor, bob: Actor
) -> None:
    """The same script under the name of a manager that is known to respect the index."""
    overcommit(repo)
    (repo.root / ".git/overcommit").rename(repo.root / ".git/lint-staged")
    repo.hook("pre-commit", "#!/bin/sh\n.git/lint-staged\n")
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    ann.git("add", "a.py")
    assert "No local changes" not in ann.commit().complained
    assert repo.ran() == ["new"]
    assert unharmed


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


def test_a_formatter_does_not_touch_files_of_others(repo: Managed, ann: Actor, bob: Actor) -> None:
    repo.hook("pre-commit", "#!/bin/sh\nfor it in $(git diff --cached --name-only); do "
              "echo formatted >> $it; git add $it; done\n")  # fmt: skip
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    ann.git("add", "b.py")
    assert ann.commit().code == 1
    assert unharmed
    assert os.path.getsize(repo.root / "a.py") == len("new\n")
