"""--help and --version."""

from __future__ import annotations

import holdfast
from holdfast.cli import DONE
from holdfast.cli.commands import (
    COMMANDS,
    FAMILIES,
    GLOBALS,
    VARIABLES,
    Command,
    Family,
    Option,
    everything,
)
from holdfast.cli.printing import document, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.parser import Call

EXIT_CODES = (
    (0, "done"),
    (1, "failed: the store or the system is in trouble"),
    (2, "usage: the command line cannot be right"),
    (3, "conflict: somebody else has it, or waiting would close a circle"),
    (4, "not held, or lost"),
    (5, "timed out"),
)


def usage(call: Call) -> int:
    """How the program, or one command, is used."""
    wanted = call.words[0] if call.words else ""
    families = [family for family in FAMILIES if family.name == wanted]
    if families:
        out("\n".join(_family_help(families[0])))
        return DONE
    found = [command for command in everything() if command.name == wanted]
    out("\n".join(_command_help(found[0]) if found else _program_help()))
    return DONE


def version(call: Call) -> int:
    """Which version this is."""
    if call.flag("json"):
        document({"version": holdfast.__version__})
    else:
        out(f"holdfast {holdfast.__version__}")
    return DONE


def _program_help() -> list[str]:
    listed = [(command.name, command.summary) for command in COMMANDS]
    listed += [(family.name, family.summary) for family in FAMILIES]
    return [
        "holdfast: many agents and people, one repository, locks that hold.",
        "",
        "usage: holdfast COMMAND …",
        "",
        *_aligned(listed),
        "",
        "with every command, before or after its name:",
        *_aligned([(option.spelled, option.help) for option in GLOBALS]),
        "",
        "environment:",
        *_aligned(VARIABLES),
        "",
        "exit codes:",
        *_aligned([(str(code), means) for code, means in EXIT_CODES]),
        "",
        "holdfast COMMAND --help says more.",
    ]


def _family_help(family: Family) -> list[str]:
    summary = family.summary[:1].upper() + family.summary[1:]
    return [
        f"usage: holdfast {family.name} COMMAND …",
        "",
        f"{summary}.",
        "",
        *_aligned([(command.name, command.summary) for command in family.commands]),
        "",
        f"holdfast {family.name} COMMAND --help says more.",
    ]


def _command_help(command: Command) -> list[str]:
    summary = command.summary[:1].upper() + command.summary[1:]
    lines = [f"usage: {command_line(command)}", "", f"{summary}."]
    if command.help:
        lines.append(command.help)
    options = [(option.spelled, option.help) for option in (*command.options, *GLOBALS)]
    note = ["", command.note] if command.note else []
    return [*lines, "", *_aligned(options), *note]


def command_line(command: Command) -> str:
    """The command with all its own options on one line."""
    parts = [_bracketed(option) for option in command.options]
    words = [command.words] if command.words else []
    # The command that is run comes last; elsewhere the paths are what one types first.
    parts = [*parts, *words] if command.takes == "command" else [*words, *parts]
    return " ".join(["holdfast", command.name, *parts])


def _bracketed(option: Option) -> str:
    name = option.spelled.rpartition(", ")[2]
    return f"[{name}]…" if option.many else f"[{name}]"


def _aligned(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _help in rows)
    return [f"  {name:<{width}}  {help}" for name, help in rows]
