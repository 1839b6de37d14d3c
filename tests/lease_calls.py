"""System calls by their number, with arbitrary arguments: bad pointers, rare flags."""

from __future__ import annotations

import ctypes
import mmap

#: On x86_64.
NUMBERS = {
    "open": 2, "openat": 257, "openat2": 437, "creat": 85, "write": 1, "pwrite64": 18,
    "ftruncate": 77, "fallocate": 285, "truncate": 76, "rename": 82, "renameat": 264,
    "renameat2": 316, "link": 86, "linkat": 265, "symlink": 88, "symlinkat": 266, "unlink": 87,
    "unlinkat": 263, "rmdir": 84, "mkdir": 83, "mkdirat": 258, "mknod": 133, "mknodat": 259,
    "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "chown": 92, "fchown": 93,
    "lchown": 94, "fchownat": 260, "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280,
    "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198,
    "fremovexattr": 199, "chdir": 80, "fchdir": 81, "umask": 95, "dup": 32, "dup3": 292,
    "close": 3, "unshare": 272,
}  # fmt: skip

Argument = int | bytes | ctypes.Array[ctypes.c_char] | None

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def kernel(number: int, *arguments: Argument) -> int:
    """Make a call by its number. An error is a negative number."""
    words: list[object] = []
    for one in arguments:
        words.append(ctypes.c_long(one) if isinstance(one, int) else one)
    found = int(_libc.syscall(ctypes.c_long(number), *words))
    return -ctypes.get_errno() if found < 0 else found


def edge() -> int:
    """The address after a page, where nothing is mapped."""
    at = int(_libc.mmap(None, 2 * mmap.PAGESIZE, 3, 0x22, -1, 0))
    _libc.munmap(at + mmap.PAGESIZE, mmap.PAGESIZE)
    return at + mmap.PAGESIZE


def shown(argument: Argument) -> str:
    """An argument, for a record that must be the same each time."""
    if isinstance(argument, bytes) and len(argument) > 400:
        return f"{argument[:30]!r}...{argument[-30:]!r} ({len(argument)} bytes)"
    if isinstance(argument, int) and argument > 1 << 40:
        return "an address"
    return repr(argument)
