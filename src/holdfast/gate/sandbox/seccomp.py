"""Seccomp: to be told of some system calls of a process, before the kernel makes them.

A process puts a filter on itself, which binds all that it starts; whoever has the filter's
listener is told of the calls that the filter names, and lets each of them go on. Named are those
that open something to write, or change names:

    open, openat, creat, openat2, truncate, mkdir, symlink, link, rename, unlink, and their like

Whether an open is for writing is looked at in the filter itself, so that reading costs nothing;
only `openat2` has its flags where a filter cannot look, and is always told.

What this does not promise: that all is seen. Calls in another way of calling (32 bits), and those
that are made through io_uring, pass unseen. Nobody may rely on it to keep anything closed: between
telling and doing, a process can change what its arguments point to.

A filter outlives its listener. When nobody has that any more, the calls that it names fail with
ENOSYS, for ever.
"""

from __future__ import annotations

import errno
import os
import select
import struct
import sys

from holdfast.core.model import Value
from holdfast.gate.sandbox.landlock import SET_NO_NEW_PRIVS, kernel, prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Mapping
    from typing import Final

#: What says that an open is for writing, the same on the machines that are known here.
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Machine(Value):
    """How system calls are made on one kind of processor."""

    __slots__ = ("audit", "calls", "seccomp")

    def __init__(self, audit: int, seccomp: int, calls: Mapping[int, str]) -> None:
        #: Its name in the kernel's records.
        self.audit: Final = audit
        self.seccomp: Final = seccomp
        self.calls: Final = calls


MACHINES = {
    "x86_64": Machine(
        0xC000003E, 317,
        {
            2: "open", 85: "creat", 257: "openat", 437: "openat2", 76: "truncate",
            83: "mkdir", 258: "mkdirat", 88: "symlink", 266: "symlinkat", 86: "link",
            265: "linkat", 82: "rename", 264: "renameat", 316: "renameat2", 87: "unlink",
            263: "unlinkat",
        },
    ),
    "aarch64": Machine(
        0xC00000B7, 277,
        {
            56: "openat", 437: "openat2", 45: "truncate", 34: "mkdirat", 36: "symlinkat",
            37: "linkat", 38: "renameat", 276: "renameat2", 35: "unlinkat",
        },
    ),
}  # fmt: skip
#: Where these have their flags among their arguments.
_FLAGS_AT = {"open": 1, "openat": 2}

_SET_MODE_FILTER = 1
#: A listener; and once a call was told only what kills interrupts it, or a process that gets
#: signals all the time would never get on. The third: nothing else becomes slower by the filter.
_NEW_LISTENER, _WAIT_KILLABLE, _SPEC_ALLOW = 1 << 3, 1 << 5, 1 << 2
_HEAR, _LET = 0xC0502100, 0xC0182101
_HEARD = struct.Struct("=QIIiIQ6Q")
_SAID = struct.Struct("=QqiI")
_CONTINUE = 1
#: To send a descriptor: what Linux calls it, for not every system has a name for that.
_SOL_SOCKET, _SCM_RIGHTS = 1, 1

_WHY = {
    errno.EBUSY: "this process already runs below a seccomp listener (another run --lease, a "
    "dispatched agent, a container), and the kernel allows only one",
    errno.ENOSYS: "this kernel has no seccomp, or a container hides it",
    errno.EINVAL: "the seccomp of this kernel is too old (it must be Linux 5.19 or later)",
    errno.EPERM: "something around this process, such as a container, forbids it",
}


#: The filters that were made, by what made them: always the same on one machine.
_programs: dict[Callable[[Machine], bytes], bytes] = {}


def program(machine: Machine) -> bytes:
    """The filter, in the words of the kernel's little machine."""
    load, is_equal, has_some, give = 0x20, 0x15, 0x45, 0x06
    notify, allow = 0x7FC00000, 0x7FFF0000
    number_at, machine_at, arguments_at = 0, 4, 16

    def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("=HBBI", code, if_true, if_false, value)

    steps = [
        step(load, machine_at),
        step(is_equal, machine.audit, 1, 0),
        step(give, allow),
        step(load, number_at),
    ]
    for number, name in machine.calls.items():
        at = _FLAGS_AT.get(name)
        if at is None:
            steps += [step(is_equal, number, 0, 1), step(give, notify)]
            continue
        steps += [
            step(is_equal, number, 0, 4),
            step(load, arguments_at + 8 * at),  # the lower half: both machines have it first
            step(has_some, WRITING, 0, 1),
            step(give, notify),
            step(give, allow),
        ]
    return b"".join([*steps, step(give, allow)])


