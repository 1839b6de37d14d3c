"""The differences between two snapshots, by their manifests: unchanged files are not read.

Both manifests are in the order of the walk, so one pass over both finds everything, and only the
changes are in memory. Equal lines are not even parsed. A different time alone is not a change: a
restore or a checkout sets times as it likes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from holdfast.trees import tree_files
from holdfast.trees.errors import shown
from holdfast.trees.payload import entry_lists, file_content, payload_walk
from holdfast.trees.payload.payload_copy import PAYLOAD
from holdfast.trees.repository import Repository
from holdfast.trees.snapshots import descriptors
from holdfast.trees.snapshots.verification import checked

ADDED = "added"
REMOVED = "removed"
CHANGED = "changed"

_SAME_TEXT = b'"kind":"same"'
#: The fields of the manifest that may change, and their names for people.
_CONTENT = (("target", "target"), ("sha256", "content"), ("size", "content"))
_ASPECTS = (
    *_CONTENT, ("mode", "mode"), ("uid", "owner"), ("gid", "group"), ("xattrs", "attributes"),
)  # fmt: skip


class Change:
    """One path that differs between the two snapshots."""

    __slots__ = ("after", "aspects", "before", "how", "path")

    def __init__(
        self,
        how: str,
        path: str,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        aspects: tuple[str, ...] = (),
    ) -> None:
        self.how = how
        self.path = path
        self.before = before
        self.after = after
        self.aspects = aspects

    @property
    def bytes_before(self) -> int:
        """Its old size, if it was a file."""
        return _size(self.before)

    @property
    def bytes_after(self) -> int:
        """Its new size, if it is a file."""
        return _size(self.after)

    def to_dict(self) -> dict[str, Any]:
        """For other programs."""
        return {
            "how": self.how, "path": shown(self.path), "aspects": [*self.aspects],
            "kind_before": self.before["kind"] if self.before else None,
            "kind_after": self.after["kind"] if self.after else None,
            "bytes_before": self.bytes_before, "bytes_after": self.bytes_after,
        }  # fmt: skip


class Totals:
    """The sum of all differences."""

    def __init__(self) -> None:
        self.count = {ADDED: 0, REMOVED: 0, CHANGED: 0}
        self.bytes_added = 0
        self.bytes_removed = 0

    def add(self, change: Change) -> None:
        """Count one more change."""
        self.count[change.how] += 1
        grown = change.bytes_after - change.bytes_before
        self.bytes_added += max(grown, 0)
        self.bytes_removed += max(-grown, 0)

    def to_dict(self) -> dict[str, int]:
        """For other programs."""
        return {
            **self.count, "bytes_added": self.bytes_added, "bytes_removed": self.bytes_removed,
        }  # fmt: skip


def between(repository: Repository, before: str, after: str) -> Iterator[Change]:
    """What was added, removed and changed from one snapshot to another, in the walk's order."""
    for id in (before, after):
        checked(repository, id)
    one, other = (descriptors.folder(repository, id) for id in (before, after))
    yield from _Difference(one, other).run()


class _Difference:
    """Two manifests side by side."""

    def __init__(self, before: str, after: str) -> None:
        self._before = before
        self._after = after
        self._changed: set[str] = set()

    def run(self) -> Iterator[Change]:
        olds, news = entry_lists.lines(self._before), entry_lists.lines(self._after)
        old, new = next(olds, b""), next(news, b"")
        while old or new:
            if old == new:
                if _SAME_TEXT in old:
                    yield from self._other_name(entry_lists.parsed(self._after, new))
                old, new = next(olds, b""), next(news, b"")
                continue
            was = entry_lists.parsed(self._before, old) if old else None
            now = entry_lists.parsed(self._after, new) if new else None
            at = _order(was, now)
            if at <= 0:
                old = next(olds, b"")
            if at >= 0:
                new = next(news, b"")
            yield from self._compare(was if at <= 0 else None, now if at >= 0 else None)

    def _compare(self, was: dict[str, Any] | None, now: dict[str, Any] | None) -> Iterator[Change]:
        if was is None or now is None:
            if was is not None:
                yield Change(REMOVED, was["path"], self._sized(was, self._before), None)
            if now is not None:
                yield Change(ADDED, now["path"], None, self._sized(now, self._after))
            return
        was, now = self._resolved(was, self._before), self._resolved(now, self._after)
        aspects = _aspects(was, now)
        if aspects:
            self._changed.add(now["path"])
            yield Change(CHANGED, now["path"] or ".", was, now, aspects)

    def _other_name(self, fields: dict[str, Any]) -> Iterator[Change]:
        """A further name of a file whose line is equal: it changed if the file did."""
        if fields["as"] not in self._changed:
            return
        was, now = self._resolved(fields, self._before), self._resolved(fields, self._after)
        aspects = _aspects(was, now)
        if aspects:
            yield Change(CHANGED, fields["path"], was, now, aspects)

    def _sized(self, fields: dict[str, Any], folder: str) -> dict[str, Any]:
        """A further name of a file as a file, with the size of the snapshot's copy."""
        if fields["kind"] != entry_lists.SAME:
            return fields
        with tree_files.opened_file(f"{folder}/{PAYLOAD}", fields["path"]) as file:
            size = os.fstat(file.fileno()).st_size
        return {"path": fields["path"], "kind": payload_walk.FILE, "size": size}

    def _resolved(self, fields: dict[str, Any], folder: str) -> dict[str, Any]:
        """A further name of a file as a file, with the fields of the snapshot's copy."""
        if fields["kind"] != entry_lists.SAME:
            return fields
        with tree_files.opened_file(f"{folder}/{PAYLOAD}", fields["path"]) as file:
            found = file_content.hash_of(file.fileno(), lambda _count: None)
        return {**self._sized(fields, folder), "sha256": found}


def _aspects(was: dict[str, Any], now: dict[str, Any]) -> tuple[str, ...]:
    if was["kind"] != now["kind"]:
        return ("kind",)
    # The manifest has no mode for a further name, so there is nothing to compare.
    names = _ASPECTS if "mode" in was and "mode" in now else _CONTENT
    return (*dict.fromkeys(told for name, told in names if was.get(name) != now.get(name)),)


def _order(was: dict[str, Any] | None, now: dict[str, Any] | None) -> int:
    """Which of two lines comes first in the walk: below 0 the old one, above 0 the new one."""
    if was is None or now is None:
        return 1 if was is None else -1
    old, new = payload_walk.order(was["path"]), payload_walk.order(now["path"])
    return (old > new) - (old < new)


def _size(fields: dict[str, Any] | None) -> int:
    return int(fields.get("size", 0)) if fields else 0
