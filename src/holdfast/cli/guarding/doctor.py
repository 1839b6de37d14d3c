"""doctor: tests whether the guard holds, and prints a table of the results."""

from __future__ import annotations

import os

from holdfast.cli import DONE
from holdfast.cli import FAILED as EXIT_FAILED
from holdfast.cli.command_context import CommandContext
from holdfast.cli.printing import colours, document, out, plain, talk
from holdfast.cli.terminal.tables import (
    BOLD,
    DIM,
    RED,
    YELLOW,
    Cell,
    Column,
    render,
    terminal_width,
)
from holdfast.gate.doctor import Finding, examine
from holdfast.gate.doctor.finding import FAILED, HELD, NOTE
from holdfast.gate.doctor.fixes import Repair, repair
from holdfast.gate.doctor.inspection import CLIENTS
from holdfast.manager.files.paths import home_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.parser import Call

_COLUMNS = (
    Column("WHO"),
    Column("TRIED"),
    Column("RESULT"),
    Column("WHAT HAPPENED", 20, prose=True),
)
_SHOWN = {HELD: ("held", ""), FAILED: ("FAILED", RED), NOTE: ("note", YELLOW)}


def doctor(call: Call) -> int:
    """Run all tests; with --fix, repair first what can be repaired."""
    root = home_root(CommandContext(call).folder)
    repairs = repair(root) if call.flag("fix") else []
    found = examine(root, os.environ)
    failed = [one for one in found if one.state == FAILED]
    if call.flag("json"):
        _print_json(root, found, repairs, fix=call.flag("fix"))
    else:
        _print(found, repairs)
    return EXIT_FAILED if failed else DONE


def _print_json(
    root: str, found: Sequence[Finding], repairs: Sequence[Repair], *, fix: bool
) -> None:
    document(
        {
            "root": root,
            "ok": all(one.state != FAILED for one in found),
            "findings": [
                {
                    "about": one.about,
                    "check": one.check,
                    "state": one.state,
                    "detail": one.detail or None,
                    "fix": one.fix or None,
                }
                for one in found
            ],
            "fixed": [{"done": one.done, "what": one.told, "hint": one.hint or None}
                      for one in repairs] if fix else None,
        }
    )  # fmt: skip


def _print(found: Sequence[Finding], repairs: Sequence[Repair]) -> None:
    for done in repairs:
        out(plain(f"fixed: {done.told}" if done.done else f"not fixed: {done.told}"))
        if done.hint:
            talk(f"  -> {plain(done.hint)}")
    if repairs:
        out("")
    rows = []
    for one in found:
        shown, colour = _SHOWN.get(one.state, (one.state, DIM))
        rows.append([Cell(one.about), Cell(one.check), Cell(shown, colour), Cell(one.detail)])
    for line in render(_COLUMNS, rows, width=terminal_width(), colours=colours()):
        out(line)
    _print_remedies(found)


def _print_remedies(found: Sequence[Finding]) -> None:
    """Print each problem in full with its remedy, since the lines of the table may be cut."""
    failed = [one for one in found if one.state == FAILED]
    out("")
    for one in (*failed, *(note for note in found if note.state == NOTE)):
        out(plain(f"{one.about}, {one.check}: {one.detail}"))
        if one.fix:
            out(f"  -> {plain(one.fix)}")
    held = sum(one.state == HELD for one in found)
    told = f"{len(failed)} of {held + len(failed)} failed" if failed else f"all {held} held"
    if not failed and any(one.check == CLIENTS for one in found):
        told = f"{held} held, but no client is installed to obey the hooks"
    out(f"\x1b[{BOLD}m{told}\x1b[0m" if colours() else told)
