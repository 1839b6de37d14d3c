"""The gate in linked worktrees, with the real clients: `init` ran once, in the main checkout."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import LINUX_ONLY

from .crew import REFUSED, Claudes, Crew
from .drive import start_claude, start_codex
from .gated import AT_ONCE, Gated
from .servers import Call, edit, patch

pytestmark = LINUX_ONLY


class There:
    """A crew that works in another checkout of its repository."""

    def __init__(self, crew: Crew, folder: Path) -> None:
        self.crew, self.folder = crew, folder
        self._start = crew._start

    def __enter__(self) -> Crew:
        def start(prompt: str, **more: Any) -> Any:
            begin: Any = start_claude if isinstance(self.crew, Claudes) else start_codex
            return begin(self.folder, prompt, self.crew.server, **more)

        self.crew._start = start  # type: ignore[method-assign]
        return self.crew

    def __exit__(self, *_: object) -> None:
        self.crew._start = self._start  # type: ignore[method-assign]


def change(crew: Crew, folder: Path, new: str, old: str = "old") -> Call:
    """Replace the content of a.txt in a checkout."""
    if isinstance(crew, Claudes):
        return edit(folder / "a.txt", old, new)
    return patch(f"*** Update File: a.txt\n@@\n-{old}\n+{new}")


def test_two_agents_in_a_fresh_worktree_are_kept_apart(gated: Gated, crew: Crew) -> None:
    gated.init(**AT_ONCE)
    feature = gated.root.parent / "feature"
    gated.git("worktree", "add", "-q", "-b", "feature", str(feature))
    with There(crew, feature) as there:
        owner = there.owner(change(crew, feature, "mine"))
        assert gated.held() == {"../feature/a.txt": owner.name}
        other = there.run("other", change(crew, feature, "theirs", "mine"))
        owner.ends()
    assert (
        f"{REFUSED}../feature/a.txt has been locked for writing by {owner.name}" in other.results[0]
    )
    assert (feature / "a.txt").read_text() == "mine\n"
    assert gated.held() == {}


@pytest.mark.parametrize("name", ["repo.git", ".git"])
def test_two_agents_in_a_worktree_of_a_bare_repository_are_kept_apart(
    gated: Gated, crew: Crew, name: str
) -> None:
    project = gated.root.parent / "project"
    project.mkdir()
    gated.git("clone", "-q", "--bare", ".", str(project / name))
    one = project / "one"
    gated.git("-C", str(project / name), "worktree", "add", "-q", "-b", "one", str(one))
    crew.gated = Gated(one).init(**AT_ONCE)
    shutil.copy(one / "holdfast.toml", project / name)
    with There(crew, one) as there:
        owner = there.owner(change(crew, one, "mine"))
        other = there.run("other", change(crew, one, "theirs", "mine"))
        owner.ends()
    assert REFUSED in other.results[0]
    assert (one / "a.txt").read_text() == "mine\n"


def test_the_same_file_in_two_checkouts_is_told_and_not_refused(gated: Gated, crew: Crew) -> None:
    gated.init(**AT_ONCE)
    feature = gated.root.parent / "feature"
    gated.git("worktree", "add", "-q", "-b", "feature", str(feature))
    owner = crew.owner()
    with There(crew, feature) as there:
        there.run("other", change(crew, feature, "theirs"))
    owner.ends()
    assert (feature / "a.txt").read_text() == "theirs\n"
    assert gated.text() == "mine\n"
    told = f"{owner.name} is changing ../feature/a.txt in another checkout: it has held a.txt for"
    assert any(told in request.text() for request in crew.server.requests)


def test_a_worktree_that_an_agent_made_is_guarded(gated: Gated, crew: Crew) -> None:
    gated.init(**AT_ONCE)
    made = gated.root.parent / "made"
    crew.run("maker", crew.shell("git worktree add -q -b made ../made"))
    assert (made / "a.txt").exists()
    with There(crew, made) as there:
        owner = there.owner(change(crew, made, "mine"))
        other = there.run("other", change(crew, made, "theirs", "mine"))
        owner.ends()
    assert REFUSED in other.results[0]
    assert (made / "a.txt").read_text() == "mine\n"
