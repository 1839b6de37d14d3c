"""The errors in the results of spec locks, and the same as exceptions.

The texts are those of the other programs that use these lock files, and must not change.
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
#: Not an error: there was nothing to release.
NOT_LOCKED = "Spec is not locked"
#: Ours only: the other programs do not distinguish the agents of one machine.
OTHER_HOLDER = "Lock held by another holder on this machine"


class SpecLockedError(Refused):
    """Another holder has locked the spec."""

    code = "E_SPEC_LOCKED"


class SpecNotOwnedError(Lost):
    """The lock belongs to another machine, or to another holder."""

    code = "E_SPEC_NOT_OWNED"


class SpecNotFoundError(InvalidInput):
    """The spec has no folder."""

    code = "E_SPEC_NOT_FOUND"


class SpecNameError(InvalidInput):
    """A text that is not a valid name of a spec."""

    code = "E_SPEC_NAME"


class SpecTimeoutError(InvalidInput):
    """A number of hours that is not a valid timeout."""

    code = "E_SPEC_TIMEOUT"


class SpecReasonError(InvalidInput):
    """A value that is not a valid reason for a lock."""

    code = "E_SPEC_REASON"


class SpecPermissionError(StoreError):
    """A lock file may not be read or written, so it is unknown whether the spec is locked."""

    code = "E_SPEC_PERMISSION"


class SpecNotRemovedError(StoreError):
    """A lock file could not be removed."""

    code = "E_SPEC_NOT_REMOVED"


class SpecBusyError(StoreError):
    """Another process has been changing a lock file for too long."""

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
