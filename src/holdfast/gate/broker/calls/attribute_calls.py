"""Modes, owners, times and attributes, which Landlock does not handle.

So the kernel never makes such a call itself below a broker: between the check and the call, the
caller could redirect the path. The broker makes all of them, even outside the repository, on the
file that it checked.
"""

from __future__ import annotations

import errno
import os
import struct

from holdfast.gate.broker import heard_calls
from holdfast.gate.broker.calls.call_answers import fail
from holdfast.gate.broker.heard_calls import AT_FDCWD, signed
from holdfast.gate.broker.places.path_lookup import find, find_descriptor
from holdfast.gate.broker.places.path_zones import LEASED, LEDGER, OUTSIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.gate.broker.calling_thread import Caller
    from holdfast.gate.broker.calls.call_answers import (
        Answer,
        Arguments,
        CallContext,
    )
    from holdfast.gate.broker.places.path_lookup import Found

_NOFOLLOW, _EMPTY = 0x100, 0x1000
_NAME_BYTES_MAX, _VALUE_BYTES_MAX = 255, 65_536
_CREATE, _REPLACE = 1, 2
_PAIR = struct.Struct("=qq")
_TIMES = struct.Struct("=qqqq")
_MICROSECONDS = 1_000_000
_OMIT = (1 << 30) - 2


class AttributeCalls:
    """A method for each call, by its name."""

    def __init__(
        self, context: CallContext, *, is_open: Callable[[str, bool], bool] | None
    ) -> None:
        """If the outside is closed, `is_open` says what is open there, for these calls too."""
        self._context = context
        self._is_open = is_open

    # Modes

    def chmod(self, caller: Caller, given: Arguments) -> Answer:
        return self._chmod(caller, AT_FDCWD, given[0], given[1], 0)

    def fchmodat(self, caller: Caller, given: Arguments) -> Answer:
        return self._chmod(caller, signed(given[0]), given[1], given[2], 0)

    def fchmodat2(self, caller: Caller, given: Arguments) -> Answer:
        return self._chmod(caller, signed(given[0]), given[1], given[2], signed(given[3]))

    def fchmod(self, caller: Caller, given: Arguments) -> Answer:
        return self._at_descriptor(caller, signed(given[0]), _changes_mode(given[1]))

    def _chmod(self, caller: Caller, number: int, at: int, mode: int, flags: int) -> Answer:
        return self._at(caller, number, at, flags, _changes_mode(mode))

    # Owners

    def chown(self, caller: Caller, given: Arguments) -> Answer:
        return self._at(caller, AT_FDCWD, given[0], 0, _changes_owner(given[1], given[2]))

    def lchown(self, caller: Caller, given: Arguments) -> Answer:
        return self._at(caller, AT_FDCWD, given[0], _NOFOLLOW, _changes_owner(given[1], given[2]))

    def fchownat(self, caller: Caller, given: Arguments) -> Answer:
        change = _changes_owner(given[2], given[3])
        return self._at(caller, signed(given[0]), given[1], signed(given[4]), change)

    def fchown(self, caller: Caller, given: Arguments) -> Answer:
        return self._at_descriptor(caller, signed(given[0]), _changes_owner(given[1], given[2]))

    # Times

    def utime(self, caller: Caller, given: Arguments) -> Answer:
        times = None
        if given[1]:
            accessed, changed = _PAIR.unpack(caller.bytes_at(given[1], _PAIR.size))
            times = _TIMES.pack(accessed, 0, changed, 0)
        return self._at(caller, AT_FDCWD, given[0], 0, _Times(times))

    def utimes(self, caller: Caller, given: Arguments) -> Answer:
        return self._at(caller, AT_FDCWD, given[0], 0, _Times(_micro(caller, given[1])))

    def futimesat(self, caller: Caller, given: Arguments) -> Answer:
        change = _Times(_micro(caller, given[2]))
        if not given[1] and signed(given[0]) != AT_FDCWD:
            return self._at_descriptor(caller, signed(given[0]), change)
        return self._at(caller, signed(given[0]), given[1], 0, change)

    def utimensat(self, caller: Caller, given: Arguments) -> Answer:
        times = caller.bytes_at(given[2], _TIMES.size) if given[2] else None
        if times is not None and _TIMES.unpack(times)[1::2] == (_OMIT, _OMIT):
            return 0  # the kernel checks nothing else in this case
        change = _Times(times)
        if not given[1] and signed(given[0]) != AT_FDCWD:
            if signed(given[3]):
                raise fail(errno.EINVAL)
            return self._at_descriptor(caller, signed(given[0]), change)
        return self._at(caller, signed(given[0]), given[1], signed(given[3]), change)

    # Attributes

    def setxattr(self, caller: Caller, given: Arguments) -> Answer:
        return self._at(caller, AT_FDCWD, given[0], 0, _sets(caller, given))

    def lsetxattr(self, caller: Caller, given: Arguments) -> Answer:
        return self._at(caller, AT_FDCWD, given[0], _NOFOLLOW, _sets(caller, given))

    def fsetxattr(self, caller: Caller, given: Arguments) -> Answer:
        return self._at_descriptor(caller, signed(given[0]), _sets(caller, given))

    def removexattr(self, caller: Caller, given: Arguments) -> Answer:
        return self._at(caller, AT_FDCWD, given[0], 0, _removes(caller, given))

    def lremovexattr(self, caller: Caller, given: Arguments) -> Answer:
        return self._at(caller, AT_FDCWD, given[0], _NOFOLLOW, _removes(caller, given))

    def fremovexattr(self, caller: Caller, given: Arguments) -> Answer:
        return self._at_descriptor(caller, signed(given[0]), _removes(caller, given))

    def setxattrat(self, caller: Caller, given: Arguments) -> Answer:
        raise fail(errno.ENOSYS)  # the C library falls back

    def removexattrat(self, caller: Caller, given: Arguments) -> Answer:
        raise fail(errno.ENOSYS)

    # All of them

    def _at(
        self, caller: Caller, number: int, at: int, flags: int, change: Callable[[Found], None]
    ) -> Answer:
        if flags & ~(_NOFOLLOW | _EMPTY):
            raise fail(errno.EINVAL)
        text = caller.text(at)
        if not text and flags & _EMPTY:
            if number == AT_FDCWD:
                text = b"."
            else:
                return self._mark(caller, find_descriptor(caller, number), change)
        found = find(caller, number, text, follow=not flags & _NOFOLLOW)
        return self._mark(caller, found, change)

    def _at_descriptor(
        self, caller: Caller, number: int, change: Callable[[Found], None]
    ) -> Answer:
        if number < 0 or caller.descriptor_flags(number) & os.O_PATH:
            raise fail(errno.EBADF)
        return self._mark(caller, find_descriptor(caller, number), change)

    def _mark(self, caller: Caller, found: Found, change: Callable[[Found], None]) -> Answer:
        context = self._context
        try:
            if not found.is_there:
                raise fail(errno.ENOENT)
            if found.tail and not found.is_folder:
                raise fail(errno.ENOTDIR)
            fresh = None
            kind = context.kinds.rough(found.path)[0]
            if kind == LEDGER:
                raise fail(errno.EACCES)
            if kind == OUTSIDE:
                if self._is_open is not None and not self._is_open(found.path, True):
                    raise fail(errno.EACCES)
            elif found.is_folder:
                if kind == LEASED and isinstance(change, _Times):
                    context.leases.demand_free_below(found)  # times are not backed up
                elif kind == LEASED:
                    context.leases.demand_may_change(found)
            elif not found.is_nameless:
                context.control_writes.refuse_mode(found)
                fresh = context.lease(caller, found)
            try:
                change(found)
            except OSError:
                context.undo(fresh)
                raise
        finally:
            found.close()
        return 0


