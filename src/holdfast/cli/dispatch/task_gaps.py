"""Reports of files that tasks tried to write and had not declared."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli.printing import colours, out, plain
from holdfast.cli.terminal.tables import Cell, Column, render, terminal_width
from holdfast.work.tasks.undeclared_writes import Undeclared

_SHOWN_MAX = 3


def show_task_gaps(found: Sequence[Undeclared]) -> None:
    """All of them, as a table."""
    columns = [Column("FILE", 20), Column("TASK", 12), Column("LIST"), Column("", 12, prose=True)]
    rows = [[Cell(one.path), Cell(one.task), Cell(one.list), Cell(_advice(one))] for one in found]
    out("\n".join(render(columns, rows, width=terminal_width(), colours=colours())))


def _advice(one: Undeclared) -> str:
    if one.controls:
        return f"controls {one.controls}: not for agents"
    return "not among its writes"


def sentence(found: Sequence[Undeclared]) -> str:
    """One line at the end of a run."""
    names = [plain(one.path) for one in found[:_SHOWN_MAX]]
    more = len(found) - len(names)
    said = ", ".join(names) + (f" and {more} more" if more else "")
    return f"refused writes to undeclared files: {said}; see: holdfast gaps"
