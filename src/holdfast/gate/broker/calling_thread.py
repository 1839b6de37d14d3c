"""The thread that waits for its call: its memory, its descriptors, and whether it still has the
identity that the command had at its start.

The broker does for a caller what the caller could do itself, and no more. It can know that only
while the caller has the broker's own identity: the same ids, groups and capabilities, the same root
and namespaces. A caller whose identity has changed is not served; the kernel makes its call, and
Landlock refuses what is closed.

The same applies to a process that restricted itself further with Landlock, and to its descendants.
The kernel does not expose this, so the broker hears that call, and follows descent through parents.
A process that has lost its parent since the first such call could descend from any of them, so it
counts as restricted. A child gets another parent in no other way (`heard_calls` refuses
CLONE_PARENT).
"""

from __future__ import annotations

import errno
import os
from _signal import SIGXFSZ  # type: ignore[import-not-found]
from resource import RLIMIT_FSIZE, RLIMIT_NOFILE, prlimit

from holdfast.gate.broker.heard_calls import AT_FDCWD, memory, syscall
from holdfast.manager.owners.liveness import read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATH_BYTES_MAX = 4096
_AT_START_BYTES = 256
_STATUS_BYTES = 4096
_TOLD_MAX = 32
_LOOK = os.O_PATH | os.O_CLOEXEC
_START_AT = 19  # of the fields of `stat` after the name
_PARENT_AT = 1


class CallerGone(Exception):
    """The caller no longer waits: what was read may have been another thread's."""


class Caller:
    """One thread, for the time of one call. All methods that read raise OSError, or Gone."""

    __slots__ = ("_is_waiting", "_status", "folder", "thread")

    def __init__(self, thread: int, is_waiting: Callable[[], bool]) -> None:
        self.thread = thread
        self._is_waiting = is_waiting
        self.folder = f"/proc/{thread}"
        self._status = _status_of(thread)

    @property
    def name(self) -> str:
        """The kernel's name for its program."""
        return _field(self._status, b"Name:").decode("utf-8", "replace")

    @property
    def process(self) -> int:
        """The process that it belongs to."""
        return int(_field(self._status, b"\nTgid:"))

    @property
    def umask(self) -> int:
        return int(_field(self._status, b"\nUmask:"), 8)

    def has_room(self) -> bool:
        """Whether it may have one more descriptor."""
        most = prlimit(self.thread, RLIMIT_NOFILE)[0]
        if most < 0 or int(_field(self._status, b"\nFDSize:")) < most:
            return True
        return sum(int(name) < most for name in os.listdir(f"{self.folder}/fd")) < most

    def may_grow(self, size: int) -> bool:
        """Whether its limit permits a file of this size; if not, it gets SIGXFSZ, as usual."""
        most = prlimit(self.thread, RLIMIT_FSIZE)[0]
        if 0 <= most < size:
            syscall(234, self.process, self.thread, SIGXFSZ)  # tgkill
            return False
        return True

    def identity(self) -> tuple[bytes, bytes, str, str, tuple[int, int]]:
        """Its ids, capabilities, namespaces and root."""
        return _identity(self._status, self.folder)

    def text(self, at: int) -> bytes:
        """The path at an address. Raises OSError with the kernel's error number."""
        found = self.memory(at, _AT_START_BYTES)
        end = found.find(b"\0")
        if end < 0:
            found = self.memory(at, PATH_BYTES_MAX)
            end = found.find(b"\0")
            if end < 0:
                number = errno.EFAULT if len(found) < PATH_BYTES_MAX else errno.ENAMETOOLONG
                raise OSError(number, os.strerror(number))
        return found[:end]

    def memory(self, at: int, size: int) -> bytes:
        """The bytes at an address; fewer if the mapping ends. Raises OSError if there are none."""
        found = memory(self.thread, at, size)
        self.demand_waiting()
        return found

    def demand_waiting(self) -> None:
        """Verify that everything read so far was the caller's. Raises Gone."""
        if not self._is_waiting():
            raise CallerGone

    def bytes_at(self, at: int, size: int) -> bytes:
        """Exactly `size` bytes. Raises EFAULT if there are fewer."""
        found = bytearray()
        while len(found) < size:
            some = self.memory(at + len(found), size - len(found))
            if not some:
                raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
            found += some
        return bytes(found)

    def open_folder(self, number: int) -> int:
        """A descriptor of ours for one of its own, or for its working folder."""
        if number == AT_FDCWD:
            return self._checked(os.open(f"{self.folder}/cwd", _LOOK))
        return self.open_descriptor(number)

    def _checked(self, fd: int) -> int:
        if not self._is_waiting():
            os.close(fd)
            raise CallerGone
        return fd

    def open_descriptor(self, number: int) -> int:
        """A descriptor of ours for the file behind one of its own."""
        if number < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        try:
            return self._checked(os.open(f"{self.folder}/fd/{number}", _LOOK))
        except FileNotFoundError:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from None

    def descriptor_flags(self, number: int) -> int:
        """The flags with which one of its descriptors was opened."""
        try:
            info = _read(f"{self.folder}/fdinfo/{number}")
        except FileNotFoundError:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from None
        return int(_field(info, b"flags:"), 8)


