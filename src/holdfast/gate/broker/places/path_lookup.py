"""Resolves a path of the caller to our own descriptors, which cannot be swapped underneath.

A path starts where the caller says: at its root, its working folder, or one of its descriptors. The
kernel finds the folder of the last name; the last name itself is looked up in that folder's
descriptor, and if it is a link, the link's text is the next path. So the file that is checked is
the file that is changed, whatever happens to the names meanwhile.

Below /proc a path can mean a different file for each process. There the names are resolved one by
one, with the caller's pid in place of `self`; the broker must not open the files of other
processes, so such a call is left to the kernel.
"""

from __future__ import annotations

import errno
import os
import stat

from holdfast.gate.broker.heard_calls import file_system, open_how

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.gate.broker.calling_thread import Caller

_LINKS_MAX = 40
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_ITSELF = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_MAGIC = 0x02
_PROC = "/proc"
_PROC_MAGIC = 0x9FA0
#: The kernel's errors for a path through /proc that may resolve differently for the caller: through
#: a magic link, or a descriptor that the broker does not have.
_PERHAPS_OTHER = (errno.ELOOP, errno.ENOENT)
#: The magic links below /proc/PID.
_MAGIC = (b"cwd", b"root", b"exe")


class KernelDecides(Exception):
    """The path is one that only the kernel may resolve for the caller."""


class Found:
    """The file that a path names, or the name of a missing one. Close it."""

    __slots__ = ("fd", "folder", "name", "path", "status", "tail")

    def __init__(self, folder: int, name: bytes, fd: int, tail: bytes = b"") -> None:
        #: The folder of the last name; -1 if there is no name (`.`, `/`, a descriptor).
        self.folder = folder
        self.name = name
        #: The file itself, opened with O_PATH; -1 if it does not exist.
        self.fd = fd
        #: A slash, if there was one at the end.
        self.tail = tail
        self.status = os.fstat(fd) if fd >= 0 else None
        if folder >= 0:
            where = place_of(folder)
            #: Its location.
            self.path = f"{'' if where == '/' else where}/{os.fsdecode(name)}"
        else:
            self.path = place_of(fd)

    @property
    def is_there(self) -> bool:
        return self.status is not None

    @property
    def is_folder(self) -> bool:
        return self.status is not None and stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return self.status is not None and stat.S_ISLNK(self.status.st_mode)

    @property
    def is_regular(self) -> bool:
        return self.status is not None and stat.S_ISREG(self.status.st_mode)

    @property
    def is_nameless(self) -> bool:
        """Whether it no longer has a name, or never had one."""
        return self.status is not None and self.status.st_nlink == 0

    def is_still_there(self) -> bool:
        """Whether the name still leads to the same file, unchanged. The folder must also still be
        in place: the lease is on the path, and the folder that is open here may have moved."""
        if self.folder < 0:
            return True
        if not self._is_folder_still_there():
            return False
        try:
            now = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except OSError:
            return self.status is None
        then = self.status
        return then is not None and (now.st_dev, now.st_ino, now.st_mtime_ns, now.st_ctime_ns) == (
            then.st_dev, then.st_ino, then.st_mtime_ns, then.st_ctime_ns
        )  # fmt: skip

    def _is_folder_still_there(self) -> bool:
        """Whether the path still leads to the open folder. If that was removed, the kernel will
        refuse to create anything in it."""
        folder = os.fstat(self.folder)
        if not folder.st_nlink:
            return True
        try:
            return os.path.samestat(os.stat(os.path.dirname(self.path)), folder)
        except OSError:
            return False

    @property
    def last(self) -> bytes:
        """The name as the caller wrote it."""
        return self.name + self.tail

    def close(self) -> None:
        if self.folder >= 0:
            os.close(self.folder)
            self.folder = -1
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


#: Whether each virtual file system that was seen is a /proc, by device.
_procs: dict[int, bool] = {}


def is_proc(fd: int) -> bool:
    """Whether an open file is in a /proc, wherever that is mounted."""
    device = os.fstat(fd).st_dev
    if os.major(device):
        return False
    known = _procs.get(device)
    if known is None:
        known = _procs[device] = file_system(fd) == _PROC_MAGIC
    return known


def place_of(fd: int) -> str:
    """The location of an open file, according to the kernel."""
    return os.readlink(f"/proc/self/fd/{fd}")


def find(caller: Caller, number: int, text: bytes, *, follow: bool, makes: bool = False) -> Found:
    """Resolve a path, from a folder of the caller. `follow` is about the last name; with `makes`
    the path must not end with a slash.

    Raises OSError with the kernel's error, KernelDecides if only the kernel may decide.
    """
    if not text:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    base = -1 if text.startswith(b"/") else caller.open_folder(number)
    try:
        for _ in range(_LINKS_MAX):
            found = _look(caller, base, text, follow=follow)
            if makes and found.tail:
                found.close()
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not (found.is_link and (follow or found.tail)) or found.folder < 0:
                return found
            text, base = _led(found, base)
    finally:
        if base >= 0:
            os.close(base)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def find_name(caller: Caller, number: int, text: bytes) -> Found:
    """Resolve a path to its last name, for creating, removing or renaming: a link is not followed,
    even with a slash after it. The kernel will report errors in the name itself."""
    if not text:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    base = -1 if text.startswith(b"/") else caller.open_folder(number)
    try:
        return _look(caller, base, text, follow=None)
    finally:
        if base >= 0:
            os.close(base)


def find_descriptor(caller: Caller, number: int) -> Found:
    """The file behind a descriptor of the caller."""
    return Found(-1, b"", caller.open_descriptor(number))


