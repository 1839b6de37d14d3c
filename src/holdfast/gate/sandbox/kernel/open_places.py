"""The files and folders to open: found, checked, and created where missing.

A rule is attached to an inode, so a file that does not exist yet can have none. Such a target is
created first, empty, with the folders that it needs; if the command leaves it untouched, it is
removed again. To distinguish it from a file that the command left empty on purpose, ours has an
impossible date: writing, truncating or touching it changes that.

What this does not promise: a command that appends nothing (`: >>new`) leaves no file behind.
"""

from __future__ import annotations

import errno
import os
import stat

from holdfast.core.keys import kind
from holdfast.core.model import Value
from holdfast.gate.sandbox import SandboxError
from holdfast.gate.sandbox.kernel.landlock import CONTENT, MUTATING, WRITE_FILE
from holdfast.manager.files.realpath import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Final

    from holdfast.manager.files.control_files import Controls

#: The modification time of a file that is untouched since we created it: an odd moment in 1970.
UNTOUCHED_NS = 86_400_123_456_789

#: How many times we try to create a file while others create and remove the folders above it.
MAKING_TRIES_MAX = 10

#: Devices that store nothing. Terminals are below /dev/pts.
DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
    "/dev/tty", "/dev/ptmx", "/dev/pts",
)  # fmt: skip
#: Those of them that exist on this machine; filled on first use.
_devices: list[str] = []


class Created(Value):
    """Something that we created so that it can be opened: a file, or a folder above one."""

    __slots__ = ("changed", "device", "folder", "inode", "path")

    def __init__(self, path: str, folder: bool, device: int, inode: int, changed: int) -> None:
        self.path: Final = path
        self.folder: Final = folder
        self.device: Final = device
        self.inode: Final = inode
        #: As the file system stored it, which may be less exact than the time that we set.
        self.changed: Final = changed

    def to_list(self) -> list[Any]:
        """As plain data: its fields, in order."""
        return [self.path, self.folder, self.device, self.inode, self.changed]


def _created(path: str, status: os.stat_result) -> Created:
    folder = stat.S_ISDIR(status.st_mode)
    return Created(path, folder, status.st_dev, status.st_ino, status.st_mtime_ns)


