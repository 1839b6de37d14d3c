"""tree diff: the differences between two snapshots."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from holdfast.cli import DONE
from holdfast.cli.parser import Call, UsageError
from holdfast.cli.printing import out, plain
from holdfast.cli.tree.tree_context import TreeContext, counted, size
from holdfast.trees.payload import payload_walk
from holdfast.trees.payload.payload_copy import PAYLOAD
from holdfast.trees.repository import Repository
from holdfast.trees.snapshots import descriptors, snapshot_diff
from holdfast.trees.snapshots.snapshot_diff import (
    ADDED,
    CHANGED,
    REMOVED,
    Change,
    Totals,
)
from holdfast.trees.tree_files import opened_file

#: A longer file, or one with a zero byte near its beginning, is not shown line by line.
_TEXT_BYTES_MAX = 1 << 20
_LOOK_BYTES = 8192
_SIGNS = {ADDED: "+", REMOVED: "-", CHANGED: "~"}


def diff(call: Call) -> int:
    """Show what was added, removed and changed from one snapshot to another."""
    context = TreeContext(call)
    if len(call.words) != 2:
        raise UsageError("tree diff needs two snapshots", hint="holdfast tree diff [--stat] A B")
    repository = context.repository()
    before, after = (context.snapshot_id(repository, word) for word in call.words)
    totals = Totals()
    if context.as_json:
        found = []
        for change in snapshot_diff.between(repository, before, after):
            totals.add(change)
            found.append(change.to_dict())
        context.answer(
            {"before": before, "after": after, "changes": found, "totals": totals.to_dict()}
        )
        return DONE
    for change in snapshot_diff.between(repository, before, after):
        totals.add(change)
        for line in (
            _stat(change) if call.flag("stat") else _told(repository, before, after, change)
        ):
            out(line)
    out(_sum(totals))
    return DONE


def _sum(totals: Totals) -> str:
    count = totals.count
    total = sum(count.values())
    if not total:
        return "no difference"
    parts = ", ".join(f"{count[how]:,} {how}" for how in (ADDED, REMOVED, CHANGED) if count[how])
    return (
        f"{counted(total, 'path')}: {parts}; "
        f"+{size(totals.bytes_added)}, -{size(totals.bytes_removed)}"
    )


def _stat(change: Change) -> Iterator[str]:
    path = plain(change.path)
    if change.how == CHANGED:
        what = ", ".join(change.aspects)
        if "content" in change.aspects:
            what += f", {size(change.bytes_before)} -> {size(change.bytes_after)}"
    else:
        fields = change.after if change.how == ADDED else change.before
        assert fields is not None
        amount = change.bytes_after or change.bytes_before
        what = size(amount) if fields["kind"] == payload_walk.FILE else fields["kind"]
    yield f"{_SIGNS[change.how]} {path}  ({what})"


def _told(repository: Repository, before: str, after: str, change: Change) -> Iterator[str]:
    yield from _stat(change)
    if change.how == CHANGED and "content" not in change.aspects:
        return
    old = _lines(repository, before, change) if change.before else []
    new = _lines(repository, after, change) if change.after else []
    if old is None or new is None:
        return
    names = (f"a/{plain(change.path)}", f"b/{plain(change.path)}")
    for line in difflib.unified_diff(old, new, *names, lineterm=""):
        yield plain(line)


def _lines(repository: Repository, id: str, change: Change) -> list[str] | None:
    """The lines of a file; None if it is binary or too long."""
    fields = change.before if change.before is not None else change.after
    assert fields is not None
    if fields["kind"] != payload_walk.FILE:
        return None
    folder = f"{descriptors.folder(repository, id)}/{PAYLOAD}"
    with opened_file(folder, change.path) as file:
        data = file.read(_TEXT_BYTES_MAX + 1)
    if len(data) > _TEXT_BYTES_MAX or b"\0" in data[:_LOOK_BYTES]:
        return None
    return data.decode("utf-8", "replace").splitlines()
