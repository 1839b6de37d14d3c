"""Whether git's hooks, or its commits, changed since an agent's event last checked them.

Every event of every agent asks this, so only the times of a few files are read: git's settings, its
hooks, and the log in which git records each move of HEAD. `hook_repair` handles a change.

The state is one text beside the ledger, written by `init` and by each check. Its first line has the
files' paths, the second their stamps, both separated by tabs. The other lines belong to
`hook_repair`. Without the text nothing is watched.
"""

from __future__ import annotations

import os

FILE = ".holdfast/githooks"
ABSENT = "-"
#: How the paths of the logs of HEAD end, one for each checkout.
LOG = "/logs/HEAD"
_BYTES_MAX = 1 << 16


def read(root: str) -> str:
    """The text; empty if there is none."""
    try:
        descriptor = os.open(f"{root}/{FILE}", os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _BYTES_MAX).decode("utf-8", "surrogateescape")
    finally:
        os.close(descriptor)


def stamps(paths: str) -> str:
    """Stamps that reveal a change of these files. Git only appends to a log."""
    found = []
    stat = os.stat
    for path in paths.split("\t"):
        try:
            status = stat(path)
        except OSError:
            found.append(ABSENT)
            continue
        found.append(
            f"{status.st_ino}.{status.st_size}" if path.endswith(LOG) else str(status.st_ctime_ns)
        )
    return "\t".join(found)


def is_to_look(root: str, *, is_start: bool) -> bool:
    """Whether something changed; at the start of a session also whether a problem remains."""
    text = read(root)
    if not text:
        return False
    paths, was, rest = text.split("\n", 2)
    return stamps(paths) != was or (is_start and rest.startswith("problem"))
