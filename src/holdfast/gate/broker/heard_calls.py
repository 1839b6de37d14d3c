"""The system calls of the broker: which it hears, which are refused, which it makes itself.

The filter checks the number of a call and, where those matter, its flags, so that reading costs
nothing. Its verdict on each call:

    heard     calls that open something for writing, or change names, modes, owners, times or
              attributes; the close of a descriptor with a high number (see `control_writes`);
              calls with which a process restricts itself, or adopts orphans (see
              `calling_thread`); calls that set the limits of another process
    refused   ways around those: io_uring, 32-bit calls, opening by file handle, flags of a file
              (chattr), a child that is made a sibling, memory that can be withheld
    passed    everything else

The C library has no wrapper for some of the calls, so all are made by number.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from fcntl import ioctl

from holdfast.gate.sandbox.kernel.seccomp import WRITING, Machine

MACHINE_NAME = "x86_64"

#: The calls that are heard whatever their arguments are.
HEARD = {
    85: "creat", 437: "openat2", 76: "truncate",
    83: "mkdir", 258: "mkdirat", 84: "rmdir", 87: "unlink", 263: "unlinkat",
    82: "rename", 264: "renameat", 316: "renameat2", 86: "link", 265: "linkat",
    88: "symlink", 266: "symlinkat", 133: "mknod", 259: "mknodat",
    90: "chmod", 91: "fchmod", 268: "fchmodat", 452: "fchmodat2",
    92: "chown", 93: "fchown", 94: "lchown", 260: "fchownat",
    132: "utime", 235: "utimes", 261: "futimesat", 280: "utimensat",
    188: "setxattr", 189: "lsetxattr", 190: "fsetxattr",
    197: "removexattr", 198: "lremovexattr", 199: "fremovexattr",
    463: "setxattrat", 466: "removexattrat", 446: "landlock_restrict_self",
}  # fmt: skip
#: The calls that are heard if their flags are those of a write: the position of the flags.
OPENS = {2: ("open", 1), 257: ("openat", 2)}
CLOSE = 3
#: From this descriptor on a close is heard.
HIGH_DESCRIPTOR = 960

NAMES = {number: name for number, (name, _at) in OPENS.items()}
NAMES |= {**HEARD, CLOSE: "close", 157: "prctl", 302: "prlimit64"}

#: The calls that are refused, and with which error.
REFUSED = {
    425: errno.ENOSYS, 426: errno.ENOSYS, 427: errno.ENOSYS,  # io_uring
    304: errno.EPERM,  # open_by_handle_at
    # clone3 has its flags in memory, which a filter cannot read; the C library falls back to clone.
    435: errno.ENOSYS,
    469: errno.ENOSYS,  # file_setattr
    # The broker would wait forever for memory that a thread of the caller withholds.
    323: errno.EPERM,  # userfaultfd
}  # fmt: skip
#: The calls that are refused or heard if an argument has a certain value or bit.
_CLONE, _CLONE_PARENT = 56, 0x8000
_PRCTL, _SUBREAPER = 157, 36
_PRLIMIT = 302
_IOCTL = 16
#: These change a file through any descriptor: its flags, its version, its extended flags, its
#: layout on disk, and a seal that makes it read-only permanently (fs-verity). Then userfaultfd
#: again, and TIOCSTI, which types into a terminal.
_IOCTLS_REFUSED = (
    0x40086602, 0x40046602, 0x40087602, 0x40086604, 0x401C5820, 0x6609, 0x660C, 0x40806685,
    0xAA00, 0x5412,
)  # fmt: skip
_OTHER_WAY_OF_CALLING = 0x40000000  # x32

_LOAD, _IS_EQUAL, _IS_AT_LEAST, _HAS_SOME, _GIVE = 0x20, 0x15, 0x35, 0x45, 0x06
_NOTIFY, _ALLOW, _ERRNO = 0x7FC00000, 0x7FFF0000, 0x00050000
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def program(machine: Machine) -> bytes:
    """The filter, as BPF instructions."""
    steps = [
        _step(_LOAD, _MACHINE_AT),
        _step(_IS_EQUAL, machine.audit, 1, 0),
        _step(_GIVE, _ERRNO | errno.ENOSYS),
        _step(_LOAD, _NUMBER_AT),
        _step(_IS_AT_LEAST, _OTHER_WAY_OF_CALLING, 0, 1),
        _step(_GIVE, _ERRNO | errno.ENOSYS),
    ]
    for number in HEARD:
        steps += [_step(_IS_EQUAL, number, 0, 1), _step(_GIVE, _NOTIFY)]
    for number, code in REFUSED.items():
        steps += [_step(_IS_EQUAL, number, 0, 1), _step(_GIVE, _ERRNO | code)]
    for number, (_name, at) in OPENS.items():
        steps += [
            _step(_IS_EQUAL, number, 0, 4),
            _step(_LOAD, _ARGUMENTS_AT + 8 * at),
            _step(_HAS_SOME, WRITING, 0, 1),
            _step(_GIVE, _NOTIFY),
            _step(_GIVE, _ALLOW),
        ]
    steps += [
        _step(_IS_EQUAL, CLOSE, 0, 4),
        _step(_LOAD, _ARGUMENTS_AT),
        _step(_IS_AT_LEAST, HIGH_DESCRIPTOR, 0, 1),
        _step(_GIVE, _NOTIFY),
        _step(_GIVE, _ALLOW),
        _step(_IS_EQUAL, _CLONE, 0, 4),
        _step(_LOAD, _ARGUMENTS_AT),
        _step(_HAS_SOME, _CLONE_PARENT, 0, 1),
        _step(_GIVE, _ERRNO | errno.EPERM),
        _step(_GIVE, _ALLOW),
        _step(_IS_EQUAL, _PRCTL, 0, 4),
        _step(_LOAD, _ARGUMENTS_AT),
        _step(_IS_EQUAL, _SUBREAPER, 0, 1),
        _step(_GIVE, _NOTIFY),
        _step(_GIVE, _ALLOW),
        _step(_IS_EQUAL, _PRLIMIT, 0, 4),
        _step(_LOAD, _ARGUMENTS_AT),
        _step(_IS_EQUAL, 0, 1, 0),
        _step(_GIVE, _NOTIFY),
        _step(_GIVE, _ALLOW),
        _step(_IS_EQUAL, _IOCTL, 0, len(_IOCTLS_REFUSED) + 3),
        _step(_LOAD, _ARGUMENTS_AT + 8),
    ]
    last = len(_IOCTLS_REFUSED) - 1
    steps += [
        _step(_IS_EQUAL, wanted, last - at + 1, 0) for at, wanted in enumerate(_IOCTLS_REFUSED)
    ]
    steps += [_step(_GIVE, _ALLOW), _step(_GIVE, _ERRNO | errno.EPERM), _step(_GIVE, _ALLOW)]
    return b"".join(steps)


def signed(number: int) -> int:
    """A descriptor or a number of flags, as it is in the lower half of an argument."""
    half = number & 0xFFFFFFFF
    return half - (1 << 32) if half & 0x80000000 else half


# The listener

_HEAR, _SAY, _IS_VALID, _ADD, _SET_FLAGS = (
    0xC0502100, 0xC0182101, 0x40082102, 0x40182103, 0x40082104,
)  # fmt: skip
_HEARD = struct.Struct("=QIIiIQ6Q")
_SAID = struct.Struct("=QqiI")
_ADDED = struct.Struct("=QIIII")
_CONTINUE = 1
_ADD_SETS, _ADD_SENDS = 1, 2
_WAKE_ON_OUR_PROCESSOR = 1


class Listener:
    """The listener of the filter. A caller waits until it is answered."""

    __slots__ = ("_room", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._room = bytearray(_HEARD.size)
        try:
            ioctl(fd, _SET_FLAGS, _WAKE_ON_OUR_PROCESSOR)
        except OSError:
            pass  # an older kernel: each answer takes a little longer

    def hear(self) -> tuple[int, int, int, tuple[int, ...]] | None:
        """The next call: its id, its thread (0 if that is not visible here), its number and its
        arguments. Call this only if the descriptor is readable. None if the caller is gone."""
        room = self._room
        room[:] = bytes(len(room))
        try:
            ioctl(self.fd, _HEAR, room)
        except (FileNotFoundError, InterruptedError):
            return None
        id, thread, _flags, number, _machine, _at, *arguments = _HEARD.unpack(room)
        return id, thread, number, tuple(arguments)

    def close(self) -> None:
        """Stop receiving calls: those that the filter reports fail with ENOSYS from now on."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def is_waiting(self, id: int) -> bool:
        """Whether the caller still waits, so that what was read about it was its own."""
        try:
            ioctl(self.fd, _IS_VALID, id.to_bytes(8, "little"))
        except OSError:
            return False
        return True

    def pass_on(self, id: int) -> None:
        """Let the kernel make the call; Landlock checks it."""
        self._say(id, 0, 0, _CONTINUE)

    def answer(self, id: int, value: int) -> None:
        """The call succeeded with this value."""
        self._say(id, value, 0, 0)

    def refuse(self, id: int, number: int) -> None:
        """The call fails with this error."""
        self._say(id, 0, -number, 0)

    def _say(self, id: int, value: int, error: int, flags: int) -> None:
        try:
            ioctl(self.fd, _SAY, _SAID.pack(id, value, error, flags))
        except OSError:
            pass  # the caller was killed

    def give(self, id: int, fd: int, *, close_on_exec: bool, number: int | None = None) -> None:
        """Install a descriptor in the caller, as the answer. Raises OSError if it has no room."""
        flags = _ADD_SENDS if number is None else _ADD_SENDS | _ADD_SETS
        wanted = _ADDED.pack(id, flags, fd, number or 0, os.O_CLOEXEC if close_on_exec else 0)
        try:
            ioctl(self.fd, _ADD, wanted)
        except FileNotFoundError:
            pass  # the caller was killed


