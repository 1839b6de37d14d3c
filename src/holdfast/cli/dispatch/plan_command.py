"""plan: what depends on what, before any agent starts: of tasks, or of screens."""

from __future__ import annotations

import os

from holdfast.cli import DONE
from holdfast.cli.command_context import CommandContext
from holdfast.cli.dispatch.task_files import refuse_other
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import colours, document, listed, out, talk
from holdfast.cli.terminal.tables import (
    BOLD,
    DIM,
    YELLOW,
    Cell,
    Column,
    cut,
    render,
    terminal_width,
)
from holdfast.manager.files.paths import Tree, home_root
from holdfast.work.screens.layout import CONTROLLER, DECLARED, Layout
from holdfast.work.screens.manifest import ScreenManifest
from holdfast.work.screens.screen_plan import Plan, counted
from holdfast.work.tasks.exclusion import Exclusions
from holdfast.work.tasks.lists.list_reader import (
    from_command_line,
    is_list,
    read_tasks,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.parser import Call
    from holdfast.work.screens.screen_plan import Group
    from holdfast.work.tasks.exclusion import Excluded
    from holdfast.work.tasks.lists.task import Task, TaskList

#: How many lines of a table are shown; the rest is counted.
LINES_MAX = 40
SHARED_MAX = 12
#: How many screens are named in one line.
NAMES_MAX = 6
#: How many paths or tasks are named in one cell.
CELL_NAMES_MAX = 3
_MISTAKES = (
    (CONTROLLER, "no such controllers", "controller in [work] of holdfast.toml says where to look"),
    (
        DECLARED,
        "named in reads_from, but missing",
        "correct the manifest, unless they are still to be written",
    ),
)


def plan(call: Call) -> int:
    """Show the plan for a list of tasks, or for a manifest."""
    prompts = call.many("task")
    if len(call.words) + bool(prompts) != 1:
        raise UsageError(
            "plan takes one list of tasks, or tasks one by one",
            hint='holdfast plan tasks.toml, or --task "rename User to Account"',
        )
    root = home_root(CommandContext(call).folder)
    if prompts:
        return _plan_tasks(call, root, from_command_line(prompts))
    if is_list(call.words[0]):
        return _plan_tasks(call, root, read_tasks(call.words[0], root))
    return _plan_screens(call, root)


# Tasks


def _plan_tasks(call: Call, root: str, tasks: TaskList) -> int:
    found = Exclusions.of(tasks, Tree(root))
    if call.flag("json"):
        document({"root": root, **found.to_data()})
        return DONE
    width, coloured = terminal_width(), colours()
    if not len(tasks):
        out("every item is ticked: there is nothing to do")
        return DONE
    columns = [Column("TASK", 12), Column("WRITES", 10), Column("READS", 10), Column("LOCKS", 8),
               Column("AFTER", 8), Column("EXCLUDES", 8)]  # fmt: skip
    shown = tasks.tasks[:LINES_MAX]
    rows = [_task_row(task, found.excluded_by(task.name)) for task in shown]
    lines = render(columns, rows, width=width, colours=coloured)
    lines += _rest(len(tasks) - len(shown), "task", width)
    out("\n".join([*lines, "", found.headline()]))
    return DONE


def _task_row(task: Task, excluded: Excluded) -> list[Cell]:
    writes = "not declared" if task.writes is None else _few(task.writes) or "nothing"
    excludes = _few(excluded.names, excluded.count)
    return [
        Cell(task.name, BOLD), Cell(writes, DIM if task.writes is None else ""),
        Cell(_few(task.reads)), Cell(_few(task.locks)), Cell(_few(task.after)),
        Cell(excludes, YELLOW),
    ]  # fmt: skip


def _few(names: Sequence[str], count: int = 0) -> str:
    """The first names, and how many more there are."""
    more = max(count, len(names)) - CELL_NAMES_MAX
    told = ", ".join(names[:CELL_NAMES_MAX])
    return f"{told} and {more} more" if more > 0 else told


# Screens


def _plan_screens(call: Call, root: str) -> int:
    refuse_other(call.words[0])
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
    told = f"and {counted(count, f'more {noun}')}; --json lists all"
    return [told if width is None else cut(told, width)]


def _names(names: Sequence[str]) -> str:
    return listed(names, NAMES_MAX)


def _tell_absent(found: Plan) -> None:
    """Report missing paths that are likely mistakes: models and views may be missing."""
    for part, told, hint in _MISTAKES:
        paths = [one.path for one in found.absent if one.part == part]
        if paths:
            talk(f"{told}: {listed(paths)}")
            talk(f"  -> {hint}")