class Trust:
    """Which callers still have the identity that the command had at its start."""

    __slots__ = ("_adopters", "_broker", "_own", "_restricted", "_since", "command")

    def __init__(self) -> None:
        self._broker = os.getpid()
        self._own = _identity(_read("/proc/self/status"), "/proc/self")
        #: The command's process, once it has been started.
        self.command = 0
        #: Processes that restricted themselves further, and when each of them started.
        self._restricted: dict[int, int] = {}
        #: Processes that adopt the orphans of their descendants.
        self._adopters: set[int] = set()
        self._since = 0

    def note_restricted(self, process: int) -> None:
        """A process is about to restrict itself further."""
        start = _start_of(process)
        if not self._restricted:
            self._since = _now_in_ticks()
        self._restricted[process] = start

    def note_adopter(self, process: int) -> None:
        """A process is about to adopt the orphans of its descendants."""
        self._adopters.add(process)

    def has_first_identity(self, caller: Caller) -> bool:
        """Whether the broker may serve a caller. Raises OSError if it is gone."""
        if caller.identity() != self._own:
            return False
        return not self._restricted or self._is_unrestricted(caller.process)

    def _is_unrestricted(self, process: int) -> bool:
        while True:
            found = read_stat(process)
            if found is None:
                return False
            start, parent = int(found[1][_START_AT]), int(found[1][_PARENT_AT])
            if self._restricted.get(process) == start:
                return False
            if process == self.command:
                return True
            if parent <= 1:
                return False
            if (parent == self._broker or parent in self._adopters) and start >= self._since:
                return False  # an orphan, perhaps of a restricted process
            if parent == self._broker:
                return True
            process = parent


def lineage(process: int) -> Iterator[int]:
    """A process and its ancestors, nearest first."""
    while process > 1:
        yield process
        found = read_stat(process)
        process = 0 if found is None else int(found[1][_PARENT_AT])


#: Open `status` files of threads. Each stays with its thread even if the id is reused, and can no
#: longer be read once the thread has ended.
_told: dict[int, int] = {}


def _status_of(thread: int) -> bytes:
    fd = _told.get(thread)
    if fd is not None:
        try:
            return os.pread(fd, _STATUS_BYTES, 0)
        except ProcessLookupError:
            os.close(_told.pop(thread))
    if len(_told) >= _TOLD_MAX:
        while _told:
            os.close(_told.popitem()[1])
    fd = _told[thread] = os.open(f"/proc/{thread}/status", os.O_RDONLY | os.O_CLOEXEC)
    return os.pread(fd, _STATUS_BYTES, 0)


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _STATUS_BYTES)
    finally:
        os.close(fd)


def _field(text: bytes, name: bytes) -> bytes:
    at = text.index(name) + len(name)
    return text[at : text.index(b"\n", at)].strip()


def _identity(status: bytes, folder: str) -> tuple[bytes, bytes, str, str, tuple[int, int]]:
    ids = status[status.index(b"\nUid:") : status.index(b"\nNStgid:")]
    at = ids.index(b"\nFDSize:")
    ids = ids[:at] + ids[ids.index(b"\n", at + 1) :]  # without the size of its descriptor table
    can = status[status.index(b"\nCapInh:") : status.index(b"\nNoNewPrivs:")]
    root = os.stat(f"{folder}/root")
    return (
        ids,
        can,
        os.readlink(f"{folder}/ns/mnt"),
        os.readlink(f"{folder}/ns/user"),
        (root.st_dev, root.st_ino),
    )


def _start_of(process: int) -> int:
    found = read_stat(process)
    return 0 if found is None else int(found[1][_START_AT])


def _now_in_ticks() -> int:
    import time

    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
