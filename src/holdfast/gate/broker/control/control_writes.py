"""Control files: never handed out writable, and checked before a change is published.

Programs outside the sandbox execute or obey such a file (`manager.files.control_files`). A tool
changes one in two ways:

- it renames a new file over it, as git does: then the new bytes are copied and checked, and the
  copy gets the name; the tool's own file, which it may still have open, is removed;
- it writes it in place: then it gets a descriptor of a copy, with a high number, so that the broker
  hears its close. When that is closed, the bytes are copied, checked and published.

The check is on the change. In git's settings, no setting that makes git execute something may
change; a pointer from a work tree to its repository must lead to this repository; settings of
Holdfast and of agents' clients must keep their meaning. All other control files must not change.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

from holdfast.gate.broker.calls.call_answers import Descriptor, fail
from holdfast.gate.broker.control.git_includes import included
from holdfast.gate.broker.heard_calls import HIGH_DESCRIPTOR
from holdfast.gate.broker.places.path_zones import GITS, LEDGER, OUTSIDE
from holdfast.manager.files.control_files import GIT_HOOKS, TABLE, control_of
from holdfast.manager.files.realpath import plain
from holdfast.manager.files.replace_file import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from tempfile import TemporaryDirectory

    from holdfast.gate.broker.calling_thread import Caller
    from holdfast.gate.broker.leasing.leased_files import Lease
    from holdfast.gate.broker.places.path_kinds import PathKinds
    from holdfast.gate.broker.places.path_lookup import Found
    from holdfast.manager.files.control_files import Control, Controls

    TakeLease = Callable[[Caller, Found], "Lease | None"]

_BYTES_MAX = 1 << 20
_HIGHEST = 1023
_CLOSED_AFTER_WRITING = 0x8
_EVENT = struct.Struct("iIII")

#: The kinds of control files, which decide how a change is checked.
SETTINGS, POINTER, COMMON, EXECUTED, FIXED = "settings", "pointer", "common", "executed", "fixed"
TEXT = "text"

#: Folders in git's own folder that contain only data.
_DATA = ("objects", "refs", "logs", "lfs")
#: Parts of git's own folder that contain such folders of other repositories.
_INNER = ("modules", "worktrees")
_KNOWN = (*_DATA, *_INNER, "hooks", "info", "config")


class Staged:
    """A control file that is being written as a copy."""

    __slots__ = ("fd", "file", "mode", "path", "published", "what")

    def __init__(self, path: str, what: str, file: str, fd: int, mode: int) -> None:
        self.path = path
        self.what = what
        self.file = file
        self.fd = fd
        self.mode = mode
        #: The bytes that were checked last.
        self.published: bytes | None = None


class ControlWrites:
    """The control files of one repository. Close it."""

    def __init__(self, kinds: PathKinds, controls: Controls, say: Callable[[str], None]) -> None:
        self._kinds = kinds
        self._controls = controls
        self._say = say
        self._folder: TemporaryDirectory[str] | None = None
        self._staged: dict[tuple[int, int], Staged] = {}
        #: The files that git's settings include.
        self._settings_beside = included(controls.root)
        library = ctypes.CDLL(None, use_errno=True)
        self._add_watch = library.inotify_add_watch
        #: Readable when a copy was closed in another way.
        self.ear: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watches: dict[int, Staged] = {}

    # Which files are control files

    def what(self, path: str, links: int = 1) -> str:
        """How a change of a path is checked; empty if it is not a control file. `links` is the
        number of the file's names."""
        kind, _checkout, inner = self._kinds.rough(path)
        if kind == GITS:
            return _in_git(inner)
        if kind in (OUTSIDE, LEDGER):
            return ""
        control = _by_words(inner)
        if control is None:
            control = self._controls.of(path) if links > 1 or _may_be_special(path) else None
        if control is None:
            return SETTINGS if path in self._settings_beside else ""
        if control.judge:
            return TEXT
        return EXECUTED if control.is_folder else FIXED

    def refuse(self, found: Found) -> None:
        """Raise if this is a control file, whose content must not be changed like this."""
        links = found.status.st_nlink if found.status is not None else 1
        if self.what(found.path, links):
            raise self._refused(found.path)

    def refuse_mode(self, found: Found) -> None:
        """Raise if a change of mode could make something executable."""
        if self.what(found.path) == EXECUTED:
            raise self._refused(found.path)

    def refuse_name(self, found: Found, *, folder: bool = False) -> None:
        """Raise if this name must not be created. A folder may be, since it is empty."""
        if folder:
            return
        if self.what(found.path) or _leads_to_one(self._inner(found.path)):
            raise self._refused(found.path)

    def refuse_removal(self, found: Found) -> None:
        """Raise if this must not be removed."""
        what = self.what(found.path, found.status.st_nlink if found.status is not None else 1)
        if what in (POINTER, COMMON) or (what == SETTINGS and not self._is_main(found.path)):
            return
        if what:
            raise self._refused(found.path)

    def _is_main(self, path: str) -> bool:
        return os.path.dirname(path) in (f"{self._controls.root}/.git", self._controls.root)

    def _inner(self, path: str) -> str:
        return self._kinds.rough(path)[2]

    def _refused(self, path: str, why: str = "") -> OSError:
        inner = self._inner(path) or path
        control = control_of(inner)
        reason = control.why if control is not None else "git executes its target"
        of = control.of if control is not None else "git"
        self._say(
            f"{plain(inner)} controls {of} ({reason}), so no command below run --lease may change "
            f"it{f' like this: {why}' if why else ''}"
        )
        return fail(errno.EACCES)

    # Written in place

    def opened(
        self, caller: Caller, found: Found, flags: int, mode: int, take_lease: TakeLease
    ) -> Descriptor | None:
        """A descriptor of a copy; None if this is not a control file. Raises OSError."""
        links = found.status.st_nlink if found.status is not None else 1
        what = self.what(found.path, links)
        if not what:
            return None
        from tempfile import mkstemp

        if what in (EXECUTED, FIXED) or (not os.access(found.path, os.W_OK) and found.is_there):
            raise self._refused(found.path)
        take_lease(caller, found)
        text = b"" if flags & os.O_TRUNC else _bytes_of(found)
        number = _free_number(caller)
        folder = self._aside()
        fd, file = mkstemp(dir=folder)
        os.write(fd, text)
        os.close(fd)
        kept = flags & ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_TRUNC) | os.O_CLOEXEC
        given = os.open(file, kept)
        permitted = stat.S_IMODE(found.status.st_mode) if found.status else mode & ~caller.umask
        kept_open = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        staged = Staged(found.path, what, file, kept_open, permitted)
        status = os.fstat(given)
        self._staged[status.st_dev, status.st_ino] = staged
        watch = self._add_watch(self.ear, os.fsencode(file), _CLOSED_AFTER_WRITING)
        self._watches[watch] = staged
        return Descriptor(given, bool(flags & os.O_CLOEXEC), number)

    def closing(self, caller: Caller, number: int) -> None:
        """The caller is about to close a descriptor with a high number."""
        if not self._staged:
            return
        try:
            status = os.stat(f"{caller.folder}/fd/{number}")
        except OSError:
            return
        staged = self._staged.get((status.st_dev, status.st_ino))
        if staged is not None and not _is_open_twice(caller, status):
            self._publish(staged)

    def hear(self) -> None:
        """Publish copies that were closed without a call that the broker heard."""
        try:
            told = os.read(self.ear, 65_536)
        except BlockingIOError:
            return
        while told:
            watch, _mask, _cookie, size = _EVENT.unpack_from(told)
            told = told[_EVENT.size + size :]
            if watch in self._watches:
                self._publish(self._watches[watch])

    def _publish(self, staged: Staged) -> None:
        new = os.pread(staged.fd, _BYTES_MAX + 1, 0)
        if new == staged.published:
            return
        staged.published = new
        old = _text_at(staged.path)
        why: str | None = "its folder now leads elsewhere"
        if os.path.realpath(staged.path) == staged.path:
            why = self._why_not(staged.path, staged.what, old, new)
        if why is not None:
            self._refused(staged.path, why)
            return
        if new != old:
            try:
                _replace(staged.path, new, staged.mode)
            except OSError as error:
                self._say(f"{plain(staged.path)} could not be written: {error.strerror}")

    def _aside(self) -> str:
        if self._folder is None:
            from tempfile import TemporaryDirectory

            self._folder = TemporaryDirectory(prefix="holdfast-aside-")
        return self._folder.name

    # Renamed over

    def published(
        self, caller: Caller, first: Found, second: Found, flags: int, take_lease: TakeLease
    ) -> bool:
        """Whether a rename was onto a control file, and was done here. Raises OSError if it is not
        permitted."""
        what = self.what(second.path)
        if self.what(first.path):
            raise self._refused(first.path)
        if not what:
            if first.is_link and _leads_to_one(self._inner(second.path)):
                raise self._refused(second.path)
            return False
        if flags or not first.is_regular or what == EXECUTED:
            raise self._refused(second.path)
        new = _bytes_of(first)
        old = _text_at(second.path)
        why = self._why_not(second.path, what, old, new)
        if why is not None:
            raise self._refused(second.path, why)
        take_lease(caller, second)
        assert first.status is not None
        _replace(second.path, new, stat.S_IMODE(first.status.st_mode))
        os.unlink(first.name, dir_fd=first.folder)
        return True

    def moves(self, old: str, new: str) -> None:
        """Verify that a file that is moved with its folder neither becomes nor stops being a
        control file. Raises OSError."""
        if control_of(self._inner(old)) is not control_of(self._inner(new)):
            raise self._refused(new if control_of(self._inner(new)) else old)
        if self.what(old) != self.what(new):
            raise self._refused(new)

    # Checking

    def _why_not(self, path: str, what: str, old: bytes | None, new: bytes) -> str | None:
        """Why a change is refused; None if it is permitted."""
        if new == old:
            return None
        if len(new) > _BYTES_MAX:
            return "the new content is larger than 1 MiB"
        if what == SETTINGS:
            from holdfast.gate.broker.control.git_settings import UNREADABLE, danger

            found = danger(old or b"", new, of_module="/.git/modules/" in path)
            if found and found != UNREADABLE:
                return f"it would change {found}"
            return found or None
        if what == POINTER:
            return None if self._leads_home(path, new) else "it would lead to another repository"
        if what == COMMON:
            home = os.path.dirname(os.path.dirname(os.path.dirname(path)))
            led = os.path.join(os.path.dirname(path), os.fsdecode(new.strip()))
            is_home = os.path.realpath(led) == os.path.realpath(home)
            return None if is_home else "it would lead to another repository"
        if what == TEXT and old is not None and _says_the_same(path, old, new):
            return None
        return "its settings would change"

    def _leads_home(self, path: str, new: bytes) -> bool:
        start = b"gitdir: "
        if not new.startswith(start):
            return False
        led = os.fsdecode(new[len(start) :].rstrip(b"\r\n"))
        real = os.path.realpath(os.path.join(os.path.dirname(path), led))
        kind, _checkout, inner = self._kinds.rough(real)
        parts = inner.split("/")
        return kind == GITS and any(part in _INNER for part in parts)

    def close(self) -> None:
        for staged in self._staged.values():
            os.close(staged.fd)
        self._staged.clear()
        os.close(self.ear)
        if self._folder is not None:
            self._folder.cleanup()


