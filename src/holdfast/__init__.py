"""Holdfast: locks for many agents and people in one repository.

    from holdfast import LockManager

    manager = LockManager.open(".")
    with manager.hold(write_paths=["app/x.rb"]) as grant:
        ...

All public names are listed here. Each is imported on first use, because a hook, which starts for
every edit, must not spend time on imports that it does not need.

    core      the rules about locks; pure
    store     where the ledger's state is kept
    manager   LockManager: files, processes, time and chance meet the rules
    specs     spec locks in files that other programs share
    proof     events and claims in files that other programs share
    trees     worktrees with one writer, and snapshots
    gate      no edit of an agent without a lease
    work      lists of tasks, and screens, with many agents
    server    the page, for people and other programs
    cli       the command `holdfast`
    testing   the conformance suite for stores, and the simulators
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.errors import (
        BadKeyError,
        FencingError,
        HoldfastError,
        InvalidInput,
        LockConflictError,
        LockCycleError,
        LockExpiredError,
        LockNotHeldError,
        LockTimeoutError,
        LockViolationError,
        Lost,
        OverLockError,
        RecordVersionError,
        Refused,
        StoreBusyError,
        StoreCorruptError,
        StoreError,
        StoreFullError,
        StoreNetworkError,
        StoreReadonlyError,
        StoreVersionError,
    )
    from holdfast.core.model import ConflictInfo, Event, Holder, Verdict
    from holdfast.gate.checked_write import safe_write
    from holdfast.manager.grants import GrantSnapshot, LockGrant
    from holdfast.manager.manager import LockManager

_HOMES = {
    "holdfast.core.errors": (
        "BadKeyError", "FencingError", "HoldfastError", "InvalidInput", "LockConflictError",
        "LockCycleError", "LockExpiredError", "LockNotHeldError", "LockTimeoutError",
        "LockViolationError", "Lost", "OverLockError", "RecordVersionError", "Refused",
        "StoreBusyError", "StoreCorruptError", "StoreError", "StoreFullError",
        "StoreNetworkError", "StoreReadonlyError", "StoreVersionError",
    ),
    "holdfast.core.model": ("ConflictInfo", "Event", "Holder", "Verdict"),
    "holdfast.gate.checked_write": ("safe_write",),
    "holdfast.manager.grants": ("GrantSnapshot", "LockGrant"),
    "holdfast.manager.manager": ("LockManager",),
}  # fmt: skip

__all__ = [
    "BadKeyError", "ConflictInfo", "Event", "FencingError", "GrantSnapshot", "Holder",
    "HoldfastError", "InvalidInput", "LockConflictError", "LockCycleError", "LockExpiredError",
    "LockGrant", "LockManager", "LockNotHeldError", "LockTimeoutError", "LockViolationError",
    "Lost", "OverLockError", "RecordVersionError", "Refused", "StoreBusyError",
    "StoreCorruptError", "StoreError", "StoreFullError", "StoreNetworkError",
    "StoreReadonlyError", "StoreVersionError", "Verdict", "__version__", "safe_write",
]  # fmt: skip

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            value: object = getattr(import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
