"""The hook managers of the npm registry, with the real git and real agents: husky, lint-staged,
lefthook, simple-git-hooks.

Their packages are fetched once into a folder that is kept (`~/.cache/holdfast-managers`).
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fights.test_hook_managers import Managed, Untouched
from helpers_commits import ANN, ANN_KEY, BOB, BOB_KEY, Actor
from helpers_node import node_modules
from helpers_processes import LINUX_ONLY, until
from holdfast.gate.git import git_hooks

pytestmark = [
    LINUX_ONLY,
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
]


@pytest.fixture(scope="session")
def modules() -> Path:
    """The packages, fetched if they are missing."""
    return node_modules()


class Node(Managed):
    """A repository with Node packages in it."""

    def __init__(self, folder: Path, modules: Path) -> None:
        super().__init__(folder)
        (self.root / "node_modules").symlink_to(modules)
        self.env["PATH"] = f"{modules}/.bin:{self.env['PATH']}"
        self.env["HOME"] = str(folder)
        (self.root / ".gitignore").write_text("node_modules\n.holdfast\n")

    def package(self, **more: object) -> None:
        (self.root / "package.json").write_text(json.dumps({"private": True, **more}))

    def with_husky(self, person: Actor, **hooks: str) -> None:
        """Create the state that `npx husky init` and a person leave behind."""
        self.package(scripts={"prepare": "husky"})
        (self.root / ".husky").mkdir()
        for name, line in hooks.items():
            (self.root / ".husky" / name.replace("_", "-")).write_text(f"{line}\n")
        self.prepare(person)

    def prepare(self, person: Actor) -> None:
        """Run what each installation of packages runs."""
        done = person.run("npm", "run", "prepare")
        assert done.code == 0, done

    def with_lint_staged(self, person: Actor, task: str, line: str = "lint-staged") -> None:
        self.with_husky(person, pre_commit=line)
        script = self.folder / "task"
        script.write_text(f"#!/bin/sh\n{task}\n")
        script.chmod(0o755)
        (self.root / ".lintstagedrc.json").write_text(json.dumps({"*.py": str(script)}))


@pytest.fixture
def repo(tmp_path: Path, modules: Path) -> Iterator[Node]:
    made = Node(tmp_path, modules)
    yield made
    made.close()


@pytest.fixture
def ann(repo: Node) -> Actor:
    return repo.actor("claude", ANN)


@pytest.fixture
def bob(repo: Node) -> Actor:
    return repo.actor("codex", BOB)


@pytest.fixture
def person(repo: Node) -> Actor:
    return repo.actor("editor")


def unfinished(repo: Node, ann: Actor, bob: Actor) -> Untouched:
    ann.edit("a.py")
    ann.git("add", "a.py")
    bob.edit("b.py")
    return Untouched(repo.root / "b.py")


# husky


def test_after_huskys_prepare_a_commit_is_refused_and_released_as_before(
    repo: Node, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.with_husky(person, pre_commit="echo husky >> ../framework")
    repo.start("a.py", "b.py")
    for number in range(2):
        repo.prepare(person)
        assert repo.states() == {"installed"}
        ann.edit("a.py", content=f"{number}\n")
        bob.edit("b.py")
        assert "b.py: codex" in ann.commit("-a").complained
        assert ann.commit("--", "a.py").code == 0
        assert repo.ran() == ["husky"]
        assert repo.held() == {"b.py": BOB_KEY}
    assert repo.git("status", "--porcelain") == " M b.py\n", "git sees files of ours"


def test_husky_that_comes_after_us_is_noticed_at_the_next_event_and_the_user_is_told(
    repo: Node, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("b.py")
    repo.with_husky(person, pre_commit="echo husky >> ../framework")
    assert repo.states() == {"absent", "outdated"}, "git still looks where our hooks are"
    told = said(ann, "b2.py")
    assert "git's hooks were changed, and are in place again" in told
    assert repo.states() == {"installed"}
    assert not (repo.hooks / "pre-commit").exists()
    assert "b.py: codex" in ann.commit("-a").complained
    assert ann.commit("--", "a.py").code == 0
    assert repo.ran() == ["husky"]
    assert "git's hooks" not in said(ann, "b3.py")
    git_hooks.uninstall(str(repo.root))
    assert "holdfast" not in (repo.root / ".git/config").read_text()


def said(actor: Actor, name: str) -> str:
    """The hook's answer to an edit without conflict."""
    fields = {"file_path": str(actor.repo.root / name), "content": ""}
    data = {
        "session_id": actor.session, "cwd": str(actor.repo.root), "tool_name": "Write",
        "hook_event_name": "PreToolUse", "tool_input": fields,
    }  # fmt: skip
    done = actor.run(*git_hooks.command(), "claude", text=json.dumps(data))
    assert done.code == 0, done
    return str(json.loads(done.said or "{}").get("systemMessage", ""))


