"""Seccomp: notification of some system calls of a process before the kernel makes them.

A process installs a filter on itself, which binds everything that it starts; the process that has
the filter's listener is notified of the calls that the filter names, and lets each of them
continue. The filter names the calls that open something for writing, or change names:

    open, openat, creat, openat2, truncate, mkdir, symlink, link, rename, unlink, and their variants

The filter itself checks whether an open is for writing, so reading costs nothing; only `openat2`
has its flags where a filter cannot read them, and is always reported.

What this does not promise: seeing every call. 32-bit calls and calls through io_uring are not
reported. Do not rely on it to keep anything closed: between the notification and the call, a
process can change what its arguments point to.

A filter outlives its listener. Once all descriptors of the listener are closed, the calls that the
filter names fail with ENOSYS, permanently.
"""

from __future__ import annotations

import errno
import os
import select
import struct
import sys

from holdfast.core.model import Value
from holdfast.gate.sandbox.kernel.landlock import SET_NO_NEW_PRIVS, prctl, syscall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Mapping
    from typing import Final

#: The flags of an open for writing, the same on all supported machines.
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Machine(Value):
    """How system calls are made on one processor architecture."""

    __slots__ = ("audit", "calls", "seccomp")

    def __init__(self, audit: int, seccomp: int, calls: Mapping[int, str]) -> None:
        #: The kernel's audit number of the architecture.
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
#: The position of the flags among the arguments of these calls.
_FLAGS_AT = {"open": 1, "openat": 2}

_SET_MODE_FILTER = 1
#: Return a listener. Once a call is reported, only a fatal signal interrupts it: otherwise a
#: process that gets signals all the time would make no progress. The third: the filter does not
#: enable slower mitigations for the process.
_NEW_LISTENER, _WAIT_KILLABLE, _SPEC_ALLOW = 1 << 3, 1 << 5, 1 << 2
_HEAR, _LET = 0xC0502100, 0xC0182101
_HEARD = struct.Struct("=QIIiIQ6Q")
_SAID = struct.Struct("=QqiI")
_CONTINUE = 1
#: To send a descriptor, by Linux's numbers: not every system has names for them.
_SOL_SOCKET, _SCM_RIGHTS = 1, 1

_WHY = {
    errno.EBUSY: "this process already runs below a seccomp listener (another run --lease, a "
    "dispatched agent, a container), and the kernel allows only one",
    errno.ENOSYS: "this kernel has no seccomp, or a container hides it",
    errno.EINVAL: "the seccomp of this kernel is too old (it must be Linux 5.19 or later)",
    errno.EPERM: "something around this process, such as a container, forbids it",
}


#: Compiled filters by the function that compiles them: always the same on one machine.
_programs: dict[Callable[[Machine], bytes], bytes] = {}


def program(machine: Machine) -> bytes:
    """The filter, as BPF instructions."""
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
            step(load, arguments_at + 8 * at),  # the lower half: first on both machines
            step(has_some, WRITING, 0, 1),
            step(give, notify),
            step(give, allow),
        ]
    return b"".join([*steps, step(give, allow)])


class Filter:
    """A filter to install. Created in the parent, which can still report errors; used in the
    child. Raises OSError if this machine is not supported."""

    __slots__ = ("_arguments", "_call", "_number", "_prctl", "_steps", "steps")

    def __init__(self, make: Callable[[Machine], bytes] | bytes = program) -> None:
        """`make` compiles the filter for a machine, or is the `steps` of another filter."""
        import ctypes

        name = os.uname().machine
        machine = MACHINES.get(name)
        if machine is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        if not isinstance(make, bytes) and make not in _programs:
            _programs[make] = make(machine)
        steps = make if isinstance(make, bytes) else _programs[make]
        self.steps: Final = steps
        self._call = syscall()
        self._prctl = prctl()
        self._number = machine.seccomp
        self._steps = ctypes.create_string_buffer(steps, len(steps))
        where = ctypes.addressof(self._steps)
        self._arguments = struct.pack("@HP", len(steps) // 8, where)

    def install(self) -> int:
        """Install it on this process and everything that it starts, none of which can gain
        privileges from now on. Returns its listener. Raises OSError."""
        self._prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        flags = _NEW_LISTENER | _WAIT_KILLABLE | _SPEC_ALLOW
        return self._call(self._number, _SET_MODE_FILTER, flags, self._arguments)


def send_listener(filter: Filter, line: socket, *, is_needed: bool = False) -> None:
    """Install a filter, and send its listener through a socket. If the kernel refuses, the command
    runs without the filter and no call is reported; if `is_needed`, this raises OSError instead."""
    try:
        fd = filter.install()
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
        #: 0 if it is not visible from here.
        self.thread: Final = thread
        self.name: Final = name
        self.arguments: Final = arguments


class Listener:
    """The listener of a filter. A reported call waits until it is let through."""

    __slots__ = ("_ask", "_names", "_poll", "fd", "is_over")

    def __init__(self, fd: int) -> None:
        from fcntl import ioctl  # not on every system, and this module is imported on all

        self._ask = ioctl
        self.fd: Final = fd
        #: No process is left that could make a call.
        self.is_over = False
        self._names = MACHINES[os.uname().machine].calls
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def hear(self) -> Call | None:
        """The next call; None if there is none at the moment."""
        while True:
            found = self._poll.poll(0)
            # Receiving would block if no call waits.
            if not found or not found[0][1] & select.POLLIN:
                self.is_over = bool(found)
                return None
            room = bytearray(_HEARD.size)
            try:
                self._ask(self.fd, _HEAR, room)
            except (FileNotFoundError, InterruptedError):
                continue  # the caller was killed or interrupted
            id, thread, _flags, number, _machine, _at, *arguments = _HEARD.unpack(room)
            return Call(id, thread, self._names.get(number, ""), tuple(arguments))

    def let(self, call: Call) -> bool:
        """Let a call continue. False if the call or its caller is gone: then whatever was read
        about it is unreliable, because another process may have had its number."""
        try:
            self._ask(self.fd, _LET, _SAID.pack(call.id, 0, 0, _CONTINUE))
        except OSError:
            return False
        return True

    def close(self) -> None:
        os.close(self.fd)


def lacks() -> str:
    """Why no listener is possible here, as a part of a sentence; empty if one is.

    A child tries it: this process cannot see otherwise what restricts it.
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
    if number <= 0:  # killed: some policies kill instead of refusing
        return _WHY[errno.EPERM] if number else ""
    return _WHY.get(number, f"the kernel refused it: {os.strerror(number)}")


def _try(filter: Filter) -> None:
    """In a child: never returns. Its exit code is the kernel's error number."""
    number = errno.EPERM
    try:
        filter.install()
        number = 0
    except OSError as error:
        number = error.errno or number
    finally:
        os._exit(number)
