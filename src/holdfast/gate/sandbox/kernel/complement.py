"""Open everything except some files: the complement of a closed set, as rules for Landlock.

A Landlock rule can only open, and a rule on a folder opens everything below it. So a folder on the
path from `/` to a closed file has no rule of its own; each of its entries has one instead, except
the one on that path. In these folders nothing can be created, removed or renamed, because such a
right would apply to the closed file too; the content of existing files can be written.

    /            no rule
      etc, usr   everything below is open
      home       no rule
        me       no rule
          .cache everything below is open
          repo   no rule
            a.py its content is open
            b.py closed: no rule
            lib  everything below is open

A folder can be closed as a whole. A file that does not exist yet is closed because its folder is.
"""

from __future__ import annotations

import errno
import os
import stat

from holdfast.gate.sandbox import SandboxError
from holdfast.gate.sandbox.kernel.landlock import CONTENT, MUTATING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    #: The entries of a folder on such a path: names, and what is closed below. Empty: all of it.
    Way = dict[str, "Way"]

_LOOKED_AT = os.O_CLOEXEC | getattr(os, "O_PATH", 0) | getattr(os, "O_NOFOLLOW", 0)


def open_all_but(closed: Iterable[str], rule: Callable[[int, int], None]) -> None:
    """Pass everything that is to be open to `rule`, as a descriptor and the rights there.

    `closed` are real paths. Raises SandboxError if something cannot be kept closed.
    """
    top: Way = {}
    for path in closed:
        _close(top, path)
    root = os.open("/", _LOOKED_AT)
    try:
        _open_below(root, top, rule)
    except OSError as error:
        raise SandboxError(
            f"cannot set up the sandbox: {error.strerror or type(error).__name__}",
            hint="fix that, or lock what the command writes: holdfast run --write PATH -- COMMAND",
        ) from error
    finally:
        os.close(root)


def _close(top: Way, path: str) -> None:
    way = top
    names = [name for name in path.split("/") if name]
    for at, name in enumerate(names):
        if name in way and not way[name]:
            return  # the folder is closed as a whole already
        way = way.setdefault(name, {})
        if at == len(names) - 1:
            way.clear()


def _open_below(folder: int, way: Way, rule: Callable[[int, int], None]) -> None:
    for name in {*_names(folder), *way}:
        if name in way and not way[name]:
            continue
        try:
            one = os.open(name, _LOOKED_AT, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EACCES, errno.ENOTDIR):
                continue  # gone, or this user has no access: it needs no rule
            raise
        try:
            mode = os.fstat(one).st_mode
            if name in way:
                if stat.S_ISDIR(mode):
                    _open_below(one, way[name], rule)
            elif stat.S_ISDIR(mode):
                rule(one, MUTATING)
            elif not stat.S_ISLNK(mode):  # a link has no content; the rules are on its target
                rule(one, CONTENT)
        finally:
            os.close(one)


def _names(folder: int) -> list[str]:
    try:
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except PermissionError:
        return []  # what cannot be listed stays closed
    try:
        return os.listdir(listed)
    finally:
        os.close(listed)
