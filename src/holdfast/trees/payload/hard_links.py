"""Hard links from a new snapshot to the unchanged files of the previous one.

A few links are made immediately. Many are made by another process, folder by folder, while this one
keeps comparing: then a file that could not be linked is known only at the end, and is copied then.
"""

from __future__ import annotations

import os

from holdfast.manager.helper_process import Helper, is_possible
from holdfast.trees.payload import entry_lists, linker

#: A list of this many bytes, some thousand files, justifies starting a process.
MANY_BYTES = 1 << 18
#: How many files of one folder are handed over together.
_BATCH_MAX = 1000


class Linking:
    """The links of one snapshot. In this order: `add` and `leave`, `finish`, and `close`."""

    def __init__(self, previous: str) -> None:
        """`previous` is the folder of the previous snapshot."""
        self._helper: Helper | None = None
        self._wanted: dict[int, list[tuple[str, int]]] = {}
        if is_possible() and _is_long(previous):
            self._helper = Helper(linker.__file__)

    def add(self, path: str, name: str, size: int, before: int, copy: int) -> bool:
        """Link a file, now or a little later. False if it is known to be impossible. `path` is the
        path of its folder."""
        if self._helper is None:
            return linker.link(name, size, before, copy)
        wanted = self._wanted.setdefault(copy, [])
        wanted.append((name, size))
        if len(wanted) >= _BATCH_MAX:
            self._helper.tell((path, wanted, -1), (before, copy))
            wanted.clear()
        return True

    def leave(self, path: str, mode: int, before: int, copy: int) -> None:
        """Set the mode of a complete folder, once its links are made too."""
        wanted = self._wanted.pop(copy, None)
        if self._helper is None or wanted is None:
            os.fchmod(copy, mode)
        else:
            self._helper.tell((path, wanted, mode), (before, copy))

    def finish(self) -> list[str]:
        """Wait for all links; returns the paths that could not be linked."""
        if self._helper is None:
            return []
        self._helper.tell(())
        answer: linker.Answer = self._helper.hear()
        missed, number, where = answer
        if number:
            raise OSError(number, os.strerror(number), where)
        return missed

    def close(self) -> None:
        """Stop linking."""
        if self._helper is not None:
            self._helper.close()


def _is_long(previous: str) -> bool:
    try:
        return bool(previous) and os.path.getsize(f"{previous}/{entry_lists.SOURCES}") >= MANY_BYTES
    except OSError:
        return False
