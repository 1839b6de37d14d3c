"""From a snapshot to a new payload, verifying everything on the way.

The manifest lists the entries; the content is copied from the snapshot, never hard-linked, and must
have the hash in the manifest. Modes, owners, times, attributes and links are restored. Whatever the
system does not let us restore, such as another user's ownership, is counted and named.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from typing import Any

from holdfast.trees import tree_files
from holdfast.trees.engines import Engine
from holdfast.trees.errors import TreeDamagedError, shown
from holdfast.trees.payload import (
    entry_lists,
    file_attributes,
    file_content,
    payload_walk,
)
from holdfast.trees.payload.copy_workers import Job, Workers
from holdfast.trees.payload.payload_copy import PAYLOAD, Named
from holdfast.trees.progress_reports import Pulse

#: How many large files may wait to be finished.
_PENDING_MAX = 64


class _Place:
    """A folder that is being filled, the snapshot's copy of it, and its final attributes."""

    __slots__ = ("copy", "fields", "source")

    def __init__(self, source: int, copy: int, fields: dict[str, Any]) -> None:
        self.source = source
        self.copy = copy
        self.fields = fields


class Rebuilding:
    """One snapshot being turned into a payload, in an existing, empty folder."""

    def __init__(self, snapshot: str, target: str, engine: Engine, pulse: Pulse) -> None:
        self._snapshot = snapshot
        self._target = target
        self._engine = engine
        self._pulse = pulse
        self._way: list[_Place] = []
        self._parts: list[str] = []
        self._pending: deque[tuple[Job, dict[str, Any]]] = deque()
        self.degraded = Named()

    def run(self) -> None:
        """Build everything. Raises TreeDamagedError if the snapshot has changed."""
        try:
            with Workers(self._pulse.beat) as workers:
                self._workers = workers
                for fields in entry_lists.manifest(self._snapshot):
                    self._build(fields)
                self._leave(0)
                while self._pending:
                    self._settle()
        finally:
            for place in self._way:
                os.close(place.source)
                os.close(place.copy)

    def _build(self, fields: dict[str, Any]) -> None:
        parts = payload_walk.order(fields["path"])
        try:
            if fields["kind"] == payload_walk.FOLDER:
                self._enter(parts, fields)
                return
            self._leave(len(parts))
            if len(parts) != len(self._way) or parts[:-1] != self._parts:
                raise _damaged(self._snapshot, f"{fields['path']} comes before its folder")
            self._make(parts[-1], fields)
            self._pulse.file()
        except KeyError as error:
            raise _damaged(
                self._snapshot, f"its manifest lacks {error} of {fields['path']}"
            ) from error

    # Folders

    def _enter(self, parts: list[str], fields: dict[str, Any]) -> None:
        if not parts:
            source = os.open(f"{self._snapshot}/{PAYLOAD}", tree_files.FOLDER)
            self._way.append(_Place(source, os.open(self._target, tree_files.FOLDER), fields))
            return
        self._leave(len(parts))
        if len(parts) != len(self._way) or parts[:-1] != self._parts:
            raise _damaged(self._snapshot, f"{fields['path']} comes before its folder")
        above = self._way[-1]
        source = self._open(parts[-1], tree_files.FOLDER, above, fields)
        try:
            os.mkdir(parts[-1], 0o700, dir_fd=above.copy)
            copy = os.open(parts[-1], tree_files.FOLDER, dir_fd=above.copy)
        except BaseException:
            os.close(source)
            raise
        self._way.append(_Place(source, copy, fields))
        self._parts.append(parts[-1])

    def _leave(self, depth: int) -> None:
        """Finish the deeper folders. Their times are set only now, when they are complete."""
        while len(self._way) > depth:
            place = self._way.pop()
            if self._parts:
                self._parts.pop()
            try:
                self._dress(place.copy, place.fields)
            finally:
                os.close(place.source)
                os.close(place.copy)

    # Everything else

    def _make(self, name: str, fields: dict[str, Any]) -> None:
        kind, place = fields["kind"], self._way[-1]
        if kind == payload_walk.FILE:
            self._make_file(name, fields, place)
        elif kind == entry_lists.SAME:
            # Large files may still be in progress; their times are set when they are finished.
            os.link(fields["as"], name, src_dir_fd=self._way[0].copy, dst_dir_fd=place.copy,
                    follow_symlinks=False)  # fmt: skip
        elif kind == payload_walk.LINK:
            os.symlink(fields["target"], name, dir_fd=place.copy)
            self._own(name, place, fields)
        elif kind == payload_walk.FIFO:
            os.mkfifo(name, fields["mode"], dir_fd=place.copy)
            self._own(name, place, fields)
            os.chmod(name, fields["mode"], dir_fd=place.copy)
        else:
            raise _damaged(self._snapshot, f"{fields['path']} has an unknown kind")
        if kind in (payload_walk.LINK, payload_walk.FIFO):
            times = (fields["mtime_ns"], fields["mtime_ns"])
            os.utime(name, ns=times, dir_fd=place.copy, follow_symlinks=False)

    def _own(self, name: str, place: _Place, fields: dict[str, Any]) -> None:
        made = os.stat(name, dir_fd=place.copy, follow_symlinks=False)
        if (made.st_uid, made.st_gid) == (fields["uid"], fields["gid"]):
            return
        try:
            os.chown(name, fields["uid"], fields["gid"], dir_fd=place.copy, follow_symlinks=False)
        except PermissionError:
            self._degrade(fields, "its owner could not be kept")

    def _make_file(self, name: str, fields: dict[str, Any], place: _Place) -> None:
        source = self._open(name, tree_files.READ, place, fields)
        size = fields["size"]
        if size > self._engine.small_bytes_max:
            self._make_large(name, fields, place, source)
            return
        try:
            data = file_content.read_small(source, size)
        finally:
            os.close(source)
        if hashlib.sha256(data).hexdigest() != fields["sha256"]:
            raise _damaged(self._snapshot, f"the content of {fields['path']} has changed")
        self._pulse.count(len(data))
        target = file_content.write_small(place.copy, name, data, 0o600)
        try:
            self._dress(target, fields)
        finally:
            os.close(target)

    def _make_large(self, name: str, fields: dict[str, Any], place: _Place, source: int) -> None:
        job = file_content.copy_large(
            self._engine, source, fields["size"], place.copy, name, 0o600,
            lambda target: self._dress(target, fields), self._workers, self._pulse,
        )  # fmt: skip
        self._pending.append((job, fields))
        while len(self._pending) > _PENDING_MAX:
            self._settle()

    def _settle(self) -> None:
        job, fields = self._pending.popleft()
        if job.answer(self._pulse.beat) != fields["sha256"]:
            raise _damaged(self._snapshot, f"the content of {fields['path']} has changed")

    def _open(self, name: str, flags: int, place: _Place, fields: dict[str, Any]) -> int:
        try:
            return os.open(name, flags, dir_fd=place.source)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise _damaged(self._snapshot, f"{fields['path']}: {why}") from error

    def _dress(self, target: int, fields: dict[str, Any]) -> None:
        """Set owner, mode, attributes and times, in this order: each resets a later one."""
        made = os.fstat(target)
        if (made.st_uid, made.st_gid) != (fields["uid"], fields["gid"]):
            try:
                os.fchown(target, fields["uid"], fields["gid"])
            except PermissionError:
                self._degrade(fields, "its owner could not be kept")
        os.fchmod(target, fields["mode"])
        if "xattrs" in fields:
            for name in file_attributes.write(target, fields["xattrs"]):
                self._degrade(fields, f"the attribute {shown(name)} could not be kept")
        os.utime(target, ns=(fields["mtime_ns"], fields["mtime_ns"]))

    def _degrade(self, fields: dict[str, Any], what: str) -> None:
        self.degraded.add({"path": shown(fields["path"]), "what": what})


def _damaged(snapshot: str, why: str) -> TreeDamagedError:
    id = os.path.basename(snapshot)
    return TreeDamagedError(
        f"snapshot {id} is damaged: {shown(why)}",
        hint=f"nothing was restored; holdfast tree verify {id} shows what is left of it",
        snapshot_id=id,
    )