def _place(found: Found) -> bytes:
    return b"/proc/self/fd/%d" % found.fd


def _changes_mode(mode: int) -> Callable[[Found], None]:
    return lambda found: os.chmod(_place(found), mode & 0o7777)


def _changes_owner(user: int, group: int) -> Callable[[Found], None]:
    def change(found: Found) -> None:
        heard_calls.syscall(260, found.fd, b"", signed(user), signed(group), _EMPTY)

    return change


class _Times:
    """A change of times."""

    __slots__ = ("_times",)

    def __init__(self, times: bytes | None) -> None:
        self._times = times

    def __call__(self, found: Found) -> None:
        heard_calls.syscall(280, found.fd, b"", self._times, _EMPTY)


def _micro(caller: Caller, at: int) -> bytes | None:
    if not at:
        return None
    accessed, more, changed, still_more = _TIMES.unpack(caller.bytes_at(at, _TIMES.size))
    if not (0 <= more < _MICROSECONDS and 0 <= still_more < _MICROSECONDS):
        raise fail(errno.EINVAL)
    return _TIMES.pack(accessed, more * 1000, changed, still_more * 1000)


def _attribute(caller: Caller, at: int) -> bytes:
    name = caller.text(at)
    if not 0 < len(name) <= _NAME_BYTES_MAX:
        raise fail(errno.ERANGE)
    return name


def _sets(caller: Caller, given: Arguments) -> Callable[[Found], None]:
    flags, size = signed(given[4]), given[3]
    if flags & ~(_CREATE | _REPLACE):
        raise fail(errno.EINVAL)
    name = _attribute(caller, given[1])
    if size > _VALUE_BYTES_MAX:
        raise fail(errno.E2BIG)
    value = caller.bytes_at(given[2], size) if size else b""
    return lambda found: os.setxattr(_place(found), name, value, flags)


def _removes(caller: Caller, given: Arguments) -> Callable[[Found], None]:
    name = _attribute(caller, given[1])
    return lambda found: os.removexattr(_place(found), name)
