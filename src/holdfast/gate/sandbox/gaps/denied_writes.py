"""Detects writes that a process inside tries and the kernel refuses, whatever tool it uses.

Landlock refuses silently. So a command may also get a filter that reports every call that opens
something for writing or changes a name to its runner (see `seccomp`). The runner reads the path
from the caller's memory, lets the call continue immediately, and only then checks whether the
kernel refused it: it did if neither the path nor any folder above it was opened for the command
with the right that the call needs. Landlock decides by the same rule.

A gap is such a path in the repository that the grant does not cover. Each is reported once. Not
reported:

- paths that cannot be granted: `.git`, the ledger, the caches of tools;
- calls that fail anyway: on a missing file without O_CREAT, or a mkdir of an existing folder.

Many tools write a new file beside the one that they are about to replace. The gap is then not the
new file, whose name is different each time, but the one that it will replace. That is derived from
the new name (`x.rb.tmp.4711`), or else from the files that the tool has open in the same folder, as
`sed -i` does. If neither tells, the gap is the folder. A folder has a slash at its end.

What this does not promise: that every refused write is detected, or that the reported path is
exact. A process that sees another file under the same path (a container), makes calls that the
filter does not see, or changes its memory in between is misread. None of that makes anything
writable: Landlock decides.

If the runner is killed, no process lets the calls continue: what remains inside can still write to
its open files, but can no longer open, create, rename or remove anything (ENOSYS).
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct

from holdfast.gate.guard.tool_caches import is_cache
from holdfast.gate.sandbox.gaps.temp_names import is_temporary, stands_in_for
from holdfast.gate.sandbox.kernel.landlock import MAKE_REG, REMOVE_FILE, TRUNCATE, WRITE_FILE
from holdfast.gate.sandbox.kernel.seccomp import Filter, Listener, send_listener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holdfast.gate.sandbox.kernel.seccomp import Call

#: How many gaps of one command are reported.
NOTICED_MAX = 500
#: How many calls are let through before the runner attends to other things.
TURN_MAX = 64
_PATH_BYTES_MAX = 4096
_HERE = -100
_AT_REMOVEDIR = 0x200
_RESOLVE_IN_ROOT = 0x10
_HOW = struct.Struct("=QQQ")
#: These resolve differently for each process, and no repository is there.
_NOT_OURS = ("/dev/", "/proc/", "/sys/")

#: How a process names a folder that it has open, as Claude Code does for everything it writes.
_OPEN_FOLDERS = ("/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/")

OPEN, SHORTEN, REMOVE, MAKE, MAKE_FOLDER, MOVE_FROM, MOVE_TO = range(7)

#: What a call does, with the positions of the folder's descriptor (if it has one) and of the path.
_WHAT: Mapping[str, tuple[tuple[int, int | None, int], ...]] = {
    "open": ((OPEN, None, 0),),
    "creat": ((OPEN, None, 0),),
    "openat": ((OPEN, 0, 1),),
    "openat2": ((OPEN, 0, 1),),
    "truncate": ((SHORTEN, None, 0),),
    "unlink": ((REMOVE, None, 0),),
    "unlinkat": ((REMOVE, 0, 1),),
    "link": ((MAKE, None, 1),),
    "linkat": ((MAKE, 2, 3),),
    "symlink": ((MAKE, None, 1),),
    "symlinkat": ((MAKE, 1, 2),),
    "mkdir": ((MAKE_FOLDER, None, 0),),
    "mkdirat": ((MAKE_FOLDER, 0, 1),),
    "rename": ((MOVE_FROM, None, 0), (MOVE_TO, None, 1)),
    "renameat": ((MOVE_FROM, 0, 1), (MOVE_TO, 2, 3)),
    "renameat2": ((MOVE_FROM, 0, 1), (MOVE_TO, 2, 3)),
}


class Attempt:
    """What one call is about to do to one path."""

    __slots__ = ("beside", "flags", "path", "what")

    def __init__(self, what: int, path: str, flags: int, beside: list[str] | None) -> None:
        self.what = what
        self.path = path
        #: Of an open.
        self.flags = flags
        #: What the caller has open, if this is a temporary file; else None.
        self.beside = beside


class DeniedWrites:
    """The detection for one command, which is started once. In the child: `enter`, as its last step
    before it becomes the command. In the parent: `begin`, then `take` whenever one of `ears` is
    ready, and `close`."""

    def __init__(
        self, root: str, opened: Mapping[tuple[int, int], int], granted: Iterable[str]
    ) -> None:
        """`opened` are the rights on what the sandbox opened, by device and inode; `granted` are
        the real paths that are never a gap, whatever a process tries there."""
        self._root = root
        self._opened = opened
        self._granted = frozenset(granted)
        self._told: set[str] = set()
        self._listener: Listener | None = None
        self._ours, self._theirs = socket.socketpair()
        try:
            self._filter: Filter | None = Filter()
        except OSError:
            self._filter = None

    def enter(self) -> None:
        """Install the filter and pass its listener to the parent, if the kernel supports it."""
        if self._filter is not None:
            send_listener(self._filter, self._theirs)

    @property
    def line(self) -> int:
        """The child's end of the socket, for `seccomp.send_listener`."""
        return self._theirs.fileno()

    def begin(self) -> None:
        """The command has been started."""
        self._theirs.close()
        try:
            found = socket.recv_fds(self._ours, 1, 1, socket.MSG_DONTWAIT)[1]
        except BlockingIOError:
            found = []
        if found:
            os.set_inheritable(found[0], False)
            self._listener = Listener(found[0])

    @property
    def ears(self) -> list[int]:
        """The descriptors to wait for; none if nothing can be detected, or no process is left."""
        listener = self._listener
        return [] if listener is None or listener.is_over else [listener.fd]

    def take(self) -> list[str]:
        """Let the waiting calls continue. Returns the new gaps, as paths below the root."""
        listener = self._listener
        assert listener is not None
        found: list[str] = []
        for _ in range(TURN_MAX):
            call = listener.hear()
            if call is None:
                break
            attempts: list[Attempt] = []
            try:
                attempts = list(self._read(call))
            except OSError:
                pass  # the caller or its memory is gone: the kernel will find the same
            if listener.let(call) and len(self._told) < NOTICED_MAX:
                found += self._new(attempts)
        return found

    def close(self) -> None:
        """All processes of the command have ended."""
        self._ours.close()
        self._theirs.close()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    # Before a call continues: read what it is about

    def _read(self, call: Call) -> Iterator[Attempt]:
        """What a call is about to do. Raises OSError if its caller cannot be read."""
        flags, mode, is_rooted = _manner(call)
        if call.name == "unlinkat" and call.arguments[2] & _AT_REMOVEDIR:
            return  # no grant covers the removal of a folder
        for what, folder_at, path_at in _WHAT.get(call.name, ()):
            text = os.fsdecode(_text(call.thread, call.arguments[path_at]))
            if not text:
                continue  # the call is about a descriptor
            if is_rooted:
                text = text.lstrip("/")
            if not text.startswith("/"):
                number = _HERE if folder_at is None else _signed(call.arguments[folder_at])
                text = f"{_folder(call.thread, number)}/{text}"
            text = _without_descriptor(call.thread, text)
            beside = None
            if is_temporary(flags, mode) and text.startswith(self._root):
                beside = _open_files(call.thread)
            yield Attempt(what, text, flags, beside)

    # After the call: was it refused?

    def _new(self, attempts: list[Attempt]) -> list[str]:
        found: list[str] = []
        for attempt in attempts:
            try:
                gap = self._gap(attempt)
            except (OSError, ValueError):
                gap = None  # such as a name that is too long: the kernel will find the same
            if attempt.what == MOVE_FROM and not os.path.lexists(attempt.path):
                break  # there is nothing to move, so the call fails with that error
            if gap is not None and gap not in self._told:
                self._told.add(gap)
                found.append(gap)
        return found

    def _gap(self, attempt: Attempt) -> str | None:
        """The path that a grant would have had to cover for a refused call, or None."""
        path = _real(attempt.path, follow=attempt.what in (OPEN, SHORTEN))
        if not path.startswith(f"{self._root}/"):
            return None
        try:
            kind = stat.S_IFMT(os.lstat(path).st_mode)
        except FileNotFoundError:
            kind = 0
        if not self._is_refused(attempt, path, kind):
            return None
        if kind == 0 and attempt.what != MAKE_FOLDER:
            path = stands_in_for(path, attempt.beside, self._granted)
        if path in self._granted:
            return None
        is_folder = path.endswith("/") or attempt.what == MAKE_FOLDER or kind == stat.S_IFDIR
        inner = path[len(self._root) + 1 :].rstrip("/") or "."
        if is_cache(inner):
            return None
        return f"{inner}/" if is_folder else inner

    def _is_refused(self, attempt: Attempt, path: str, kind: int) -> bool:
        what, flags = attempt.what, attempt.flags
        if _fails_anyway(what, flags, kind):
            return False
        if kind and what in (OPEN, SHORTEN):
            needed = TRUNCATE if what == SHORTEN else _needed_to_open(flags)
            return self._rights(path) & needed != needed
        needed = REMOVE_FILE if what in (REMOVE, MOVE_FROM) else MAKE_REG
        return not self._rights(os.path.dirname(path)) & needed

    def _rights(self, path: str) -> int:
        """The rights on a path and on all folders above it."""
        found = 0
        while len(path) > len(self._root):
            status = os.lstat(path)
            found |= self._opened.get((status.st_dev, status.st_ino), 0)
            path = os.path.dirname(path)
        return found


