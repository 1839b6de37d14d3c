"""Which command a client's line runs, and how a line is quoted.

Claude Code wraps the command of its Bash tool: it prepares the shell (a snapshot of the user's
aliases and functions), evaluates the command, and then records the folder in which it ended.

    source …/snapshot-zsh-….sh 2>/dev/null || true && … && eval 'COMMAND' < /dev/null && pwd -P >| …

The preparation may evaluate something too: hooks of a session can add shell code to it. So the
command is the last part that is evaluated before the folder is recorded.
"""

from __future__ import annotations

_EVALUATES = " && eval "
_NO_INPUT = " < /dev/null"
_WRITES_FOLDER = " && pwd -P >| "
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@%+,:")


def evaluated(line: str) -> str:
    """The command that a line of Claude Code's Bash tool evaluates; empty for any other line."""
    first = ""
    at = line.find(_EVALUATES)
    while at >= 0:
        word, rest = first_word(line[at + len(_EVALUATES) :])
        if _only_writes_folder(rest):
            return word
        first = first or word
        at = line.find(_EVALUATES, at + 1)
    return first


def _only_writes_folder(rest: str) -> bool:
    end = rest.removeprefix(_NO_INPUT)
    return end.startswith(_WRITES_FOLDER) and not first_word(end[len(_WRITES_FOLDER) :])[1]


def quoted(word: str) -> str:
    """A word, quoted for any shell."""
    if word and word.isascii() and _PLAIN.issuperset(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def first_word(text: str) -> tuple[str, str]:
    """The first word of a text, as a shell reads it, and the rest. Without expansions."""
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
