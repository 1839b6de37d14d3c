"""git's own hooks as `init` handles them, with sentences for people."""

from __future__ import annotations

import os

from holdfast.core.model import Value
from holdfast.gate.git import git_hooks
from holdfast.gate.git.git_files import GitError
from holdfast.gate.git.git_hooks import (
    ABSENT,
    EDITED,
    FOREIGN,
    INSTALLED,
    OUTDATED,
    OVERTAKEN,
    PASSED_BY,
)
from holdfast.gate.git.hook_managers import ALL, stashing_managers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

_WRONG = {
    ABSENT: "is missing",
    FOREIGN: "was replaced by another hook",
    OUTDATED: "belongs to another installation, or cannot be executed",
    OVERTAKEN: "is the pre-commit framework's, which was installed in front of ours and ignores "
    "our refusal",
    PASSED_BY: "is not where git looks, because core.hooksPath was changed",
}


class Touched(Value):
    """A hook that was, or would be, written or removed; `verb` is a participle."""

    __slots__ = ("name", "note", "verb")

    def __init__(self, verb: str, name: str, note: str = "") -> None:
        self.verb: Final = verb
        self.name: Final = name
        self.note: Final = note


def to_install(root: str, words: Sequence[str]) -> list[Touched]:
    """The hooks that `install` would write. Raises GitError if that is not possible."""
    found = []
    for hook in git_hooks.to_install(root, words=words):
        kept = hook.before or hook.state in (FOREIGN, OVERTAKEN)
        note = "the hook that was there still runs" if kept else ""
        found.append(Touched("written", _short(root, hook.path), note))
    return found


def install(root: str, words: Sequence[str]) -> list[Touched]:
    """Write git's hooks; returns those written. Raises GitError, and then none was."""
    found = to_install(root, words)
    if found:
        git_hooks.install(root, words=words)
    return found


def to_uninstall(root: str) -> list[Touched]:
    """The hooks that `uninstall` would remove or restore."""
    return [
        Touched("put back", _short(root, hook.path), "as it was before")
        if hook.before or hook.state == OVERTAKEN
        else Touched("removed", _short(root, hook.path))
        for hook in git_hooks.status(root)
        if hook.before or hook.state in (INSTALLED, OUTDATED, OVERTAKEN, PASSED_BY, EDITED)
    ]


def uninstall(root: str) -> list[Touched]:
    """Remove git's hooks; returns those removed. Raises GitError, and then none was."""
    found = to_uninstall(root)
    if found:
        git_hooks.uninstall(root)
    return found


def problems(root: str, words: Sequence[str] | None) -> list[str]:
    """The problems with git's hooks, as sentences."""
    try:
        found = git_hooks.status(root, words=words)
    except GitError as error:
        return [error.message]
    return [
        f"{_short(root, hook.path)}{f': {hook.why}' if hook.why else f' {_WRONG[hook.state]}'}"
        for hook in found
        if hook.state != INSTALLED
    ]


def warnings(root: str) -> list[str]:
    """What a person should know before the first commit, as sentences."""
    try:
        managers = [one for one in stashing_managers(root) if one.takes == ALL]
    except GitError as error:
        return [error.message]
    return [
        f"{one.name} stashes all unstaged work while a commit runs, other agents' work too "
        f"({one.evidence}): such a commit is refused while other agents have any"
        for one in managers
        if not one.can_be_shielded
    ]


def _short(root: str, path: str) -> str:
    return os.path.relpath(path, root) if path.startswith(f"{root}/") else path
