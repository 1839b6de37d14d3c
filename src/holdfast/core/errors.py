"""The errors. Each has a stable code, its details as fields, and a hint.

The class tells the caller what to do:

    HoldfastError
      Refused        the rules do not allow it now; an ordinary outcome, try again later
      Lost           another holder has superseded the caller; stop writing
      InvalidInput   the request itself is invalid
      StoreError     the storage failed
"""

from __future__ import annotations

from holdfast.core.root_errors import (
    BadKeyError,
    HoldfastError,
    InvalidInput,
    StoreBusyError,
    StoreError,
)

__all__ = [
    "BadKeyError", "FencingError", "HoldfastError", "InvalidInput", "LockConflictError",
    "LockCycleError", "LockExpiredError", "LockNotHeldError", "LockTimeoutError",
    "LockViolationError", "Lost", "OverLockError", "RecordVersionError", "Refused",
    "StoreBusyError", "StoreCorruptError", "StoreError", "StoreFullError", "StoreNetworkError",
    "StoreReadonlyError", "StoreVersionError", "error_of",
]  # fmt: skip


class Refused(HoldfastError):
    """The rules do not allow it now."""


class LockConflictError(Refused):
    """Another holder has locked, or reserved, an overlapping key."""

    code = "E_LOCK_CONFLICT"


class LockTimeoutError(Refused):
    """The lock was not released within the given time."""

    code = "E_LOCK_TIMEOUT"


class LockCycleError(Refused):
    """Waiting would have deadlocked."""

    code = "E_LOCK_CYCLE"


class LockViolationError(Refused):
    """A write that the grant does not cover."""

    code = "E_LOCK_VIOLATION"


class Lost(HoldfastError):
    """The caller does not hold, or no longer holds, the lock that it relies on."""


class LockExpiredError(Lost):
    """The lease has expired."""

    code = "E_LOCK_EXPIRED"


class LockNotHeldError(Lost):
    """The caller does not hold this lock."""

    code = "E_LOCK_NOT_HELD"


class FencingError(Lost):
    """The token has been superseded: another holder has taken over since."""

    code = "E_FENCING_MISMATCH"


class OverLockError(InvalidInput):
    """A write lock on a whole folder."""

    code = "E_OVER_LOCK"


class StoreCorruptError(StoreError):
    """The ledger is damaged."""

    code = "E_STORE_CORRUPT"


class StoreVersionError(StoreError):
    """The ledger was written by a newer version."""

    code = "E_STORE_VERSION"


class RecordVersionError(StoreError):
    """A record in the ledger was written by a newer version."""

    code = "E_RECORD_VERSION"


class StoreReadonlyError(StoreError):
    """The ledger is not writable."""

    code = "E_STORE_READONLY"


class StoreFullError(StoreError):
    """The disk that the ledger is on is full."""

    code = "E_STORE_FULL"


class StoreNetworkError(StoreError):
    """The ledger is on a network file system, where its locks are not reliable."""

    code = "E_STORE_NETWORK"


_BY_CODE = {
    error.code: error
    for error in (
        LockConflictError,
        LockTimeoutError,
        LockCycleError,
        LockViolationError,
        LockExpiredError,
        LockNotHeldError,
        FencingError,
    )
}


def error_of(code: str) -> type[HoldfastError]:
    """The class of the error for the code of a refusal."""
    return _BY_CODE[code]
