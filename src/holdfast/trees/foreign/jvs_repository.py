"""Repositories of jvs, read and never written: of 6.5, which has locks, and of those after it.

    .jvs/format_version             1
    .jvs/repo_id                    a unique name of the repository
    .jvs/worktrees/NAME/config.json head_snapshot_id, latest_snapshot_id
    .jvs/descriptors/ID.json        with a checksum over all but two fields
    .jvs/snapshots/ID/              the payload itself, and .READY at its top
    .jvs/refs/NAME.json             6.5: a name for a snapshot; later ones keep tags in descriptors
    .jvs/gc/pins/*.json             snapshots to keep

Both compute their checksums over JSON as Go writes it. The hash of a payload covers one line for
each entry: kind, path, mode, size and the hash of its content. All of that is in our manifest too,
so the imported copy is verified, not the source that was read before.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from typing import Any

from holdfast.manager.files.realpath import upwards
from holdfast.trees import tree_files
from holdfast.trees.errors import (
    BadTreeError,
    NoTreeError,
    TreeDamagedError,
    TreeVersionError,
    shown,
)
from holdfast.trees.foreign import format_numbers
from holdfast.trees.payload import entry_lists, payload_walk
from holdfast.trees.snapshots.descriptors import READY

#: The files that jvs adds at the top of a payload.
MARKS = frozenset((READY, f"{READY}.gz"))
#: The two fields that the checksum of a descriptor leaves out.
_NOT_SUMMED = ("descriptor_checksum", "integrity_state")
#: The fields that versions without locks summed, until they summed all fields.
_SUMMED_ONCE = frozenset(
    ("snapshot_id", "parent_id", "worktree_name", "created_at", "note", "tags", "engine",
     "payload_root_hash")
)  # fmt: skip
_ID = re.compile(r"\d{13}-[0-9a-f]{8}")
_HTML = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


class JvsSnapshot:
    """One snapshot of jvs with an undamaged descriptor and mark."""

    __slots__ = ("fields", "folder", "id", "mark")

    def __init__(self, id: str, folder: str, fields: dict[str, Any], mark: dict[str, Any]) -> None:
        self.id = id
        self.folder = folder
        self.fields = fields
        self.mark = mark

    @property
    def parent(self) -> str:
        """Its parent; empty if it had none."""
        return str(self.fields.get("parent_id") or "")

    def check(self, folder: str) -> None:
        """Raise unless our copy of it, by its manifest, has the hash that jvs recorded."""
        wanted = self.fields.get("payload_root_hash")
        # 6.5 leaves out every file with the name of the mark, the others only the mark itself.
        if wanted not in (payload_hash(folder), payload_hash(folder, without_marks=True)):
            raise _damaged(self.id, "its payload has changed since jvs took the snapshot")


class JvsRepository:
    """A repository of jvs. Nothing here writes."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._control = f"{root}/.jvs"
        self.id = self._text("repo_id") or f"at {root}"

    @classmethod
    def open(cls, where: str) -> JvsRepository:
        """The jvs repository around a folder."""
        for folder in upwards(os.path.realpath(where)):
            control = f"{folder}/.jvs"
            if os.path.isfile(control):
                raise BadTreeError(
                    f"{shown(folder)} is a workspace of a jvs repository elsewhere",
                    hint="give the path of that repository",
                )
            if not os.path.isdir(control):
                continue
            if not format_numbers.traces_of_jvs(control) or os.path.lexists(
                f"{control}/{format_numbers.ABOUT}"
            ):
                raise BadTreeError(
                    f"{shown(folder)} is a repository of Holdfast, not of jvs",
                    hint="give the path of a repository of jvs",
                )
            made = cls(folder)
            made._check_format()
            return made
        raise NoTreeError(
            f"{shown(where)} is not in a jvs repository",
            hint="give the path of the folder that contains .jvs",
        )

    def _check_format(self) -> None:
        number = self._text(format_numbers.FILE)
        if number != str(format_numbers.SHARED_FORMAT):
            raise TreeVersionError(
                f"{shown(self.root)} has the format {shown(number[:40])!r}, which import does "
                "not know",
                hint="import reads the jvs format 1",
                format=number[:40],
            )

    def ids(self) -> list[str]:
        """The ids of all snapshots with descriptors, oldest first: they begin with a time."""
        names = _names(f"{self._control}/descriptors")
        found = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return [id for id in found if _ID.fullmatch(id)]

    def read(self, id: str) -> JvsSnapshot:
        """A snapshot. Raises TreeDamagedError if its descriptor or mark is damaged."""
        folder = f"{self._control}/snapshots/{id}"
        try:
            fields = tree_files.read_json(f"{self._control}/descriptors/{id}.json")
            mark = tree_files.read_json(f"{folder}/{READY}")
        except FileNotFoundError as error:
            raise _damaged(id, "jvs never finished it: it has no .READY mark") from error
        except (OSError, ValueError) as error:
            raise _damaged(id, shown(str(error))) from error
        if fields.get("snapshot_id") != id or mark.get("snapshot_id", id) != id:
            raise _damaged(id, "its descriptor or its mark is that of another snapshot")
        if fields.get("descriptor_checksum") not in _checksums(fields):
            raise _damaged(id, "its descriptor was changed after jvs wrote it")
        for name in ("payload_root_hash", "descriptor_checksum"):
            if mark.get(name, fields.get(name)) != fields.get(name):
                raise _damaged(id, "its mark .READY belongs to another descriptor")
        return JvsSnapshot(id, folder, fields, mark)

    def parent_of(self, id: str) -> str:
        """The parent of a snapshot, even a damaged one if its descriptor is readable; empty if it
        had none or if that is unknown."""
        fields = self._fields(f"descriptors/{id}.json")
        whole = fields.get("descriptor_checksum") in _checksums(fields)
        parent = fields.get("parent_id")
        return str(parent) if whole and _is_id(parent) else ""

    def heads(self) -> Iterator[tuple[str, str]]:
        """Every worktree with its latest snapshot, and also its current one if that is older."""
        for name in _names(f"{self._control}/worktrees"):
            about = self._fields(f"worktrees/{name}/config.json")
            current = about.get("head_snapshot_id")
            latest = about.get("latest_snapshot_id", current)
            if _is_id(latest):
                yield name, str(latest)
            if _is_id(current) and current != latest:
                yield f"{name}-current", str(current)

    def refs(self) -> Iterator[tuple[str, str]]:
        """The names of snapshots that 6.5 keeps, and the pins."""
        for name in _names(f"{self._control}/refs"):
            about = self._fields(f"refs/{name}")
            id = about.get("target_id") or about.get("snapshot_id")
            if _is_id(id):
                yield name.removesuffix(".json"), str(id)
        for name in _names(f"{self._control}/gc/pins"):
            id = self._fields(f"gc/pins/{name}").get("snapshot_id")
            if _is_id(id):
                yield f"pin-{id}", str(id)

    def _fields(self, name: str) -> dict[str, Any]:
        try:
            return tree_files.read_json(f"{self._control}/{name}")
        except (OSError, ValueError):
            return {}  # without it a snapshot has no name here, but is imported anyway

    def _text(self, name: str) -> str:
        try:
            return tree_files.read(f"{self._control}/{name}").decode("utf-8", "replace").strip()
        except (OSError, ValueError):
            return ""


