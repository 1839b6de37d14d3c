"""The root of everything that can go wrong, and what of it every hook may have to raise.

The whole tree is in `holdfast.core.errors`. Making a class takes time, and most of these are made
for nobody when a process is as short as a hook: so what an edit needs imports them from here, and
the others where they are raised.
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


class InvalidInput(HoldfastError):
    """The request cannot be right, whoever holds what."""


class BadKeyError(InvalidInput):
    """A text that does not name anything that can be locked here."""

    code = "E_BAD_KEY"


class StoreError(HoldfastError):
    """The storage is in trouble. Nothing that was promised has been taken back."""

    code = "E_STORE"


class StoreBusyError(StoreError):
    """The ledger could not be reached within the deadline."""

    code = "E_STORE_BUSY"
