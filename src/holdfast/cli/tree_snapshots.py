"""tree snapshot, history, restore."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import Any

from holdfast.cli import DONE
from holdfast.cli.parser import Call, UsageError
from holdfast.cli.printing import colours, document, listed, out, plain, talk
from holdfast.cli.tables import RED, YELLOW, Cell, Column, render, terminal_width
from holdfast.cli.tree import tell_created, tell_degraded, worktree_data
from holdfast.cli.tree_desk import TreeDesk, counted, ending_well, size, when
from holdfast.trees import descriptors, restoring, snapshots
from holdfast.trees.descriptors import BEST_EFFORT, QUIESCED, SHORT_CHARACTERS, Descriptor
from holdfast.trees.repository import checked_name


def snapshot(call: Call) -> int:
    """Take a snapshot."""
    desk = TreeDesk(call)
    worktree = desk.worktree()
    with ending_well():
        made = snapshots.take(
            worktree, desk.me().id, " ".join(call.words),
            consistency=call.text("consistency") or QUIESCED, token=desk.token(worktree),
            engine=call.text("engine") or "", progress=desk.progress(),
        )  # fmt: skip
    linked = f", {made['files_linked']:,} of them unchanged" if made["files_linked"] else ""
    desk.answer(
        {"snapshot": _data(made)},
        f"snapshot {made['snapshot_id']} of {worktree.name}: "
        f"{counted(made['files'], 'file')}, {size(made['bytes'])}{linked}",
    )
    if not desk.as_json:
        if made["changed"]["count"]:
            talk(f"  changed while it was taken: {listed(made['changed']['paths'])}")
        tell_degraded(made["degraded"]["entries"], made["degraded"]["count"])
    return DONE


def history(call: Call) -> int:
    """Show snapshots, the latest first. It needs no lock and changes nothing."""
    desk = TreeDesk(call)
    repository = desk.repository()
    limit = call.number("limit")
    if call.flag("all"):
        worktree, head = None, ""
        found = descriptors.history(repository)[:limit]
    else:
        worktree = desk.worktree()
        head = worktree.head()
        found = [*islice(descriptors.lineage(repository, head), limit)]
    if desk.as_json:
        name = worktree.name if worktree else None
        document({"worktree": name, "snapshots": [_data(one) for one in found]})
        return DONE
    if not found:
        talk("there are no snapshots yet: holdfast tree snapshot [NOTE]")
        return DONE
    columns = (
        Column("SNAPSHOT"), Column("WHEN"), Column("WORKTREE"), Column("FILES"), Column("SIZE"),
        Column("WARNING"), Column("NOTE", 10, prose=True),
    )  # fmt: skip
    rows = [_row(one) for one in found]
    for line in render(columns, rows, width=terminal_width(), colours=colours()):
        out(line)
    return DONE


def _row(fields: Descriptor) -> Sequence[Cell]:
    damaged = fields.get("integrity_state") == "damaged"
    loose = fields.get("consistency_level") == BEST_EFFORT
    warning = Cell("damaged", RED) if damaged else Cell("best_effort" if loose else "", YELLOW)
    files, bytes = fields.get("files"), fields.get("bytes")
    return [
        Cell(str(fields["snapshot_id"])[:SHORT_CHARACTERS]),
        Cell(when(str(fields["created_at"]))), Cell(str(fields.get("worktree", ""))),
        Cell(f"{files:,}" if isinstance(files, int) else ""),
        Cell(size(bytes) if isinstance(bytes, int) else ""),
        warning, Cell(" ".join(str(fields.get("note", "")).split())),
    ]  # fmt: skip


def _data(fields: Descriptor) -> dict[str, Any]:
    return {**fields, "warning": snapshots.warning(fields)}


def restore(call: Call) -> int:
    """Make a new worktree from a snapshot, or put it in the place of this one's payload."""
    desk = TreeDesk(call)
    text = desk.word("snapshot")
    repository = desk.repository()
    if call.flag("inplace"):
        return _restore_in_place(desk, text)
    for name in ("force", "reason", "token", "holder", "worktree"):
        if call.flag(name):
            raise UsageError(
                f"--{name} goes with --inplace", hint="without it a new worktree is made"
            )
    snapshot_id = desk.snapshot_id(repository, text)
    name = checked_name(call.text("name") or restoring.new_name(snapshot_id))
    with ending_well():
        made = restoring.create(
            repository, name, snapshot_id=snapshot_id, engine=call.text("engine") or "",
            progress=desk.progress(),
        )  # fmt: skip
    tell_created(desk, made)
    return DONE


def _restore_in_place(desk: TreeDesk, text: str) -> int:
    call = desk.call
    reason = " ".join(plain(call.text("reason") or "").split())
    if not call.flag("force") or not reason or call.flag("name"):
        raise UsageError(
            "a restore in place loses what no snapshot has, so it needs --force and --reason",
            hint='holdfast tree restore SNAPSHOT --inplace --force --reason "why"',
        )
    worktree = desk.worktree()
    snapshot_id = desk.snapshot_id(worktree.repository, text)
    inside = os.path.realpath(desk.folder) == worktree.path or desk.folder.startswith(
        f"{worktree.path}/"
    )
    with ending_well():
        made = restoring.in_place(
            worktree, desk.me().id, snapshot_id, reason=reason, token=desk.token(worktree),
            engine=call.text("engine") or "", progress=desk.progress(),
        )  # fmt: skip
    degraded = made.degraded.some if made.degraded else []
    desk.answer(
        {"worktree": worktree_data(made.worktree), "snapshot_id": snapshot_id,
         "previous_head": made.previous_head or None, "degraded": degraded},
        f"{worktree.name} is now as it was in {snapshot_id}",
    )  # fmt: skip
    if not desk.as_json:
        if made.previous_head:
            talk(f"  its latest snapshot was {made.previous_head}")
        if inside:
            talk('  this shell is still in the folder that was there before: cd "$PWD"')
        tell_degraded(degraded, made.degraded.count if made.degraded else 0)
    return DONE
