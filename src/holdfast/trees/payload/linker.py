"""A process that links files while its parent finds out which: half of the work of a snapshot in
which little has changed, on another processor. See `hard_links`.

It is a program, `python -I -S linker.py SOURCE`, and it imports nothing of this package. If its
parent is killed, it carries out the orders that it has, in a hidden folder that another process may
already be removing.
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    #: A folder's path, files in it with their sizes, and the mode that it gets when nothing more
    #: comes into it, or -1. With it come two open folders: the earlier copy, and the new one.
    Batch = tuple[str, list[tuple[str, int]], int]
    #: The answer: the paths that could not be linked; the number of an error and its path, or zero.
    Answer = tuple[list[str], int, str]

#: Errors for which a file must be copied instead: it is gone, or it has too many links.
_REFUSED = (errno.ENOENT, errno.EMLINK, errno.EXDEV, errno.EPERM)
#: The bits of a mode for the kind of file and for write permission.
_LOOKED_AT = 0o170222
_READ_ONLY_FILE = 0o100000


def link(name: str, size: int, before: int, copy: int) -> bool:
    """Link a file to its earlier copy, if that copy is unchanged."""
    try:
        os.link(name, name, src_dir_fd=before, dst_dir_fd=copy, follow_symlinks=False)
    except OSError as error:
        if error.errno in _REFUSED:
            return False
        raise
    made = os.stat(name, dir_fd=copy, follow_symlinks=False)
    if made.st_size == size and made.st_mode & _LOOKED_AT == _READ_ONLY_FILE:
        return True
    os.unlink(name, dir_fd=copy)
    return False


def link_all(path: str, wanted: Iterable[tuple[str, int]], before: int, copy: int) -> list[str]:
    """Link files of one folder. Returns the paths that could not be linked."""
    missed = [name for name, size in wanted if not link(name, size, before, copy)]
    return [f"{path}/{name}" if path else name for name in missed]


def main(source: str) -> None:
    """Link until the orders end. An empty order requests an answer."""
    from _socket import AF_UNIX, SOCK_STREAM, socket

    sys.path.insert(0, source)
    from holdfast.manager.helper_process import hear, tell

    line = socket(AF_UNIX, SOCK_STREAM, 0, 0)
    missed: list[str] = []
    number, where = 0, ""
    while (heard := hear(line)) is not None:
        folders = heard[1]
        batch: Batch | tuple[()] = heard[0]
        if not batch:
            answer: Answer = (missed, number, where)
            tell(line, answer)
            continue
        path, wanted, mode = batch
        try:
            if not number:
                missed += link_all(path, wanted, *folders)
                if mode >= 0:
                    os.fchmod(folders[1], mode)
        except OSError as error:
            number, where = error.errno or errno.EIO, path
        for folder in folders:
            os.close(folder)


if __name__ == "__main__":
    import gc

    gc.disable()
    main(sys.argv[1])
