"""The line that Codex runs in place of a command: our program, and the command again.

    PYTHON -I -S …/gate/commands/prefixed.py codex FOLDER 'COMMAND'
    \\exit
    COMMAND

The command stays visible in the line: Codex judges a line by the commands in it, so commands that
the user has forbidden or allowed are still forbidden or allowed. The second copy is never reached,
and our program runs only the command that it shows. Our part contains no variable, because Codex
cannot judge a line with one in advance.
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
#: The longest word of a command on this system, with room for the client's additions.
BYTES_MAX = 120_000
#: Characters that become longer when a client quotes a line for a shell.
_WRITTEN_LONGER = "'\"\\$`!"


def line(command: str, folder: str) -> str:
    """The line for a command whose slip is in the folder of a ledger."""
    return _written([sys.executable, "-I", "-S", PROGRAM, CODEX, folder, command], command)


def _written(words: Iterable[str], command: str) -> str:
    return f"{' '.join(map(quoted, words))}{_END}{command}\n"


def is_too_long(text: str) -> bool:
    """Whether a shell might refuse a line because of its length."""
    longer = sum(map(text.count, _WRITTEN_LONGER))
    return len(text.encode("utf-8", "surrogatepass")) + 4 * longer > BYTES_MAX


def command_of(text: str) -> str | None:
    """The command that such a line runs; None for any other line.

    The line must be exactly what we would write: otherwise our program might run a command that the
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
