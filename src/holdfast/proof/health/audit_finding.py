"""One problem of a proof, and how severe it is."""

from __future__ import annotations

from holdfast.core.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

#: The proof cannot be relied on; other programs may fail on it; worth knowing.
ERROR, WARNING, NOTE = "error", "warning", "note"


class Finding(Value):
    """One problem: its code, severity, place, description and remedy.

    `files` has the paths of unknown files, relative to the proof's folder.
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
        """As plain data."""
        return self._fields()
