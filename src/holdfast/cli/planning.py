"""plan: what depends on what, before any agent is sent out."""

from __future__ import annotations

import os

from holdfast.cli import DONE
from holdfast.cli.opening import Desk
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import colours, document, listed, out, talk
from holdfast.cli.tables import BOLD, DIM, YELLOW, Cell, Column, cut, render, terminal_width
from holdfast.manager.paths import Tree, home_root
from holdfast.work.layout import CONTROLLER, DECLARED, Layout
from holdfast.work.manifest import ScreenManifest
from holdfast.work.plan import Plan, counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.parser import Call
    from holdfast.work.plan import Group

#: How many lines of a table are shown before the rest is counted.
LINES_MAX = 40
SHARED_MAX = 12
#: How many screens are named in one line.
NAMES_MAX = 6
_MISTAKES = (
    (CONTROLLER, "no such controllers", "controller in [work] of holdfast.toml says where to look"),
    (DECLARED, "in reads_from, but not there", "correct them in the manifest, if they are meant"),
)


def plan(call: Call) -> int:
    """Show the plan for a manifest."""
    if len(call.words) != 1:
        raise UsageError("plan takes one manifest", hint="holdfast plan screens.json")
    root = home_root(Desk(call).folder)
    manifest = ScreenManifest.load(call.words[0])
    found = Plan.of(manifest, Layout.load(root, os.environ), Tree(root))
    if call.flag("json"):
        document({"root": root, **found.to_data()})
        return DONE
    width, coloured = terminal_width(), colours()
    lines = [found.headline(), "", *_groups_drawn(found, width, coloured)]
    if found.contended:
        lines += ["", *_shared_drawn(found, width, coloured)]
    lines += ["", *found.widths()]
    lines[0] = f"\x1b[{BOLD}m{lines[0]}\x1b[0m" if coloured else lines[0]
    out("\n".join(lines))
    _tell_absent(found)
    return DONE


def _groups_drawn(found: Plan, width: int | None, coloured: bool) -> list[str]:
    columns = [Column("CONTROLLER", 12), Column("SCREENS", 10, prose=True), Column("READS", 20),
               Column("ONLY BY", 6, prose=True)]  # fmt: skip
    contended = {one.path for one in found.contended}
    rows: list[list[Cell]] = []
    shown = 0
    for group in found.groups:
        if rows and len(rows) + len(group.reads) > LINES_MAX:
            break
        rows += _rows(group, contended)
        shown += 1
    lines = render(columns, rows, width=width, colours=coloured)
    return lines + _rest(len(found.groups) - shown, "controller", width)


def _rows(group: Group, contended: set[str]) -> list[list[Cell]]:
    names = _names([screen.name for screen in group.screens])
    first = [Cell(group.workflow, BOLD), Cell(names)]
    rows: list[list[Cell]] = []
    for path, readers in group.reads.items():
        only_by = "" if len(readers) == len(group.screens) else _names(readers)
        what = Cell(path, YELLOW if path in contended else "")
        rows.append([*first, what, Cell(only_by, DIM)])
        first = [Cell(""), Cell("")]
    return rows


def _shared_drawn(found: Plan, width: int | None, coloured: bool) -> list[str]:
    columns = [Column("SHARED BY CONTROLLERS", 20), Column("IN THE"), Column("SCREENS"),
               Column("CONTROLLERS"), Column("KEEPS APART")]  # fmt: skip
    rows = [
        [Cell(one.path, YELLOW), Cell(one.scope), Cell(str(one.screens)),
         Cell(str(one.controllers)), Cell(counted(one.contention, "pair"))]
        for one in found.contended[:SHARED_MAX]
    ]  # fmt: skip
    lines = render(columns, rows, width=width, colours=coloured)
    return lines + _rest(len(found.contended) - len(rows), "path", width)


def _rest(count: int, noun: str, width: int | None) -> list[str]:
    if not count:
        return []
    told = f"and {counted(count, noun)} more; --json has all"
    return [told if width is None else cut(told, width)]


def _names(names: Sequence[str]) -> str:
    return listed(names, NAMES_MAX)


def _tell_absent(found: Plan) -> None:
    """What is not there, as far as that is likely to be a mistake: models and views need not be."""
    for part, told, hint in _MISTAKES:
        paths = [one.path for one in found.absent if one.part == part]
        if paths:
            talk(f"{told}: {listed(paths)}")
            talk(f"  -> {hint}")
