"""The line that runs in place of a command: the launcher with the command, and the command again.

    PYTHON -I -S …/gate/sandbox/launch.py 'COMMAND' ROOT PATH…
    \\exit
    COMMAND

The command is not hidden in the line: clients judge lines by the commands that they see in them,
so what the user has forbidden stays forbidden, and what the user has allowed is. It is never
reached there, and the launcher runs nothing that does not stand there. There is no variable in our
part, for a line with one cannot be judged beforehand.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: The folder of this package, whether it was imported or bundled.
LAUNCHER = f"{__file__.rpartition('/')[0]}/launch.py"
_END = "\n\\exit\n"
#: What one word of a command may have in this system, with room for what the client adds.
BYTES_MAX = 120_000
#: What clients write with more characters when they hand a line to a shell.
_WRITTEN_LONGER = "'\"\\$`!"


def line(command: str, root: str, paths: Iterable[str]) -> str:
    """The line for a command that must not write these paths of a tree."""
    return _written([sys.executable, "-I", "-S", LAUNCHER, command, root, *paths], command)


def _written(words: Iterable[str], command: str) -> str:
    return f"{' '.join(map(quoted, words))}{_END}{command}\n"


def is_too_long(text: str) -> bool:
    """Whether a shell might not take a line."""
    longer = sum(map(text.count, _WRITTEN_LONGER))
    return len(text.encode("utf-8", "surrogatepass")) + 4 * longer > BYTES_MAX


def command_of(text: str) -> str | None:
    """The command that such a line runs; None if it is any other line.

    It is one only if it is exactly what we would write: the launcher would run for anybody what
    the client has not seen.
    """
    words: list[str] = []
    rest = f" {text}"
    while rest.startswith(" "):
        word, rest = first_word(rest[1:])
        words.append(word)
    if words[3:4] != [LAUNCHER] or len(words) < 6:
        return None
    written = _written(words, words[4])
    return words[4] if text == written else None


def quoted(word: str) -> str:
    """A word as any shell reads it back."""
    if word and word.isascii() and _PLAIN.issuperset(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@%+,:")


def first_word(text: str) -> tuple[str, str]:
    """The word that a text begins with, as a shell reads it, and the rest. No expansions."""
    made: list[str] = []
    at = 0
    while at < len(text) and text[at] not in " \t\n;&|<>()":
        mark = text[at]
        if mark == "'":
            end = text.find("'", at + 1)
            end = len(text) if end < 0 else end
            made.append(text[at + 1 : end])
            at = end + 1
        elif mark == '"':
            at += 1
            while at < len(text) and text[at] != '"':
                if text[at] == "\\" and text[at + 1 : at + 2] in ("\\", '"', "$", "`", "!"):
                    at += 1
                made.append(text[at : at + 1])
                at += 1
            at += 1
        elif mark == "\\":
            made.append(text[at + 1 : at + 2])
            at += 2
        else:
            made.append(mark)
            at += 1
    return "".join(made), text[at:]
