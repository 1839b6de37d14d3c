"""tree tag add, list, remove."""

from __future__ import annotations

from holdfast.cli import DONE
from holdfast.cli.parser import Call, UsageError
from holdfast.cli.printing import colours, out, plain, talk
from holdfast.cli.terminal.tables import Cell, Column, render, terminal_width
from holdfast.cli.tree.tree_context import TreeContext, when
from holdfast.trees.errors import NoTreeError
from holdfast.trees.snapshots import descriptors, tags

_COLUMNS = (
    Column("TAG"), Column("SNAPSHOT"), Column("WHEN"), Column("NOTE", 10, prose=True),
)  # fmt: skip


def tag_add(call: Call) -> int:
    """Tag a snapshot."""
    context = TreeContext(call)
    if not 1 <= len(call.words) <= 2:
        raise UsageError("tree tag add needs a name", hint="holdfast tree tag add NAME [SNAPSHOT]")
    repository = context.repository()
    if len(call.words) == 2:
        id = context.snapshot_id(repository, call.words[1])
    else:
        worktree = context.worktree()
        id = descriptors.nearest(repository, worktree.head())
        if not id:
            raise NoTreeError(
                f"worktree {worktree.name} has no snapshot yet", hint="holdfast tree snapshot"
            )
    made = tags.add(repository, call.words[0], id, move=call.flag("move"))
    context.answer({"tag": made.to_dict()}, f"{made.name} is {made.snapshot_id}")
    return DONE


def tag_list(call: Call) -> int:
    """Show all tags."""
    context = TreeContext(call)
    repository = context.repository()
    found, damaged = tags.readable(repository)
    if context.as_json:
        context.answer({"tags": [tag.to_dict() for tag in found], "damaged": damaged})
        return DONE
    rows = []
    for tag in found:
        fields = descriptors.listed(repository, tag.snapshot_id)
        rows.append(
            [Cell(tag.name), Cell(tag.snapshot_id[: descriptors.SHORT_CHARACTERS]),
             Cell(when(str(fields["created_at"]))),
             Cell(" ".join(str(fields.get("note", "")).split()))]
        )  # fmt: skip
    if rows:
        for line in render(_COLUMNS, rows, width=terminal_width(), colours=colours()):
            out(line)
    elif not damaged:
        talk("there are no tags yet: holdfast tree tag add NAME [SNAPSHOT]")
    for name in damaged:
        talk(f"  damaged: {plain(name)}; see holdfast tree doctor")
    return DONE


def tag_remove(call: Call) -> int:
    """Remove a tag; the snapshot stays."""
    context = TreeContext(call)
    gone = tags.remove(context.repository(), context.word("name"))
    context.answer({"removed": gone.to_dict()}, f"removed the tag {gone.name}; its snapshot stays")
    return DONE