class Filter:
    """A filter to be put on. Made in the parent, where trouble can still be told; used in the
    child. Raises OSError if it is not known how that is done on this machine."""

    __slots__ = ("_arguments", "_call", "_number", "_prctl", "_steps", "steps")

    def __init__(self, make: Callable[[Machine], bytes] | bytes = program) -> None:
        """`make` writes the filter for a machine, or is what another one has as `steps`."""
        import ctypes

        name = os.uname().machine
        machine = MACHINES.get(name)
        if machine is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        if not isinstance(make, bytes) and make not in _programs:
            _programs[make] = make(machine)
        steps = make if isinstance(make, bytes) else _programs[make]
        self.steps: Final = steps
        self._call = kernel()
        self._prctl = prctl()
        self._number = machine.seccomp
        self._steps = ctypes.create_string_buffer(steps, len(steps))
        where = ctypes.addressof(self._steps)
        self._arguments = struct.pack("@HP", len(steps) // 8, where)

    def put_on(self) -> int:
        """From now on, for this process and all that it starts, which can gain no privileges any
        more; its listener. Raises OSError."""
        self._prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        flags = _NEW_LISTENER | _WAIT_KILLABLE | _SPEC_ALLOW
        return self._call(self._number, _SET_MODE_FILTER, flags, self._arguments)


def hand_over(filter: Filter, line: socket, *, is_needed: bool = False) -> None:
    """Put a filter on, and send its listener through a socket. If the kernel refuses, it is left
    out: then nobody is told of anything, and all else is as it would be. One that is needed is not
    left out: raises OSError."""
    try:
        fd = filter.put_on()
    except OSError:
        if is_needed:
            raise
        return
    line.sendmsg([b"\0"], [(_SOL_SOCKET, _SCM_RIGHTS, fd.to_bytes(4, sys.byteorder))])


class Call(Value):
    """A system call that a thread is about to make."""

    __slots__ = ("arguments", "id", "name", "thread")

    def __init__(self, id: int, thread: int, name: str, arguments: tuple[int, ...]) -> None:
        self.id: Final = id
        #: 0 if it cannot be seen from here.
        self.thread: Final = thread
        self.name: Final = name
        self.arguments: Final = arguments


class Listener:
    """Where calls are told. Whoever makes one waits until it is let through."""

    __slots__ = ("_ask", "_names", "_poll", "fd", "is_over")

    def __init__(self, fd: int) -> None:
        from fcntl import ioctl  # not everywhere, and this module is imported everywhere

        self._ask = ioctl
        self.fd: Final = fd
        #: Nobody is left who could make a call.
        self.is_over = False
        self._names = MACHINES[os.uname().machine].calls
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def hear(self) -> Call | None:
        """The next call; None if there is none at the moment."""
        while True:
            found = self._poll.poll(0)
            # To ask while nobody waits would block.
            if not found or not found[0][1] & select.POLLIN:
                self.is_over = bool(found)
                return None
            room = bytearray(_HEARD.size)
            try:
                self._ask(self.fd, _HEAR, room)
            except (FileNotFoundError, InterruptedError):
                continue  # it was killed, or thought better of it
            id, thread, _flags, number, _machine, _at, *arguments = _HEARD.unpack(room)
            return Call(id, thread, self._names.get(number, ""), tuple(arguments))

    def let(self, call: Call) -> bool:
        """Let a call go on. False if it is gone, and whoever made it: then nothing that was read
        about it in the meantime is sure to be true, for another may have had its number."""
        try:
            self._ask(self.fd, _LET, _SAID.pack(call.id, 0, 0, _CONTINUE))
        except OSError:
            return False
        return True

    def close(self) -> None:
        os.close(self.fd)


def lacks() -> str:
    """Why nobody can be told of calls here, as a part of a sentence; empty if that works.

    It is tried, by a child: what is around this process cannot be seen otherwise.
    """
    if sys.platform != "linux":
        return "this is not Linux, and seccomp is part of Linux"
    if os.uname().machine not in MACHINES:
        return f"Holdfast does not know how to use seccomp on {os.uname().machine}"
    try:
        filter = Filter()
    except (ImportError, AttributeError):
        return "this Python has no ctypes, which is needed to call the kernel"
    child = os.fork()
    if child == 0:
        _try(filter)
    number = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if number <= 0:  # killed: there are policies that do not say no
        return _WHY[errno.EPERM] if number else ""
    return _WHY.get(number, f"the kernel refused it: {os.strerror(number)}")


def _try(filter: Filter) -> None:
    """In a child: never returns. Its code is what the kernel said."""
    number = errno.EPERM
    try:
        filter.put_on()
        number = 0
    except OSError as error:
        number = error.errno or number
    finally:
        os._exit(number)
