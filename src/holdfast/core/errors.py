"""What can go wrong. Each error has a stable code, its facts as fields, and a next step.

The tree says whose turn it is:

    HoldfastError
      Refused        the rules said no; an ordinary outcome, try another time
      Lost           you were superseded; stop writing
      InvalidInput   the request itself cannot be right
      StoreError     the storage is in trouble
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class HoldfastError(Exception):
    """The root of the tree. `str()` is the sentence, `hint` says what to do next."""

    code: ClassVar[str] = "E_HOLDFAST"

    def __init__(self, message: str, *, hint: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields

    def to_dict(self) -> dict[str, Any]:
        """The error as plain data, for other programs."""
        facts = {name: _plain(value) for name, value in self.fields.items()}
        return {"code": self.code, "message": self.message, "hint": self.hint, **facts}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    fields = getattr(value, "_fields", None)
    return {name: _plain(one) for name, one in fields().items()} if fields else value


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


class InvalidInput(HoldfastError):
    """The request cannot be right, whoever holds what."""


class OverLockError(InvalidInput):
    """A write lock on a whole folder."""

    code = "E_OVER_LOCK"


class BadKeyError(InvalidInput):
    """A text that does not name anything that can be locked here."""

    code = "E_BAD_KEY"


class StoreError(HoldfastError):
    """The storage is in trouble. Nothing that was promised has been taken back."""

    code = "E_STORE"


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


class StoreBusyError(StoreError):
    """The ledger could not be reached within the deadline."""

    code = "E_STORE_BUSY"


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
