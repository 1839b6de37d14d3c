"""Plain copying: works everywhere, keeps holes, and uses the kernel's copy where possible."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator

from holdfast.manager.files.replace_file import write_all
from holdfast.trees import kernel_calls

NAME = "copy"

_CHUNK_BYTES = 16 << 20
_READ_BYTES = 1 << 20
#: The errors of a file system that cannot find holes.
_NO_HOLES = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)


class Copy:
    """Copies the bytes."""

    name = NAME
    small_bytes_max = 1 << 20

    def copy(self, source: int, target: int, size: int, tick: Callable[[int], None]) -> None:
        """Copy the data; holes stay holes."""
        for begin, end in _data(source, size):
            _copy_range(source, target, begin, end, tick)
        if os.fstat(target).st_size < size:
            os.ftruncate(target, size)


def _data(source: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that are not holes."""
    if not hasattr(os, "SEEK_DATA") or os.fstat(source).st_blocks * 512 >= size:
        yield 0, size
        return
    end = 0
    while end < size:
        try:
            begin = os.lseek(source, end, os.SEEK_DATA)
            end = os.lseek(source, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole from here on
                return
            if error.errno not in _NO_HOLES:
                raise
            yield end, size
            return
        yield begin, min(end, size)


def _copy_range(
    source: int, target: int, begin: int, end: int, tick: Callable[[int], None]
) -> None:
    at = begin
    in_kernel = hasattr(os, "copy_file_range")
    while at < end:
        count = min(_CHUNK_BYTES if in_kernel else _READ_BYTES, end - at)
        if in_kernel:
            try:
                copied = os.copy_file_range(source, target, count, at, at)
            except OSError as error:
                if error.errno not in (*kernel_calls.NOT_POSSIBLE, errno.EPERM, errno.EBADF):
                    raise
                in_kernel = False
                continue
        else:
            copied = _copy_bytes(source, target, count, at)
        if not copied:  # the file has become shorter meanwhile, which is detected later
            return
        at += copied
        tick(copied)


def _copy_bytes(source: int, target: int, count: int, at: int) -> int:
    data = os.pread(source, count, at)
    os.lseek(target, at, os.SEEK_SET)
    write_all(target, data)
    return len(data)
