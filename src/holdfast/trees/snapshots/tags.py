"""Tags: names that people give to snapshots, in `.jvs/refs/NAME.json`.

A tagged snapshot is never collected. So tags are created and moved inside the guard in which gc
finds out what is needed: a snapshot cannot be removed between the check that it exists and its tag.

A tag cannot look like the beginning of a snapshot's id, so that no text is ambiguous.
"""

from __future__ import annotations

import os

from holdfast.trees import audit_log, tree_files
from holdfast.trees.errors import (
    BadTreeError,
    NoTreeError,
    TreeDamagedError,
    TreeExistsError,
    in_words,
    shown,
)
from holdfast.trees.locking import intents
from holdfast.trees.repository import Repository, is_name
from holdfast.trees.snapshots import descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

FOLDER = "refs"
_SUFFIX = ".json"


class Tag:
    """A name, and the snapshot that it stands for."""

    __slots__ = ("created_at", "name", "snapshot_id")

    def __init__(self, name: str, snapshot_id: str, created_at: str) -> None:
        self.name: Final = name
        self.snapshot_id: Final = snapshot_id
        self.created_at: Final = created_at

    def to_dict(self) -> dict[str, str]:
        """As plain data, for the file and for other programs."""
        return {
            "name": self.name, "snapshot_id": self.snapshot_id, "created_at": self.created_at,
        }  # fmt: skip


def checked(name: str) -> str:
    """The name, if a tag can have it."""
    if is_name(name) and not descriptors.is_beginning(name):
        return name
    raise BadTreeError(
        f"{shown(name[:80])!r} cannot be the name of a tag",
        hint="use letters, digits and - _ . + @, no dot or dash at the start, and something "
        "that cannot be the beginning of a snapshot's id (0-9 a-f)",
    )


def add(repository: Repository, name: str, snapshot_id: str, *, move: bool = False) -> Tag:
    """Tag a snapshot. A name that another snapshot has is refused, or moved with `move`."""
    checked(name)
    with in_words(f"creating the tag {name}"):
        with intents.guard(repository):
            descriptors.read(repository, snapshot_id)
            before = _read(repository, name) if os.path.lexists(_path(repository, name)) else None
            if before is not None and before.snapshot_id == snapshot_id:
                return before
            if before is not None and not move:
                raise TreeExistsError(
                    f"the tag {name} already names {before.snapshot_id}",
                    hint="choose another name, or move it: --move",
                    snapshot_id=before.snapshot_id,
                )
            made = Tag(name, snapshot_id, repository.now)
            tree_files.replace(_path(repository, name), tree_files.pretty(made.to_dict()))
        previous = before.snapshot_id if before is not None else None
        audit_log.append(
            repository,
            "tag_moved" if before is not None else "tag_added",
            {"tag": name, "tagged_snapshot_id": snapshot_id, "previous_snapshot_id": previous},
        )
    return made


def remove(repository: Repository, name: str) -> Tag:
    """Remove a tag. The snapshot stays until gc finds that nothing else keeps it."""
    _check_there(repository, name)
    with in_words(f"removing the tag {name}"):
        with intents.guard(repository):
            _check_there(repository, name)
            try:
                gone = _read(repository, name)
            except TreeDamagedError:
                gone = Tag(name, "", "")  # damaged: it can be removed, but names no snapshot
            os.unlink(_path(repository, name))
            tree_files.flush_folder(repository.path(FOLDER))
        audit_log.append(
            repository, "tag_removed", {"tag": name, "tagged_snapshot_id": gone.snapshot_id}
        )
    return gone


def every(repository: Repository) -> list[Tag]:
    """All tags by name. Raises TreeDamagedError for an unreadable one: the snapshot that it keeps
    is unknown, and nothing may be removed on a guess."""
    return [_read(repository, name) for name in names(repository)]


def names(repository: Repository) -> list[str]:
    """The names of all tags, including damaged ones."""
    found = (
        name.removesuffix(_SUFFIX)
        for name in os.listdir(repository.path(FOLDER))
        if name.endswith(_SUFFIX)
    )
    return sorted(name for name in found if is_name(name))


def find(repository: Repository, name: str) -> Tag | None:
    """The tag of that name."""
    if not is_name(name) or not os.path.lexists(_path(repository, name)):
        return None
    return _read(repository, name)


def by_snapshot(repository: Repository) -> dict[str, list[str]]:
    """The tags of each tagged snapshot; damaged tags are left to the doctor."""
    found: dict[str, list[str]] = {}
    for tag in readable(repository)[0]:
        found.setdefault(tag.snapshot_id, []).append(tag.name)
    return found


def readable(repository: Repository) -> tuple[list[Tag], list[str]]:
    """All readable tags, by name, and the names of the others."""
    found, damaged = [], []
    for name in names(repository):
        try:
            found.append(_read(repository, name))
        except TreeDamagedError:
            if os.path.lexists(_path(repository, name)):  # else it was removed meanwhile
                damaged.append(name)
    return found, damaged


def fault(repository: Repository, name: str) -> str:
    """The damage of a tag, in words; empty if there is none."""
    try:
        id = _read(repository, name).snapshot_id
    except TreeDamagedError as error:
        return error.message
    if descriptors.is_visible(repository, id) or not os.path.lexists(_path(repository, name)):
        return ""
    return f"it names {id}, which is not an existing snapshot"


def _check_there(repository: Repository, name: str) -> None:
    if not is_name(name) or not os.path.lexists(_path(repository, name)):
        raise NoTreeError(
            f"there is no tag {shown(name[:80])}", hint="holdfast tree tag list shows them"
        )


def _path(repository: Repository, name: str) -> str:
    return repository.path(FOLDER, f"{name}{_SUFFIX}")


def _read(repository: Repository, name: str) -> Tag:
    try:
        fields = tree_files.read_json(_path(repository, name))
        id = fields.get("snapshot_id")
        if not isinstance(id, str) or not descriptors.is_id(id):
            raise ValueError("it names no snapshot")
        return Tag(name, id, str(fields.get("created_at", "")))
    except (OSError, ValueError) as error:
        raise TreeDamagedError(
            f"the tag {name} is damaged: {shown(str(error))}",
            hint=f"remove it and create it again: holdfast tree tag remove {name}",
        ) from error
