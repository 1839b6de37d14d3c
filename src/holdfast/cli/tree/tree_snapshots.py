"""tree snapshot, history, restore."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import Any

from holdfast.cli import DONE
from holdfast.cli.parser import Call, UsageError
from holdfast.cli.printing import colours, document, listed, out, plain, talk
from holdfast.cli.terminal.tables import (
    RED,
    YELLOW,
    Cell,
    Column,
    render,
    terminal_width,
)
from holdfast.cli.tree.tree_context import (
    TreeContext,
    counted,
    ending_well,
    size,
    when,
)
from holdfast.cli.tree.tree_worktrees import (
    lost_head,
    tell_created,
    tell_degraded,
    worktree_data,
)
from holdfast.trees import occupants
from holdfast.trees.errors import TreeExistsError
from holdfast.trees.repository import checked_name
from holdfast.trees.snapshots import descriptors, restoring, tags, taking
from holdfast.trees.snapshots.descriptors import (
    BEST_EFFORT,
    QUIESCED,
    SHORT_CHARACTERS,
    Descriptor,
)

_OCCUPANTS_SHOWN_MAX = 20


def snapshot(call: Call) -> int:
    """Take a snapshot."""
    context = TreeContext(call)
    worktree = context.worktree()
    tag = call.text("tag")
    if tag is not None and tags.find(worktree.repository, tags.checked(tag)) is not None:
        raise TreeExistsError(
            f"the tag {tag} already exists", hint="choose another, or move it afterwards"
        )
    with ending_well():
        made = taking.take(
            worktree, context.caller().id, " ".join(call.words),
            consistency=call.text("consistency") or QUIESCED, token=context.token(worktree),
            engine=call.text("engine") or "", progress=context.progress(),
        )  # fmt: skip
    if tag is not None:
        tags.add(worktree.repository, tag, made["snapshot_id"])
    linked = f", {made['files_linked']:,} of them unchanged" if made["files_linked"] else ""
    context.answer(
        {"snapshot": _data(made, [tag] if tag is not None else [])},
        f"snapshot {made['snapshot_id']} of {worktree.name}: "
        f"{counted(made['files'], 'file')}, {size(made['bytes'])}{linked}",
    )
    if not context.as_json:
        if made["changed"]["count"]:
            talk(f"  changed while it was taken: {listed(made['changed']['paths'])}")
        tell_degraded(made["degraded"]["entries"], made["degraded"]["count"])
    return DONE


def history(call: Call) -> int:
    """Show snapshots, the latest first. Needs no lock and changes nothing."""
    context = TreeContext(call)
    repository = context.repository()
    limit = call.number("limit")
    worktree, lost = None, ""
    if call.flag("all") and call.words:
        raise UsageError(
            "give one snapshot or --all, not both", hint="leave out --all, or the snapshot"
        )
    if call.flag("all"):
        found = descriptors.history(repository)[:limit]
    elif call.words:
        start = context.snapshot_id(repository, context.word("snapshot"))
        found = [*islice(descriptors.lineage(repository, start), limit)]
    else:
        worktree = context.worktree()
        lost = lost_head(worktree)
        head = worktree.head()
        found = [*islice(descriptors.lineage(repository, head), limit)]
    named = tags.by_snapshot(repository)
    if context.as_json:
        name = worktree.name if worktree else None
        told = [_data(one, named.get(one["snapshot_id"], [])) for one in found]
        document({"worktree": name, "snapshots": told, "warnings": [lost] if lost else []})
        return DONE
    if lost:
        talk(f"  warning: {plain(lost)}")
    if not found:
        if not lost:
            talk("there are no snapshots yet: holdfast tree snapshot [NOTE]")
        return DONE
    columns = (
        Column("SNAPSHOT"), Column("WHEN"), Column("WORKTREE"), Column("FILES"), Column("SIZE"),
        Column("WARNING"), Column("TAGS"), Column("NOTE", 10, prose=True),
    )  # fmt: skip
    rows = [_row(one, named.get(one["snapshot_id"], [])) for one in found]
    for line in render(columns, rows, width=terminal_width(), colours=colours()):
        out(line)
    return DONE


def _row(fields: Descriptor, named: list[str]) -> Sequence[Cell]:
    damaged = fields.get("integrity_state") == "damaged"
    loose = fields.get("consistency_level") == BEST_EFFORT
    warning = Cell("damaged", RED) if damaged else Cell("best_effort" if loose else "", YELLOW)
    files, bytes = fields.get("files"), fields.get("bytes")
    return [
        Cell(str(fields["snapshot_id"])[:SHORT_CHARACTERS]),
        Cell(when(str(fields["created_at"]))), Cell(str(fields.get("worktree", ""))),
        Cell(f"{files:,}" if isinstance(files, int) else ""),
        Cell(size(bytes) if isinstance(bytes, int) else ""),
        warning, Cell(" ".join(named)), Cell(" ".join(str(fields.get("note", "")).split())),
    ]  # fmt: skip


def _data(fields: Descriptor, named: list[str]) -> dict[str, Any]:
    return {**fields, "warning": taking.warning(fields), "tags": named}


def restore(call: Call) -> int:
    """Create a worktree from a snapshot, or replace this one's payload with it."""
    context = TreeContext(call)
    text = context.word("snapshot")
    repository = context.repository()
    if call.flag("inplace"):
        return _restore_in_place(context, text)
    for name in ("force", "reason", "token", "holder", "worktree"):
        if call.flag(name):
            raise UsageError(
                f"--{name} requires --inplace", hint="without it a new worktree is created"
            )
    snapshot_id = context.snapshot_id(repository, text)
    name = checked_name(call.text("name") or restoring.new_name(snapshot_id))
    with ending_well():
        made = restoring.create(
            repository, name, snapshot_id=snapshot_id, engine=call.text("engine") or "",
            progress=context.progress(),
        )  # fmt: skip
    tell_created(context, made)
    return DONE