def _led(found: Found, base: int) -> tuple[bytes, int]:
    """The target of a link: its text, and the folder from which it is resolved."""
    try:
        try:
            # The kernel follows some links only for some users.
            os.close(os.open(found.name, os.O_PATH | os.O_CLOEXEC, dir_fd=found.folder))
        except FileNotFoundError:
            pass
        text = os.readlink(b"", dir_fd=found.fd) + found.tail
        folder = os.dup(found.folder)
    finally:
        found.close()
    if base >= 0:
        os.close(base)
    return text, folder


def _look(caller: Caller, base: int, text: bytes, *, follow: bool | None) -> Found:
    """Look up a path. `follow`: whether the last name will be followed; None if only the name is
    wanted."""
    bare = text.rstrip(b"/")
    tail = b"/" if len(bare) < len(text) else b""
    above, slash, name = bare.rpartition(b"/")
    if not bare or name in (b".", b".."):
        return _look_whole(caller, base, text)
    if slash:
        try:
            folder = open_how(base, above or b"/", _FOLDER, 0, _NO_MAGIC)
        except OSError as error:
            if error.errno in _PERHAPS_OTHER:
                return _walk(caller, base, text, follow=follow)
            raise
    else:
        folder = os.open(".", _FOLDER, dir_fd=base)
    fd = -1
    try:
        fd = _itself(folder, name, follow)
        found = Found(folder, name, fd, tail)
    except BaseException:
        os.close(folder)
        if fd >= 0:
            os.close(fd)
        raise
    if is_proc(folder):
        found.close()
        return _walk(caller, base, text, follow=follow)
    return found


def _itself(folder: int, name: bytes, follow: bool | None) -> int:
    """A descriptor for a name in a folder; -1 if it does not exist."""
    try:
        return os.open(name, _ITSELF, dir_fd=folder)
    except FileNotFoundError:
        return -1
    except OSError as error:
        if follow is None and error.errno == errno.ENAMETOOLONG:
            return -1
        raise


def _look_whole(caller: Caller, base: int, text: bytes) -> Found:
    """Look up a path that does not end in a name: a folder."""
    try:
        fd = open_how(base, text, _FOLDER, 0, _NO_MAGIC)
    except OSError as error:
        if error.errno in _PERHAPS_OTHER:
            return _walk(caller, base, text, follow=True, whole=True)
        raise
    if is_proc(fd):
        os.close(fd)
        raise KernelDecides
    return Found(-1, b"", fd)


def _walk(
    caller: Caller, base: int, text: bytes, *, follow: bool | None, whole: bool = False
) -> Found:
    """Resolve a path name by name, as the caller would. The last name is not followed, unless it is
    a magic link, or the whole path is that of a folder."""
    here = os.open("/", _FOLDER) if text.startswith(b"/") else os.dup(base)
    names = [name for name in text.split(b"/") if name not in (b"", b".")][::-1]
    if whole:
        names.insert(0, b".")
    tail = b"/" if text.endswith(b"/") else b""
    links = 0
    try:
        while names:
            name = names.pop()
            where = place_of(here)
            if is_proc(here):
                if not f"{where}/".startswith(f"{_PROC}/"):
                    raise KernelDecides  # another /proc, whose `self` is the broker
                instead = _own(caller, where, name)
                if instead is not None:
                    names.extend(reversed(instead))
                    continue
                jumps = names or follow or (tail and follow is not None)
                if jumps and (where.endswith("/fd") or name in _MAGIC):
                    there = _jumped(here, name)
                    os.close(here)
                    here = there
                    if not names:
                        found, here = Found(-1, b"", there, tail), -1
                        return found
                    continue
            if not names and follow is None:
                if is_proc(here):
                    raise KernelDecides  # nothing can be created, removed or renamed there
                if not stat.S_ISDIR(os.fstat(here).st_mode):
                    raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            fd = os.open(name, _ITSELF, dir_fd=here) if names else _itself(here, name, follow)
            if not names and whole:
                return Found(-1, b"", fd)
            if not names:
                found, here = Found(here, name, fd, tail), -1
                return found
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                links += 1
                led = os.readlink(b"", dir_fd=fd)
                os.close(fd)
                if links > _LINKS_MAX:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if led.startswith(b"/"):
                    os.close(here)
                    here = os.open("/", _FOLDER)
                names.extend(one for one in led.split(b"/")[::-1] if one not in (b"", b"."))
                continue
            os.close(here)
            here = fd
        found, here = Found(-1, b"", here), -1
        return found
    finally:
        if here >= 0:
            os.close(here)


def _own(caller: Caller, where: str, name: bytes) -> list[bytes] | None:
    """The names that replace one directly below /proc, if it stands for the caller."""
    if where != _PROC:
        return None
    if name == b"self":
        return [b"%d" % caller.process]
    if name == b"thread-self":
        return [b"%d" % caller.process, b"task", b"%d" % caller.thread]
    if name.isdigit() and int(name) not in (caller.process, caller.thread):
        raise KernelDecides
    return None


def _jumped(folder: int, name: bytes) -> int:
    return os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=folder)


def files_below(fd: int) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below a folder that is not a folder itself, by its path from there."""
    top = place_of(fd)
    for folder, _folders, names in os.walk(top):
        for name in [*names, *(one for one in _folders if os.path.islink(f"{folder}/{one}"))]:
            path = f"{folder}/{name}"
            try:
                yield path[len(top) :], os.lstat(path)
            except OSError:
                continue
