"""What Python's `os` does not offer: flush one file system, exchange two folders, clone a file.

Each says plainly when the system has no such thing, and nothing is done then.
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

#: What a kernel or a file system says that cannot do what it was asked for.
NOT_POSSIBLE = (
    errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EXDEV, errno.ENOTTY,
)  # fmt: skip

#: A person, a terminal or a machine that wants this to end.
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
    """Everything that was written to the folder's file system is on the disk afterwards.

    One flush for thousands of files: one for each would take a hundred times as long.
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
    """Two folders change places in one step: at no moment is either of them missing."""
    if not _rename(one, other, _RENAME_EXCHANGE, _RENAME_SWAP_MAC):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), one)


def rename_new(one: str, other: str) -> None:
    """Give a folder its name, which must be free: plain `rename` replaces an empty folder."""
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
    """Let one file share the blocks of another. Raises OSError where that cannot be."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    import fcntl

    fcntl.ioctl(target, _FICLONE, source)


def _fail(path: str) -> None:
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code), path)


@contextmanager
def undisturbed() -> Iterator[None]:
    """A section that Ctrl-C and its like reach only when it is over.

    Threads that are started inside never see them at all, so that the main thread's section
    cannot be broken through one of those. Without POSIX signals it does nothing.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