# The calls that the broker makes itself

_library = ctypes.CDLL(None, use_errno=True)
_syscall = _library.syscall
_syscall.restype = ctypes.c_long
_AT_EMPTY_PATH = 0x1000
AT_FDCWD = -100


def syscall(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make a call by number. Raises OSError with the kernel's error."""
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    found = int(_syscall(ctypes.c_long(number), *words))
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_ROOM_BYTES = 4096
_room = ctypes.create_string_buffer(_ROOM_BYTES)
_ours = _Piece(ctypes.addressof(_room), _ROOM_BYTES)
_theirs = _Piece(0, 0)
_ours_at, _theirs_at = ctypes.byref(_ours), ctypes.byref(_theirs)
_readv = _library.process_vm_readv
_readv.restype = ctypes.c_ssize_t
_readv.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong,
                   ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]  # fmt: skip


def memory(thread: int, at: int, size: int) -> bytes:
    """The bytes at an address of another process; fewer if the mapping ends. Raises OSError if
    there are none, or they cannot be read."""
    _theirs.base, _theirs.length = at, min(size, _ROOM_BYTES)
    _ours.length = min(size, _ROOM_BYTES)
    found = int(_readv(thread, _ours_at, 1, _theirs_at, 1, 0))
    if found < 0:
        code = ctypes.get_errno()
        if code == errno.EPERM:
            return _memory_by_file(thread, at, size)
        raise OSError(code, os.strerror(code))
    return ctypes.string_at(_room, found)


