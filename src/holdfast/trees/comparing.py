"""A quick look at what a payload has that a snapshot has not: by kind, mode, size and time."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any

from holdfast.trees import listing, walk
from holdfast.trees.errors import shown


def differences(source: str, folder: str) -> Iterator[str]:
    """The paths that are not in a payload as they are in a snapshot. Content is not read."""
    lines = listing.manifest(folder)
    expected = next(lines, None)
    for entry in walk.walk(source):
        if entry.kind == walk.LEFT:
            continue
        while expected is not None and walk.order(expected["path"]) < walk.order(entry.path):
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
    for entry in walk.walk(source):
        if entry.path and entry.kind != walk.LEFT:
            yield shown(entry.path)


def _alike(kind: str, status: os.stat_result, fields: dict[str, Any]) -> bool:
    if fields["kind"] == listing.SAME:
        return kind == walk.FILE and status.st_nlink > 1
    if kind != fields["kind"] or stat.S_IMODE(status.st_mode) != fields["mode"]:
        return False
    if kind == walk.FOLDER:
        return True  # what is in it is looked at by itself
    return status.st_mtime_ns == fields["mtime_ns"] and (
        kind != walk.FILE or status.st_size == fields["size"]
    )
