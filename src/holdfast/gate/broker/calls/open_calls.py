"""The calls that open a file for writing, create it, or truncate it."""

from __future__ import annotations

import errno
import os
import stat
import struct
from fcntl import F_GETFL, F_SETFL, fcntl

from holdfast.gate.broker import heard_calls
from holdfast.gate.broker.calls.call_answers import Descriptor, WouldBlock, fail
from holdfast.gate.broker.heard_calls import AT_FDCWD, signed
from holdfast.gate.broker.places.path_lookup import (
    Found,
    KernelDecides,
    find,
    is_proc,
)
from holdfast.gate.sandbox.kernel.seccomp import WRITING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.broker.calling_thread import Caller
    from holdfast.gate.broker.calls.call_answers import (
        Answer,
        Arguments,
        CallContext,
    )

_TMPFILE = 0o20000000 | os.O_DIRECTORY
#: The flags that `openat2` accepts.
_KNOWN_FLAGS = (
    os.O_ACCMODE | os.O_CREAT | os.O_EXCL | os.O_NOCTTY | os.O_TRUNC | os.O_APPEND | os.O_NONBLOCK
    | os.O_SYNC | os.O_DSYNC | os.O_ASYNC | os.O_DIRECT | 0o100000 | os.O_DIRECTORY | os.O_NOFOLLOW
    | os.O_NOATIME | os.O_CLOEXEC | os.O_PATH | 0o20000000
)  # fmt: skip
_HOW = struct.Struct("=QQQ")
_RESOLVE_KNOWN, _RESOLVE_CACHED = 0x3F, 0x20
_BENEATH, _IN_ROOT = 0x08, 0x10
_MADE_FOLDER = os.O_DIRECTORY | os.O_CREAT
_NO_NAME = -1
_LINKS_MAX = 40


class OpenCalls:
    """A method for each call, by its name."""

    def __init__(self, context: CallContext) -> None:
        self._context = context

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
            raise KernelDecides  # it only reads, or the kernel refuses the flags
        if resolve & _RESOLVE_CACHED:
            raise fail(errno.EAGAIN)  # the kernel may always answer that
        return self._open(caller, signed(given[0]), given[1], flags, mode, resolve)

    def _open(
        self, caller: Caller, number: int, at: int, flags: int, mode: int, resolve: int = 0
    ) -> Answer:
        if flags & os.O_PATH or flags & _MADE_FOLDER == _MADE_FOLDER:
            raise KernelDecides  # nothing is opened for writing, or the kernel refuses the flags
        text = caller.text(at)
        if not text:
            raise fail(errno.ENOENT)
        if not caller.has_room():
            raise fail(errno.EMFILE)  # before anything is created or truncated
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
        if self._context.is_left_to_kernel(found, found.is_there):
            raise KernelDecides
        if flags & _TMPFILE == _TMPFILE:
            os.umask(caller.umask)
            return _handed(_open_place(found, flags, mode), flags)
        if not found.is_there:
            return self._make_file(caller, found, flags, mode)
        if flags & os.O_CREAT and flags & os.O_EXCL:
            raise fail(errno.EEXIST)
        if found.is_folder and found.folder < 0:
            raise fail(errno.EISDIR)
        if found.is_folder or found.is_link or found.tail:
            return _handed(_open_name(found, flags, mode), flags)  # fails with the right error
        writes = bool(flags & os.O_ACCMODE or flags & os.O_TRUNC)
        if not writes:
            raise KernelDecides  # O_CREAT without writing, and the file exists
        if not found.is_regular:
            return _handed(_open_pipe(found, flags), flags)
        if found.is_nameless:
            return _handed(_open_it(found, flags, mode), flags)
        staged = self._context.control_writes.opened(
            caller, found, flags, mode, self._context.lease
        )
        if staged is not None:
            return staged
        fresh = self._context.lease(caller, found)
        try:
            self._context.kinds.note_changed(found.path)
            fd = _open_it(found, flags, mode)
        except (OSError, WouldBlock):
            self._context.undo(fresh)
            raise
        return _handed(fd, flags)

    def _make_file(self, caller: Caller, found: Found, flags: int, mode: int) -> Answer:
        if not flags & os.O_CREAT:
            raise fail(errno.ENOENT)
        if found.tail:
            raise fail(errno.EISDIR)
        os.umask(caller.umask)
        staged = self._context.control_writes.opened(
            caller, found, flags, mode, self._context.lease
        )
        if staged is not None:
            return staged
        fresh = self._context.lease(caller, found)
        try:
            self._context.kinds.note_changed(found.path)
            fd = os.open(found.name, flags | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=found.folder)
        except FileExistsError:
            self._context.undo(fresh)
            if flags & os.O_EXCL:
                raise
            raise WouldBlock from None  # another process just created it: repeat the call
        except OSError:
            self._context.undo(fresh)
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
            if self._context.is_left_to_kernel(found, True):
                raise KernelDecides
            fresh = None
            if found.is_regular and not found.is_nameless:
                self._context.control_writes.refuse(found)
                fresh = self._context.lease(caller, found)
            try:
                _set_size(caller, found, length)
            except (OSError, WouldBlock):
                self._context.undo(fresh)
                raise
        finally:
            found.close()
        return 0


