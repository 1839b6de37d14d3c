"""help, --help and --version."""

from __future__ import annotations

import holdfast
from holdfast.cli import DONE
from holdfast.cli.commands import (
    COMMANDS,
    FAMILIES,
    GLOBALS,
    GROUPS,
    VARIABLES,
    Command,
    Family,
    Option,
    everything,
)
from holdfast.cli.printing import document, out
from holdfast.cli.terminal.tables import terminal_width, wide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.parser import Call

EXIT_CODES = (
    (0, "done"),
    (1, "failed: the store or the system is in trouble"),
    (2, "usage: the command line cannot be right"),
    (3, "conflict: another holder has it, or waiting would deadlock"),
    (4, "not held, or lost"),
    (5, "timed out"),
)

#: The heading of the families, after those of the groups.
FAMILIES_TITLE = "families of commands, each under its own first word"
#: The width where none is known, as in a pipe, and the width past which lines are hard to read.
_WIDTH_UNKNOWN, _WIDTH_MAX = 80, 110
#: With less room than this beside its name, an explanation goes on the next line.
_BESIDE_MIN = 28


def usage(call: Call) -> int:
    """Show how the program, a family or one command is used."""
    wanted = call.words[0] if call.words else ""
    width = min(terminal_width() or _WIDTH_UNKNOWN, _WIDTH_MAX)
    families = [family for family in FAMILIES if family.name == wanted]
    if families:
        out("\n".join(_family_help(families[0], width)))
        return DONE
    found = [command for command in everything() if command.name == wanted]
    out("\n".join(_command_help(found[0], width) if found else _program_help(width)))
    return DONE


def version(call: Call) -> int:
    """Print the version."""
    if call.flag("json"):
        document({"version": holdfast.__version__})
    else:
        out(f"holdfast {holdfast.__version__}")
    return DONE


def _program_help(width: int) -> list[str]:
    lines = [
        *_wrapped("holdfast: many agents and people, one repository, locks that hold.", width),
        "",
        "usage: holdfast COMMAND …",
    ]
    groups = [
        (title, [(_named(one), one.summary) for one in COMMANDS if one.group == title])
        for title in GROUPS
    ]
    groups.append((FAMILIES_TITLE, [(family.name, family.summary) for family in FAMILIES]))
    column = max(wide(name) for _title, listed in groups for name, _summary in listed)
    for title, listed in groups:
        lines += ["", *_wrapped(f"{title}:", width), *_aligned(listed, width, column)]
    return [
        *lines,
        "",
        *_wrapped("with every command, before or after its name:", width),
        *_aligned([(option.spelled, option.help) for option in GLOBALS], width),
        "",
        "environment:",
        *_aligned(VARIABLES, width),
        "",
        "exit codes:",
        *_aligned([(str(code), means) for code, means in EXIT_CODES], width),
        "",
        *_wrapped("holdfast help COMMAND shows its options and two examples.", width),
    ]


def _named(command: Command) -> str:
    return ", ".join((command.name, *command.aliases))


def _family_help(family: Family, width: int) -> list[str]:
    summary = family.summary[:1].upper() + family.summary[1:]
    return [
        f"usage: holdfast {family.name} COMMAND …",
        "",
        *_wrapped(f"{summary}.", width),
        "",
        *_aligned([(command.name, command.summary) for command in family.commands], width),
        "",
        *_wrapped(f"holdfast help {family.name} COMMAND shows its options and examples.", width),
    ]


def _command_help(command: Command, width: int) -> list[str]:
    summary = command.summary[:1].upper() + command.summary[1:]
    lines = _wrapped(f"usage: {command_line(command)}", width, indent=" " * 11)
    lines += [f"       holdfast {alias}" for alias in command.aliases]
    lines += ["", *_wrapped(f"{summary}.", width), *_wrapped(command.help, width)]
    options = [(option.spelled, option.help) for option in (*command.options, *GLOBALS)]
    lines += ["", *_aligned(options, width)]
    if command.note:
        lines += ["", *_wrapped(command.note, width)]
    if command.examples:
        # Never wrapped: they are to be copied.
        lines += ["", "examples:", *(f"  {line}" for line in command.examples)]
    return lines


def command_line(command: Command) -> str:
    """The command with all its own options on one line."""
    parts = [_bracketed(option) for option in command.options]
    words = [command.words] if command.words else []
    # The command that `run` starts comes last; elsewhere the paths are what one types first.
    parts = [*parts, *words] if command.takes == "command" else [*words, *parts]
    return " ".join(["holdfast", command.name, *parts])


def _bracketed(option: Option) -> str:
    name = option.spelled.rpartition(", ")[2]
    return f"[{name}]…" if option.many else f"[{name}]"


def _aligned(rows: Sequence[tuple[str, str]], width: int, column: int = 0) -> list[str]:
    """Two columns; the second is wrapped, or on lines of its own where the screen is narrow."""
    column = column or max(wide(name) for name, _help in rows)
    beside = width - column - 4 >= _BESIDE_MIN
    indent = " " * (column + 4) if beside else " " * 6
    lines = []
    for name, help in rows:
        wrapped = _wrapped(indent + help, width, indent=indent)
        if beside:
            padding = " " * (column - wide(name))
            wrapped[0] = f"  {name}{padding}  {wrapped[0].lstrip()}"
        else:
            lines.append(f"  {name}")
        lines += wrapped
    return lines


def _wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    """A text as lines that fit, all but the first with an indentation.

    What is in brackets stays on one line: `[--ttl TIME]`.
    """
    lines: list[str] = []
    line = text[: len(text) - len(text.lstrip())]
    is_empty = True
    for word in _words(text):
        if not is_empty and wide(line) + 1 + wide(word) > width:
            lines.append(line)
            line, is_empty = indent, True
        line += word if is_empty else f" {word}"
        is_empty = False
    return [*lines, line] if not is_empty else lines


def _words(text: str) -> list[str]:
    words: list[str] = []
    for word in text.split():
        if words and words[-1].count("[") > words[-1].count("]"):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words