def _in_git(inner: str) -> str:
    """The kind of a path in a git folder. `inner` contains that folder's name."""
    parts = inner.split("/")
    parts = parts[len(parts) - 1 - parts[::-1].index(".git") + 1 :]
    if not parts:
        return POINTER
    while len(parts) > 2 and parts[0] in _INNER:
        # A module's name may contain slashes: its folder begins at the first known entry.
        parts = parts[2:]
        while len(parts) > 1 and parts[0] not in _KNOWN:
            parts = parts[1:]
    if not parts or parts[0] in _DATA:
        return ""
    if parts[0] == "holdfast":
        return EXECUTED
    if parts[0] == "hooks" and len(parts) > 1:
        # Not only git's own hook names: a hook may run other files in the folder.
        return "" if parts[1].endswith(".sample") else EXECUTED
    if len(parts) == 1:
        if parts[0] in ("config", "config.worktree"):
            return SETTINGS
        if parts[0] == "commondir":
            return COMMON
    return ""


#: One call needs the same path several times, and one program's calls need the same paths.
_remembered: dict[str, Control | None] = {}
_REMEMBERED_MAX = 4096


def _by_words(inner: str) -> Control | None:
    if inner not in _remembered:
        if len(_remembered) >= _REMEMBERED_MAX:
            _remembered.clear()
        _remembered[inner] = control_of(inner)
    return _remembered[inner]


