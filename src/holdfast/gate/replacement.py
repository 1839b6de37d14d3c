"""Replacing a file below a root in two steps, atomically, and without following any link.

For files of a repository in which an agent may plant links, and for a check between the two steps;
for all other files there is `manager.files.replace_file`.

All steps use open folders (`openat`), from the root down, and each refuses links. So a folder that
becomes a symbolic link on the way cannot divert the write. The new content is written and synced
while it has no name, so a process that dies then leaves nothing behind; one rename gives it its
name. Just before that the way is walked once more and must lead to the same folder.

A file that exists keeps its mode, its owner and its access list. Other names of it (hard links)
keep the old content, wherever they are: only the requested name is replaced.

What this does not promise:
- A process that is killed just before the rename may leave a `.holdfast-new` behind; the next
  write into that folder removes it. Where the system cannot open a file without a name, a process
  that is killed at any moment may leave a `.holdfast-new-…` behind, which is not removed.
- Where open folders are not supported (Windows), the way is checked by its names alone, and a fast
  enough process could swap a folder in between.
"""

from __future__ import annotations

import errno
import os
import stat

from holdfast.manager.files.replace_file import copy_attributes, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: The name of new content for a moment, or the beginning of that name.
TEMPORARY = ".holdfast-new"

_BY_FOLDER = {os.open, os.stat, os.mkdir, os.unlink, os.rename, os.link} <= os.supports_dir_fd
_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
_FOLDER: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW | _CLOEXEC
#: For folders that may be entered and not listed.
_STEP: int = getattr(os, "O_PATH", 0) | _FOLDER
_NEW: int = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _CLOEXEC | getattr(os, "O_BINARY", 0)
_NAMELESS: int = getattr(os, "O_TMPFILE", 0)
#: The errors of a file system, or a kernel, without unnamed files.
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)


class Moved(Exception):
    """The way no longer leads where it did when it was checked: a link, another folder, no file."""


