"""Small files written atomically, and folders removed whole."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from holdfast.manager.files.replace_file import TEMPORARY, replace_file, write_all

_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
FOLDER: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW | _CLOEXEC
READ: int = os.O_RDONLY | _NOFOLLOW | _CLOEXEC | getattr(os, "O_NONBLOCK", 0)
NEW: int = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _CLOEXEC

#: The end of the name of an unfinished file or folder.
UNFINISHED = TEMPORARY

#: No control file is longer, except manifests and the audit log, which are read line by line.
SMALL_BYTES_MAX = 16 << 20
#: How often a folder may be found non-empty again when it is removed.
_REFILLED_MAX = 10_000


def canonical(value: Any) -> bytes:
    """The canonical JSON of a value, over which checksums are computed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def checksum(data: bytes) -> str:
    """The checksum of the data."""
    return hashlib.sha256(data).hexdigest()


def pretty(value: Any) -> bytes:
    """A value as JSON that people can read in the files."""
    return json.dumps(value, indent=2).encode("ascii") + b"\n"


def read(path: str) -> bytes:
    """The content of a small file, which must not be a link."""
    descriptor = os.open(path, READ)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a regular file")
        parts = []
        left = SMALL_BYTES_MAX + 1
        while left > 0 and (part := os.read(descriptor, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        if left <= 0:
            raise ValueError("far too long")
        return b"".join(parts)
    finally:
        os.close(descriptor)


def read_json(path: str) -> dict[str, Any]:
    """The fields in a small file. Raises ValueError for any other content."""
    value = json.loads(read(path))
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def replace(path: str, data: bytes) -> None:
    """Put new content in a file's place, on the disk when this returns. The caller holds a lock
    against other writers of the file: the temporary name is fixed, see `alone`."""
    replace_file(path, data, durable=True, alone=True)


def write_new(path: str, data: bytes) -> None:
    """Create a file and flush it. Its name is on the disk only after a flush of the folder."""
    descriptor = os.open(path, NEW, 0o666)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(path: str) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(path, FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def opened(root: str, path: str) -> Iterator[int]:
    """An open folder below another, reached without following links."""
    descriptor = os.open(root, FOLDER)
    try:
        for part in path.split("/") if path else ():
            below = os.open(part, FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_file(root: str, path: str) -> Iterator[BinaryIO]:
    """A file below a folder, open for reading, reached without following links."""
    above, _slash, name = path.rpartition("/")
    with opened(root, above) as folder, os.fdopen(os.open(name, READ, dir_fd=folder), "rb") as file:
        yield file


def remove(path: str) -> bool:
    """Remove a file. Returns whether it existed."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def remove_tree(path: str) -> bool:
    """Remove a folder and its content, even if read-only. Returns whether it existed.

    It works through open folders, so it follows no link, and without recursion, because the tree
    may be deeper than the stack. Another process may still add entries, but not forever: see
    `linker`.
    """
    try:
        above = os.open(os.path.dirname(path), FOLDER)
    except FileNotFoundError:
        return False
    way = [above]
    names = [os.path.basename(path)]
    patience = _REFILLED_MAX
    try:
        if not _enter(way, names[0]):
            return False
        while len(way) > 1:
            below = _clear(way[-1])
            if below is not None:
                if _enter(way, below):
                    names.append(below)
                continue
            try:
                os.rmdir(names[-1], dir_fd=way[-2])
            except OSError as error:
                patience -= 1
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not patience:
                    raise
                continue
            os.close(way.pop())
            names.pop()
    finally:
        for descriptor in way:
            os.close(descriptor)
    return True


def _enter(way: list[int], name: str) -> bool:
    """Open a folder in order to empty it. Anything else of that name is removed."""
    try:
        descriptor = _open_to_empty(way[-1], name)
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        os.unlink(name, dir_fd=way[-1])
        return False
    way.append(descriptor)
    return True


def _open_to_empty(above: int, name: str) -> int:
    try:
        descriptor = os.open(name, FOLDER, dir_fd=above)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=above)
        descriptor = os.open(name, FOLDER, dir_fd=above)
    except OSError as error:
        if not stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            raise
        raise NotADirectoryError(str(error)) from error
    if os.fstat(descriptor).st_mode & 0o700 != 0o700:
        os.fchmod(descriptor, 0o700)
    return descriptor


def _clear(folder: int) -> str | None:
    """Remove the entries of a folder up to its first subfolder, whose name is returned."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                return entry.name
            os.unlink(entry.name, dir_fd=folder)
    return None
