"""A leased file, a call that has to wait for one, and the states of files.

The times here are those of the wall clock, in nanoseconds, because the times of files are.
"""

from __future__ import annotations

import os
from time import clock_gettime_ns, time_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.model import Grant, Request
    from holdfast.gate.broker.places.path_lookup import Found

_BOOTTIME = 7


class Lease:
    """One file that the command holds."""

    __slots__ = (
        "existed", "grant", "is_ahead", "moved_at", "path", "shown", "taken_at", "token", "told",
    )  # fmt: skip

    def __init__(self, path: str, shown: str, grant: Grant, existed: bool) -> None:
        self.path = path
        #: As the ledger spells it.
        self.shown = shown
        self.grant = grant.id
        self.token = grant.token
        #: Whether the file existed when the lease was taken. If not, the lease ends with the file.
        self.existed = existed
        #: The number of changes in git's folder when it was taken.
        self.taken_at = 0
        #: When another holder changed the file, if a process of the command may not have seen the
        #: change, in nanoseconds of the wall clock; else 0.
        self.moved_at = 0
        #: The processes that know of that change.
        self.told: set[int] = set()
        #: Whether it was taken before the write (`git_lookahead`), which has not come yet.
        self.is_ahead = False


class MustWait(Exception):
    """The call has to wait in line."""

    def __init__(self, request: Request, path: str, seen: object) -> None:
        super().__init__()
        self.request = request
        self.path = path
        #: The state of the file at the refusal.
        self.seen = seen


def seen_of(status: os.stat_result | None) -> tuple[int, ...] | None:
    """The values that distinguish one state of a file from another."""
    if status is None:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _status_changed_at(status: os.stat_result) -> int:
    return max(status.st_ctime_ns, status.st_mtime_ns)


def found_changed_at(found: Found) -> int:
    """When a file last changed or, if it is missing, its folder; 0 if there is no folder."""
    if found.status is not None:
        return _status_changed_at(found.status)
    return os.fstat(found.folder).st_mtime_ns if found.folder >= 0 else 0


def changed_at(path: str, status: os.stat_result | None) -> int:
    """When a file last changed. A missing file was removed when its folder changed, or earlier."""
    if status is not None:
        return _status_changed_at(status)
    try:
        return os.stat(os.path.dirname(path)).st_mtime_ns
    except OSError:
        return time_ns()


def started_at(process: int) -> int:
    """When a process started, by the wall clock; a hundredth of a second early rather than late."""
    from holdfast.manager.owners.liveness import read_stat

    found = read_stat(process)
    ticks = 0 if found is None else int(found[1][19])
    since_boot = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return time_ns() - clock_gettime_ns(_BOOTTIME) + since_boot