class Replacement:
    """New content for one file below a root. `prepare`, `commit`, `settle`; `close` in any case."""

    def __init__(self, root: str, names: tuple[str, ...], *, alone: bool) -> None:
        """`names` lead from the root, a real path, to the file.

        With `alone` no other process is in `commit` below this root at the same time.
        """
        self._root: Final = root
        self._names: Final = names[:-1]
        self._name: Final = names[-1]
        self._alone: Final = alone
        self._folders: list[int] = []
        self._made: list[tuple[int, str]] = []
        self._file = -1
        self._temporary = ""
        self._committed = False

    # Before: everything that takes time

    def prepare(self, content: bytes) -> None:
        """Write and sync the new content in the same folder. It is not visible yet."""
        self._walk()
        folder = self._folders[-1]
        old = _look(folder, self._name)
        if old is not None:
            _refuse_unwritable(folder, self._name)
        self._open_file(folder, 0o666 if old is None else 0o600)
        write_all(self._file, content)
        if old is not None:
            _dress(self._file, old)
            _copy_attributes(folder, self._name, self._file)
        os.fsync(self._file)

    def _walk(self) -> None:
        self._folders.append(os.open(self._root, _STEP))
        for name in self._names:
            folder = self._folders[-1]
            try:
                step = _step(folder, name)
            except FileNotFoundError:
                try:
                    os.mkdir(name, dir_fd=folder)
                    self._made.append((folder, name))
                except FileExistsError:
                    pass  # another process has just made it
                step = _step(folder, name)
            self._folders.append(step)

    def _open_file(self, folder: int, mode: int) -> None:
        if _NAMELESS:
            try:
                self._file = os.open(".", _NAMELESS | os.O_WRONLY | _CLOEXEC, mode, dir_fd=folder)
                os.stat(f"/proc/self/fd/{self._file}")  # without /proc it could get no name
                return
            except OSError as error:
                self._close_file()
                if error.errno not in _NO_NAMELESS:
                    raise
        self._temporary = _temporary_name()
        self._file = os.open(self._temporary, _NEW, mode, dir_fd=folder)

    # Inside: one rename

    def commit(self) -> None:
        """Give the new content its name. Raises Moved if the way has changed."""
        folder = self._folders[-1]
        self._look_again()
        temporary = self._temporary or self._named(folder)
        try:
            os.rename(temporary, self._name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            # Here and not in `close`: a moment later the name may be another process's.
            _remove(folder, temporary)
            raise
        self._committed = True

    def _named(self, folder: int) -> str:
        """Give the new file a temporary name; remove one that a killed process left here."""
        name = TEMPORARY if self._alone else _temporary_name()
        source = f"/proc/self/fd/{self._file}"
        try:
            os.link(source, name, dst_dir_fd=folder)
        except FileExistsError:
            os.unlink(name, dir_fd=folder)
            os.link(source, name, dst_dir_fd=folder)
        return name

    def _look_again(self) -> None:
        """Fail unless the way still leads to the folder that was checked, and to a file."""
        way = [os.open(self._root, _STEP)]
        try:
            for name in self._names:
                try:
                    way.append(_step(way[-1], name))
                except FileNotFoundError:
                    raise Moved(f"{name} was removed meanwhile") from None
            for mine, found, name in zip(
                self._folders, way, (self._root, *self._names), strict=True
            ):
                if not os.path.samestat(os.fstat(mine), os.fstat(found)):
                    raise Moved(f"{name} is another folder now")
            _look(way[-1], self._name)
        finally:
            for descriptor in way:
                os.close(descriptor)

    # After

    def settle(self) -> None:
        """Make the rename survive a power cut."""
        for folder in (self._folders[-1], *(folder for folder, _name in self._made)):
            try:
                descriptor = os.open(".", _FOLDER, dir_fd=folder)
            except PermissionError:  # a folder that can be written and not read cannot be synced
                continue
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Close everything, and remove what was not committed."""
        self._close_file()
        if not self._committed:
            self._take_back()
        for descriptor in self._folders:
            os.close(descriptor)
        self._folders.clear()

    def _take_back(self) -> None:
        if self._temporary:
            _remove(self._folders[-1], self._temporary)
        try:
            for folder, name in reversed(self._made):
                os.rmdir(name, dir_fd=folder)
        except OSError:
            pass  # others have written into it

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class ReplacementByName(Replacement):
    """The same where the system has no open folders: less safe, see above."""

    def prepare(self, content: bytes) -> None:
        """Write and sync the new content in the same folder."""
        folder = os.path.join(self._root, *self._names)
        os.makedirs(folder, exist_ok=True)
        self._look_again()
        whole = os.path.join(folder, self._name)
        if os.path.exists(whole) and not os.access(whole, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), whole)
        self._temporary = os.path.join(folder, _temporary_name())
        self._file = os.open(self._temporary, _NEW, 0o666)
        write_all(self._file, content)
        os.fsync(self._file)
        self._close_file()

    def commit(self) -> None:
        """Give the new content its name. Raises Moved if the way has changed."""
        self._look_again()
        os.replace(self._temporary, os.path.join(self._root, *self._names, self._name))
        self._committed = True

    def _look_again(self) -> None:
        folder = self._root
        for name in self._names:
            folder = os.path.join(folder, name)
            if os.path.islink(folder) or not os.path.isdir(folder):
                raise Moved(f"{name} is a link, or not a folder")
        whole = os.path.join(folder, self._name)
        if os.path.lexists(whole) and (os.path.islink(whole) or not os.path.isfile(whole)):
            raise Moved(f"{self._name} is not a file")

    def settle(self) -> None:
        """Nothing: a folder cannot be synced here."""

    def _take_back(self) -> None:
        try:
            if self._temporary:
                os.unlink(self._temporary)
        except FileNotFoundError:
            pass


def replacement(root: str, names: tuple[str, ...], *, alone: bool) -> Replacement:
    """The safest kind that the system supports."""
    kind = Replacement if _BY_FOLDER else ReplacementByName
    return kind(root, names, alone=alone)


def _step(folder: int, name: str) -> int:
    """The folder of that name, opened without following links."""
    try:
        return os.open(name, _STEP, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise Moved(f"{name} is a symbolic link, or not a folder") from error


def _look(folder: int, name: str) -> os.stat_result | None:
    """The status of a file, None if there is none. Raises Moved for anything but a file."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(status.st_mode):
        return status
    what = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not a regular file"
    raise Moved(f"{name} is {what}")


def _refuse_unwritable(folder: int, name: str) -> None:
    """Refuse to replace a file that may not be written, although its folder would permit it."""
    effective = os.access in os.supports_effective_ids
    if not os.access(name, os.W_OK, dir_fd=folder, effective_ids=effective):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _dress(file: int, old: os.stat_result) -> None:
    """Give a new file the owner and the mode of the old one, in this order: chown resets bits."""
    new = os.fstat(file)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(file, old.st_uid, old.st_gid)
        except PermissionError as error:
            raise PermissionError(errno.EPERM, "its owner and group could not be kept") from error
    os.fchmod(file, stat.S_IMODE(old.st_mode))


def _copy_attributes(folder: int, name: str, file: int) -> None:
    """Give a new file the access list and the user attributes of the old one."""
    try:
        source = os.open(name, os.O_RDONLY | _NOFOLLOW | _CLOEXEC, dir_fd=folder)
    except OSError:  # a file that can be written and not read
        return
    try:
        copy_attributes(source, file)
    finally:
        os.close(source)


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass


def _temporary_name() -> str:
    return f"{TEMPORARY}-{os.urandom(8).hex()}"
