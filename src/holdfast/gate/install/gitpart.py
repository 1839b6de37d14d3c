"""git's own hooks, as far as `init` has to do with them: in words for people."""

from __future__ import annotations

import os

from holdfast.core.model import Value
from holdfast.gate import githooks
from holdfast.gate.gitfiles import GitError
from holdfast.gate.githooks import ABSENT, BLOCKED, EDITED, FOREIGN, INSTALLED, OUTDATED
from holdfast.gate.install.finding import git
from holdfast.gate.stashing import ALL, stashing_managers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from holdfast.gate.githooks import Hook

_WRONG = {
    ABSENT: "is missing",
    FOREIGN: "was replaced by another one",
    OUTDATED: "is of another installation, or cannot be run",
}


class Touched(Value):
    """A hook that was, or would be, written or taken away; `verb` is a participle."""

    __slots__ = ("name", "note", "verb")

    def __init__(self, verb: str, name: str, note: str = "") -> None:
        self.verb: Final = verb
        self.name: Final = name
        self.note: Final = note


def to_install(root: str, words: Sequence[str]) -> list[Touched]:
    """What `install` would write. Raises GitError if it cannot be done."""
    scope = (git(root, "config", "--show-scope", "--get", "core.hooksPath") or "").split("\t")[0]
    if scope in ("global", "system"):
        githooks.install(root, words=words)  # which refuses, and says why
    found = []
    for hook in githooks.status(root, words=words):
        if hook.state in (BLOCKED, EDITED):
            githooks.install(root, words=words)
        if hook.state != INSTALLED:
            kept = hook.before or hook.state == FOREIGN
            note = "what was there runs first" if kept else ""
            found.append(Touched("written", _short(root, hook.path), note))
    return found


def install(root: str, words: Sequence[str]) -> list[Touched]:
    """Write git's hooks; what was written. Raises GitError, and then nothing was."""
    found = to_install(root, words)
    if found:
        githooks.install(root, words=words)
    return found


def to_uninstall(root: str) -> list[Touched]:
    """What `uninstall` would take away."""
    return [
        Touched("put back", _short(root, hook.path), "as it was before")
        if hook.before
        else Touched("removed", _short(root, hook.path))
        for hook in githooks.status(root)
        if hook.before or hook.state in (INSTALLED, OUTDATED, EDITED)
    ]


def uninstall(root: str) -> list[Touched]:
    """Take git's hooks away; what was. Raises GitError, and then nothing was."""
    found = to_uninstall(root)
    if found:
        githooks.uninstall(root)
    return found


def problems(root: str, words: Sequence[str] | None) -> list[str]:
    """What is not as it should be, in words."""
    try:
        return [
            f"{_short(root, hook.path)} {hook.why or _WRONG.get(hook.state, 'is not ours')}"
            for hook in githooks.status(root, words=words)
            if hook.state != INSTALLED
        ]
    except GitError as error:
        return [error.message]


def warnings(root: str) -> list[str]:
    """What a person should know before the first commit."""
    try:
        found = [f"{_told(hook, root)}" for hook in githooks.status(root) if hook.tracked]
        for one in stashing_managers(root):
            whose = "everybody's unstaged work" if one.takes == ALL else "partly staged files"
            found.append(
                f"{one.name} puts {whose} aside while a commit runs, other agents' too "
                f"({one.evidence}): such a commit is refused while they have any"
            )
    except GitError as error:
        return [error.message]
    return found


def _told(hook: Hook, root: str) -> str:
    return (
        f"{_short(root, hook.path)} is in git, and its command is true for this machine only: "
        "do not commit it"
    )


def _short(root: str, path: str) -> str:
    return os.path.relpath(path, root) if path.startswith(f"{root}/") else path
