"""Descriptor numbers, and whether they still refer to the files that we opened.

A program may close all of its descriptors, as daemons do, and the kernel then reuses the numbers
for the next files. So before a number is closed, or used in a way that could harm another file, it
is compared with the identity of the file that we opened.
"""

from __future__ import annotations

import os
from os import fstat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Identity = tuple[int, int]

#: Handlers for descriptors that are kept between calls. They are called in a forked child (True:
#: the numbers are still ours, and the child closes its copies) and after the program closed them
#: (False).
_forgetting: list[Callable[[bool], None]] = []


def identity(path: str) -> Identity:
    """The identity of the file at a path."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def identity_of(number: int) -> Identity:
    """The identity of the file of a descriptor."""
    status = fstat(number)
    return status.st_dev, status.st_ino


def is_ours(number: int, opened: Identity) -> bool:
    """Whether a descriptor still refers to the file that we opened."""
    try:
        status = fstat(number)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == opened


def close(number: int, opened: Identity) -> None:
    """Close a descriptor, unless its number now belongs to another file."""
    if number >= 0 and is_ours(number, opened):
        os.close(number)


def on_forgetting(forget: Callable[[bool], None]) -> None:
    """Register a function that forgets the descriptors that a module keeps between calls."""
    _forgetting.append(forget)


def forget(still_ours: bool) -> None:
    """Let every module forget the descriptors that it keeps between calls."""
    for function in _forgetting:
        function(still_ours)