def _memory_by_file(thread: int, at: int, size: int) -> bytes:
    """The same where a sandbox around us (Codex's) refuses the call, but not the file. Read page by
    page: the range may start in a mapped page and end in an unmapped one."""
    found = b""
    fd = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        while len(found) < size:
            some = min(size - len(found), _PAGE_BYTES - (at + len(found)) % _PAGE_BYTES)
            found += os.pread(fd, some, at + len(found))
    except OSError as error:
        if not found:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT)) from error
    finally:
        os.close(fd)
    return found


_PAGE_BYTES = 4096


_HOW = struct.Struct("=QQQ")


def open_how(folder: int, path: bytes, flags: int, mode: int, resolve: int) -> int:
    """openat2."""
    return syscall(437, folder, path, _HOW.pack(flags, mode, resolve), _HOW.size)


def file_system(fd: int) -> int:
    """The type number of the file system of an open file."""
    room = bytearray(120)
    syscall(138, fd, (ctypes.c_char * len(room)).from_buffer(room))  # fstatfs
    return int.from_bytes(room[:8], "little")


def rename(old: int, old_name: bytes, new: int, new_name: bytes, flags: int) -> None:
    """renameat2."""
    syscall(316, old, old_name, new, new_name, flags)


def link(fd: int, new: int, new_name: bytes) -> None:
    """A further name for an open file."""
    syscall(265, AT_FDCWD, b"/proc/self/fd/%d" % fd, new, new_name, 0x400)


def keep_own_umask() -> None:
    """Give this thread a umask of its own."""
    syscall(272, 0x200)  # unshare(CLONE_FS)


def adopt_orphans() -> None:
    """Make this process adopt the orphans of its descendants."""
    syscall(157, 36, 1, 0, 0, 0)  # prctl(PR_SET_CHILD_SUBREAPER)
