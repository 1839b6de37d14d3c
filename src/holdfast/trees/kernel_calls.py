"""System calls that Python's `os` lacks: flush one file system, exchange two folders, clone a file.

Each raises an error when the system lacks the call, and then changes nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_RENAME_SWAP_MAC = 2
_RENAME_EXCL_MAC = 4
_AT_FDCWD = -100
_FICLONE = 0x40049409

#: The errors of a kernel or a file system that does not support a call.
NOT_POSSIBLE = (
    errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EXDEV, errno.ENOTTY,
)  # fmt: skip

#: Signals by which a person, a terminal or the machine ends this process.
_STOPPING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


def _function(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError, TypeError):
        return None


_syncfs = _function("syncfs")
_renameat2 = _function("renameat2") if sys.platform == "linux" else None
_renamex = _function("renamex_np") if sys.platform == "darwin" else None


def flush(folder: str) -> None:
    """Flush everything that was written to the folder's file system to the disk.

    One flush for thousands of files: a flush for each would take a hundred times as long.
    """
    if _syncfs is None:
        os.sync()
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _syncfs(descriptor) != 0:
            _fail(folder)
    finally:
        os.close(descriptor)


def exchange(one: str, other: str) -> None:
    """Exchange two folders atomically: neither is ever missing."""
    if not _rename(one, other, _RENAME_EXCHANGE, _RENAME_SWAP_MAC):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), one)


def rename_new(one: str, other: str) -> None:
    """Rename a folder to a name that must be free: plain `rename` replaces an empty folder."""
    try:
        if _rename(one, other, _RENAME_NOREPLACE, _RENAME_EXCL_MAC):
            return
    except OSError as error:
        if error.errno not in NOT_POSSIBLE or error.errno == errno.EXDEV:
            raise
    if os.path.lexists(other):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), other)
    os.rename(one, other)


def _rename(one: str, other: str, flags: int, flags_mac: int) -> bool:
    first, second = os.fsencode(one), os.fsencode(other)
    if _renameat2 is not None:
        failed = _renameat2(_AT_FDCWD, first, _AT_FDCWD, second, flags)
    elif _renamex is not None:
        failed = _renamex(first, second, flags_mac)
    else:
        return False
    if failed:
        _fail(other)
    return True


def clone(source: int, target: int) -> None:
    """Make one file share the blocks of another. Raises OSError where that is impossible."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    import fcntl

    fcntl.ioctl(target, _FICLONE, source)


def _fail(path: str) -> None:
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code), path)


@contextmanager
def undisturbed() -> Iterator[None]:
    """A section in which Ctrl-C and similar signals are delayed until its end.

    Threads that are started inside never receive them, so that the main thread's section cannot be
    interrupted through one of those. Without POSIX signals it does nothing.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