def _restore_in_place(context: TreeContext, text: str) -> int:
    call = context.call
    reason = " ".join(plain(call.text("reason") or "").split())
    if not call.flag("force") or not reason or call.flag("name"):
        raise UsageError(
            "a restore in place loses work that is in no snapshot: it needs --force and --reason",
            hint='holdfast tree restore SNAPSHOT --inplace --force --reason "why"',
        )
    worktree = context.worktree()
    snapshot_id = context.snapshot_id(worktree.repository, text)
    inside = occupants.inside(worktree.path)
    if not context.as_json:
        _tell_occupants(inside)
    with ending_well():
        made = restoring.in_place(
            worktree, context.caller().id, snapshot_id, reason=reason,
            token=context.token(worktree), engine=call.text("engine") or "",
            progress=context.progress(),
        )  # fmt: skip
    degraded = made.degraded.some if made.degraded else []
    told = occupants.tell(
        inside,
        f"holdfast: {plain(worktree.path)} was replaced by its snapshot {snapshot_id}; a shell "
        'inside is still in the old folder: cd "$PWD"; open files are the old ones',
        but=_terminal(),
    )
    context.answer(
        {"worktree": worktree_data(made.worktree), "snapshot_id": snapshot_id,
         "previous_head": made.previous_head or None, "degraded": degraded,
         "inside": [{**one.to_dict(), "told": one.terminal in told} for one in inside]},
        f"{worktree.name} is now as it was in {snapshot_id}",
    )  # fmt: skip
    if not context.as_json:
        if made.previous_head:
            talk(f"  its latest snapshot was {made.previous_head}")
        if any(one.folder for one in inside):
            talk('  shells inside are still in the old folder: cd "$PWD"')
        tell_degraded(degraded, made.degraded.count if made.degraded else 0)
    return DONE


def _terminal() -> str:
    """The terminal of this command."""
    try:
        return os.ttyname(2)
    except OSError:
        return ""


def _tell_occupants(inside: list[occupants.Occupant]) -> None:
    """List the processes inside the payload that is about to be replaced."""
    for one in inside[:_OCCUPANTS_SHOWN_MAX]:
        at = [f"is in {plain(one.folder)}"] if one.folder else []
        if one.files:
            more = f" and {one.files_count - 1:,} more" if one.files_count > 1 else ""
            at.append(f"has {plain(one.files[0])}{more} open")
        talk(f"  inside: {plain(one.name)} (pid {one.pid}) {', '.join(at)}")
    if len(inside) > _OCCUPANTS_SHOWN_MAX:
        talk(f"  and {len(inside) - _OCCUPANTS_SHOWN_MAX:,} more processes inside")