def _manner(call: Call) -> tuple[int, int, bool]:
    """The flags and the mode of an open, and whether its folder is the root of all its paths."""
    name, given = call.name, call.arguments
    if name == "open":
        return given[1], given[2], False
    if name == "openat":
        return given[2], given[3], False
    if name == "creat":
        return os.O_CREAT | os.O_WRONLY | os.O_TRUNC, given[1], False
    if name == "openat2":
        how = _memory(call.thread, given[2], _HOW.size).ljust(_HOW.size, b"\0")
        flags, mode, resolve = _HOW.unpack(how)
        return flags, mode, bool(resolve & _RESOLVE_IN_ROOT)
    return 0, 0, False


def _fails_anyway(what: int, flags: int, kind: int) -> bool:
    """Whether a call fails before Landlock checks it. `kind` is the file type, 0 for no file."""
    is_folder = kind == stat.S_IFDIR
    if what == OPEN and kind:
        return is_folder or bool(flags & (os.O_EXCL | os.O_PATH))
    if what == OPEN:
        return not flags & os.O_CREAT or bool(flags & os.O_PATH)
    if what in (MAKE, MAKE_FOLDER):
        return kind != 0
    if what in (SHORTEN, REMOVE):
        return not kind or is_folder
    return what == MOVE_FROM and not kind


