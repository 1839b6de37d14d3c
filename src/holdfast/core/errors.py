"""What can go wrong. Each error has a stable code, its facts as fields, and a next step.

The tree says whose turn it is:

    HoldfastError
      Refused        the rules said no; an ordinary outcome, try another time
      Lost           you were superseded; stop writing
      InvalidInput   the request itself cannot be right
      StoreError     the storage is in trouble
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
    """The rules said no."""


class LockConflictError(Refused):
    """Somebody else holds, or has reserved, something that overlaps."""

    code = "E_LOCK_CONFLICT"


class LockTimeoutError(Refused):
    """It did not come free within the time that was given."""

    code = "E_LOCK_TIMEOUT"


class LockCycleError(Refused):
    """Waiting would have closed a circle of holders that wait for each other."""

    code = "E_LOCK_CYCLE"


class LockViolationError(Refused):
    """A write that the grant does not cover."""

    code = "E_LOCK_VIOLATION"


class Lost(HoldfastError):
    """What the caller believed to hold is not, or no longer, its own."""


class LockExpiredError(Lost):
    """The lease ran out."""

    code = "E_LOCK_EXPIRED"


class LockNotHeldError(Lost):
    """The caller does not hold this."""

    code = "E_LOCK_NOT_HELD"


class FencingError(Lost):
    """The token has been superseded: somebody else took over since."""

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
    """The ledger may not be written."""

    code = "E_STORE_READONLY"


class StoreFullError(StoreError):
    """There is no room left where the ledger lives."""

    code = "E_STORE_FULL"


class StoreNetworkError(StoreError):
    """The ledger is on a network file system, where its locks do not hold."""

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
    """The class of a rule's refusal."""
    return _BY_CODE[code]
