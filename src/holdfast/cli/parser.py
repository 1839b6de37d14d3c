"""Reads a command line.

Options and paths may be in any order, and global options also before the command. Words after `--`
are never options. `run` is different: the first word that is not an option begins the command that
it runs, and all words from there on belong to that command.

Written by hand because the standard library's parser takes as long to import as a lock takes,
cannot mix options with several words, and would swallow a path after a bare `--wait`.
"""

from __future__ import annotations

from holdfast.cli.commands import (
    COMMANDS,
    FAMILIES,
    GLOBALS,
    HELP,
    OVERVIEW,
    VERSION,
    Command,
    Option,
)
from holdfast.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: Stands for a wait without a limit.
FOREVER_SECONDS = 10 * 366 * 86400.0

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class UsageError(InvalidInput):
    """A command line that cannot be right."""

    code = "E_USAGE"


class Call:
    """One command line, parsed."""

    __slots__ = ("_values", "command", "words")

    def __init__(
        self, command: Command, words: list[str], values: dict[str, list[str | None]]
    ) -> None:
        self.command: Final = command
        self.words: Final = words
        self._values = values

    def flag(self, name: str) -> bool:
        """Whether an option was given."""
        return name in self._values

    def text(self, name: str) -> str | None:
        """The value of an option; the last one if it was given several times."""
        values = self._values.get(name)
        return values[-1] if values else None

    def many(self, name: str) -> list[str]:
        """All values of an option."""
        return [value for value in self._values.get(name, ()) if value is not None]

    def number(self, name: str) -> int | None:
        """The value of an option as a whole number."""
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise UsageError(f"--{name} {text!r} is not a number", hint="give a whole number")
        return int(text)

    def ttl(self, default: float | None) -> float | None:
        """The ttl in seconds; None for no end."""
        text = self.text("ttl")
        if text is None:
            return default
        return None if text == "none" else duration(text, "--ttl")

    def wait(self) -> float | None:
        """How long to wait, in seconds; None if not at all."""
        if not self.flag("wait"):
            return None
        text = self.text("wait")
        return FOREVER_SECONDS if text is None else duration(text, "--wait")


def duration(text: str, source: str = "") -> float:
    """The seconds that a text like `90s`, `30m`, `2h`, `1d` or `45` means."""
    seconds = _duration(text)
    if seconds is None:
        raise UsageError(
            f"{source} {text!r} is not a duration".strip(),
            hint="give seconds, or a number with s, m, h or d: 90s, 30m, 2h, 1d",
        )
    return seconds


def _duration(text: str) -> float | None:
    unit = _UNITS.get(text[-1:], 0)
    number = text[:-1] if unit else text
    whole, _, part = number.partition(".")
    # Not just float(): that takes "nan", "1e999" and digits of other scripts.
    if not (number.isascii() and whole.isdigit() and len(number) < 12):
        return None
    if "." in number and not part.isdigit():
        return None
    return min(float(number) * (unit or 1), FOREVER_SECONDS)


def wants_json(words: list[str]) -> bool:
    """Whether a line requests JSON, guessed before it is parsed, since it may be wrong."""
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def parse(words: list[str]) -> Call:
    """Parse a command line. Raises UsageError."""
    line = _Line(words)
    line.read_options(GLOBALS, stop_at_word=True)
    name = line.next_word()
    if name is None:
        if "version" in line.values:
            return Call(VERSION, [], line.values)
        if "help" in line.values:
            return Call(HELP, [], line.values)
        return Call(OVERVIEW, [], line.values)
    if name == "help":
        return _help_call(line)
    command = _command(name, line)
    if command is HELP:
        return Call(HELP, [name], line.values)
    line.read_options((*command.options, *GLOBALS), stop_at_word=command.takes == "command")
    if "help" in line.values:
        return Call(HELP, [command.name], line.values)
    if "version" in line.values:
        return Call(VERSION, [], line.values)
    found = line.rest()
    if found and not command.takes:
        raise UsageError(
            f"{command.name} takes no {found[0]!r}", hint=f"holdfast {command.name} --help"
        )
    return Call(command, found, line.values)


