"""From a live payload to the read-only copy of it in a snapshot.

A file that is unchanged since the previous snapshot is hard-linked to that snapshot's copy, never
to the live file: an edit in place would change the snapshot with it. All other files are copied and
hashed. Files and folders of a snapshot are read-only and without set-user-id bits; their real
modes, owners, times and attributes are in the manifest.

Each entry is copied as it is when the walk reaches it. `changed` reports afterwards which entries
have changed since, by size, times, inode and mode, so it also detects a writer that keeps the size
and resets the time. What this does not promise: a program that writes through a memory mapping
which it dirtied before the snapshot began changes no time until the kernel writes that page back.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from holdfast.core.file_times import is_settled
from holdfast.trees import tree_files
from holdfast.trees.engines import Engine
from holdfast.trees.errors import ConsistencyError, shown
from holdfast.trees.payload import (
    entry_lists,
    file_attributes,
    file_content,
    linker,
    payload_walk,
)
from holdfast.trees.payload.copy_workers import Job, Workers
from holdfast.trees.payload.entry_lists import (
    SAME,
    Earlier,
    Lister,
    Old,
    path_of,
    source_of,
)
from holdfast.trees.payload.hard_links import Linking
from holdfast.trees.progress_reports import Pulse

#: How many entries a descriptor names; the rest are counted.
NAMED_MAX = 100

#: Where the copy is, in the folder of a snapshot.
PAYLOAD = "payload"

_IS_FILE = b'"kind":"file"'
_LEFT_OUT = {payload_walk.SOCKET: "a socket", payload_walk.DEVICE: "a device"}


class Account:
    """The results of a walk: totals, entries that were left out, and entries that had gone."""

    def __init__(self) -> None:
        self.files = 0
        self.bytes = 0
        self.linked = 0
        self.degraded = Named()
        self.changed = Named()
        self.payload_hash = ""


class Named:
    """Some entries by name, and how many there are in all."""

    def __init__(self) -> None:
        self.count = 0
        self.some: list[Any] = []

    def add(self, thing: Any) -> None:
        self.count += 1
        if len(self.some) < NAMED_MAX:
            self.some.append(thing)


class _Place:
    """A folder of the copy that is being filled, and its counterpart in the previous snapshot."""

    __slots__ = ("before", "copy", "mode", "path")

    def __init__(self, path: str, copy: int, before: int, mode: int) -> None:
        self.path = path
        self.copy = copy
        self.before = before
        self.mode = mode

    @classmethod
    def make(cls, entry: payload_walk.Entry, above: int, name: str, before: int) -> _Place:
        assert entry.status is not None
        try:
            os.mkdir(name, 0o700, dir_fd=above)
            copy = os.open(name, tree_files.FOLDER, dir_fd=above)
        except BaseException:
            _close(before)
            raise
        return cls(entry.path, copy, before, stat.S_IMODE(entry.status.st_mode) & 0o555 | 0o500)

    def close(self) -> None:
        _close(self.copy, self.before)


class Taking:
    """One payload being copied into the folder of an unfinished snapshot."""

    def __init__(
        self,
        source: str,
        target: str,
        engine: Engine,
        pulse: Pulse,
        previous: str = "",
        *,
        without: frozenset[str] = frozenset(),
    ) -> None:
        """`previous` is the folder of the previous snapshot, if it can be relied on; `without`
        names entries that are left out at the top."""
        self._without = without
        self._source = source
        self._target = target
        self._engine = engine
        self._pulse = pulse
        self._previous = previous
        self._account = Account()
        self._first_names: dict[int, str] = {}
        self._limit = 0

    def run(self) -> Account:
        """Copy everything."""
        device = os.stat(self._source).st_dev
        lister = Lister(self._target, device)
        try:
            with (
                Workers(self._pulse.beat) as workers,
                _earlier(self._previous, device) as earlier,
                closing(Linking(self._previous if earlier is not None else "")) as linking,
            ):
                self._lister, self._workers = lister, workers
                self._earlier, self._linking = earlier, linking
                self._copy_all()
                self._account.payload_hash = lister.finish()
                missed = linking.finish()
                if missed:
                    self._copy_unlinked(missed)
        finally:
            lister.close()
        return self._account

    def _copy_all(self) -> None:
        way: list[_Place] = []
        try:
            for entry in payload_walk.walk(self._source, without=self._without):
                if entry.kind == payload_walk.LEFT:
                    self._leave(way.pop())
                elif entry.kind == payload_walk.FOLDER:
                    way.append(self._enter(entry, way[-1] if way else None))
                elif entry.kind == payload_walk.GONE:
                    self._account.changed.add(shown(entry.path))
                else:
                    self._copy(entry, way[-1])
        finally:
            for place in way:
                place.close()

    # Folders

    def _enter(self, entry: payload_walk.Entry, above: _Place | None) -> _Place:
        assert entry.status is not None
        # Earlier than any time read in this folder, so that nothing is trusted by mistake.
        self._limit = time.time_ns()
        source = source_of(entry.path, entry.status)
        old = self._earlier.find(entry.path, source) if self._earlier is not None else None
        self._add_folder(entry, source, old)
        if above is None:
            top = os.open(self._target, tree_files.FOLDER)
            try:
                before = os.open(f"{self._previous}/{PAYLOAD}", tree_files.FOLDER) if old else -1
                place = _Place.make(entry, top, PAYLOAD, before)
            finally:
                os.close(top)
            self._top = place.copy
            return place
        before = _open_or_none(entry.name, above.before) if old and above.before >= 0 else -1
        return _Place.make(entry, above.copy, entry.name, before)

    def _leave(self, place: _Place) -> None:
        """Close a complete folder, and make it read-only."""
        try:
            self._linking.leave(place.path, place.mode, place.before, place.copy)
        finally:
            place.close()

    def _add_folder(self, entry: payload_walk.Entry, source: bytes, old: Old | None) -> None:
        if old is not None and old.is_same:
            self._lister.add(old.text, source, True)
        else:
            self._add(entry, source, _fields(entry, file_attributes.read(entry.folder)))

    # Everything else

    def _copy(self, entry: payload_walk.Entry, place: _Place) -> None:
        assert entry.status is not None
        if entry.kind in _LEFT_OUT:
            self._account.degraded.add(
                {"path": shown(entry.path), "what": f"{_LEFT_OUT[entry.kind]} was left out"}
            )
            return
        self._account.files += 1
        self._pulse.file()
        source = source_of(entry.path, entry.status)
        old = self._earlier.find(entry.path, source) if self._earlier is not None else None
        if entry.kind == payload_walk.FILE:
            self._copy_file(entry, source, old, place)
        elif entry.kind == payload_walk.LINK:
            self._copy_link(entry, source, place)
        else:
            os.mkfifo(entry.name, 0o400, dir_fd=place.copy)
            self._add(entry, source, _fields(entry, {}))

    def _copy_link(self, entry: payload_walk.Entry, source: bytes, place: _Place) -> None:
        try:
            target = os.readlink(entry.name, dir_fd=entry.folder)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINVAL):
                raise
            self._account.changed.add(shown(entry.path))
            return
        os.symlink(target, entry.name, dir_fd=place.copy)
        self._add(entry, source, {**_fields(entry, {}), "target": target})

    def _copy_file(
        self, entry: payload_walk.Entry, source: bytes, old: Old | None, place: _Place
    ) -> None:
        assert entry.status is not None
        has_more = entry.status.st_nlink > 1
        if has_more and self._add_other_name(entry, source, place):
            return
        if old is not None and old.is_same and place.before >= 0 and _IS_FILE in old.text:
            size = entry.status.st_size
            # A further name of the file may be linked to it immediately after this.
            if (
                self._link(entry, size, place)
                if has_more
                else self._linking.add(place.path, entry.name, size, place.before, place.copy)
            ):
                self._account.linked += 1
                self._account.bytes += size
                self._lister.add(old.text, source, True)
                return
        try:
            opened = os.open(entry.name, tree_files.READ, dir_fd=entry.folder)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP):
                self._account.changed.add(shown(entry.path))
                return
            error.filename = entry.path
            raise
        self._copy_open(entry, opened, old, place)

    def _add_other_name(self, entry: payload_walk.Entry, source: bytes, place: _Place) -> bool:
        """Add a further name of an earlier file as a further name in the copy."""
        assert entry.status is not None
        inode = entry.status.st_ino
        first = self._first_names.setdefault(inode, entry.path)
        if first == entry.path:
            return False
        try:
            os.link(first, entry.name, src_dir_fd=self._top, dst_dir_fd=place.copy)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EMLINK):
                raise
            self._first_names[inode] = entry.path
            if error.errno == errno.EMLINK:
                what = "it has too many links, so it became a separate file"
                self._account.degraded.add({"path": shown(entry.path), "what": what})
            return False
        self._add(entry, source, {"path": entry.path, "kind": SAME, "as": first})
        return True

    def _link(self, entry: payload_walk.Entry, size: int, place: _Place) -> bool:
        """Link a file to its copy in the previous snapshot now, if that copy is unchanged."""
        return place.before >= 0 and linker.link(entry.name, size, place.before, place.copy)

    def _copy_unlinked(self, paths: list[str]) -> None:
        """Copy unchanged files whose copies in the previous snapshot have changed. The new copies
        must match the lists, or the snapshot fails."""
        left = set(paths)
        self._account.linked -= len(left)
        for fields in entry_lists.manifest(self._target):
            if fields["path"] in left:
                self._copy_again(fields)

    def _copy_again(self, fields: dict[str, Any]) -> None:
        folder, _slash, name = fields["path"].rpartition("/")
        try:
            with tree_files.opened(self._source, folder) as source:
                opened = os.open(name, tree_files.READ, dir_fd=source)
        except OSError as error:
            raise _not_as_listed(fields["path"]) from error
        times = (fields["mtime_ns"], fields["mtime_ns"])
        with tree_files.opened(f"{self._target}/{PAYLOAD}", folder) as place:
            mode = stat.S_IMODE(os.fstat(place).st_mode)
            os.fchmod(place, 0o700)
            job = file_content.copy_large(
                self._engine, opened, fields["size"], place, name, fields["mode"] & 0o555 | 0o400,
                lambda target: os.utime(target, ns=times), self._workers, self._pulse,
            )  # fmt: skip
            os.fchmod(place, mode)
        if job.answer(self._pulse.beat) != fields["sha256"]:
            raise _not_as_listed(fields["path"])

    def _copy_open(
        self, entry: payload_walk.Entry, opened: int, old: Old | None, place: _Place
    ) -> None:
        """Copy an open file, and make sure that it is closed."""
        try:
            status = os.fstat(opened)
            entry.status = status
            if not stat.S_ISREG(status.st_mode):
                self._account.changed.add(shown(entry.path))
                return
            fields = _fields(entry, file_attributes.read(opened))
            if status.st_size > self._engine.small_bytes_max:
                if old is None or not self._link_large(entry, opened, fields, old, place):
                    self._copy_large(entry, opened, fields, place)
                    opened = -1
                return
            data = file_content.read_small(opened, status.st_size)
        finally:
            _close(opened)
        fields |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        self._account.bytes += len(data)
        self._pulse.count(len(data))
        if old and _same_content(old, fields) and self._link(entry, len(data), place):
            self._account.linked += 1
        else:
            target = file_content.write_small(place.copy, entry.name, data, _copy_mode(status))
            try:
                os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns))
            finally:
                os.close(target)
        self._add(entry, source_of(entry.path, status), fields)

    def _link_large(
        self,
        entry: payload_walk.Entry,
        opened: int,
        fields: dict[str, Any],
        old: Old,
        place: _Place,
    ) -> bool:
        """Link a large file that looks unchanged, after comparing its hash."""
        assert entry.status is not None
        size, before = entry.status.st_size, old.fields
        if (before.get("size"), before.get("mtime_ns")) != (size, fields["mtime_ns"]):
            return False

        def tick(count: int) -> None:
            self._pulse.count(count)
            self._pulse.beat()

        fields |= {"size": size, "sha256": file_content.hash_of(opened, tick)}
        if not (_same_content(old, fields) and self._link(entry, size, place)):
            return False
        self._account.linked += 1
        self._account.bytes += size
        self._add(entry, source_of(entry.path, entry.status), fields)
        return True

    def _copy_large(
        self, entry: payload_walk.Entry, opened: int, fields: dict[str, Any], place: _Place
    ) -> None:
        """Copy it in the workers, which also close it."""
        assert entry.status is not None
        size, mtime = entry.status.st_size, entry.status.st_mtime_ns
        self._account.bytes += size

        def dress(target: int) -> None:
            fields["size"] = os.fstat(target).st_size
            os.utime(target, ns=(mtime, mtime))

        job = file_content.copy_large(
            self._engine, opened, size, place.copy, entry.name, _copy_mode(entry.status), dress,
            self._workers, self._pulse,
        )  # fmt: skip
        promise = _promise(job, fields, self._pulse)
        source = source_of(entry.path, entry.status)
        self._lister.add(promise, source, self._is_trusted(entry.status))

    # Writing the lists

    def _add(self, entry: payload_walk.Entry, source: bytes, fields: dict[str, Any]) -> None:
        assert entry.status is not None
        self._lister.add(entry_lists.line(fields), source, self._is_trusted(entry.status))

    def _is_trusted(self, status: os.stat_result) -> bool:
        return is_settled(status.st_ctime_ns, self._limit)


def changed(
    source: str,
    target: str,
    pulse: Pulse,
    account: Account,
    *,
    without: frozenset[str] = frozenset(),
) -> None:
    """Check every entry once more, and add the changed ones to the account."""
    seen = entry_lists.sources(target)
    expected = next(seen, None)
    for entry in payload_walk.walk(source, without=without):
        if entry.kind == payload_walk.LEFT or entry.kind in _LEFT_OUT:
            continue
        pulse.file()
        if entry.status is not None and source_of(entry.path, entry.status) == expected:
            expected = next(seen, None)
            continue
        while expected is not None and payload_walk.order(path_of(expected)) < payload_walk.order(
            entry.path
        ):
            account.changed.add(shown(path_of(expected)))
            expected = next(seen, None)
        account.changed.add(shown(entry.path) or ".")
        if expected is not None and path_of(expected) == entry.path:
            expected = next(seen, None)
    while expected is not None:
        account.changed.add(shown(path_of(expected)))
        expected = next(seen, None)


def _fields(entry: payload_walk.Entry, found: dict[str, str]) -> dict[str, Any]:
    status = entry.status
    assert status is not None
    fields: dict[str, Any] = {
        "path": entry.path, "kind": entry.kind, "mode": stat.S_IMODE(status.st_mode),
        "uid": status.st_uid, "gid": status.st_gid, "mtime_ns": status.st_mtime_ns,
    }  # fmt: skip
    if found:
        fields["xattrs"] = found
    return fields


def _copy_mode(status: os.stat_result | None) -> int:
    """The mode of a copy: readable by those who could read the original, and nothing else."""
    assert status is not None
    return stat.S_IMODE(status.st_mode) & 0o555 | 0o400


def _same_content(old: Old, fields: dict[str, Any]) -> bool:
    before = old.fields
    return (before.get("sha256"), before.get("size")) == (fields["sha256"], fields["size"])


def _not_as_listed(path: str) -> ConsistencyError:
    return ConsistencyError(
        f"{shown(path)} has the same size and times as before, but other content",
        hint="touch it, and try again",
        changed=[shown(path)],
        changed_count=1,
    )


def _promise(job: Job, fields: dict[str, Any], pulse: Pulse) -> Callable[[], bytes]:
    def text() -> bytes:
        found = job.answer(pulse.beat)
        return entry_lists.line({**fields, "sha256": found})

    return text


class _earlier:
    """The lists of the previous snapshot; None if there are none, or they cannot be read."""

    def __init__(self, folder: str, device: int) -> None:
        self._found: Earlier | None = None
        if folder:
            try:
                self._found = Earlier(folder, device)
            except (OSError, ValueError, StopIteration):
                self._found = None

    def __enter__(self) -> Earlier | None:
        return self._found

    def __exit__(self, *_: object) -> None:
        if self._found is not None:
            self._found.close()


def _open_or_none(name: str, folder: int) -> int:
    try:
        return os.open(name, tree_files.FOLDER, dir_fd=folder)
    except OSError:
        return -1


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)


def count(source: str) -> tuple[int, int]:
    """The number of files in a payload, and their total size."""
    files_found = bytes_found = 0
    for entry in payload_walk.walk(source):
        if entry.status is not None and entry.kind != payload_walk.FOLDER:
            files_found += 1
            bytes_found += entry.status.st_size if entry.kind == payload_walk.FILE else 0
    return files_found, bytes_found
