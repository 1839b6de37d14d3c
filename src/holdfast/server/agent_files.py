"""The output of agents and the diffs of tasks, on disk.

A request names a log by item and phase, never by a path: any other name is refused, and no link is
followed.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
from typing import Any

from holdfast.server.access_control import WebError
from holdfast.work.launching.run_folders import Run
from holdfast.work.tasks.task_changes import PATCH

#: How much is read at a time.
CHUNK_BYTES = 256 << 10

_ITEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
_LOG = re.compile(r"[a-z]{1,20}(\.try[0-9]{1,4})?(-[0-9]{1,4})?\.log")


class NotThereError(WebError):
    """There is nothing of that name."""

    status = 404
    code = "E_NOT_FOUND"


def logs(root: str, item: str) -> list[dict[str, Any]]:
    """The logs of one item, the oldest first."""
    folder = _folder(root, item)
    found = []
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return []
    for entry in entries:
        if _LOG.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
            status = entry.stat(follow_symlinks=False)
            found.append((status.st_mtime_ns, {"name": entry.name, "size": status.st_size}))
    return [data for _time, data in sorted(found, key=lambda pair: pair[0])]


class Kept:
    """One file of an item, which can be read from any offset, also while it grows."""

    def __init__(self, root: str, item: str, name: str) -> None:
        """Raises NotThereError."""
        path = f"{_folder(root, item)}/{name}"
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            self._file = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise _missing(name) from error
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            self.close()
            raise _missing(name)

    def close(self) -> None:
        os.close(self._file)

    @property
    def size(self) -> int:
        return os.fstat(self._file).st_size

    def read(self, offset: int, *, is_whole: bool = True) -> tuple[str, int]:
        """The text at an offset, and the next offset. Bytes that are not UTF-8 are replaced; an
        incomplete character at the end is left for later, unless the file `is_whole`."""
        size = self.size
        if offset >= size:
            return "", size if offset > size else offset
        os.lseek(self._file, offset, os.SEEK_SET)
        data = os.read(self._file, CHUNK_BYTES)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data, is_whole and offset + len(data) >= size)
        return text, offset + len(data) - len(decoder.getstate()[0])


class Log(Kept):
    """The output of an agent or a check."""

    def __init__(self, root: str, item: str, name: str) -> None:
        """Raises NotThereError."""
        if not _LOG.fullmatch(name):
            raise _missing(name)
        super().__init__(root, item, name)


class Patch(Kept):
    """The diff of a task."""

    def __init__(self, root: str, item: str) -> None:
        """Raises NotThereError."""
        super().__init__(root, item, PATCH)


def size_of_patch(root: str, item: str) -> int | None:
    """The size of an item's patch; None if there is none."""
    try:
        patch = Patch(root, item)
    except NotThereError:
        return None
    try:
        return patch.size
    finally:
        patch.close()


def _folder(root: str, item: str) -> str:
    if not _ITEM.fullmatch(item) or ".." in item:
        raise _missing(item)
    folder = Run(root, item).folder
    if os.path.realpath(folder) != f"{os.path.realpath(root)}/{folder[len(root) + 1 :]}":
        raise _missing(item)
    return folder


def _missing(name: str) -> NotThereError:
    return NotThereError(
        f"there is no output {name[:100]!r}", hint="GET /api/items/ITEM lists its logs"
    )
