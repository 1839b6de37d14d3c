"""Whether git's hooks, or what git has committed, changed since an agent's event looked last.

Asked at every event of every agent, so by nothing but the times of a few files: git's settings, its
hooks, and the log in which git writes each move of HEAD. What to do then is in `hookcare`.

One text beside the ledger, written by `init` and by each look. Its first line has the files' paths,
the second their stamps, both with tabs between. The others are what `hookcare` remembers. Without
it there is nothing to watch.
"""

from __future__ import annotations

import os

FILE = ".holdfast/githooks"
ABSENT = "-"
#: How the logs of HEAD end, one in each checkout.
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
    """By what a change of these files is seen. A log is only ever added to."""
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
    """Whether something changed; at the start of a session also whether a problem is left."""
    text = read(root)
    if not text:
        return False
    paths, was, rest = text.split("\n", 2)
    return stamps(paths) != was or (is_start and rest.startswith("problem"))
