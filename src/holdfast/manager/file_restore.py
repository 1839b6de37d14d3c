"""One file, as it is now and as it was: copied, compared, put back.

What was kept of a file is a dictionary: `kind` is FILE (with `copy`, `mode`, `inode`, `owner` and
`attributes`), LINK (with `to`), NONE (it was not there; `made` are the folders that were not there
either), FOLDER (a folder that was not there) or OTHER (a pipe, a socket: nothing of it can be put
back). The theory is in `holdfast.manager.keepsakes`.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

FILE, LINK, NONE, FOLDER, OTHER = "file", "link", "none", "folder", "other"
_CHUNK = 1 << 20
IN_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NOT_IN_ONE_STEP = (errno.EXDEV, errno.ENOSPC, errno.EDQUOT)


class Copies:
    """The copies of files below one root: `before` has them as they were, `left` what an attempt
    that was undone had made of them."""

    def __init__(self, root: str, before: str, left: str) -> None:
        self._root = root
        self._before = before
        self._left = left

    def copy(self, at: str, number: int) -> dict[str, Any]:
        """Keep what is there now. On disk when it returns. Raises OSError."""
        full = os.path.join(self._root, at)
        try:
            now = os.lstat(full)
        except (FileNotFoundError, NotADirectoryError):
            return {"kind": NONE, "made": missing_folders(self._root, at)}
        if stat.S_ISLNK(now.st_mode):
            return {"kind": LINK, "to": os.readlink(full)}
        if stat.S_ISDIR(now.st_mode):
            raise OSError(errno.EISDIR, "it is a folder", full)
        if not stat.S_ISREG(now.st_mode):
            return {"kind": OTHER}
        source = os.open(full, os.O_RDONLY | _NO_LINK)
        try:
            copy = f"{self._before}/{number}"
            target = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                pour(source, target)
                attributes = _attributes(source)
                os.fsync(target)
            finally:
                os.close(target)
        finally:
            os.close(source)
        return {
            "kind": FILE, "copy": str(number), "mode": stat.S_IMODE(now.st_mode),
            "inode": now.st_ino, "owner": [now.st_uid, now.st_gid], "attributes": attributes,
        }  # fmt: skip

    def put_back(self, at: str, was: dict[str, Any]) -> bool:
        """Make a file what it was. Whether it was changed. Raises OSError."""
        if was["kind"] in (FOLDER, OTHER):
            return False
        folder = _folder_of(self._root, at, make=was["kind"] != NONE)
        return folder >= 0 and self._restore_in(folder, at, was)

    def remove_folders(self, paths: Iterable[str]) -> None:
        """Remove folders that were not there before, if they are empty; the innermost first."""
        for path in sorted(set(paths), key=len, reverse=True):
            with suppress(OSError):  # another file came to be in it, or it is gone already
                os.rmdir(os.path.join(self._root, path))

    def _restore_in(self, folder: int, at: str, was: dict[str, Any]) -> bool:
        try:
            name = os.path.basename(at)
            now = _look(name, folder)
            if was["kind"] == FILE:
                is_changed = self._restore_file(at, was, folder, now)
            elif was["kind"] == LINK:
                is_changed = self._restore_link(at, was["to"], folder, now)
            else:
                is_changed = now is not None
                if now is not None:
                    self._clear(at, folder, now)
            if is_changed:
                os.fsync(folder)
            return is_changed
        finally:
            os.close(folder)

    def _restore_link(self, at: str, to: str, folder: int, now: os.stat_result | None) -> bool:
        name = os.path.basename(at)
        if now is not None:
            if stat.S_ISLNK(now.st_mode) and os.readlink(name, dir_fd=folder) == to:
                return False
            self._clear(at, folder, now)
        os.symlink(to, name, dir_fd=folder)
        return True

    def _restore_file(
        self, at: str, was: dict[str, Any], folder: int, now: os.stat_result | None
    ) -> bool:
        name, copy = os.path.basename(at), f"{self._before}/{was['copy']}"
        is_same = now is not None and stat.S_ISREG(now.st_mode) and now.st_ino == was["inode"]
        if now is not None and is_same:
            if _has_content(name, folder, now, copy):
                has_mode = stat.S_IMODE(now.st_mode) == was["mode"]
                if not has_mode:
                    self._adjust(name, folder, was)
                return not has_mode
            self._set_aside(at, folder)
            self._fill(_open_to_write(name, folder), copy)
            self._adjust(name, folder, was)
        elif not self._exchange(at, was, folder, now):
            if now is not None:
                self._clear(at, folder, now)
            self._fill(_make(name, folder), copy)
            self._adjust(name, folder, was)
        return True

    def _exchange(
        self, at: str, was: dict[str, Any], folder: int, now: os.stat_result | None
    ) -> bool:
        """Make a file anew that takes its name in one step: another process that is about to open
        it never finds it missing. False if that is not possible: there is no room for both, or they
        are on different disks."""
        name, new = os.path.basename(at), f"{self._before}/new"
        try:
            with suppress(FileNotFoundError):
                os.unlink(new)
            self._fill(_make(new, folder), f"{self._before}/{was['copy']}")
            self._adjust(new, folder, was)
            if now is not None and stat.S_ISDIR(now.st_mode):
                self._clear(at, folder, now)
            elif now is not None and stat.S_ISREG(now.st_mode):
                self._set_aside(at, folder)
            os.rename(new, name, dst_dir_fd=folder)
        except OSError as error:
            if error.errno in _NOT_IN_ONE_STEP:
                return False
            raise
        return True

    def _fill(self, target: int, copy: str) -> None:
        try:
            source = os.open(copy, os.O_RDONLY | _NO_LINK)
            try:
                os.ftruncate(target, 0)
                pour(source, target)
            finally:
                os.close(source)
            os.fsync(target)
        finally:
            os.close(target)

    def _adjust(self, name: str, folder: int, was: dict[str, Any]) -> None:
        """What else belongs to a file whose content is right."""
        fd = _opened(name, folder, os.O_RDONLY)
        try:
            if hasattr(os, "geteuid") and os.geteuid() == 0:
                os.fchown(fd, *was["owner"])
            for attribute, value in was["attributes"].items():
                with suppress(OSError):  # one that only the system may set
                    os.setxattr(fd, attribute, bytes.fromhex(value))
            os.fchmod(fd, was["mode"])
            os.fsync(fd)
        finally:
            os.close(fd)

    def _clear(self, at: str, folder: int, now: os.stat_result) -> None:
        """Remove what has a file's name. A folder that an agent put there is covered by its grant,
        with all that is in it."""
        import shutil

        name = os.path.basename(at)
        if stat.S_ISDIR(now.st_mode):
            shutil.rmtree(name, dir_fd=folder)
            return
        if stat.S_ISREG(now.st_mode):
            self._set_aside(at, folder)
        os.unlink(name, dir_fd=folder)

    def _set_aside(self, at: str, folder: int) -> None:
        """Leave a person a copy of what an agent wrote. If that does not work, it is not worth
        failing for."""
        with suppress(OSError):
            place = f"{self._left}/{at.lstrip('/')}"
            os.makedirs(os.path.dirname(place), exist_ok=True)
            source = _opened(os.path.basename(at), folder, os.O_RDONLY)
            try:
                target = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_LINK, 0o600)
                try:
                    pour(source, target)
                finally:
                    os.close(target)
            finally:
                os.close(source)


def missing_folders(root: str, at: str) -> list[str]:
    """The folders of a file that are not there, the innermost first."""
    found = []
    folder = os.path.dirname(at)
    while folder not in ("", "/") and not os.path.lexists(os.path.join(root, folder)):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def _folder_of(root: str, at: str, *, make: bool) -> int:
    """The folder of a file, opened without following a link below the root; -1 if it is not there
    and not to be made."""
    fd = os.open("/" if os.path.isabs(at) else root, IN_FOLDER)
    for part in os.path.dirname(at).split("/"):
        if not part:
            continue
        try:
            try:
                inner = os.open(part, IN_FOLDER | _NO_LINK, dir_fd=fd)
            except FileNotFoundError:
                if not make:
                    return -1
                os.mkdir(part, dir_fd=fd)
                inner = os.open(part, IN_FOLDER | _NO_LINK, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _look(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _has_content(name: str, folder: int, now: os.stat_result, copy: str) -> bool:
    if now.st_size != os.stat(copy).st_size:
        return False
    one = _opened(name, folder, os.O_RDONLY)
    try:
        other = os.open(copy, os.O_RDONLY | _NO_LINK)
        try:
            while True:
                left, right = os.read(one, _CHUNK), os.read(other, _CHUNK)
                if left != right:
                    return False
                if not left:
                    return True
        finally:
            os.close(other)
    finally:
        os.close(one)


def _opened(name: str, folder: int, flags: int) -> int:
    """A file of ours, also one that an agent has closed to its owner."""
    try:
        return os.open(name, flags | _NO_LINK, dir_fd=folder)
    except PermissionError:
        os.chmod(name, 0o600, dir_fd=folder)
        return os.open(name, flags | _NO_LINK, dir_fd=folder)


def _open_to_write(name: str, folder: int) -> int:
    try:
        return _opened(name, folder, os.O_WRONLY)
    except OSError as error:
        if error.errno != errno.ETXTBSY:  # a program that is being run cannot be written
            raise
        os.unlink(name, dir_fd=folder)
    return _make(name, folder)


def _make(name: str, folder: int) -> int:
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600, dir_fd=folder)


def _attributes(fd: int) -> dict[str, str]:
    if not hasattr(os, "listxattr"):
        return {}
    try:
        return {name: os.getxattr(fd, name).hex() for name in os.listxattr(fd)}
    except OSError:  # a file system without them
        return {}


def pour(source: int, target: int) -> None:
    """Copy what is left to read from one descriptor to another."""
    while data := os.read(source, _CHUNK):
        while data:
            data = data[os.write(target, data) :]
