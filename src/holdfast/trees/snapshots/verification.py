"""Verifying a snapshot: its descriptor, its manifest, and every byte of its payload."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.trees import tree_files
from holdfast.trees.errors import TreeDamagedError, shown
from holdfast.trees.payload import entry_lists, file_content, payload_walk
from holdfast.trees.payload.payload_copy import PAYLOAD
from holdfast.trees.progress_reports import SILENT, Progress, Pulse
from holdfast.trees.repository import Repository
from holdfast.trees.snapshots import descriptors
from holdfast.trees.snapshots.descriptors import Descriptor


def verify(repository: Repository, id: str, progress: Progress = SILENT) -> Iterator[str]:
    """The damages of a snapshot, one sentence each; none if it is whole, or was removed."""
    try:
        for why in _faults(repository, id, progress):
            if descriptors.was_removed(repository, id):
                return  # gc removed it meanwhile, which is not damage
            yield why
    except (OSError, ValueError):
        if not descriptors.was_removed(repository, id):
            raise


def _faults(repository: Repository, id: str, progress: Progress) -> Iterator[str]:
    why = descriptors.fault(repository, id)
    if why:
        yield why
        return
    fields = descriptors.load(descriptors.path(repository, id))
    folder = descriptors.folder(repository, id)
    try:
        if entry_lists.hash_of_manifest(folder) != fields["payload_hash"]["value"]:
            yield "its manifest has changed"
            return
    except (OSError, KeyError, TypeError) as error:
        yield f"its manifest cannot be read: {shown(str(error))}"
        return
    progress.begin("verify", fields.get("files", 0), fields.get("bytes", 0))
    try:
        yield from _payload(folder, Pulse(progress))
    except (HoldfastError, OSError) as error:
        yield shown(str(error))
    finally:
        progress.end()


def checked(repository: Repository, id: str) -> Descriptor:
    """The descriptor of a snapshot, if its manifest has the hash that the descriptor names."""
    fields = descriptors.read(repository, id)
    folder = descriptors.folder(repository, id)
    try:
        whole = entry_lists.hash_of_manifest(folder) == fields["payload_hash"]["value"]
    except (OSError, KeyError, TypeError):
        whole = False
    if not whole:
        raise TreeDamagedError(
            f"snapshot {id} is damaged: its manifest has changed",
            hint=f"it cannot be used; see holdfast tree verify {id}",
            snapshot_id=id,
        )
    return fields


def _payload(folder: str, pulse: Pulse) -> Iterator[str]:
    """Compare payload and manifest in one walk, since both are in the same order."""
    lines = entry_lists.manifest(folder)
    expected = next(lines, None)
    for entry in payload_walk.walk(f"{folder}/{PAYLOAD}", is_payload=False):
        if entry.kind == payload_walk.LEFT:
            continue
        while expected is not None and payload_walk.order(expected["path"]) < payload_walk.order(
            entry.path
        ):
            yield f"{shown(expected['path'])} is missing"
            expected = next(lines, None)
        if expected is None or expected["path"] != entry.path:
            yield f"{shown(entry.path)} does not belong to it"
            continue
        wrong = _entry(entry, expected, pulse)
        if wrong:
            yield f"{shown(entry.path) or '.'} {wrong}"
        pulse.file()
        expected = next(lines, None)
    while expected is not None:
        yield f"{shown(expected['path'])} is missing"
        expected = next(lines, None)


def _entry(entry: payload_walk.Entry, fields: dict[str, Any], pulse: Pulse) -> str:
    kind = payload_walk.FILE if fields["kind"] == entry_lists.SAME else fields["kind"]
    if entry.kind != kind:
        return f"is no longer a {kind}"
    if entry.kind == payload_walk.LINK:
        same = os.readlink(entry.name, dir_fd=entry.folder) == fields["target"]
        return "" if same else "has a different target"
    if fields["kind"] != payload_walk.FILE:
        return ""
    opened = os.open(entry.name, tree_files.READ, dir_fd=entry.folder)
    try:
        if os.fstat(opened).st_size != fields["size"]:
            return "has a different size"
        found = file_content.hash_of(opened, lambda count: _beat(pulse, count))
        return "" if found == fields["sha256"] else "has different content"
    finally:
        os.close(opened)


def _beat(pulse: Pulse, count: int) -> None:
    pulse.count(count)
    pulse.beat()
