"""A repository of trees: where its files are, and how it is found.

    REPOSITORY/.jvs/        format_version, repository.json, and the folders below
    REPOSITORY/main/        the first worktree
    REPOSITORY/worktrees/   all others, by name

The only rule here is which names are valid.
"""

from __future__ import annotations

import os

from holdfast.core.errors import StoreBusyError
from holdfast.core.ledger_time import iso
from holdfast.manager.clock import SystemClock
from holdfast.manager.files.realpath import upwards
from holdfast.manager.ids import new_id
from holdfast.store.sqlite.write_gate import LOCK_EX, LOCK_NB, flock
from holdfast.trees import kernel_calls, tree_files
from holdfast.trees.errors import BadTreeError, NoTreeError, TreeExistsError, in_words
from holdfast.trees.foreign import format_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from holdfast.core.errors import HoldfastError
    from holdfast.core.ledger_time import Clock

CONTROL = ".jvs"
MAIN = "main"
FOLDERS = ("snapshots", "descriptors", "refs", "locks", "intents", "audit", "gc", "staging")

LEASE_SECONDS_DEFAULT = 300.0
LEASE_SECONDS_MIN = 0.1
LEASE_SECONDS_MAX = 30 * 86400.0
NAME_CHARACTERS_MAX = 100
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+@")


class Repository:
    """One repository. Creating the value reads nothing; `open` and `init` check."""

    def __init__(self, root: str, clock: Clock | None = None) -> None:
        self.root: Final = root
        self.control: Final = f"{root}/{CONTROL}"
        self.clock: Final[Clock] = clock or SystemClock()
        self.format = format_numbers.FORMAT
        self._unchangeable: HoldfastError | None = None

    @classmethod
    def init(cls, folder: str, *, clock: Clock | None = None) -> Repository:
        """Create a repository with the worktree `main` in a folder, which may already exist.

        An existing folder `main` becomes the worktree with all its content. Everything else in the
        folder stays as it is, and belongs to no worktree.
        """
        from holdfast.trees import audit_log

        root = os.path.realpath(folder)
        for around in upwards(root):
            format_numbers.refuse_jvs(around, f"{around}/{CONTROL}")
        _refuse_nested(root)
        made = cls(root, clock)
        with in_words(f"creating the repository {root}"):
            is_new = _make_folder(root)
            descriptor = os.open(root, tree_files.FOLDER)
            try:
                flock(descriptor, LOCK_EX | LOCK_NB)
                made._build()
            except BlockingIOError:
                raise StoreBusyError(
                    f"another process is turning {root} into a repository", hint="check again"
                ) from None
            except BaseException:
                if is_new:
                    tree_files.remove_tree(root)
                raise
            finally:
                os.close(descriptor)
            audit_log.append(made, "repository_made", {"name": os.path.basename(root)})
        return made

    def _build(self) -> None:
        """Create everything under other names, then the control folder. Only with the root locked.

        A process that is killed before the last step leaves only files that do not count as a
        repository, and that the next `init` here removes. Existing files are never touched.
        """
        from holdfast.trees import worktrees

        main, others = f"{self.root}/{MAIN}", f"{self.root}/worktrees"
        if os.path.lexists(self.control):
            raise TreeExistsError(f"{self.root} is already a repository", hint="change into it")
        for place in (main, others):
            if os.path.lexists(place) and (os.path.islink(place) or not os.path.isdir(place)):
                raise TreeExistsError(
                    f"{place} already exists and is not a folder", hint="move it away"
                )
        worktrees.refuse_other(main)
        building = f"{self.control}{tree_files.UNFINISHED}"
        tree_files.remove_tree(building)
        tree_files.remove_tree(
            f"{main}/{worktrees.CONTROL}"
        )  # left by a killed process: see refuse_other
        try:
            for name in FOLDERS:
                os.makedirs(f"{building}/{name}")
            about = {"name": os.path.basename(self.root) or "root", "repository_id": new_id()}
            tree_files.write_new(
                f"{building}/{format_numbers.ABOUT}",
                tree_files.pretty({**about, "created_at": self.now}),
            )
            tree_files.write_new(
                f"{building}/{format_numbers.FILE}", f"{format_numbers.FORMAT}\n".encode()
            )
            os.makedirs(others, exist_ok=True)
            worktrees.furnish(self, main, worktrees.EXCLUSIVE, made_by="init")
            kernel_calls.flush(self.root)
            os.rename(building, self.control)
        except BaseException:
            tree_files.remove_tree(building)
            tree_files.remove_tree(f"{main}/{worktrees.CONTROL}")
            raise
        tree_files.flush_folder(self.root)

    @classmethod
    def open(cls, where: str = ".", *, clock: Clock | None = None) -> Repository:
        """The repository around a folder."""
        for folder in upwards(os.path.realpath(where)):
            made = cls(folder, clock)
            if any(
                os.path.lexists(made.path(one))
                for one in (format_numbers.FILE, format_numbers.ABOUT)
            ):
                made.format, made._unchangeable = format_numbers.settle(folder, made.control)
                return made
            format_numbers.refuse_jvs(folder, made.control)
        raise NoTreeError(
            f"{where if where != '.' else 'this folder'} is not in a repository of trees",
            hint="change into one, or create one: holdfast tree init PATH",
        )

    def check_changeable(self) -> None:
        """Raise if it is read-only: it still has a format that jvs mistakes for its own."""
        if self._unchangeable is not None:
            raise self._unchangeable

    def path(self, *names: str) -> str:
        """A place below the control folder."""
        return "/".join((self.control, *names))

    def about(self) -> dict[str, Any]:
        """The name of the repository and when it was created, as far as they can be read."""
        try:
            return tree_files.read_json(self.path(format_numbers.ABOUT))
        except (OSError, ValueError):
            return {"name": os.path.basename(self.root)}

    @property
    def now(self) -> str:
        """The present moment, as it is written into files."""
        return iso(self.clock.read().wall)

    def place(self, name: str) -> str:
        """Where the worktree of that name is, or would be."""
        checked_name(name)
        return f"{self.root}/{MAIN}" if name == MAIN else f"{self.root}/worktrees/{name}"


