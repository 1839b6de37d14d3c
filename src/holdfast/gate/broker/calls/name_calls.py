"""The calls that create, rename, link or remove a name."""

from __future__ import annotations

import errno
import os
import stat

from holdfast.gate.broker import heard_calls
from holdfast.gate.broker.calls.call_answers import fail
from holdfast.gate.broker.heard_calls import AT_FDCWD, signed
from holdfast.gate.broker.places.path_lookup import (
    Found,
    KernelDecides,
    files_below,
    find,
    find_name,
)
from holdfast.gate.broker.places.path_zones import GITS, LEDGER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.gate.broker.calling_thread import Caller
    from holdfast.gate.broker.calls.call_answers import (
        Answer,
        Arguments,
        CallContext,
    )
    from holdfast.gate.broker.calls.folder_rename import FolderRenames
    from holdfast.gate.broker.leasing.leased_files import Lease

_REMOVE_FOLDER = 0x200
_FOLLOW, _EMPTY = 0x400, 0x1000
_NOREPLACE, _EXCHANGE, _WHITEOUT = 1, 2, 4
#: The file types that `mknod` can create.
_NODES = (0, stat.S_IFREG, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK)


class NameCalls:
    """A method for each call, by its name."""

    def __init__(self, context: CallContext, folders: FolderRenames) -> None:
        self._context = context
        self._folders = folders

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
        """Create something under a name that does not exist."""
        found = find_name(caller, number, caller.text(at))
        try:
            if found.folder < 0 or found.is_there:
                raise fail(errno.EEXIST)
            if self._context.is_left_to_kernel(found, False):
                raise KernelDecides
            self._context.control_writes.refuse_name(found, folder=make == self._make_folder)
            os.umask(caller.umask)
            make(caller, found, *how)
        finally:
            found.close()
        return 0

    def _make_folder(self, caller: Caller, found: Found, mode: int) -> None:
        if self._context.is_leased(found):
            self._context.leases.demand_free(found)
        elif self._context.kinds.rough(found.path)[0] == LEDGER:
            raise fail(errno.EACCES)
        os.mkdir(found.last, mode & 0o7777, dir_fd=found.folder)
        if self._context.is_leased(found):
            self._context.leases.made_folder(found.path)

    def _make_node(self, caller: Caller, found: Found, mode: int, device: int) -> None:
        with_lease = self._context.lease(caller, found)
        try:
            heard_calls.syscall(259, found.folder, found.last, mode & 0xFFFF, device)
        except OSError:
            self._context.undo(with_lease)
            raise

    def _make_link(self, caller: Caller, found: Found, target: bytes) -> None:
        fresh = self._context.lease(caller, found)
        try:
            heard_calls.syscall(266, target, found.folder, found.last)
        except OSError:
            self._context.undo(fresh)
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
            first = Found(-1, b"", caller.open_folder(old[0]))
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
        if second.tail:
            raise fail(errno.ENOENT)  # only a folder can be created with a slash after its name
        if _lie_apart(first, second):
            raise fail(errno.EXDEV)
        if self._context.are_outside(first, second):
            raise KernelDecides
        taken: list[Lease] = []
        if not first.is_nameless:
            self._context.control_writes.refuse(first)
            if self._context.crosses(first, second):
                raise fail(errno.EXDEV)  # the name outside could be written without a lease
        self._context.control_writes.refuse_name(second)
        try:
            # Both, since a write through one name changes the other.
            for one in (second,) if first.is_nameless or first.is_folder else (first, second):
                fresh = self._context.lease(caller, one)
                if fresh is not None:
                    taken.append(fresh)
            if first.folder >= 0 and not first.is_nameless:
                heard_calls.syscall(265, first.folder, first.last, second.folder, second.last, 0)
            elif is_empty:
                heard_calls.syscall(265, first.fd, b"", second.folder, second.last, _EMPTY)
            else:
                heard_calls.link(first.fd, second.folder, second.last)
        except BaseException:
            for fresh in taken:
                self._context.undo(fresh)
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
            if self._context.is_left_to_kernel(found, False):
                raise KernelDecides
            if found.is_folder and flags:
                self._context.demand_free_folder(found)
            fresh = None
            if not found.is_folder and not flags and not found.tail:
                fresh = self._lease_to_remove(caller, found)
            try:
                (os.rmdir if flags else os.unlink)(found.last, dir_fd=found.folder)
            except OSError:
                if found.is_there:
                    self._context.undo(fresh)
                raise
            self._context.forget_made(found.path)
        finally:
            found.close()
        return 0

    def _lease_to_remove(self, caller: Caller, found: Found) -> Lease | None:
        context = self._context
        if found.is_there:
            context.control_writes.refuse_removal(found)
        elif not context.leases.keeps_absent or context.control_writes.what(found.path, 1):
            return None
        return context.lease(caller, found)

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
        if self._context.are_outside(first, second):
            raise KernelDecides
        if self._context.crosses(first, second) and any(map(_has_other_names, (first, second))):
            raise fail(errno.EXDEV)
        if not self._will_fail(first, second, flags):
            if first.is_folder or (flags & _EXCHANGE and second.is_folder):
                self._folders.rename(caller, first, second, flags)
                return
            if self._context.control_writes.published(
                caller, first, second, flags, self._context.lease
            ):
                self._context.forget_made(first.path)
                return
        taken: list[Lease] = []
        try:
            if not self._will_fail(first, second, flags):
                for one in (second, first):
                    fresh = self._context.lease(caller, one)
                    if fresh is not None:
                        taken.append(fresh)
                    self._context.kinds.note_changed(one.path)
            heard_calls.rename(first.folder, first.last, second.folder, second.last, flags)
        except OSError:
            for fresh in taken:
                self._context.undo(fresh)
            raise
        if self._context.kinds.rough(second.path)[0] == GITS:
            self._context.git_moves += 1
        if not flags & _EXCHANGE:
            self._context.forget_made(first.path)

    def _will_fail(self, first: Found, second: Found, flags: int) -> bool:
        """Whether the kernel will certainly refuse, or do nothing: then no lease is needed."""
        if not first.is_there or (flags & _NOREPLACE and second.is_there):
            return True
        if flags & _EXCHANGE:
            return not second.is_there
        if first.status is not None and second.status is not None:
            if os.path.samestat(first.status, second.status):
                return True
            return first.is_folder != second.is_folder
        return bool((first.tail or second.tail) and not first.is_folder)


def _has_other_names(found: Found) -> bool:
    """Whether a file, or any file in a folder, has another name, through which it is writable."""
    if found.is_folder:
        return any(
            status.st_nlink > 1 and stat.S_ISREG(status.st_mode)
            for _path, status in files_below(found.fd)
        )
    return found.status is not None and found.status.st_nlink > 1 and found.is_regular


def _target(caller: Caller, at: int) -> bytes:
    """The target of a new symbolic link."""
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


def _of_no_name(text: bytes, flags: int) -> int:
    """The kernel's error for the removal of a path that does not end in a name."""
    last = text.rstrip(b"/").rpartition(b"/")[2]
    if not flags:
        return errno.EISDIR
    if last == b".":
        return errno.EINVAL
    return errno.ENOTEMPTY if last == b".." else errno.EBUSY
