"""Whether git's hooks, or what git has committed, changed since an agent's event looked last.

Asked at every event of every agent, so by nothing but the stamps of a few files: git's settings,
its hooks, and the log in which git writes each move of HEAD. What to do then is in `hookcare`.

One text beside the ledger, written by `init` and by each look: lines of a word, a stamp and a path.
Without it there is nothing to watch.
"""

from __future__ import annotations

import os

FILE = ".holdfast/githooks"
HOOK, LOG, WORD, PROBLEM = "hook", "log", "word", "problem"
ABSENT = "absent"


def read(root: str) -> list[tuple[str, str, str]]:
    """What is known: lines of a word, a stamp and the rest."""
    try:
        descriptor = os.open(f"{root}/{FILE}", os.O_RDONLY)
    except OSError:
        return []
    try:
        data = os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return [(word, stamp, rest) for word, stamp, rest in map(_parts, lines) if word]


def _parts(line: str) -> tuple[str, str, str]:
    word, _, rest = line.partition("\t")
    stamp, _, rest = rest.partition("\t")
    return word, stamp, rest


def stamp(word: str, path: str) -> str:
    """By what a change is seen. The log is only ever added to."""
    try:
        status = os.stat(path)
    except OSError:
        return ABSENT
    if word == LOG:
        return f"{status.st_ino}.{status.st_size}"
    return f"{status.st_ino}.{status.st_size}.{status.st_mtime_ns}.{status.st_ctime_ns}"


def is_to_look(root: str, *, is_start: bool) -> bool:
    """Whether something changed; at the start of a session also whether a problem is left."""
    for word, was, rest in read(root):
        if word in (HOOK, LOG):
            if stamp(word, rest) != was:
                return True
        elif is_start and word == PROBLEM:
            return True
    return False