_first_parts = frozenset(
    "/".join(control.name.rstrip("/").split("/")[:depth])
    for control in TABLE
    for depth in range(1, len(control.name.rstrip("/").split("/")) + 1)
)


def _leads_to_one(inner: str) -> bool:
    """Whether a link of this name could replace a folder that contains control files."""
    parts = inner.casefold().split("/")
    if parts[-1] in ("hooks", "config") and ".git" in parts:
        return True
    return any("/".join(parts[at:]) in _first_parts for at in range(len(parts)))


def _may_be_special(path: str) -> bool:
    """Whether git may execute it wherever it is: then the file system must be checked."""
    return os.path.basename(path) in GIT_HOOKS


def _free_number(caller: Caller) -> int:
    for number in range(HIGH_DESCRIPTOR, _HIGHEST):
        if not os.path.lexists(f"{caller.folder}/fd/{number}"):
            return number
    raise fail(errno.EMFILE)


def _is_open_twice(caller: Caller, status: os.stat_result) -> bool:
    """Whether the caller has a file open under several numbers, as a shell that redirects output
    has: then this close is not the last."""
    found = 0
    for name in os.listdir(f"{caller.folder}/fd"):
        try:
            found += os.path.samestat(os.stat(f"{caller.folder}/fd/{name}"), status)
        except OSError:
            continue
    return found > 1


def _bytes_of(found: Found) -> bytes:
    if not found.is_there:
        return b""
    fd = os.open(f"/proc/self/fd/{found.fd}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        text = b""
        while some := os.read(fd, _BYTES_MAX):
            text += some
            if len(text) > _BYTES_MAX:
                raise fail(errno.EFBIG)
        return text
    finally:
        os.close(fd)


def _text_at(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(_BYTES_MAX + 1)
    except OSError:
        return None


def _replace(path: str, new: bytes, mode: int) -> None:
    """Replace a file by a copy of checked bytes."""
    replace_file(path, new, mode=mode, mode_at_least=mode)


def _says_the_same(path: str, old: bytes, new: bytes) -> bool:
    import json
    import tomllib

    load = tomllib.loads if path.endswith(".toml") else json.loads
    try:
        return bool(load(old.decode()) == load(new.decode()))
    except (ValueError, RecursionError):
        return False
