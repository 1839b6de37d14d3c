"""Spec locks: who works on which spec, in lock files that other programs read and write too.

    spec_locks       SpecLocks: acquire, release, status, clean-up
    spec_folders     the folders of specs in a workspace, and the locks there
    spec_names       valid names of specs, and where specs are
    lockfile         the file `.lock` in the folder of each spec
    lockfile_codec   its bytes, exactly as other programs write them
    machine          which machine this is
    owner_names      the owner's name in a lock
    spec_holders     which agent of this machine has a lock
    staleness        ISO 8601 and back; when a lock is stale
    spec_files       small files, written whole; one process at a time
    results          what is returned
    errors           the errors in results, and the same as exceptions

A spec lock belongs to a person or a machine, for hours. It ends when it is released, by a clean-up
when it is stale, or by force; never because a process died. The lock files are the only truth.

What this does not promise: a program that writes a lock file without checking for an existing one
overwrites it. Most such writes are detected (see `lockfile`), but not all.

The room may import the manager and below. The gate uses it for edits inside specs, so modules
import no more than they need, and the names below are imported when they are first used.
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
