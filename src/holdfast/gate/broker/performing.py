"""The calls themselves: what opens files and changes names, once the leases are there.

Each call is made with the caller's own flags, mode and umask, on descriptors of ours. What would
fail without us fails in the same way, and takes no lease. What is open to the command anyway is
left to the kernel.

A call that stands in line, or would block, is made anew from its beginning when its time has come.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from fcntl import F_GETFL, F_SETFL, fcntl

from holdfast.gate.broker import system
from holdfast.gate.broker.finding import (
    Found,
    NotOurs,
    find,
    find_descriptor,
    find_name,
    is_proc,
    place_of,
)
from holdfast.gate.broker.kinds import GITS, LEASED, LEDGER, OUTSIDE
from holdfast.gate.broker.system import AT_FDCWD
from holdfast.gate.sandbox.seccomp import WRITING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.gate.broker.caller import Caller
    from holdfast.gate.broker.controlling import Controlling
    from holdfast.gate.broker.folders import Folders
    from holdfast.gate.broker.kinds import Kinds
    from holdfast.gate.broker.leases import Lease, Leases

    Arguments = tuple[int, ...]

_TMPFILE = 0o20000000 | os.O_DIRECTORY
#: All that `openat2` knows, which refuses what it does not.
_KNOWN_FLAGS = (
    os.O_ACCMODE | os.O_CREAT | os.O_EXCL | os.O_NOCTTY | os.O_TRUNC | os.O_APPEND | os.O_NONBLOCK
    | os.O_SYNC | os.O_DSYNC | os.O_ASYNC | os.O_DIRECT | 0o100000 | os.O_DIRECTORY | os.O_NOFOLLOW
    | os.O_NOATIME | os.O_CLOEXEC | os.O_PATH | 0o20000000
)  # fmt: skip
_HOW = struct.Struct("=QQQ")
_RESOLVE_KNOWN, _RESOLVE_CACHED, _RESOLVE_NO_MAGIC = 0x3F, 0x20, 0x02
_BENEATH, _IN_ROOT = 0x08, 0x10
_REMOVE_FOLDER = 0x200
_FOLLOW, _EMPTY = 0x400, 0x1000
_NOREPLACE, _EXCHANGE, _WHITEOUT = 1, 2, 4
_MADE_FOLDER = os.O_DIRECTORY | os.O_CREAT
_NO_NAME = -1
_LINKS_MAX = 40
#: What `mknod` makes.
_NODES = (0, stat.S_IFREG, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK)


class Blocks(Exception):
    """The call would block now; it is to be tried again."""


class Descriptor:
    """A descriptor that is to be handed in, as the answer to a call."""

    __slots__ = ("close_on_exec", "fd", "number")

    def __init__(self, fd: int, close_on_exec: bool, number: int | None = None) -> None:
        self.fd = fd
        self.close_on_exec = close_on_exec
        #: Which number it has to have for the caller, if that matters.
        self.number = number


Answer = int | Descriptor


def fail(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def signed(number: int) -> int:
    """A descriptor or a number of flags, as it is in the lower half of an argument."""
    half = number & 0xFFFFFFFF
    return half - (1 << 32) if half & 0x80000000 else half


class Performing:
    """What opens files, and changes names. A method for each call, by its name."""

    def __init__(
        self,
        kinds: Kinds,
        leases: Leases,
        controlling: Controlling,
        folders: Folders,
        is_open: Callable[[str, bool], bool],
        waits: bool,
    ) -> None:
        """`is_open` says whether Landlock leaves a path open: its content, or its name too."""
        self.kinds = kinds
        self.leases = leases
        self.controlling = controlling
        self.folders = folders
        self.is_open = is_open
        self.waits = waits
        #: How often something in git's folder got a new name: an index, perhaps a commit.
        self.git_moves = 0

    # Opening

    def open(self, caller: Caller, given: Arguments) -> Answer:
        return self._open(caller, AT_FDCWD, given[0], given[1], given[2])

    def creat(self, caller: Caller, given: Arguments) -> Answer:
        flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
        return self._open(caller, AT_FDCWD, given[0], flags, given[1])

    def openat(self, caller: Caller, given: Arguments) -> Answer:
        return self._open(caller, signed(given[0]), given[1], given[2], given[3])

    def openat2(self, caller: Caller, given: Arguments) -> Answer:
        size = given[3]
        if size < _HOW.size:
            raise fail(errno.EINVAL)
        if size > 4096 or any(caller.bytes_at(given[2], size)[_HOW.size :]):
            raise fail(errno.E2BIG)
        flags, mode, resolve = _HOW.unpack(caller.bytes_at(given[2], _HOW.size))
        _refuse_unknown(flags, mode, resolve)
        if not flags & WRITING or flags & os.O_PATH or flags & _MADE_FOLDER == _MADE_FOLDER:
            raise NotOurs  # it only reads, or the kernel has no such call
        if resolve & _RESOLVE_CACHED:
            raise fail(errno.EAGAIN)  # which is always allowed
        return self._open(caller, signed(given[0]), given[1], flags, mode, resolve)

    def _open(
        self, caller: Caller, number: int, at: int, flags: int, mode: int, resolve: int = 0
    ) -> Answer:
        if flags & os.O_PATH or flags & _MADE_FOLDER == _MADE_FOLDER:
            raise NotOurs  # nothing is opened to write; or the kernel has no such call
        text = caller.text(at)
        if not text:
            raise fail(errno.ENOENT)
        if not caller.has_room():
            raise fail(errno.EMFILE)  # before anything is made or emptied
        makes = bool(flags & os.O_CREAT)
        follow = not (flags & os.O_NOFOLLOW or (makes and flags & os.O_EXCL))
        if resolve:
            found = _find_how(caller, number, text, flags, resolve)
        else:
            found = find(caller, number, text, follow=follow, makes=makes)
        try:
            return self._open_found(caller, found, flags & 0xFFFFFFFF, mode & 0o7777)
        finally:
            found.close()

    def _open_found(self, caller: Caller, found: Found, flags: int, mode: int) -> Answer:
        kind = self.kinds.rough(found.path)[0]
        if kind == OUTSIDE and self.is_open(found.path, found.is_there):
            raise NotOurs
        if flags & _TMPFILE == _TMPFILE:
            os.umask(caller.umask)
            return _handed(_open_place(found, flags, mode), flags)
        if not found.is_there:
            return self._make_file(caller, found, flags, mode)
        if flags & os.O_CREAT and flags & os.O_EXCL:
            raise fail(errno.EEXIST)
        if found.is_folder or found.is_link or (found.tail and not found.is_folder):
            return _handed(_open_name(found, flags, mode), flags)  # which fails as it should
        writes = bool(flags & os.O_ACCMODE or flags & os.O_TRUNC)
        if not writes:
            raise NotOurs  # it would make the file, but that is there
        if not found.is_regular:
            return _handed(_open_pipe(found, flags), flags)
        if found.is_nameless:
            return _handed(_open_it(found, flags, mode), flags)
        staged = self.controlling.opened(caller, found, flags, mode)
        if staged is not None:
            return staged
        fresh = self.lease(caller, found)
        try:
            self.kinds.note_changed(found.path)
            fd = _open_it(found, flags, mode)
        except (OSError, Blocks):
            self.undo(fresh)
            raise
        return _handed(fd, flags)

    def _make_file(self, caller: Caller, found: Found, flags: int, mode: int) -> Answer:
        if not flags & os.O_CREAT:
            raise fail(errno.ENOENT)
        if found.tail:
            raise fail(errno.EISDIR)
        os.umask(caller.umask)
        staged = self.controlling.opened(caller, found, flags, mode)
        if staged is not None:
            return staged
        fresh = self.lease(caller, found)
        try:
            self.kinds.note_changed(found.path)
            fd = os.open(found.name, flags | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=found.folder)
        except FileExistsError:
            self.undo(fresh)
            if flags & os.O_EXCL:
                raise
            raise Blocks from None  # another process just made it: look again
        except OSError:
            self.undo(fresh)
            raise
        return _handed(fd, flags)

    def truncate(self, caller: Caller, given: Arguments) -> Answer:
        length = given[1] - (1 << 64) if given[1] >> 63 else given[1]
        if length < 0:
            raise fail(errno.EINVAL)
        found = find(caller, AT_FDCWD, caller.text(given[0]), follow=True)
        try:
            if not found.is_there:
                raise fail(errno.ENOENT)
            if found.tail and not found.is_folder:
                raise fail(errno.ENOTDIR)
            if self.kinds.rough(found.path)[0] == OUTSIDE and self.is_open(found.path, True):
                raise NotOurs
            fresh = None
            if found.is_regular and not found.is_nameless:
                self.controlling.refuse(found)
                fresh = self.lease(caller, found)
            try:
                _set_size(caller, found, length)
            except (OSError, Blocks):
                self.undo(fresh)
                raise
        finally:
            found.close()
        return 0

    # Making

    def mkdir(self, caller: Caller, given: Arguments) -> Answer:
        return self._make(caller, AT_FDCWD, given[0], self._make_folder, given[1])

    def mkdirat(self, caller: Caller, given: Arguments) -> Answer:
        return self._make(caller, signed(given[0]), given[1], self._make_folder, given[2])

    def mknod(self, caller: Caller, given: Arguments) -> Answer:
        _refuse_unknown_kind(given[1])
        return self._make(caller, AT_FDCWD, given[0], self._make_node, given[1], given[2])

    def mknodat(self, caller: Caller, given: Arguments) -> Answer:
        _refuse_unknown_kind(given[2])
        return self._make(caller, signed(given[0]), given[1], self._make_node, given[2], given[3])

    def symlink(self, caller: Caller, given: Arguments) -> Answer:
        target = _target(caller, given[0])
        return self._make(caller, AT_FDCWD, given[1], self._make_link, target)

    def symlinkat(self, caller: Caller, given: Arguments) -> Answer:
        target = _target(caller, given[0])
        return self._make(caller, signed(given[1]), given[2], self._make_link, target)

    def _make(
        self, caller: Caller, number: int, at: int, make: Callable[..., None], *how: object
    ) -> Answer:
        """Make something new, under a name that is free."""
        found = find_name(caller, number, caller.text(at))
        try:
            if found.folder < 0 or found.is_there:
                raise fail(errno.EEXIST)
            kind = self.kinds.rough(found.path)[0]
            if kind == OUTSIDE and self.is_open(found.path, False):
                raise NotOurs
            self.controlling.refuse_name(found, folder=make == self._make_folder)
            os.umask(caller.umask)
            make(caller, found, *how)
        finally:
            found.close()
        return 0

    def _make_folder(self, caller: Caller, found: Found, mode: int) -> None:
        if self._is_leased(found):
            self.leases.demand_free(found)
        elif self.kinds.rough(found.path)[0] == LEDGER:
            raise fail(errno.EACCES)
        os.mkdir(found.last, mode & 0o7777, dir_fd=found.folder)

    def _make_node(self, caller: Caller, found: Found, mode: int, device: int) -> None:
        with_lease = self.lease(caller, found)
        try:
            system.made(259, found.folder, found.last, mode & 0xFFFF, device)
        except OSError:
            self.undo(with_lease)
            raise

    def _make_link(self, caller: Caller, found: Found, target: bytes) -> None:
        fresh = self.lease(caller, found)
        try:
            system.made(266, target, found.folder, found.last)
        except OSError:
            self.undo(fresh)
            raise

    def link(self, caller: Caller, given: Arguments) -> Answer:
        return self._link(caller, (AT_FDCWD, given[0]), (AT_FDCWD, given[1]), 0)

    def linkat(self, caller: Caller, given: Arguments) -> Answer:
        old, new = (signed(given[0]), given[1]), (signed(given[2]), given[3])
        return self._link(caller, old, new, signed(given[4]))

    def _link(
        self, caller: Caller, old: tuple[int, int], new: tuple[int, int], flags: int
    ) -> Answer:
        if flags & ~(_FOLLOW | _EMPTY):
            raise fail(errno.EINVAL)
        text = caller.text(old[1])
        if not text and flags & _EMPTY:
            first = find_descriptor(caller, old[0])
        else:
            first = find(caller, old[0], text, follow=bool(flags & _FOLLOW))
        try:
            if not first.is_there:
                raise fail(errno.ENOENT)
            if first.tail and not first.is_folder:
                raise fail(errno.ENOTDIR)
            second = find_name(caller, new[0], caller.text(new[1]))
        except BaseException:
            first.close()
            raise
        try:
            self._link_found(caller, first, second, bool(not text))
        finally:
            first.close()
            second.close()
        return 0

    def _link_found(self, caller: Caller, first: Found, second: Found, is_empty: bool) -> None:
        if second.folder < 0 or second.is_there:
            raise fail(errno.EEXIST)
        if _lie_apart(first, second):
            raise fail(errno.EXDEV)
        if self._are_outside(first, second):
            raise NotOurs
        taken: list[Lease] = []
        if not first.is_nameless:
            self.controlling.refuse(first)
            if self.crosses(first, second):
                raise fail(errno.EXDEV)  # what is outside could be written without a lease
        self.controlling.refuse_name(second)
        try:
            # Both, since either name changes what is in the other.
            for one in (second,) if first.is_nameless or first.is_folder else (first, second):
                fresh = self.lease(caller, one)
                if fresh is not None:
                    taken.append(fresh)
            if first.folder >= 0 and not first.is_nameless:
                system.made(265, first.folder, first.last, second.folder, second.last, 0)
            elif is_empty:
                system.made(265, first.fd, b"", second.folder, second.last, _EMPTY)
            else:
                system.link(first.fd, second.folder, second.last)
        except BaseException:
            for fresh in taken:
                self.undo(fresh)
            raise

    # Removing and renaming

    def unlink(self, caller: Caller, given: Arguments) -> Answer:
        return self._remove(caller, AT_FDCWD, given[0], 0)

    def rmdir(self, caller: Caller, given: Arguments) -> Answer:
        return self._remove(caller, AT_FDCWD, given[0], _REMOVE_FOLDER)

    def unlinkat(self, caller: Caller, given: Arguments) -> Answer:
        return self._remove(caller, signed(given[0]), given[1], signed(given[2]))

    def _remove(self, caller: Caller, number: int, at: int, flags: int) -> Answer:
        if flags & ~_REMOVE_FOLDER:
            raise fail(errno.EINVAL)
        text = caller.text(at)
        found = find_name(caller, number, text)
        try:
            if found.folder < 0:
                raise fail(_of_no_name(text, flags))
            kind = self.kinds.rough(found.path)[0]
            if kind == OUTSIDE and self.is_open(found.path, False):
                raise NotOurs
            if found.is_folder and flags:
                self._demand_free_folder(found)
            fresh = None
            if found.is_there and not found.is_folder and not flags and not found.tail:
                self.controlling.refuse_removal(found)
                fresh = self.lease(caller, found)
            try:
                system.made(263, found.folder, found.last, flags)
            except OSError:
                self.undo(fresh)
                raise
            self._forget_made(found.path)
        finally:
            found.close()
        return 0

    def rename(self, caller: Caller, given: Arguments) -> Answer:
        return self._rename(caller, (AT_FDCWD, given[0]), (AT_FDCWD, given[1]), 0)

    def renameat(self, caller: Caller, given: Arguments) -> Answer:
        return self._rename(caller, (signed(given[0]), given[1]), (signed(given[2]), given[3]), 0)

    def renameat2(self, caller: Caller, given: Arguments) -> Answer:
        old, new = (signed(given[0]), given[1]), (signed(given[2]), given[3])
        return self._rename(caller, old, new, signed(given[4]))

    def _rename(
        self, caller: Caller, old: tuple[int, int], new: tuple[int, int], flags: int
    ) -> Answer:
        if flags & ~(_NOREPLACE | _EXCHANGE | _WHITEOUT) or (
            flags & _EXCHANGE and flags & (_NOREPLACE | _WHITEOUT)
        ):
            raise fail(errno.EINVAL)
        first = find_name(caller, old[0], caller.text(old[1]))
        try:
            second = find_name(caller, new[0], caller.text(new[1]))
        except BaseException:
            first.close()
            raise
        try:
            self._rename_found(caller, first, second, flags)
        finally:
            first.close()
            second.close()
        return 0

    def _rename_found(self, caller: Caller, first: Found, second: Found, flags: int) -> None:
        if _lie_apart(first, second):
            raise fail(errno.EXDEV)
        if first.folder < 0 or second.folder < 0:
            raise fail(errno.EEXIST if flags & _NOREPLACE and first.folder >= 0 else errno.EBUSY)
        if self._are_outside(first, second):
            raise NotOurs
        if self.crosses(first, second) and any(map(_has_other_names, (first, second))):
            raise fail(errno.EXDEV)
        if not self._will_fail(first, second, flags):
            if first.is_folder or (flags & _EXCHANGE and second.is_folder):
                self.folders.rename(caller, first, second, flags)
                return
            if self.controlling.published(caller, first, second, flags, self.lease):
                self._forget_made(first.path)
                return
        taken: list[Lease] = []
        try:
            if not self._will_fail(first, second, flags):
                for one in (second, first):
                    fresh = self.lease(caller, one)
                    if fresh is not None:
                        taken.append(fresh)
                    self.kinds.note_changed(one.path)
            system.rename(first.folder, first.last, second.folder, second.last, flags)
        except OSError:
            for fresh in taken:
                self.undo(fresh)
            raise
        if self.kinds.rough(second.path)[0] == GITS:
            self.git_moves += 1
        if not flags & _EXCHANGE:
            self._forget_made(first.path)

    def _will_fail(self, first: Found, second: Found, flags: int) -> bool:
        """Whether the kernel is sure to refuse it, or to do nothing: then no lease is needed."""
        if not first.is_there or (flags & _NOREPLACE and second.is_there):
            return True
        if flags & _EXCHANGE:
            return not second.is_there
        if first.status is not None and second.status is not None:
            if os.path.samestat(first.status, second.status):
                return True
            return first.is_folder != second.is_folder
        return bool((first.tail or second.tail) and not first.is_folder)

    # Leases

    def lease(self, caller: Caller, found: Found) -> Lease | None:
        """Have what is needed to change a file. The lease, if it was taken for this. Raises."""
        known = self.leases.mine.get(found.path)
        if known is not None:
            self.leases.take(caller, found)
            return None
        kind = self.kinds.of(found.path)
        if kind == LEASED:
            fresh = self.leases.take(caller, found, waits=self.waits)
            if fresh is not None:
                fresh.taken_at = self.git_moves
            return fresh
        if kind == LEDGER:
            raise fail(errno.EACCES)
        if kind not in (OUTSIDE, GITS):
            self.leases.demand_free(found)
        return None

    def undo(self, fresh: Lease | None) -> None:
        if fresh is not None and not fresh.moved_at:
            self.leases.drop(fresh.path)

    def _forget_made(self, path: str) -> None:
        """A name that was not there before, and is gone again, needs no lease."""
        lease = self.leases.mine.get(path)
        if lease is None or lease.existed:
            return
        if lease.taken_at != self.git_moves and self.kinds.is_in_git(path):
            lease.existed = True  # it was added or committed meanwhile: its removal is a change
            return
        self.leases.drop(path)

    def _is_leased(self, found: Found) -> bool:
        return self.kinds.rough(found.path)[0] == LEASED

    def _are_outside(self, first: Found, second: Found) -> bool:
        return all(
            self.kinds.rough(one.path)[0] == OUTSIDE and self.is_open(one.path, False)
            for one in (first, second)
        )

    def crosses(self, first: Found, second: Found) -> bool:
        """Whether one of them is outside, and the other is a file that can be leased."""
        kinds = {self.kinds.rough(one.path)[0] for one in (first, second)}
        return kinds == {OUTSIDE, LEASED}

    def _demand_free_folder(self, found: Found) -> None:
        kind = self.kinds.rough(found.path)[0]
        if kind == LEDGER:
            raise fail(errno.EACCES)
        if kind == LEASED:
            self.leases.demand_free_below(found)


def _refuse_unknown(flags: int, mode: int, resolve: int) -> None:
    """What `openat2` does not accept."""
    makes = flags & (os.O_CREAT | 0o20000000)
    is_wrong = (
        flags & ~_KNOWN_FLAGS
        or resolve & ~_RESOLVE_KNOWN
        or resolve & (_BENEATH | _IN_ROOT) == (_BENEATH | _IN_ROOT)
        or (mode & ~0o7777 if makes else mode)
    )
    if is_wrong:
        raise fail(errno.EINVAL)


def _find_how(caller: Caller, number: int, text: bytes, flags: int, resolve: int) -> Found:
    """What a path names by the rules of `openat2`."""
    if not text:
        raise fail(errno.ENOENT)
    is_apart = text.startswith(b"/") and not resolve & _IN_ROOT
    base = AT_FDCWD if is_apart else caller.open_folder(number)
    try:
        for _ in range(_LINKS_MAX):
            found = _look_how(base, text, flags, resolve)
            if found.is_there or not _is_link(found):
                break
            # A link to what is not there yet: that is what will be made.
            led = os.readlink(found.name, dir_fd=found.folder)
            text = led if led.startswith(b"/") else text[: -len(found.name)] + led
            found.close()
        else:
            raise fail(errno.ELOOP)
    finally:
        if base >= 0:
            os.close(base)
    if is_proc(found.folder if found.folder >= 0 else found.fd):
        found.close()
        raise NotOurs
    return found


def _look_how(base: int, text: bytes, flags: int, resolve: int) -> Found:
    makes = flags & os.O_CREAT
    above, _slash, name = text.rstrip(b"/").rpartition(b"/")
    is_name = name not in (b"", b".", b"..")
    where = above or (b"/" if text.startswith(b"/") else b".")
    to_folder = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    if makes and is_name and text.endswith(b"/"):
        os.close(system.open_how(base, where, to_folder, 0, resolve))
        raise fail(errno.EISDIR)
    kept = flags & (os.O_NOFOLLOW | os.O_DIRECTORY) | os.O_PATH | os.O_CLOEXEC
    if makes and flags & os.O_EXCL:
        kept |= os.O_NOFOLLOW
    try:
        fd = system.open_how(base, text, kept, 0, resolve)
    except FileNotFoundError:
        if not makes or not is_name:
            raise
        return Found(system.open_how(base, where, to_folder, 0, resolve), name, -1)
    folder = _NO_NAME
    try:
        if kept & os.O_NOFOLLOW and is_name:
            folder = system.open_how(base, where, to_folder, 0, resolve)
        return Found(folder, name if folder >= 0 else b"", fd)
    except BaseException:
        os.close(fd)
        raise


def _is_link(found: Found) -> bool:
    """Whether there is a link under a name, wherever that leads."""
    try:
        return stat.S_ISLNK(os.stat(found.name, dir_fd=found.folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _open_place(found: Found, flags: int, mode: int) -> int:
    """Open the very thing that was found, whatever its name leads to by now."""
    kept = flags & ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW) | os.O_CLOEXEC
    if flags & _TMPFILE == _TMPFILE:
        kept |= flags & os.O_EXCL
    return os.open(f"/proc/self/fd/{found.fd}", kept, mode)


def _open_it(found: Found, flags: int, mode: int) -> int:
    """Open a file that is there. Not even a lease of the kernel (fcntl) makes the broker wait: its
    holder has many seconds to give that back."""
    asked, fd = flags | os.O_NONBLOCK, -1
    try:
        if flags & os.O_NOFOLLOW and found.folder >= 0:
            fd = _open_name(found, asked, mode)  # so that the flag stays with the descriptor
        if fd < 0:
            fd = _open_place(found, asked, mode)
    except BlockingIOError:
        if flags & os.O_NONBLOCK:
            raise
        raise Blocks from None
    if not flags & os.O_NONBLOCK:
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~os.O_NONBLOCK)
    return fd


def _set_size(caller: Caller, found: Found, length: int) -> None:
    if not found.is_regular:
        system.made(76, b"/proc/self/fd/%d" % found.fd, length)  # which fails
        return
    fd = _open_it(found, os.O_WRONLY, 0)
    try:
        if length > os.fstat(fd).st_size and not caller.may_grow(length):
            raise fail(errno.EFBIG)
        os.ftruncate(fd, length)
    finally:
        os.close(fd)


def _open_name(found: Found, flags: int, mode: int) -> int:
    """Open it by its name, which says what is wrong with that. -1 if another file has it by now."""
    fd = os.open(found.last or b".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode,
                 dir_fd=found.folder if found.folder >= 0 else found.fd)  # fmt: skip
    if found.status is not None and not os.path.samestat(os.fstat(fd), found.status):
        os.close(fd)
        return -1
    return fd


def _open_pipe(found: Found, flags: int) -> int:
    """Something that may make its opener wait: that is not for the broker to do."""
    try:
        return _open_it(found, flags & ~(os.O_CREAT | os.O_EXCL), 0)
    except OSError as error:
        if error.errno == errno.ENXIO and not flags & os.O_NONBLOCK and _is_pipe(found):
            raise Blocks from error
        raise


def _has_other_names(found: Found) -> bool:
    """Whether a file, or one in a folder, has a name elsewhere, by which it could be written."""
    if found.is_folder:
        return any(
            status.st_nlink > 1 and stat.S_ISREG(status.st_mode)
            for _path, status in files_below(found.fd)
        )
    return found.status is not None and found.status.st_nlink > 1 and found.is_regular


def _is_pipe(found: Found) -> bool:
    return found.status is not None and stat.S_ISFIFO(found.status.st_mode)


def _target(caller: Caller, at: int) -> bytes:
    """What a link is to lead to."""
    text = caller.text(at)
    if not text:
        raise fail(errno.ENOENT)
    return text


def _refuse_unknown_kind(mode: int) -> None:
    kind = stat.S_IFMT(mode & 0xFFFF)
    if kind == stat.S_IFDIR:
        raise fail(errno.EPERM)
    if kind not in _NODES:
        raise fail(errno.EINVAL)


def _lie_apart(first: Found, second: Found) -> bool:
    """Whether two names are on different file systems."""
    places = [one.folder if one.folder >= 0 else one.fd for one in (first, second)]
    return os.fstat(places[0]).st_dev != os.fstat(places[1]).st_dev


def _handed(fd: int, flags: int) -> Descriptor:
    return Descriptor(fd, bool(flags & os.O_CLOEXEC))


def _of_no_name(text: bytes, flags: int) -> int:
    """What the kernel says of removing something that is no name in a folder."""
    last = text.rstrip(b"/").rpartition(b"/")[2]
    if not flags:
        return errno.EISDIR
    if last == b".":
        return errno.EINVAL
    return errno.ENOTEMPTY if last == b".." else errno.EBUSY


def files_below(fd: int) -> Iterator[tuple[str, os.stat_result]]:
    """Everything in a folder that is no folder itself, by its path from there."""
    top = place_of(fd)
    for folder, _folders, names in os.walk(top):
        for name in [*names, *(one for one in _folders if os.path.islink(f"{folder}/{one}"))]:
            path = f"{folder}/{name}"
            try:
                yield path[len(top) :], os.lstat(path)
            except OSError:
                continue
