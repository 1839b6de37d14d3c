"""Descriptors: the facts about a snapshot, sealed with a checksum; and its mark `.READY`.

A snapshot is `snapshots/ID/` with its payload, its lists and `.READY`, and beside it
`descriptors/ID.json`. It exists when both exist and the mark names the checksum of the descriptor.
Anything else is partial: it is never shown or restored.
"""

from __future__ import annotations

import os

from holdfast.trees import tree_files
from holdfast.trees.errors import NoTreeError, PartialSnapshotError, TreeDamagedError, shown
from holdfast.trees.repository import Repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

READY = ".READY"
#: The folder below gc/ with the descriptors of snapshots that were removed.
REMOVED = "removed"
ALGORITHM = "sha256"

QUIESCED = "quiesced"
BEST_EFFORT = "best_effort"
LEVELS = (QUIESCED, BEST_EFFORT)

SHORT_CHARACTERS = 8
_ID_CHARACTERS = 20
_HEX = frozenset("0123456789abcdef")

Descriptor = dict[str, "Any"]


def new_snapshot_id() -> str:
    """An id whose first few characters distinguish it from all others."""
    return os.urandom(_ID_CHARACTERS // 2).hex()


def is_id(text: str) -> bool:
    """Whether it can be the id of a snapshot."""
    return len(text) == _ID_CHARACTERS and _HEX.issuperset(text)


def is_beginning(text: str) -> bool:
    """Whether it can be the id of a snapshot, or the beginning of one."""
    return 0 < len(text) <= _ID_CHARACTERS and _HEX.issuperset(text)


def folder(repository: Repository, id: str) -> str:
    """Where the payload of a snapshot is."""
    return repository.path("snapshots", id)


def path(repository: Repository, id: str) -> str:
    """Where the descriptor of a snapshot is."""
    return repository.path("descriptors", f"{id}.json")


def tombstone(repository: Repository, id: str) -> str:
    """Where the descriptor of a snapshot removed by gc is."""
    return repository.path("gc", REMOVED, f"{id}.json")


def was_removed(repository: Repository, id: str) -> bool:
    """Whether gc has removed a snapshot."""
    return os.path.lexists(tombstone(repository, id)) and not os.path.lexists(path(repository, id))


def seal(fields: Descriptor) -> Descriptor:
    """The descriptor with its checksum."""
    return {**fields, "descriptor_checksum": {"algo": ALGORITHM, "value": _checksum(fields)}}


def _is_sealed(fields: Descriptor) -> bool:
    sealed = fields.get("descriptor_checksum")
    return sealed == {"algo": ALGORITHM, "value": _checksum(fields)}


def _checksum(fields: Descriptor) -> str:
    return tree_files.checksum(
        tree_files.canonical(
            {name: fields[name] for name in fields if name != "descriptor_checksum"}
        )
    )


def mark(fields: Descriptor, now: str) -> bytes:
    """The content of `.READY`."""
    sealed = fields["descriptor_checksum"]
    return tree_files.pretty(
        {
            "snapshot_id": fields["snapshot_id"],
            "completed_at": now,
            "engine": fields["engine"],
            "descriptor_checksum": f"{sealed['algo']}:{sealed['value']}",
        }
    )


def is_visible(repository: Repository, id: str) -> bool:
    """Whether a snapshot is visible. Checks two names and reads neither file."""
    return os.path.lexists(path(repository, id)) and os.path.lexists(
        f"{folder(repository, id)}/{READY}"
    )


def visible_ids(repository: Repository) -> Iterator[str]:
    """The ids of all visible snapshots."""
    for name in sorted(os.listdir(repository.path("descriptors"))):
        id = name.removesuffix(".json")
        if is_id(id) and name.endswith(".json") and is_visible(repository, id):
            yield id


def read(repository: Repository, id: str) -> Descriptor:
    """The descriptor of a snapshot, checked against its checksum and against `.READY`."""
    if not is_visible(repository, id):
        raise _partial(id)
    why = fault(repository, id)
    if why:
        raise TreeDamagedError(
            f"snapshot {id} is damaged: {why}",
            hint=f"do not rely on it; see holdfast tree verify {id}",
            snapshot_id=id,
        )
    return load(path(repository, id))


def load(where: str) -> Descriptor:
    """The fields in a file. Raises ValueError if they cannot be a descriptor."""
    fields = tree_files.read_json(where)
    for name in ("snapshot_id", "worktree_id", "created_at", "engine", "consistency_level"):
        if not isinstance(fields.get(name), str):
            raise ValueError(f"{name} is missing")
    if not isinstance(fields.get("parent_snapshot_id"), str | None):
        raise ValueError("parent_snapshot_id is not an id")
    return fields


def fault(repository: Repository, id: str) -> str:
    """The damage of a descriptor or its mark, in words; empty if there is none."""
    where = path(repository, id)
    try:
        fields = load(where)
        sealed = fields["descriptor_checksum"]
        if not _is_sealed(fields):
            return "its descriptor was changed after it was written"
        if fields["snapshot_id"] != id:
            return f"its descriptor is that of {shown(fields['snapshot_id'])}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"its descriptor cannot be read: {shown(str(error))}"
    try:
        ready = tree_files.read_json(f"{folder(repository, id)}/{READY}")
    except (OSError, ValueError) as error:
        return f"its mark {READY} cannot be read: {shown(str(error))}"
    if ready.get("descriptor_checksum") != f"{ALGORITHM}:{sealed['value']}":
        return f"its mark {READY} belongs to another descriptor"
    return ""


def listed(repository: Repository, id: str) -> Descriptor:
    """The readable part of a descriptor, with the present `integrity_state`."""
    why = fault(repository, id)
    try:
        fields = load(path(repository, id))
    except (OSError, ValueError):
        fields = {"snapshot_id": id, "parent_snapshot_id": None, "created_at": ""}
    return {**fields, "integrity_state": "damaged"} if why else fields


def find(repository: Repository, text: str) -> str:
    """The id of the snapshot that a text names: an id, or the beginning of exactly one."""
    wanted = text.lower()
    if not is_beginning(wanted):
        raise NoTreeError(
            f"{text[:80]!r} cannot name a snapshot", hint="holdfast tree history shows them"
        )
    found = [id for id in visible_ids(repository) if id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        raise NoTreeError(
            f"{len(found)} snapshots begin with {wanted}", hint="give more characters of the id"
        )
    for name in os.listdir(repository.path("snapshots")):
        if name.startswith(wanted):
            raise _partial(name.removesuffix(tree_files.UNFINISHED))
    raise NoTreeError(
        f"there is no snapshot {wanted}", hint="holdfast tree history --all shows them"
    )


def lineage(repository: Repository, id: str) -> Iterator[Descriptor]:
    """A snapshot, its parent, and so on, as far as they can be followed.

    Snapshots that are missing or not whole are skipped: their own parents may still exist.
    """
    seen: set[str] = set()
    while id and id not in seen and is_id(id):
        seen.add(id)
        if is_visible(repository, id):
            yield listed(repository, id)
        id = parent_of(repository, id)


def nearest(repository: Repository, id: str) -> str:
    """The snapshot, or the latest visible one before it; empty if there is none."""
    return next((str(one["snapshot_id"]) for one in lineage(repository, id)), "")


def parent_of(repository: Repository, id: str) -> str:
    """The parent of a snapshot that is visible, lost its mark or was removed.

    Empty if it had none, or if neither an undamaged descriptor nor the audit log records it.
    """
    known = recorded_parent(repository, id)
    return known or ""


def recorded_parent(repository: Repository, id: str) -> str | None:
    """The parent of a snapshot; empty if it had none, None if no record tells."""
    for where in (path(repository, id), tombstone(repository, id)):
        try:
            fields = load(where)
        except (OSError, ValueError):
            continue
        if _is_sealed(fields) and fields["snapshot_id"] == id:
            return fields.get("parent_snapshot_id") or ""
    return _parent_by_log(repository, id)


def _parent_by_log(repository: Repository, id: str) -> str | None:
    from holdfast.trees import audit_log

    for record in audit_log.records(repository):
        if record.get("snapshot_id") == id and "parent_snapshot_id" in record:
            return str(record["parent_snapshot_id"] or "")
    return None


def history(repository: Repository) -> list[Descriptor]:
    """All snapshots of all worktrees, the latest first."""
    found = [listed(repository, id) for id in visible_ids(repository)]
    return sorted(found, key=lambda one: (one["created_at"], one["snapshot_id"]), reverse=True)


def _partial(id: str) -> PartialSnapshotError:
    return PartialSnapshotError(
        f"snapshot {id} was never completed, so it is not a snapshot",
        hint="holdfast tree doctor --clean removes what was left behind",
        snapshot_id=id,
    )
