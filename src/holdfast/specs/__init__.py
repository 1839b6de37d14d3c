"""Spec locks: who works on which spec, in lock files that other programs read and write too.

    locks        SpecLocks: take, give back, look, clear away the stale
    homes        the folders of specs of a workspace, and the locks that stand there
    lockfile     LockFile: the file `.lock` in the folder of each spec
    machine      MachineIdentifier: which machine this is, made up once and kept
    holders      which agent of this machine has a lock; a note beside the ledger, never in the file
    shapes       what is returned, and what stands in a file
    codec        a lock file's bytes, exactly as the other programs write them
    moments      ISO 8601 and back; when a lock is stale
    names        what may be called a spec, and where specs are
    owners       whose name is put into a lock
    files        making a file that is there whole or not at all; one process at a time
    errors       what the results say, and the same as exceptions

A spec lock is a person's or a machine's, for hours. It ends by being given back, by a clean-up when
it is stale, or by force; never because a process died. The lock files are the only truth.

What this does not promise: a program that writes a lock file without looking whether one is there
overwrites it. Most of that is prevented (see `lockfile`), all of it cannot be.

May import manager and below. The gate asks it about edits inside specs, so nothing here imports
more than it needs, and the names below are imported when they are first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.specs.lockfile import LockFile
    from holdfast.specs.machine import MachineIdentifier
    from holdfast.specs.results import (
        CleanedLock,
        CleanupResult,
        FailedLock,
        LockMetadata,
        LockResult,
        LockStatus,
        MachineId,
        MachineInfo,
        UnlockResult,
    )
    from holdfast.specs.spec_locks import SpecLocks

_HOMES = {
    "holdfast.specs.lockfile": ("LockFile",),
    "holdfast.specs.spec_locks": ("SpecLocks",),
    "holdfast.specs.machine": ("MachineIdentifier",),
    "holdfast.specs.results": (
        "CleanedLock", "CleanupResult", "FailedLock", "LockMetadata", "LockResult", "LockStatus",
        "MachineId", "MachineInfo", "UnlockResult",
    ),
}  # fmt: skip

__all__ = [
    "CleanedLock", "CleanupResult", "FailedLock", "LockFile", "LockMetadata", "LockResult",
    "LockStatus", "MachineId", "MachineIdentifier", "MachineInfo", "SpecLocks", "UnlockResult",
]  # fmt: skip


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            value: object = getattr(__import__(home, fromlist=[name]), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
