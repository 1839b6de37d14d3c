"""Descriptor numbers, and whether they still mean what we opened.

A program may close every descriptor that it has, as daemons do, and the kernel then gives the same
numbers to the next files that it opens. A number alone therefore proves nothing: it is compared
with the identity of what was opened before it is closed, or used for something that could harm
another file.
"""

from __future__ import annotations

import os
from os import fstat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Identity = tuple[int, int]

#: What to do with descriptors that are kept between calls, in a forked child (True: they are still
#: ours, and the child closes its copies) and after the program closed them (False).
_forgetting: list[Callable[[bool], None]] = []


def identity(path: str) -> Identity:
    """Which file a path leads to."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def identity_of(number: int) -> Identity:
    """Which file a descriptor is open on."""
    status = fstat(number)
    return status.st_dev, status.st_ino


def is_ours(number: int, opened: Identity) -> bool:
    """Whether a descriptor is still open on what we opened."""
    try:
        status = fstat(number)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == opened


def close(number: int, opened: Identity) -> None:
    """Close a descriptor, unless its number belongs to another file by now."""
    if number >= 0 and is_ours(number, opened):
        os.close(number)


def on_forgetting(forget: Callable[[bool], None]) -> None:
    """Register a function that forgets the descriptors that a module keeps between calls."""
    _forgetting.append(forget)


def forget(still_ours: bool) -> None:
    """Let every module forget the descriptors that it keeps between calls."""
    for function in _forgetting:
        function(still_ours)