def test_a_tracked_folder_of_husky_stays_as_it_is(
    repo: Node, ann: Actor, bob: Actor, person: Actor
) -> None:
    """In versions before 9, the hooks that git runs are under version control."""
    shared = repo.root / ".husky"
    shared.mkdir()
    (shared / "pre-commit").write_text("#!/bin/sh\necho husky >> ../framework\n")
    (shared / "pre-commit").chmod(0o755)
    repo.git("config", "core.hooksPath", ".husky")
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    assert repo.git("status", "--porcelain") == "M  a.py\n M b.py\n"
    assert ann.commit().code == 0
    assert repo.ran() == ["husky"]
    assert unharmed
    assert [file.name for file in shared.iterdir()] == ["pre-commit"]


# lint-staged


def test_two_agents_commit_under_husky_and_lint_staged_with_unfinished_work_of_both(
    repo: Node, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.with_lint_staged(person, 'for it in "$@"; do echo formatted >> $it; done')
    repo.start("a.py", "b.py", "c.py", "d.py")
    ann.edit("a.py", "c.py")
    bob.edit("b.py", "d.py")
    unfinished_work = [Untouched(repo.root / "c.py"), Untouched(repo.root / "d.py")]
    for actor, name in ((ann, "a.py"), (bob, "b.py")):
        actor.git("add", name)
        done = actor.commit()
        assert done.code == 0, done
        assert repo.last() == [name]
        assert repo.git("show", f"HEAD:{name}") == "new\nformatted\n"
    assert all(unfinished_work)
    assert repo.git("status", "--porcelain") == " M c.py\n M d.py\n"
    assert repo.git("stash", "list") == ""
    assert repo.left_over() == ["config", "hooks"]
    assert repo.held() == {"c.py": ANN_KEY, "d.py": BOB_KEY}


def test_an_agent_works_on_while_lint_staged_runs_for_another(
    repo: Node, ann: Actor, bob: Actor, person: Actor
) -> None:
    task = "case $1 in */a.py) touch ../begun; until [ -e ../go ]; do sleep 0.05; done; esac"
    repo.with_lint_staged(person, task)
    repo.start("a.py", "b.py", "c.py")
    ann.edit("a.py")
    bob.edit("b.py")
    done: list[int] = []
    ann.git("add", "a.py")
    first = threading.Thread(target=lambda: done.append(ann.commit().code))
    first.start()
    until(lambda: (repo.folder / "begun").exists(), "its task has begun")
    bob.edit("b.py", content="later\n")
    bob.edit("c.py")  # which bob did not hold before
    unharmed = [Untouched(repo.root / name) for name in ("b.py", "c.py")]
    (repo.folder / "go").touch()
    first.join()
    assert done == [0]
    assert repo.last() == ["a.py"]
    assert all(unharmed)
    assert repo.held() == {"b.py": BOB_KEY, "c.py": BOB_KEY}


@pytest.mark.parametrize("way", ["fails", "is killed"])
def test_a_task_of_lint_staged_that_does_not_end_well_leaves_everything_as_it_was(
    repo: Node, ann: Actor, bob: Actor, person: Actor, way: str
) -> None:
    """lint-staged then resets the work tree and restores its copy, which would lose what others
    have written since."""
    task = 'echo broken > "$1"; echo meanwhile >> b.py; '
    task += "exit 1" if way == "fails" else "kill -9 $PPID"
    repo.with_lint_staged(person, task)
    repo.start("a.py", "b.py")
    unfinished(repo, ann, bob)
    index = repo.git("ls-files", "--stage")
    assert ann.commit().code != 0
    assert (repo.root / "b.py").read_text() == "new\nmeanwhile\n"
    assert (repo.root / "a.py").read_text() == ("new\n" if way == "fails" else "broken\n")
    assert repo.git("ls-files", "--stage") == index
    assert repo.subjects() == ["start"]
    assert repo.left_over() == ["config", "hooks"]


@pytest.mark.parametrize("words", [("--", "a.py"), ("-a",)])
def test_lint_staged_stages_what_it_formatted_for_each_kind_of_commit(
    repo: Node, ann: Actor, bob: Actor, person: Actor, words: tuple[str, ...]
) -> None:
    repo.with_lint_staged(person, 'for it in "$@"; do echo formatted >> $it; done')
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("new.py")
    assert ann.commit(*words).code == 0
    assert repo.last() == ["a.py"]
    assert repo.git("show", "HEAD:a.py") == "new\nformatted\n"


def test_lint_staged_that_hides_all_unstaged_work_hides_none_of_others(
    repo: Node, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.with_lint_staged(person, "cat b.py >> ../framework", "lint-staged --hide-unstaged")
    repo.start("a.py", "b.py")
    unharmed = unfinished(repo, ann, bob)
    assert ann.commit().code == 0
    assert repo.ran() == ["new"]
    assert unharmed


# lefthook


def lefthook(repo: Node, person: Actor) -> None:
    (repo.root / "lefthook.yml").write_text(
        "pre-commit:\n  jobs:\n"
        "    - run: for it in {staged_files}; do echo formatted >> $it; done\n"
        "      stage_fixed: true\n"
    )
    done = person.run("lefthook", "install")
    assert done.code == 0, done


@pytest.mark.parametrize("later", [False, True], ids=["before us", "after us"])
def test_agents_commit_under_lefthook(
    repo: Node, ann: Actor, bob: Actor, person: Actor, later: bool
) -> None:
    if not later:
        lefthook(repo, person)
    repo.start("a.py", "b.py")
    if later:
        lefthook(repo, person)
        assert repo.states() != {"installed"}
    unharmed = unfinished(repo, ann, bob)
    assert repo.states() == {"installed"}
    done = ann.commit()
    assert done.code == 0, done
    assert repo.last() == ["a.py"]
    assert repo.git("show", "HEAD:a.py") == "new\nformatted\n"
    assert unharmed
    assert "b.py: codex" in ann.commit("-a").complained
    assert repo.held() == {"b.py": BOB_KEY}


def test_lefthook_that_is_installed_again_is_put_behind_us_again(
    repo: Node, ann: Actor, bob: Actor, person: Actor
) -> None:
    """`lefthook run` reinstalls itself when its settings have changed."""
    lefthook(repo, person)
    repo.start("a.py", "b.py")
    for words in ((), (), ("--force",)):
        done = person.run("lefthook", "install", *words)
        assert done.code == 0, done
        with (repo.hooks / "pre-commit").open("a") as file:
            file.write(f"# another version {words}\n")
        unfinished(repo, ann, bob)
        assert repo.states() == {"installed"}
        assert "pre-commit.old" not in repo.names()
        assert "b.py: codex" in ann.commit("-a").complained
    assert ann.commit("--", "a.py").code == 0
    git_hooks.uninstall(str(repo.root))
    assert repo.names() == ["pre-commit"]
    assert "call_lefthook" in (repo.hooks / "pre-commit").read_text()


# simple-git-hooks


def test_a_hook_that_is_overwritten_in_its_place_is_noticed(
    repo: Node, ann: Actor, bob: Actor, person: Actor
) -> None:
    repo.package(**{"simple-git-hooks": {"pre-commit": "echo simple >> ../framework"}})
    repo.start("a.py", "b.py")
    assert person.run("simple-git-hooks").code == 0
    assert "foreign" in repo.states()
    unfinished(repo, ann, bob)
    assert repo.states() == {"installed"}
    assert "b.py: codex" in ann.commit("-a").complained
    assert ann.commit("--", "a.py").code == 0
    assert repo.ran() == ["simple"]
    repo.package(**{"simple-git-hooks": {"pre-commit": "echo newer >> ../framework"}})
    assert person.run("simple-git-hooks").code == 0
    ann.edit("a.py", content="3\n")
    assert ann.commit("--", "a.py").code == 0
    assert repo.ran() == ["newer"]
