"""Small files that are created atomically, and a lock around them.

New content is written and synced to a file without a name, which gets its name by `link`. A link
cannot overwrite: of several processes exactly one wins, and no process ever reads a partial file. A
process that is killed on the way leaves nothing behind.

What this does not promise: on a file system without hard links the file is created under its final
name, so a process may see it before it is complete. Where folders cannot be locked (Windows, some
network file systems) only the link keeps processes apart.
"""

from __future__ import annotations

import errno
import os
import stat
from time import monotonic, sleep, time

from holdfast.manager.files.replace_file import write_all
from holdfast.manager.ids import new_id
from holdfast.specs.errors import SpecBusyError
from holdfast.store.sqlite.write_gate import (
    LOCK_EX,
    LOCK_NB,
    LOCK_UN,
    flock,
    whose_lock,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Final

#: No program writes more into such a file; a longer one is not read.
BYTES_MAX = 16 << 20
#: How long a program may need to write a file that it does not create atomically.
SETTLE_SECONDS = 0.5
#: How long one process may hold a folder before the others give up.
ALONE_SECONDS = 10.0
_LOOK_SECONDS = 0.002

_BY_FOLDER = {os.open, os.link} <= os.supports_dir_fd
_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
_BINARY: int = getattr(os, "O_BINARY", 0)
_FOLDER: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOEXEC
#: Follow no link, and do not wait for the other end of a pipe.
_LOOK: int = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _CLOEXEC | _BINARY
)
_NEW: int = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOEXEC | _BINARY
_NAMELESS: int = getattr(os, "O_TMPFILE", 0)
#: The errors of a file system or kernel without unnamed files.
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
#: The errors of a file system without hard links.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
#: The errors where folders cannot be locked.
_NO_FLOCK = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def is_denied(error: OSError) -> bool:
    """Whether the error means a missing permission, rather than a failure."""
    return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


class Seen:
    """A file as it was read once. `data` is None if it is not a regular file, or is too long;
    `stamp` tells whether it is still the same file."""

    __slots__ = ("changed", "data", "stamp")

    def __init__(self, data: bytes | None, status: os.stat_result) -> None:
        self.data: Final = data
        self.stamp: Final = _stamp(status)
        self.changed: Final = status.st_mtime


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def look(path: str) -> Seen | None:
    """Read the present file; None without one. Raises PermissionError if that is not allowed."""
    try:
        descriptor = os.open(path, _LOOK)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.ENODEV):
            return _looked_at(path)  # a link, or something that cannot be opened
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > BYTES_MAX:
            return Seen(None, status)
        return Seen(_read(descriptor), status)
    finally:
        os.close(descriptor)


def _looked_at(path: str) -> Seen | None:
    try:
        return Seen(None, os.lstat(path))
    except FileNotFoundError:
        return None


def _read(descriptor: int) -> bytes:
    found = chunk = os.read(descriptor, BYTES_MAX)
    while chunk:
        chunk = os.read(descriptor, BYTES_MAX)
        found += chunk
    return found


def is_same(path: str, seen: Seen) -> bool:
    """Whether the file is still the one that was read."""
    try:
        return _stamp(os.lstat(path)) == seen.stamp
    except FileNotFoundError:
        return False


class Settling:
    """Whether a file that looks unfinished was abandoned."""

    __slots__ = ("_since", "_stamp")

    def __init__(self) -> None:
        self._stamp: tuple[int, int, int, int] | None = None
        self._since = 0.0

    def is_over(self, seen: Seen) -> bool:
        """By the file's own time or, if another machine set that, by how long we have watched."""
        if time() - seen.changed >= SETTLE_SECONDS:
            return True
        if seen.stamp != self._stamp:
            self._stamp, self._since = seen.stamp, monotonic()
        return monotonic() - self._since >= SETTLE_SECONDS


def publish(path: str, data: bytes, mode: int = 0o644) -> bool:
    """Create a file atomically. False if the name is taken."""
    folder, name = os.path.split(path)
    with _Folder(folder) as place:
        file, temporary = place.prepared(data, mode)
        try:
            place.link(temporary or f"/proc/self/fd/{file}", name)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return place.made_by_name(name, data, mode)
        finally:
            os.close(file)
            if temporary:
                place.unlink(temporary)
        place.sync()
    return True


