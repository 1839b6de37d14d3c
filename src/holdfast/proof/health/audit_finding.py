"""One thing that is wrong with a proof, and how bad it is."""

from __future__ import annotations

from holdfast.core.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

#: The proof cannot be relied on; others may be unable to use it; worth knowing.
ERROR, WARNING, NOTE = "error", "warning", "note"


class Finding(Value):
    """One thing that is wrong: what kind, how bad, where, in words, and what can be done.

    `files` has the paths of what is not understood, from the proof's folder on.
    """

    __slots__ = ("code", "detail", "files", "repair", "sequence", "severity")

    def __init__(
        self,
        code: str,
        severity: str,
        detail: str,
        sequence: int | None = None,
        repair: str = "",
        *,
        files: Sequence[str] = (),
    ) -> None:
        self.code: Final = code
        self.severity: Final = severity
        self.detail: Final = detail
        self.sequence: Final = sequence
        self.repair: Final = repair
        self.files: Final = tuple(files)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return self._fields()