def _needed_to_open(flags: int) -> int:
    writes = WRITE_FILE if flags & os.O_ACCMODE else 0
    return writes | (TRUNCATE if flags & os.O_TRUNC else 0)


def _real(path: str, *, follow: bool) -> str:
    """Where a path leads; the kernel resolves all but its last name."""
    if path.startswith(_NOT_OURS):
        return path
    folder, name = os.path.split(path.rstrip("/"))
    if name in ("", ".", ".."):
        return os.path.realpath(path)
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = f"{os.readlink(f'/proc/self/fd/{fd}').rstrip('/')}/{name}"
    finally:
        os.close(fd)
    return os.path.realpath(found) if follow and os.path.islink(found) else found


# Reading a thread that waits for its call


def _text(thread: int, at: int) -> bytes:
    return _memory(thread, at, _PATH_BYTES_MAX).partition(b"\0")[0]


def _memory(thread: int, at: int, size: int) -> bytes:
    """The bytes at an address; fewer if the mapping ends. Raises OSError if there are none."""
    if at >> 63:  # not in any process's own memory, and not a valid offset
        raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
    fd = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, size, at)
    finally:
        os.close(fd)


def _without_descriptor(thread: int, text: str) -> str:
    """A path that begins with a descriptor of the thread, as other processes would name it."""
    for start in _OPEN_FOLDERS:
        number, slash, rest = text.removeprefix(start).partition("/")
        if text.startswith(start) and number.isascii() and number.isdigit() and slash:
            return f"{_folder(thread, int(number))}/{rest}"
    return text


def _folder(thread: int, number: int) -> str:
    return os.readlink(f"/proc/{thread}/cwd" if number == _HERE else f"/proc/{thread}/fd/{number}")


def _open_files(thread: int) -> list[str]:
    """The files that a thread has open, as far as they are visible."""
    found: list[str] = []
    folder = f"/proc/{thread}/fd"
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(f"{folder}/{name}"))
        except OSError:
            continue
    return found


def _signed(number: int) -> int:
    """A descriptor, as it is in the lower half of an argument."""
    half = number & 0xFFFFFFFF
    return half - (1 << 32) if half & 0x80000000 else half
