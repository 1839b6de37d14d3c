"""Engines: ways to copy the content of a file from one tree to another, one module each.

An engine has a name, the size up to which plain reading and writing is better, and a function that
copies one open file to another. Every copy is hashed afterwards, so a faulty engine is detected. A
new engine is a module here with an `Engine` and a line in `ENGINES`.

    copy      plain copying: works everywhere, keeps holes
    reflink   the copy shares its blocks with the original
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from holdfast.trees import kernel_calls, tree_files
from holdfast.trees.engines import copy, reflink
from holdfast.trees.errors import BadTreeError

#: Called with the number of bytes copied since the last call; may raise to stop.
Tick = Callable[[int], None]


class Engine(Protocol):
    """A way to copy content."""

    name: str
    #: Files up to this size are read, hashed and written in one piece.
    small_bytes_max: int

    def copy(self, source: int, target: int, size: int, tick: Tick) -> None:
        """Copy an open file of that size to another open, empty one."""


#: The best engine first; the last works everywhere.
ENGINES: tuple[Engine, ...] = (reflink.Reflink(), copy.Copy())


def names() -> list[str]:
    """The names of all engines."""
    return [engine.name for engine in ENGINES]


def named(name: str) -> Engine:
    """The engine of that name."""
    for engine in ENGINES:
        if engine.name == name:
            return engine
    raise BadTreeError(f"unknown engine {name!r}", hint=f"the engines are {', '.join(names())}")


def choose(source_folder: str, target_folder: str, wanted: str = "") -> Engine:
    """The best engine that works between two folders, or the one that was requested."""
    if wanted:
        return named(wanted)
    return named(reflink.NAME) if can_share(source_folder, target_folder) else named(copy.NAME)


def can_share(source_folder: str, target_folder: str) -> bool:
    """Whether files in the two folders can share blocks, found out by trying."""
    if os.stat(source_folder).st_dev != os.stat(target_folder).st_dev:
        return False
    made = []
    probe = f"{target_folder}/probe-{os.urandom(8).hex()}{tree_files.UNFINISHED}"
    try:
        for path in (probe, f"{probe}{tree_files.UNFINISHED}"):
            made.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.write(made[0], b"x" * 4096)
        kernel_calls.clone(made[0], made[1])
    except OSError:
        return False
    finally:
        for descriptor, path in zip(made, (probe, f"{probe}{tree_files.UNFINISHED}"), strict=False):
            os.close(descriptor)
            tree_files.remove(path)
    return True
