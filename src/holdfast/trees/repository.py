"""A repository of trees: where everything in it lies, and how it is found.

    REPOSITORY/.jvs/        format_version, repository.json, and the folders below
    REPOSITORY/main/        the first worktree
    REPOSITORY/worktrees/   all others, by name

Nothing here decides anything but whether a name can be a name.
"""

from __future__ import annotations

import os

from holdfast.core.time import iso
from holdfast.manager.clock import SystemClock
from holdfast.manager.ids import new_id
from holdfast.manager.realpath import upwards
from holdfast.trees import files, formats, kernel
from holdfast.trees.errors import BadTreeError, NoTreeError, TreeExistsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from holdfast.core.errors import HoldfastError
    from holdfast.core.time import Clock

CONTROL = ".jvs"
MAIN = "main"
FOLDERS = ("snapshots", "descriptors", "refs", "locks", "intents", "audit", "gc", "staging")

LEASE_SECONDS_DEFAULT = 300.0
LEASE_SECONDS_MIN = 0.1
LEASE_SECONDS_MAX = 30 * 86400.0
NAME_CHARACTERS_MAX = 100
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+@")


class Repository:
    """One repository. Making the value reads nothing; `open` and `init` check."""

    def __init__(self, root: str, clock: Clock | None = None) -> None:
        self.root: Final = root
        self.control: Final = f"{root}/{CONTROL}"
        self.clock: Final[Clock] = clock or SystemClock()
        self.format = formats.FORMAT
        self._unchangeable: HoldfastError | None = None

    @classmethod
    def init(cls, folder: str, *, clock: Clock | None = None) -> Repository:
        """Make a repository, with an empty worktree `main`. The folder must be new or empty."""
        from holdfast.trees import audit

        root = os.path.join(os.path.realpath(os.path.dirname(folder) or "."), _last(folder))
        for around in upwards(root):
            formats.refuse_jvs(around, f"{around}/{CONTROL}")
        _refuse_nested(root)
        try:
            os.makedirs(root, exist_ok=True)
            taken = os.listdir(root)
        except (FileExistsError, NotADirectoryError):
            taken = [root]
        if taken:
            raise TreeExistsError(
                f"{root} is there already, and not empty", hint="choose a new name for it"
            )
        made = cls(root, clock)
        try:
            made._build()
        except BaseException:
            files.remove_tree(root)
            raise
        audit.append(made, "repository_made", {"name": os.path.basename(root)})
        return made

    def _build(self) -> None:
        from holdfast.trees import worktrees

        building = f"{self.control}{files.UNFINISHED}"
        for name in FOLDERS:
            os.makedirs(f"{building}/{name}")
        about = {"name": os.path.basename(self.root), "repository_id": new_id()}
        files.write_new(
            f"{building}/{formats.ABOUT}", files.pretty({**about, "created_at": self.now})
        )
        files.write_new(f"{building}/{formats.FILE}", f"{formats.FORMAT}\n".encode())
        os.mkdir(f"{self.root}/worktrees")
        worktrees.furnish(self, f"{self.root}/{MAIN}", worktrees.EXCLUSIVE, made_by="init")
        kernel.flush(self.root)
        # Last: whoever is killed before leaves a folder that nobody takes for a repository.
        os.rename(building, self.control)
        files.flush_folder(self.root)

    @classmethod
    def open(cls, where: str = ".", *, clock: Clock | None = None) -> Repository:
        """The repository around a folder."""
        for folder in upwards(os.path.realpath(where)):
            made = cls(folder, clock)
            if any(os.path.lexists(made.path(one)) for one in (formats.FILE, formats.ABOUT)):
                made.format, made._unchangeable = formats.settle(folder, made.control)
                return made
            formats.refuse_jvs(folder, made.control)
        raise NoTreeError(
            f"{where if where != '.' else 'this folder'} is in no repository of trees",
            hint="go into one, or make one: holdfast tree init NAME",
        )

    def check_changeable(self) -> None:
        """Raise if it may only be read: it still has a format that jvs takes for its own."""
        if self._unchangeable is not None:
            raise self._unchangeable

    def path(self, *names: str) -> str:
        """A place below the control folder."""
        return "/".join((self.control, *names))

    def about(self) -> dict[str, Any]:
        """The name of the repository and when it was made; what can be read of it."""
        try:
            return files.read_json(self.path(formats.ABOUT))
        except (OSError, ValueError):
            return {"name": os.path.basename(self.root)}

    @property
    def now(self) -> str:
        """The moment as it is written into files."""
        return iso(self.clock.read().wall)

    def place(self, name: str) -> str:
        """Where the worktree of that name is, or would be."""
        checked_name(name)
        return f"{self.root}/{MAIN}" if name == MAIN else f"{self.root}/worktrees/{name}"


def checked_name(name: str) -> str:
    """The name, if it can be one: a single component of a path that nothing takes for another."""
    if (
        1 <= len(name) <= NAME_CHARACTERS_MAX
        and _NAME_CHARACTERS.issuperset(name)
        and name[0] not in "-."
        and not name.endswith((".", files.UNFINISHED))
    ):
        return name
    raise BadTreeError(
        f"{name[:80]!r} cannot be the name of a worktree",
        hint=f"use 1 to {NAME_CHARACTERS_MAX} letters, digits and - _ . + @, "
        "no slash, no dot or dash at the start",
    )


def checked_lease(seconds: float) -> float:
    """The length of a lease, if it makes sense."""
    if LEASE_SECONDS_MIN <= seconds <= LEASE_SECONDS_MAX:
        return seconds
    raise BadTreeError(
        f"a lease of {seconds:g} s makes no sense",
        hint=f"give between {LEASE_SECONDS_MIN:g} s and {LEASE_SECONDS_MAX / 86400:g} days",
    )


def _last(folder: str) -> str:
    name = os.path.basename(folder.rstrip("/"))
    return checked_name(name)


def _refuse_nested(root: str) -> None:
    for folder in upwards(os.path.dirname(root)):
        if os.path.lexists(f"{folder}/{CONTROL}"):
            raise BadTreeError(
                f"{root} would lie inside the repository {folder}",
                hint="make it elsewhere; a payload cannot hold a repository",
            )