def payload_hash(folder: str, *, without_marks: bool = False) -> str:
    """The hash of a payload as jvs computes it, from the manifest of our copy."""
    lines = []
    originals: dict[str, dict[str, Any]] = {}
    for fields in entry_lists.manifest(folder):
        path, kind = fields["path"], fields["kind"]
        name = path.rpartition("/")[2]
        if not path or (without_marks and name == READY and kind != payload_walk.FOLDER):
            continue
        if kind == entry_lists.SAME:
            fields = originals[fields["as"]]
        elif kind == payload_walk.FILE:
            originals[path] = fields
        lines.append(_line(path, name, fields))
    return hashlib.sha256(b"".join(sorted(lines))).hexdigest()


def _line(path: str, name: str, fields: dict[str, Any]) -> bytes:
    about = f"mode={fields['mode'] & 0o777:04o}"
    if fields["kind"] == payload_walk.FOLDER:
        kind, found = "dir", _sha(name)
    elif fields["kind"] == payload_walk.LINK:
        kind, found = "symlink", _sha(fields["target"])
    else:
        kind, found = "file", fields.get("sha256", "")
        about += f",size={fields.get('size', 0)}"
    return os.fsencode(f"{kind}:{path}:{about}:{found}\n")


def _sha(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()


def _checksums(fields: dict[str, Any]) -> set[str]:
    """The valid checksums of a descriptor: over all fields, or over those that once counted."""
    emptied = {**fields, **dict.fromkeys(_NOT_SUMMED, "")}
    once = {name: emptied[name] for name in emptied if name in {*_SUMMED_ONCE, *_NOT_SUMMED}}
    return {
        hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        for value in (emptied, once)
        for text in _as_go_writes(value)
    }


def _as_go_writes(value: dict[str, Any]) -> Iterator[str]:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    text = text.translate(_HTML)
    yield text
    # Older versions of Go have no short form for these two.
    yield re.sub(r"(?<!\\)((?:\\\\)*)\\([bf])", lambda m: m[1] + _LONG[m[2]], text)


_LONG = {"b": "\\u0008", "f": "\\u000c"}


def _is_id(value: object) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _damaged(id: str, why: str) -> TreeDamagedError:
    return TreeDamagedError(
        f"snapshot {id} of jvs was not imported: {why}",
        hint="see jvs verify; the other snapshots are imported without it",
        snapshot_id=id,
    )
