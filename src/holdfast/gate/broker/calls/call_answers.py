"""The part that all calls share: the lease of a file, how a call is answered, and how it fails.

Each call is made with the caller's own flags, mode and umask, on descriptors of ours (`open_calls`,
`name_calls`, `attribute_calls`). A call that would fail without us fails in the same way, and takes
no lease. A call on a path that is open to the command anyway is left to the kernel.

A call that waits in line, or would block, is repeated from its beginning when its turn comes.
"""

from __future__ import annotations

import errno
import os
from time import time_ns

from holdfast.gate.broker.places.path_zones import (
    GITS,
    LEASED,
    LEDGER,
    OUTSIDE,
    PASSING,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.gate.broker.calling_thread import Caller
    from holdfast.gate.broker.control.control_writes import ControlWrites
    from holdfast.gate.broker.leasing.command_leases import Leases
    from holdfast.gate.broker.leasing.git_lookahead import GitLookahead
    from holdfast.gate.broker.leasing.leased_files import Lease
    from holdfast.gate.broker.places.path_kinds import PathKinds
    from holdfast.gate.broker.places.path_lookup import Found

    Arguments = tuple[int, ...]


class WouldBlock(Exception):
    """The call would block now and has to be repeated."""


class Descriptor:
    """A descriptor to install in the caller, as the answer to a call."""

    __slots__ = ("close_on_exec", "fd", "number")

    def __init__(self, fd: int, close_on_exec: bool, number: int | None = None) -> None:
        self.fd = fd
        self.close_on_exec = close_on_exec
        #: The number that it must have in the caller, if that matters.
        self.number = number


Answer = int | Descriptor


def fail(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class CallContext:
    """The part that all calls need: whether a path is leased, and its lease."""

    def __init__(
        self,
        kinds: PathKinds,
        leases: Leases,
        control_writes: ControlWrites,
        lookahead: GitLookahead,
        is_open: Callable[[str, bool], bool],
        waits: bool,
    ) -> None:
        """`is_open` says whether Landlock leaves a path open: its content, or also its name."""
        self.kinds = kinds
        self.leases = leases
        self.control_writes = control_writes
        self.lookahead = lookahead
        self.is_open = is_open
        self.waits = waits
        leases.know_kinds(kinds)
        #: How many renames there were in git's folder: of an index, perhaps for a commit.
        self.git_moves = 0

    def lease(self, caller: Caller, found: Found) -> Lease | None:
        """Take the lease that changing a file needs. Returns it if it was taken for this call.

        Raises OSError, MustWait, or WouldBlock if the name now leads to another file.
        """
        known = self.leases.held(found.path)
        if known is not None:
            is_first = known.is_ahead
            self.leases.take(caller, found)
            if not is_first:
                return None
            known.taken_at = self.git_moves
            return known
        kind = self.kinds.of(found.path)
        if kind in (LEASED, PASSING):
            self.leases.refuse_closed(found.path)
        if kind == LEASED:
            fresh = self.leases.take(caller, found, waits=self.waits)
            if fresh is not None:
                fresh.taken_at = self.git_moves
                if not found.is_still_there():
                    # Its last holder changed it after it was found and before it was leased.
                    if self.leases.was_another_s(fresh):
                        fresh.moved_at = time_ns()
                    raise WouldBlock
                if not self.waits:
                    self.lookahead.follow(caller, found.path)
            return fresh
        if kind == LEDGER:
            raise fail(errno.EACCES)
        if kind not in (OUTSIDE, GITS):
            self.leases.demand_free(found)
        return None

    def undo(self, fresh: Lease | None) -> None:
        """Release the lease of a call that has failed."""
        if fresh is not None and not fresh.moved_at:
            self.leases.drop(fresh.path)

    def forget_made(self, path: str) -> None:
        """Release the lease of a name that did not exist before and is gone again."""
        lease = self.leases.mine.get(path)
        if lease is None or lease.existed or self.leases.keeps_absent:
            return
        if lease.taken_at != self.git_moves and self.kinds.is_in_git(path):
            lease.existed = True  # added or committed meanwhile, so its removal is a change
            return
        self.leases.drop(path)

    def is_leased(self, found: Found) -> bool:
        """Whether files at this path are leased, as far as that is known without asking git."""
        return self.kinds.rough(found.path)[0] == LEASED

    def are_outside(self, first: Found, second: Found) -> bool:
        """Whether both are outside, where the kernel decides."""
        return self.is_left_to_kernel(first, False) and self.is_left_to_kernel(second, False)

    def is_left_to_kernel(self, found: Found, is_there: bool) -> bool:
        """Whether it is outside, and Landlock decides there: on its content or, if it does not
        exist, its name."""
        return self.kinds.rough(found.path)[0] == OUTSIDE and self.is_open(found.path, is_there)

    def crosses(self, first: Found, second: Found) -> bool:
        """Whether one of them is outside, and the other is a file that can be leased."""
        kinds = {self.kinds.rough(one.path)[0] for one in (first, second)}
        return kinds == {OUTSIDE, LEASED}

    def demand_free_folder(self, found: Found) -> None:
        """Verify that a folder may be removed. Raises OSError."""
        kind = self.kinds.rough(found.path)[0]
        if kind == LEDGER:
            raise fail(errno.EACCES)
        if self.leases.keeps_folders and os.listdir(f"/proc/self/fd/{found.fd}"):
            raise fail(errno.ENOTEMPTY)  # tools try rmdir to find out which folders are empty
        if kind == LEASED:
            self.leases.demand_may_change(found)
