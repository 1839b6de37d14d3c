"""What a check of a store has found."""

from __future__ import annotations

from holdfast.core.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

#: Good; usable, but a person should know; and not usable.
GOOD, NOTE, BAD = "ok", "note", "failed"


class Finding(Value):
    """One thing that was checked, as a sentence and as facts for programs."""

    __slots__ = ("about", "facts", "hint", "level", "said")

    def __init__(self, about: str, level: str, said: str, *, hint: str = "", **facts: Any) -> None:
        self.about: Final = about
        self.level: Final = level
        self.said: Final = said
        self.hint: Final = hint
        self.facts: Final = facts
