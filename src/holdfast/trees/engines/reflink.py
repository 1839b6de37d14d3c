"""Sharing: the copy has the same blocks as the original until one of them is changed.

It takes no time and no space, on file systems that support it: btrfs, XFS, bcachefs. A single file
that cannot be shared, such as some with special attributes, is copied.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from holdfast.trees import kernel_calls
from holdfast.trees.engines.copy import Copy

NAME = "reflink-copy"


class Reflink:
    """Shares the blocks."""

    name = NAME
    #: Less than one block cannot be shared.
    small_bytes_max = 4096

    def copy(self, source: int, target: int, size: int, tick: Callable[[int], None]) -> None:
        """Share the blocks of an open file with another open, empty one."""
        try:
            kernel_calls.clone(source, target)
        except OSError as error:
            if error.errno not in kernel_calls.NOT_POSSIBLE:
                raise
            Copy().copy(source, target, size, tick)
            return
        tick(os.fstat(target).st_size)
