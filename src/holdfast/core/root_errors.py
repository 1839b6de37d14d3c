"""The root of the errors, and the few that every hook may have to raise.

The whole tree is in `holdfast.core.errors`. Creating a class takes time, which a process as short
as a hook would spend on classes that it rarely needs. So the modules on an edit's path import these
few from here, and the others only where they raise them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class HoldfastError(Exception):
    """The root of the tree. `str()` is the message, `hint` the next step."""

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


class InvalidInput(HoldfastError):
    """The request is invalid, whatever locks are held."""


class BadKeyError(InvalidInput):
    """A text that does not name anything lockable here."""

    code = "E_BAD_KEY"


class SettingsError(InvalidInput):
    """Invalid settings. The fields are `file`, `line` and `key`."""

    code = "E_SETTINGS"


class StoreError(HoldfastError):
    """The storage failed. Grants made before stay valid."""

    code = "E_STORE"
    #: The storage may answer again later. Whether the last decision was committed is not known.
    is_away: ClassVar[bool] = False


class StoreBusyError(StoreError):
    """The ledger could not be reached within the deadline."""

    code = "E_STORE_BUSY"
