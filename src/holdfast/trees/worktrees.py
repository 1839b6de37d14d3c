"""Worktrees: folders with a payload, and beside it `.jvs-worktree` with the facts about it.

`.jvs-worktree` holds `id`, `base_snapshot` (its origin), `head_snapshot` (its latest snapshot) and
`config.json`. It is our only entry in a payload's folder, and not part of the payload.
"""

from __future__ import annotations

import os

from holdfast.core.errors import HoldfastError
from holdfast.manager.ids import new_id
from holdfast.trees import tree_files
from holdfast.trees.errors import (
    BadTreeError,
    NoTreeError,
    TreeDamagedError,
    TreeExistsError,
    shown,
)
from holdfast.trees.locking.operation_guard import Guard
from holdfast.trees.repository import MAIN, Repository, checked_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

CONTROL = ".jvs-worktree"
EXCLUSIVE = "exclusive"
SHARED = "shared"
ISOLATIONS = (EXCLUSIVE, SHARED)

_ID_CHARACTERS = frozenset("0123456789abcdef-")


class Worktree:
    """One worktree: a name, a folder, an id, and how it is isolated."""

    def __init__(self, repository: Repository, name: str) -> None:
        self.repository: Final = repository
        self.name: Final = name
        self.path: Final = repository.place(name)
        if os.path.islink(self.path):
            raise BadTreeError(
                f"worktree {name} is a symbolic link, and links are never followed",
                hint="move the folder to its place, or mount its file system there",
            )
        self.id: Final = self._id()
        self.config: Final = self._config()
        self.isolation: Final[str] = self.config["isolation"]

    @property
    def is_shared(self) -> bool:
        """Whether any process may write to it at any time."""
        return self.isolation == SHARED

    def control(self, name: str) -> str:
        """A path in its own control folder."""
        return f"{self.path}/{CONTROL}/{name}"

    def guard(self) -> Guard:
        """The guard for changing its lock, and for making a result visible."""
        self.repository.check_changeable()
        return Guard(self.repository.path("locks", f"{self.id}.guard"), f"worktree {self.name}")

    def head(self) -> str:
        """The id of its latest snapshot; empty if there is none."""
        return self._snapshot_id("head_snapshot")

    def base(self) -> str:
        """The id of the snapshot that it was created from; empty if it was created empty."""
        return self._snapshot_id("base_snapshot")

    def move_head(self, snapshot_id: str) -> None:
        """Make a snapshot its head. Only inside the guard."""
        tree_files.replace(self.control("head_snapshot"), f"{snapshot_id}\n".encode())

    def _id(self) -> str:
        text = self._read("id")
        if not is_worktree_id(text):
            raise self._damaged("id", "it is not an id")
        return text

    def _config(self) -> dict[str, Any]:
        try:
            config = tree_files.read_json(self.control("config.json"))
        except (OSError, ValueError) as error:
            raise self._damaged("config.json", str(error)) from error
        if config.get("isolation") not in ISOLATIONS:
            raise self._damaged("config.json", "it does not name an isolation")
        return config

    def _snapshot_id(self, name: str) -> str:
        text = self._read(name)
        if text and not (len(text) <= 64 and _ID_CHARACTERS.issuperset(text)):
            raise self._damaged(name, "it is not the id of a snapshot")
        return text

    def _read(self, name: str) -> str:
        try:
            return tree_files.read(self.control(name)).decode("ascii").strip()
        except (OSError, ValueError) as error:
            raise self._damaged(name, str(error)) from error

    def _damaged(self, name: str, why: str) -> TreeDamagedError:
        return TreeDamagedError(
            f"{CONTROL}/{name} of worktree {self.name} is damaged: {shown(why)}",
            hint="see holdfast tree doctor --strict",
            path=shown(self.control(name)),
        )


def is_worktree_id(text: str) -> bool:
    """Whether it can be the id of a worktree, and so a part of a file's name."""
    return 8 <= len(text) <= 64 and _ID_CHARACTERS.issuperset(text)


def furnish(
    repository: Repository,
    folder: str,
    isolation: str,
    *,
    made_by: str,
    id: str = "",
    base: str = "",
    head: str = "",
    config: dict[str, Any] | None = None,
) -> None:
    """Turn a hidden folder into a worktree. `made_by` is the operation."""
    about = {"created_at": repository.now, **(config or {})}
    about |= {"isolation": isolation, "made_by": made_by}
    os.makedirs(f"{folder}/{CONTROL}")
    for name, text in (("id", id or new_id()), ("base_snapshot", base), ("head_snapshot", head)):
        tree_files.write_new(f"{folder}/{CONTROL}/{name}", f"{text}\n".encode())
    tree_files.write_new(f"{folder}/{CONTROL}/config.json", tree_files.pretty(about))


def refuse_other(folder: str) -> None:
    """Raise if a folder that is to become `main` is a worktree with a history.

    A worktree without one was left by a process that was killed while it created a repository here.
    """
    control = f"{folder}/{CONTROL}"
    if not os.path.lexists(control):
        return
    try:
        has_history = tree_files.read(f"{control}/head_snapshot").strip() != b""
    except FileNotFoundError:
        has_history = False
    except (OSError, ValueError):
        has_history = True
    if has_history:
        raise TreeExistsError(
            f"{folder} is a worktree of a repository that no longer exists",
            hint=f"restore its .jvs, or remove {control}",
        )


def find(repository: Repository, name: str) -> Worktree:
    """The worktree of that name."""
    checked_name(name)
    if not os.path.isdir(f"{repository.place(name)}/{CONTROL}"):
        raise NoTreeError(
            f"there is no worktree {name}",
            hint="holdfast tree list shows them; holdfast tree create creates one",
        )
    return Worktree(repository, name)


def around(repository: Repository, where: str = ".") -> Worktree | None:
    """The worktree that contains a folder, if any."""
    place = os.path.relpath(os.path.realpath(where), repository.root).split("/")
    if place[0] == MAIN:
        return find(repository, MAIN)
    if place[0] == "worktrees" and len(place) > 1:
        return find(repository, place[1])
    return None


def names(repository: Repository) -> list[str]:
    """The names of all worktrees, `main` first."""
    found = [MAIN] if os.path.isdir(f"{repository.root}/{MAIN}/{CONTROL}") else []
    try:
        others = sorted(os.listdir(f"{repository.root}/worktrees"))
    except FileNotFoundError:
        others = []
    for name in others:
        try:
            if os.path.isdir(f"{repository.place(name)}/{CONTROL}"):
                found.append(name)
        except BadTreeError:
            continue  # a folder that another program put there
    return found


def each(repository: Repository) -> Iterator[Worktree]:
    """All readable worktrees; the doctor reports the others."""
    for name in names(repository):
        try:
            yield Worktree(repository, name)
        except HoldfastError:
            continue
