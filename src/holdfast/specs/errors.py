"""What the results of spec locks say when something is not as asked, and the same as exceptions.

The texts are those of the lock files' other programs; nobody changes them.
"""

from __future__ import annotations

from holdfast.core.errors import InvalidInput, Lost, Refused, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.errors import HoldfastError

ALREADY_LOCKED = "Spec is already locked"
NOT_FOUND = "Spec not found"
PERMISSION_DENIED = "Permission denied"
INVALID_NAME = "Invalid spec name"
OTHER_MACHINE = "Lock owned by different machine"
NOT_REMOVED = "Failed to remove lock file"
#: Not an error: there was nothing to give back.
NOT_LOCKED = "Spec is not locked"
#: Ours: the others do not tell the agents of one machine apart.
OTHER_HOLDER = "Lock held by another holder on this machine"


class SpecLockedError(Refused):
    """Somebody has locked the spec."""

    code = "E_SPEC_LOCKED"


class SpecNotOwnedError(Lost):
    """The lock is another machine's, or another holder's."""

    code = "E_SPEC_NOT_OWNED"


class SpecNotFoundError(InvalidInput):
    """There is no folder of that spec."""

    code = "E_SPEC_NOT_FOUND"


class SpecNameError(InvalidInput):
    """A text that cannot be the name of a spec."""

    code = "E_SPEC_NAME"


class SpecTimeoutError(InvalidInput):
    """Hours that cannot be the timeout of a lock."""

    code = "E_SPEC_TIMEOUT"


class SpecReasonError(InvalidInput):
    """What cannot be the reason of a lock."""

    code = "E_SPEC_REASON"


class SpecPermissionError(StoreError):
    """A lock file may not be read or written: whether the spec is locked is not known."""

    code = "E_SPEC_PERMISSION"


class SpecNotRemovedError(StoreError):
    """A lock file could not be removed."""

    code = "E_SPEC_NOT_REMOVED"


class SpecBusyError(StoreError):
    """Somebody has been at a lock file for too long."""

    code = "E_SPEC_BUSY"


_BY_TEXT: dict[str, type[HoldfastError]] = {
    ALREADY_LOCKED: SpecLockedError,
    NOT_FOUND: SpecNotFoundError,
    PERMISSION_DENIED: SpecPermissionError,
    INVALID_NAME: SpecNameError,
    OTHER_MACHINE: SpecNotOwnedError,
    OTHER_HOLDER: SpecNotOwnedError,
    NOT_REMOVED: SpecNotRemovedError,
}


def error_of(text: str) -> type[HoldfastError]:
    """The class of a result's error."""
    return _BY_TEXT[text]
