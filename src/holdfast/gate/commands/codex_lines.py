"""The line that Codex runs in place of a command: our program, and the command again.

    PYTHON -I -S …/gate/commands/prefixed.py codex FOLDER 'COMMAND'
    \\exit
    COMMAND

The command is not hidden in the line: Codex judges lines by the commands that it sees in them, so
what the user has forbidden stays forbidden, and what the user has allowed is. It is never reached
there, and our program runs nothing that does not stand there. There is no variable in our part, for
a line with one cannot be judged beforehand.
"""

from __future__ import annotations

import sys

from holdfast.gate.commands.shell_lines import first_word, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

CODEX = "codex"
#: The folder of this package, whether it was imported or bundled.
PROGRAM = f"{__file__.rpartition('/')[0]}/prefixed.py"
_END = "\n\\exit\n"
#: What one word of a command may have in this system, with room for what the client adds.
BYTES_MAX = 120_000
#: What clients write with more characters when they hand a line to a shell.
_WRITTEN_LONGER = "'\"\\$`!"


def line(command: str, folder: str) -> str:
    """The line for a command whose slip lies in the folder of a ledger."""
    return _written([sys.executable, "-I", "-S", PROGRAM, CODEX, folder, command], command)


def _written(words: Iterable[str], command: str) -> str:
    return f"{' '.join(map(quoted, words))}{_END}{command}\n"


def is_too_long(text: str) -> bool:
    """Whether a shell might not take a line."""
    longer = sum(map(text.count, _WRITTEN_LONGER))
    return len(text.encode("utf-8", "surrogatepass")) + 4 * longer > BYTES_MAX


def command_of(text: str) -> str | None:
    """The command that such a line runs; None if it is any other line.

    It is one only if it is exactly what we would write: otherwise our program would run what the
    client has not seen.
    """
    words: list[str] = []
    rest = f" {text}"
    while rest.startswith(" "):
        word, rest = first_word(rest[1:])
        words.append(word)
    if words[3:5] != [PROGRAM, CODEX] or len(words) != 7:
        return None
    written = _written(words, words[6])
    return words[6] if text == written else None
