"""Replacing a file: a reader finds the old content or the new content, whole.

`replace_file` writes the new content to a temporary file in the same folder and renames that over
the old file. It promises:

- Atomic: at no moment is the file missing or half written.
- A failure, a full disk included, leaves the old file as it was and no temporary file.
- Each call has a temporary name of its own and creates it exclusively, so neither another process
  nor a symbolic link can stand in for it. Of several concurrent calls the last rename wins.
- A symbolic link at the path is replaced like a file, and what it leads to is left alone. With
  `follow_link` the file that it leads to is replaced instead.

Not promised: a process that is killed in between leaves its temporary file behind.
Other hard links of the file keep the old content. Folders on the way may be symbolic links: where
an agent could plant one, `gate/replacement.py` walks the way by open folders instead.
"""

from __future__ import annotations

import os
import stat

#: The end of every temporary name. A program that lists the folder skips these.
TEMPORARY = ".tmp"

_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
_NEW: int = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _CLOEXEC | getattr(os, "O_BINARY", 0)
_FOLDER: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOEXEC
_ACCESS_LIST = "system.posix_acl_access"


def replace_file(
    path: str,
    content: bytes,
    *,
    mode: int = 0o666,
    mode_at_least: int = 0,
    like_old: bool = False,
    follow_link: bool = False,
    durable: bool = False,
    alone: bool = False,
) -> None:
    """Put content in the place of a file, or make the file. Its folder must exist. Raises OSError.

    A new file gets `mode`, less the umask, and in any case the bits of `mode_at_least`. With
    `like_old` a file that exists keeps its mode, its access list and, if the system allows, its
    owner.

    With `durable` the new content survives a power cut once this has returned; without, a power cut
    may bring back the old content, or leave none.

    With `alone` the caller holds a lock against every other writer of this file: the temporary name
    is fixed, and one that a killed process left behind is removed first.
    """
    if follow_link:
        path = os.path.realpath(path)
    old = _status(path) if like_old else None
    if alone:
        temporary = path + TEMPORARY
        _remove(temporary)
    else:
        temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}{TEMPORARY}"
    # The content of a private file must not be readable before the file has its mode.
    file = os.open(temporary, _NEW, mode if old is None else 0o600)
    try:
        try:
            write_all(file, content)
            if mode_at_least and hasattr(os, "fchmod"):
                os.fchmod(file, stat.S_IMODE(os.fstat(file).st_mode) | mode_at_least)
            if old is not None:
                _copy_marks(path, old, file)
            if durable:
                os.fsync(file)
        finally:
            os.close(file)
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise
    if durable:
        _sync(os.path.dirname(path) or ".")


def write_all(file: int, content: bytes) -> None:
    """Write all of it, however little the system accepts at a time."""
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]


def copy_attributes(source: int, target: int) -> None:
    """Give one open file the access list and the user attributes of another."""
    if not hasattr(os, "listxattr"):
        return
    from errno import ENODATA, ENOTSUP, EPERM

    try:
        for attribute in os.listxattr(source):
            if attribute == _ACCESS_LIST or attribute.startswith("user."):
                os.setxattr(target, attribute, os.getxattr(source, attribute))
    except OSError as error:
        if error.errno not in (ENOTSUP, EPERM, ENODATA):
            raise


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _copy_marks(path: str, old: os.stat_result, file: int) -> None:
    if not hasattr(os, "fchmod"):
        return
    try:
        os.fchown(file, old.st_uid, old.st_gid)
    except PermissionError:
        pass
    os.fchmod(file, stat.S_IMODE(old.st_mode))  # last: a change of owner clears bits
    try:
        source = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _CLOEXEC)
    except (PermissionError, FileNotFoundError):  # unreadable, or deleted by another process
        return
    try:
        copy_attributes(source, file)
    finally:
        os.close(source)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _sync(folder: str) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return
    from errno import EBADF, EINVAL, ENOTSUP

    try:
        file = os.open(folder, _FOLDER)
    except PermissionError:  # a folder may permit new files and not be readable
        return
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (EBADF, EINVAL, ENOTSUP):  # these: it cannot sync folders at all
            raise
    finally:
        os.close(file)