def _refuse_unknown(flags: int, mode: int, resolve: int) -> None:
    """Raise for arguments that `openat2` does not accept."""
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
    """Resolve a path by the rules of `openat2`."""
    if not text:
        raise fail(errno.ENOENT)
    is_apart = text.startswith(b"/") and not resolve & _IN_ROOT
    base = AT_FDCWD if is_apart else caller.open_folder(number)
    try:
        for _ in range(_LINKS_MAX):
            found = _look_how(base, text, flags, resolve)
            if found.is_there or not _is_link(found):
                break
            # A link to a missing file: the call will create the target.
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
        raise KernelDecides
    return found


def _look_how(base: int, text: bytes, flags: int, resolve: int) -> Found:
    makes = flags & os.O_CREAT
    above, _slash, name = text.rstrip(b"/").rpartition(b"/")
    is_name = name not in (b"", b".", b"..")
    where = above or (b"/" if text.startswith(b"/") else b".")
    to_folder = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    if makes and is_name and text.endswith(b"/"):
        os.close(heard_calls.open_how(base, where, to_folder, 0, resolve))
        raise fail(errno.EISDIR)
    kept = flags & (os.O_NOFOLLOW | os.O_DIRECTORY) | os.O_PATH | os.O_CLOEXEC
    if makes and flags & os.O_EXCL:
        kept |= os.O_NOFOLLOW
    try:
        fd = heard_calls.open_how(base, text, kept, 0, resolve)
    except FileNotFoundError:
        if not makes or not is_name:
            raise
        return Found(heard_calls.open_how(base, where, to_folder, 0, resolve), name, -1)
    folder = _NO_NAME
    try:
        if kept & os.O_NOFOLLOW and is_name:
            folder = heard_calls.open_how(base, where, to_folder, 0, resolve)
        return Found(folder, name if folder >= 0 else b"", fd)
    except BaseException:
        os.close(fd)
        raise


def _is_link(found: Found) -> bool:
    """Whether a name is a symbolic link."""
    try:
        return stat.S_ISLNK(os.stat(found.name, dir_fd=found.folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _open_place(found: Found, flags: int, mode: int) -> int:
    """Open the file that was found, whatever its name leads to now."""
    kept = flags & ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW) | os.O_CLOEXEC
    if flags & _TMPFILE == _TMPFILE:
        kept |= flags & os.O_EXCL
    return os.open(f"/proc/self/fd/{found.fd}", kept, mode)


def _open_it(found: Found, flags: int, mode: int) -> int:
    """Open a file that exists. The broker must not wait even for a kernel lease (fcntl), whose
    holder has many seconds to release it."""
    asked, fd = flags | os.O_NONBLOCK, -1
    try:
        if flags & os.O_NOFOLLOW and found.folder >= 0:
            fd = _open_name(found, asked, mode)  # so that the descriptor has the flag
        if fd < 0:
            fd = _open_place(found, asked, mode)
    except BlockingIOError:
        if flags & os.O_NONBLOCK:
            raise
        raise WouldBlock from None
    if not flags & os.O_NONBLOCK:
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~os.O_NONBLOCK)
    return fd


def _set_size(caller: Caller, found: Found, length: int) -> None:
    if not found.is_regular:
        heard_calls.syscall(
            76, b"/proc/self/fd/%d" % found.fd, length
        )  # fails with the right error
        return
    fd = _open_it(found, os.O_WRONLY, 0)
    try:
        if length > os.fstat(fd).st_size and not caller.may_grow(length):
            raise fail(errno.EFBIG)
        os.ftruncate(fd, length)
    finally:
        os.close(fd)


def _open_name(found: Found, flags: int, mode: int) -> int:
    """Open it by its name, for the kernel's own error. -1 if another file has that name now."""
    fd = os.open(found.last or b".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode,
                 dir_fd=found.folder if found.folder >= 0 else found.fd)  # fmt: skip
    if found.status is not None and not os.path.samestat(os.fstat(fd), found.status):
        os.close(fd)
        return -1
    return fd


def _open_pipe(found: Found, flags: int) -> int:
    """Open a file that may make its opener wait, which the broker must not."""
    try:
        return _open_it(found, flags & ~(os.O_CREAT | os.O_EXCL), 0)
    except OSError as error:
        if error.errno == errno.ENXIO and not flags & os.O_NONBLOCK and _is_pipe(found):
            raise WouldBlock from error
        raise


def _is_pipe(found: Found) -> bool:
    return found.status is not None and stat.S_ISFIFO(found.status.st_mode)


def _handed(fd: int, flags: int) -> Descriptor:
    return Descriptor(fd, bool(flags & os.O_CLOEXEC))