def _help_call(line: _Line) -> Call:
    """`help`, which is `--help` with the name of a command, if any, behind it."""
    line.read_options(GLOBALS, stop_at_word=True)
    name = line.next_word()
    if name is None:
        return Call(HELP, ["help"] if "help" in line.values else [], line.values)
    line.values["help"] = [None]
    command = _command(name, line)
    line.read_options(GLOBALS, stop_at_word=False)
    return Call(HELP, [name if command is HELP else command.name], line.values)


def _command(name: str, line: _Line) -> Command:
    """The command of that name; in a family, the one that the next words name."""
    for command in COMMANDS:
        if name == command.name or name in command.aliases:
            return command
    for family in FAMILIES:
        if family.name == name:
            return _relative(name, family.commands, line)
    from holdfast.cli.suggestions import command_hint

    raise UsageError(f"there is no command {name!r}", hint=command_hint(name))


def _relative(name: str, commands: tuple[Command, ...], line: _Line) -> Command:
    """The command of a family whose name, word by word, comes next; HELP for the whole family."""
    family = name
    names = {command.name: command for command in commands}
    while True:
        line.read_options(GLOBALS, stop_at_word=True)
        word = line.next_word()
        if word is None and "help" in line.values:
            return HELP
        if word == "help":
            line.values["help"] = [None]
            continue
        if word is None:
            raise UsageError(f"{name} needs one more word", hint=f"holdfast help {family}")
        longer = f"{name} {word}"
        if longer in names:
            return names[longer]
        if not any(one.startswith(f"{longer} ") for one in names):
            from holdfast.cli.suggestions import relative_hint

            raise UsageError(
                f"there is no command {longer!r}", hint=relative_hint(longer, family, names)
            )
        name = longer


class _Line:
    """The words of a line, and how many of them have been read."""

    def __init__(self, words: list[str]) -> None:
        self.values: dict[str, list[str | None]] = {}
        self._words = words
        self._at = 0
        self._found: list[str] = []

    def next_word(self) -> str | None:
        """The next word, whatever it is; None at the end."""
        if self._at >= len(self._words):
            return None
        self._at += 1
        return self._words[self._at - 1]

    def rest(self) -> list[str]:
        """All words that are neither options nor values of options."""
        return self._found + self._words[self._at :]

    def read_options(self, options: tuple[Option, ...], *, stop_at_word: bool) -> None:
        """Read options up to `--`, or up to the first other word."""
        while (word := self.next_word()) is not None:
            if word == "--":
                return
            if word.startswith("-") and word != "-":
                self._read_option(word, options)
            elif stop_at_word:
                self._at -= 1
                return
            else:
                self._found.append(word)

    def _read_option(self, word: str, options: tuple[Option, ...]) -> None:
        name, equals, value = word.partition("=")
        for option in options:
            if option.name and name == f"--{option.name}":
                return self._read_value(option, name, value if equals else None)
            if option.short and word.startswith(option.short):
                value = word[2:]
                if option.placeholder or not value:
                    return self._read_value(option, option.short, value or None)
        from holdfast.cli.suggestions import option_hint

        raise UsageError(f"there is no option {name}", hint=option_hint(word, options))

    def _read_value(self, option: Option, name: str, value: str | None) -> None:
        if not option.placeholder:
            if value is not None:
                raise UsageError(f"{name} takes no value", hint=f"write just {name}")
        elif value is None and option.maybe:
            # A path may follow, so only a word that parses as a time is the value.
            if self._at < len(self._words) and _duration(self._words[self._at]) is not None:
                value = self.next_word()
        elif value is None:
            value = self.next_word()
            if value is None or value.startswith("--"):
                raise UsageError(
                    f"{name} needs a value",
                    hint=f"write {name} {option.placeholder}, or {name}={option.placeholder} "
                    "if it begins with two dashes",
                )
        self.values.setdefault(option.name or option.short, []).append(value)
