"""Small files written whole or not at all, and folders that go away whole."""

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

#: What the name of a file or a folder ends with that is not finished.
UNFINISHED = TEMPORARY

#: No control file is longer, but for manifests and the audit log, which are read line by line.
SMALL_BYTES_MAX = 16 << 20
#: So often a folder may have something in it again when it is to be removed.
_REFILLED_MAX = 10_000


def canonical(value: Any) -> bytes:
    """The one way to write a value as JSON that checksums are made of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def checksum(data: bytes) -> str:
    """What stands for the data."""
    return hashlib.sha256(data).hexdigest()


def pretty(value: Any) -> bytes:
    """A value as JSON for people who look into the files."""
    return json.dumps(value, indent=2).encode("ascii") + b"\n"


def read(path: str) -> bytes:
    """The whole of a small file, which is never a link."""
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
    """The fields in a small file. Raises ValueError if there is anything else in it."""
    value = json.loads(read(path))
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def replace(path: str, data: bytes) -> None:
    """Put new content in a file's place, on the disk when this returns. The caller holds a lock
    against other writers of the file: the temporary name is fixed, see `alone`."""
    replace_file(path, data, durable=True, alone=True)


def write_new(path: str, data: bytes) -> None:
    """Make a file and see that it is on the disk. Its name is not yet, before the folder is."""
    descriptor = os.open(path, NEW, 0o666)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(path: str) -> None:
    """See that the names in a folder are on the disk."""
    descriptor = os.open(path, FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def opened(root: str, path: str) -> Iterator[int]:
    """An open folder below another, on the way to which nothing is a link."""
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
    """A file below a folder, to be read, on the way to which nothing is a link."""
    above, _slash, name = path.rpartition("/")
    with opened(root, above) as folder, os.fdopen(os.open(name, READ, dir_fd=folder), "rb") as file:
        yield file


def remove(path: str) -> bool:
    """Remove a file if it is there. Whether it was."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def remove_tree(path: str) -> bool:
    """Remove a folder and all in it, also what is read-only. Whether it was there.

    By open folders, so it follows no link; without recursion, for it may be deeper than the stack.
    Somebody may put something into it meanwhile, but not for ever: see `linker`.
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
    """Open a folder for emptying. Something else of that name is removed instead."""
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
    """Remove what is in a folder up to the first folder in it, whose name is returned."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                return entry.name
            os.unlink(entry.name, dir_fd=folder)
    return None
