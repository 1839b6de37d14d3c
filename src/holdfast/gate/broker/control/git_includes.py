"""Files in a work tree that git's settings include: their content is part of the settings."""

from __future__ import annotations

import os
from time import monotonic

from holdfast.gate.guard.git_queries import GIT_SECONDS, Git

_WANTED = r"^include(if\..*)?\.path$"
_FILE = "file:"


def included(root: str) -> frozenset[str]:
    """The real paths of the files that the settings of a repository include, whether they exist or
    not. Git is asked only if its settings contain the word."""
    try:
        with open(f"{root}/.git/config", "rb") as file:
            if b"include" not in file.read():
                return frozenset()
    except OSError:
        pass  # a linked worktree, or a bare repository
    asked = ("config", "--includes", "--show-origin", "--null", "--get-regexp", _WANTED)
    answer = Git(root, monotonic() + GIT_SECONDS).ask(*asked, codes=(0, 1))
    words = os.fsdecode(answer or b"").split("\0")
    found = set()
    for origin, setting in zip(words[::2], words[1::2], strict=False):
        path = os.path.expanduser(setting.partition("\n")[2])
        beside = os.path.join(root, origin.removeprefix(_FILE))
        found.add(os.path.realpath(os.path.join(os.path.dirname(beside), path)))
    return frozenset(found)