class _Folder:
    """A folder in which files are created; by an open descriptor where the system can do that."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd: int | None = None

    def __enter__(self) -> _Folder:
        if _BY_FOLDER:
            self._fd = os.open(self._path, _FOLDER)
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def path(self, name: str) -> str:
        return f"{self._path}/{name}"

    def prepared(self, data: bytes, mode: int) -> tuple[int, str]:
        """A file with this content, and its temporary name if it needs one."""
        if _NAMELESS and self._fd is not None:
            try:
                file = os.open(".", _NAMELESS | os.O_WRONLY | _CLOEXEC, mode, dir_fd=self._fd)
            except OSError as error:
                if error.errno not in _NO_NAMELESS:
                    raise
            else:
                if os.path.exists(f"/proc/self/fd/{file}"):  # otherwise it could not be linked
                    _write(file, data)
                    return file, ""
                os.close(file)
        return self.named(data, mode)

    def named(self, data: bytes, mode: int) -> tuple[int, str]:
        """A file with this content under a temporary name."""
        name = f".{new_id()}.new"
        file = os.open(self.path(name), _NEW, mode)
        try:
            _write(file, data)
        except BaseException:
            self.unlink(name)
            raise
        return file, name

    def made_by_name(self, name: str, data: bytes, mode: int) -> bool:
        """Create the file directly under its name, where nothing else is possible."""
        try:
            file = os.open(self.path(name), _NEW, mode)
        except FileExistsError:
            return False
        try:
            _write(file, data)
        except BaseException:
            self.unlink(name)
            raise
        os.close(file)
        return True

    def link(self, source: str, name: str) -> None:
        if self._fd is None:
            os.link(self.path(source), self.path(name))
        else:
            os.link(source, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def unlink(self, name: str) -> None:
        os.unlink(self.path(name))

    def sync(self) -> None:
        """Make a new name survive a power cut, where folders can be synced."""
        if self._fd is not None:
            try:
                os.fsync(self._fd)
            except OSError:
                return


def _write(file: int, data: bytes) -> None:
    """Write all of it and sync it. Closes the descriptor if that fails."""
    try:
        write_all(file, data)
        os.fsync(file)
    except BaseException:
        os.close(file)
        raise


def set_aside(path: str, seen: Seen, label: str) -> str | None:
    """Rename a file, keeping it beside for its user. None if it was another file by then, which
    is put back."""
    aside = f"{path}.{label}-{new_id()}"
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return None
    if is_same(aside, seen):
        return aside
    try:
        os.link(aside, path, follow_symlinks=False)
    except FileExistsError:
        return None  # there is a newer one already; this one stays for its user
    os.unlink(aside)
    return None


class FolderLock:
    """One process at a time in a folder, by an advisory lock on the folder itself.

    The kernel releases it when the process ends, however that happens. Raises FileNotFoundError
    or NotADirectoryError if there is no such folder, SpecBusyError if another process stays inside.
    """

    __slots__ = ("_descriptor", "_folder")

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._descriptor = -1

    def __enter__(self) -> None:
        if not os.path.isdir(self._folder):
            os.stat(self._folder)  # raises if it does not exist, or is not readable
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._folder)
        if os.name == "nt":
            return
        self._descriptor = os.open(self._folder, _FOLDER)
        try:
            self._wait()
        except BaseException:
            os.close(self._descriptor)
            raise

    def _wait(self) -> None:
        end = monotonic() + ALONE_SECONDS
        while True:
            try:
                flock(self._descriptor, LOCK_EX | LOCK_NB)
                return
            except BlockingIOError:
                if monotonic() > end:
                    raise self._busy() from None
            except OSError as error:
                if error.errno in _NO_FLOCK:
                    return
                raise
            # The clock's low digits are random enough to keep two processes out of step.
            sleep(_LOOK_SECONDS * (0.5 + monotonic() * 1e6 % 1))

    def _busy(self) -> SpecBusyError:
        inside = whose_lock(os.fstat(self._descriptor).st_ino)
        who = f"process {inside}" if inside else "another process"
        return SpecBusyError(
            f"{who} has been changing the lock in {self._folder} for too long",
            hint=f"continue it (kill -CONT {inside}) or end it" if inside else "try again",
            pid=inside,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._descriptor < 0:
            return
        try:
            # Closing is not enough: a child that was forked meanwhile has the same open folder.
            flock(self._descriptor, LOCK_UN)
        except OSError as trouble:
            if trouble.errno not in _NO_FLOCK:
                raise
        finally:
            os.close(self._descriptor)
            self._descriptor = -1


class FolderLocks:
    """One process at a time in several folders, entered in the given order."""

    __slots__ = ("_entered", "_folders")

    def __init__(self, folders: Sequence[FolderLock]) -> None:
        self._folders = tuple(folders)
        self._entered: list[FolderLock] = []

    def __enter__(self) -> None:
        try:
            for folder in self._folders:
                folder.__enter__()
                self._entered.append(folder)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._entered:
            self._entered.pop().__exit__(kind, error, trace)
