"""tree list, path."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli import DONE
from holdfast.cli.parser import Call
from holdfast.cli.printing import colours, document, out, plain
from holdfast.cli.terminal.tables import (
    RED,
    YELLOW,
    Cell,
    Column,
    render,
    terminal_width,
)
from holdfast.cli.tree.tree_context import TreeContext
from holdfast.cli.tree.tree_locks import lock_words
from holdfast.cli.tree.tree_worktrees import isolation_words, worktree_data
from holdfast.core.errors import HoldfastError
from holdfast.trees import worktrees
from holdfast.trees.locking import worktree_locks
from holdfast.trees.snapshots import descriptors
from holdfast.trees.worktrees import Worktree


def list(call: Call) -> int:
    """Show all worktrees."""
    context = TreeContext(call)
    repository = context.repository()
    found = [*worktrees.each(repository)]
    damaged = {*worktrees.names(repository)} - {worktree.name for worktree in found}
    if context.as_json:
        document(
            {
                "worktrees": [worktree_data(worktree) for worktree in found],
                "damaged": sorted(damaged),
            }
        )
        return DONE
    columns = (
        Column("NAME"), Column("ISOLATION"), Column("SNAPSHOT"), Column("LOCK", 12, prose=True),
    )  # fmt: skip
    rows = [_row(worktree) for worktree in found]
    rows += [[Cell(name), Cell("damaged", RED), Cell(""), Cell("")] for name in sorted(damaged)]
    for line in render(columns, rows, width=terminal_width(), colours=colours()):
        out(line)
    return DONE


def _row(worktree: Worktree) -> Sequence[Cell]:
    try:
        head = worktree.head()[: descriptors.SHORT_CHARACTERS] or "-"
    except HoldfastError:
        head = "damaged"
    lock = "" if worktree.is_shared else lock_words(worktree_locks.status(worktree))
    return [
        Cell(worktree.name), Cell(isolation_words(worktree), YELLOW if worktree.is_shared else ""),
        Cell(head), Cell(lock),
    ]  # fmt: skip


def path(call: Call) -> int:
    """Print where a worktree is."""
    context = TreeContext(call)
    found = context.named()
    context.answer({"path": found.path}, plain(found.path))
    return DONE