class OpenPlaces:
    """What one command may write. Each path is passed to `rule`, as a descriptor and the rights
    that are open there, and closed again: a grant may have more files than a process may open."""

    __slots__ = ("_rule", "made", "missing", "opened")

    def __init__(self, rule: Callable[[int, int], None]) -> None:
        self._rule = rule
        #: The rights on each file and folder, by device and inode.
        self.opened: dict[tuple[int, int], int] = {}
        self.made: list[Created] = []
        #: What the settings list and does not exist.
        self.missing: list[str] = []

    def add_targets(self, root: str, paths: Iterable[str]) -> None:
        """The files of a grant, created where missing. Resources are not files."""
        for path in paths:
            if kind(path) == "path":
                self._add_target(os.path.normpath(os.path.join(root, path)))

    def _add_target(self, path: str) -> None:
        try:
            self._make(path)
            is_file = stat.S_ISREG(os.lstat(path).st_mode)
            if is_file:
                self._open(path, CONTENT)
        except OSError as error:
            raise _refused(path, error) from error
        if not is_file:
            raise SandboxError(
                f"{plain(path)} is not a regular file, so it cannot be opened by itself",
                hint="lock the file that the command writes",
                path=plain(path),
            )

    def _make(self, path: str) -> None:
        for _ in range(MAKING_TRIES_MAX - 1):
            try:
                return self._try_to_make(path)
            except FileNotFoundError:
                continue  # another sandbox just removed a folder above it, which it had created
        return self._try_to_make(path)

    def _try_to_make(self, path: str) -> None:
        if os.path.lexists(path):
            return
        folder = os.path.dirname(path)
        missing: list[str] = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for one in reversed(missing):
            try:
                os.mkdir(one)
            except FileExistsError:
                continue  # another sandbox just created it, for a file of its own
            self.made.append(_created(one, os.lstat(one)))
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            return
        try:
            os.utime(fd, ns=(UNTOUCHED_NS, UNTOUCHED_NS))
            self.made.append(_created(path, os.fstat(fd)))
        finally:
            os.close(fd)

    def _open(self, path: str, rights: int) -> None:
        """Open a path, and verify that it was not redirected.

        If a folder above it had just been replaced by a link, a file elsewhere would be opened.
        """
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if os.readlink(f"/proc/self/fd/{fd}") != path:
                raise OSError(errno.ELOOP, "a link leads elsewhere", path)
            self._allow(fd, rights)
        finally:
            os.close(fd)

    def _allow(self, fd: int, rights: int) -> None:
        self._rule(fd, rights)
        status = os.fstat(fd)
        place = (status.st_dev, status.st_ino)
        self.opened[place] = self.opened.get(place, 0) | rights

    def add_folder(self, path: str) -> None:
        """A folder and everything below it."""
        try:
            self._open(os.path.realpath(path), MUTATING)
        except OSError as error:
            raise _refused(path, error) from error

    def add_devices(self) -> None:
        """Devices that store nothing. A container may lack some of them."""
        if not _devices:
            _devices.extend(os.path.realpath(path) for path in DEVICES if os.path.exists(path))
        for path in _devices:
            try:
                self._open(path, WRITE_FILE)
            except OSError as error:
                raise _refused(path, error) from error

    def add_streams(self) -> None:
        """The files to which the caller redirected the output: `/dev/stdout` reopens them."""
        for number in (1, 2):
            try:
                if stat.S_ISREG(os.fstat(number).st_mode):
                    self._allow(number, CONTENT)
            except OSError as error:
                if error.errno != errno.EBADF:  # otherwise it is closed: there is nothing to open
                    raise _refused(f"/dev/fd/{number}", error) from error

    def add_listed(
        self, root: str, texts: Iterable[str], controls: Controls, keep: Iterable[str]
    ) -> None:
        """The files and folders (with their content) that the settings list.

        Relative to the root, or with `~`. A folder with a slash at its end is created if missing. A
        path that would open the ledger, the whole tree or a control file is refused: it would make
        the rest of the sandbox meaningless.
        """
        wanted = list(texts)
        if not wanted:
            return
        closed = [os.path.realpath(root), *map(os.path.realpath, keep)]
        for text in wanted:
            given = os.path.join(root, os.path.expanduser(text))
            control = controls.below(given)
            if control is not None:
                raise _would_open(text, control.name)
            try:
                self._add_listed(text, given, closed)
            except OSError as error:
                raise _refused(text, error) from error

    def _add_listed(self, text: str, given: str, closed: list[str]) -> None:
        path = os.path.realpath(given)
        for one in closed:
            if _is_below(one, path) or (one != closed[0] and _is_below(path, one)):
                raise _would_open(text, plain(one))
        if text.endswith("/"):
            os.makedirs(path, exist_ok=True)
        elif not os.path.lexists(path):
            self.missing.append(text)
            return
        is_folder = os.path.isdir(path)
        self._open(path, MUTATING if is_folder else CONTENT)

    def add_git(self, root: str) -> None:
        """Git's own folder, and the shared one of a linked worktree."""
        try:
            folders = git_folders(root)
        except OSError as error:
            raise _refused(f"{root}/.git", error) from error
        for folder in folders:
            self.add_folder(folder)


def _would_open(text: str, what: str) -> SandboxError:
    return SandboxError(
        f"sandbox.write names {plain(text)!r}, which would open {what}",
        hint="name individual files, or folders that hold nothing but caches and logs",
        path=plain(text),
    )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def git_folders(root: str) -> list[str]:
    """The git folders of a work tree. Raises SandboxError if it is not a work tree."""
    place = f"{root}/.git"
    if os.path.isfile(place):  # a linked worktree, or a submodule
        place = os.path.join(root, _line(place).removeprefix("gitdir:").strip())
    if not os.path.isdir(place):
        raise SandboxError(
            f"{plain(root)} is not a git work tree, so there is no .git to open",
            hint="leave out --git, or name files of a repository",
        )
    found = [os.path.realpath(place)]
    if os.path.isfile(f"{place}/commondir"):
        common = os.path.realpath(os.path.join(place, _line(f"{place}/commondir")))
        if not _is_below(common, found[0]):
            found.append(common)
    return found


def _line(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(65_536).strip()


def _refused(path: str, error: OSError) -> SandboxError:
    return SandboxError(
        f"cannot open {plain(path)} for the sandbox: {error.strerror or type(error).__name__}",
        hint="you must be able to create or write it outside the sandbox",
        path=plain(path),
    )


def remove_untouched(made: Iterable[Created]) -> None:
    """Remove what is untouched since we created it, the last first. Everything else stays."""
    for one in reversed(list(made)):
        try:
            status = os.lstat(one.path)
            if (status.st_dev, status.st_ino) != (one.device, one.inode):
                continue
            if one.folder:
                os.rmdir(one.path)
            elif status.st_size == 0 and status.st_mtime_ns == one.changed:
                os.unlink(one.path)
        except OSError:
            continue  # in use, or gone: no longer ours
