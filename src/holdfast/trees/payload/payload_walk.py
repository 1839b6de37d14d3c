"""Walking a payload: every entry once, in one fixed order, with very little memory.

The walk opens each folder from the one above it and never through a link, so nothing leads out of
the tree, whatever is swapped meanwhile. Within a folder, names are sorted, and a folder comes
before its content: two walks of one tree have the same order, and so have the lists written in one.
Only the names of the open folders are in memory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from holdfast.trees import repository, tree_files, worktrees
from holdfast.trees.errors import BadTreeError, shown

FOLDER = "folder"
FILE = "file"
LINK = "link"
FIFO = "fifo"
SOCKET = "socket"
DEVICE = "device"
#: The entry disappeared during the walk.
GONE = "gone"
#: The end of a folder.
LEFT = "left"

_KINDS = {
    stat.S_IFDIR: FOLDER, stat.S_IFREG: FILE, stat.S_IFLNK: LINK, stat.S_IFIFO: FIFO,
    stat.S_IFSOCK: SOCKET, stat.S_IFCHR: DEVICE, stat.S_IFBLK: DEVICE,
}  # fmt: skip
_KIND_BITS = 0o170000


class Entry:
    """One entry of a payload. `folder` is the open folder around it; for a folder, itself."""

    __slots__ = ("folder", "kind", "name", "path", "status")

    def __init__(
        self, kind: str, path: str, name: str, folder: int, status: os.stat_result | None
    ) -> None:
        self.kind = kind
        self.path = path
        self.name = name
        self.folder = folder
        self.status = status


def order(path: str) -> list[str]:
    """The sort key of a path in the order of the walk."""
    return path.split("/") if path else []


def walk(
    root: str, *, is_payload: bool = True, without: frozenset[str] = frozenset()
) -> Iterator[Entry]:
    """Every entry of a folder: first the folder itself, with an empty path, and at the end as LEFT.

    In a payload, `.jvs-worktree` at the top is left out, and any other control file is refused.
    The names in `without` are left out at the top as well.
    """
    top = os.open(root, tree_files.FOLDER)
    way = [("", top, iter(_names(top)))]
    try:
        status = os.fstat(top)
        device = status.st_dev
        yield Entry(FOLDER, "", "", top, status)
        while way:
            path, folder, left = way[-1]
            name = next(left, None)
            if name is None:
                yield Entry(LEFT, path, path.rpartition("/")[2], folder, None)
                way.pop()
                os.close(folder)
                continue
            if not path and name in without:
                continue
            if is_payload and name in _OURS:
                if name == worktrees.CONTROL and not path:
                    continue
                raise _refused(f"{path}/{name}" if path else name)
            entry = _look(f"{path}/{name}" if path else name, name, folder)
            if entry.kind == FOLDER:
                _refuse_mount(entry, device)
                way.append((entry.path, entry.folder, iter(_names(entry.folder))))
            yield entry
    finally:
        for _path, folder, _left in way:
            os.close(folder)


_OURS = frozenset((repository.CONTROL, worktrees.CONTROL))


def _names(folder: int) -> list[str]:
    return sorted(os.listdir(folder))


def _look(path: str, name: str, folder: int) -> Entry:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        kind = _KINDS[status.st_mode & _KIND_BITS]
        if kind != FOLDER:
            return Entry(kind, path, name, folder, status)
        opened = os.open(name, tree_files.FOLDER, dir_fd=folder)
        return Entry(FOLDER, path, name, opened, os.fstat(opened))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # swapped meanwhile
            return Entry(GONE, path, name, folder, None)
        error.filename = path
        raise


def _refuse_mount(entry: Entry, device: int) -> None:
    if entry.status is not None and entry.status.st_dev != device:
        os.close(entry.folder)
        raise BadTreeError(
            f"{shown(entry.path)} is another file system, mounted into the tree",
            hint="unmount it, or keep it outside of the worktree",
            path=shown(entry.path),
        )


def _refused(path: str) -> BadTreeError:
    return BadTreeError(
        f"{shown(path)} in the payload has a name that is reserved for holdfast",
        hint="rename it or move it out of the worktree; a payload cannot contain a repository",
        path=shown(path),
    )
