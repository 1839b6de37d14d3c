"""A quick comparison of a payload with a snapshot, by kind, mode, size and time."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any

from holdfast.trees.errors import shown
from holdfast.trees.payload import entry_lists, payload_walk


def differences(source: str, folder: str) -> Iterator[str]:
    """The paths that differ between a payload and a snapshot. Content is not read."""
    lines = entry_lists.manifest(folder)
    expected = next(lines, None)
    for entry in payload_walk.walk(source):
        if entry.kind == payload_walk.LEFT:
            continue
        while expected is not None and payload_walk.order(expected["path"]) < payload_walk.order(
            entry.path
        ):
            yield shown(expected["path"])
            expected = next(lines, None)
        if expected is None or expected["path"] != entry.path:
            yield shown(entry.path)
            continue
        if entry.status is None or not _alike(entry.kind, entry.status, expected):
            yield shown(entry.path) or "."
        expected = next(lines, None)
    for left in [expected] if expected is not None else []:
        yield shown(left["path"])


def everything(source: str) -> Iterator[str]:
    """All paths of a payload."""
    for entry in payload_walk.walk(source):
        if entry.path and entry.kind != payload_walk.LEFT:
            yield shown(entry.path)


def _alike(kind: str, status: os.stat_result, fields: dict[str, Any]) -> bool:
    if fields["kind"] == entry_lists.SAME:
        return kind == payload_walk.FILE and status.st_nlink > 1
    if kind != fields["kind"] or stat.S_IMODE(status.st_mode) != fields["mode"]:
        return False
    if kind == payload_walk.FOLDER:
        return True  # its entries are compared on their own
    return status.st_mtime_ns == fields["mtime_ns"] and (
        kind != payload_walk.FILE or status.st_size == fields["size"]
    )