def is_name(name: str) -> bool:
    """Whether it is a single, unambiguous component of a path."""
    return (
        1 <= len(name) <= NAME_CHARACTERS_MAX
        and _NAME_CHARACTERS.issuperset(name)
        and name[0] not in "-."
        and not name.endswith((".", tree_files.UNFINISHED))
    )


def checked_name(name: str) -> str:
    """The name, if it is valid for a worktree. Raises otherwise."""
    if is_name(name):
        return name
    raise BadTreeError(
        f"{name[:80]!r} cannot be the name of a worktree",
        hint=f"use 1 to {NAME_CHARACTERS_MAX} letters, digits and - _ . + @, "
        "no slash, no dot or dash at the start",
    )


def checked_lease(seconds: float) -> float:
    """The length of a lease, if it is in range. Raises otherwise."""
    if LEASE_SECONDS_MIN <= seconds <= LEASE_SECONDS_MAX:
        return seconds
    raise BadTreeError(
        f"a lease of {seconds:g} s is out of range",
        hint=f"give between {LEASE_SECONDS_MIN:g} s and {LEASE_SECONDS_MAX / 86400:g} days",
    )


def _make_folder(root: str) -> bool:
    """Create the folder if it is missing. Returns whether it was created."""
    if os.path.isdir(root):
        return False
    try:
        os.makedirs(root)
    except (FileExistsError, NotADirectoryError):
        raise TreeExistsError(
            f"{root}, or a folder above it, exists and is not a folder",
            hint="choose another name",
        ) from None
    return True


def _refuse_nested(root: str) -> None:
    for folder in upwards(os.path.dirname(root)):
        if os.path.lexists(f"{folder}/{CONTROL}"):
            raise BadTreeError(
                f"{root} would be inside the repository {folder}",
                hint="create it elsewhere; a payload cannot contain a repository",
            )
