"""What was found."""

from __future__ import annotations

from holdfast.core.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: As it should be.
HELD = "held"
#: Not as it should be: something that must not happen could.
FAILED = "failed"
#: Worth knowing; the guard holds all the same, or nobody can say.
NOTE = "note"
#: Not tried, because it is not there or not wanted.
SKIPPED = "skipped"


class Finding(Value):
    """One thing that was looked at or tried: of whom, what, how it ended, and how to put it right.

    `about` is a client's name, or `gate`, `settings`, `git`, `sandbox`, `ledger`, `doctor`.
    """

    __slots__ = ("about", "check", "detail", "fix", "state")

    def __init__(self, about: str, check: str, state: str, detail: str = "", fix: str = "") -> None:
        self.about: Final = about
        self.check: Final = check
        self.state: Final = state
        self.detail: Final = detail
        self.fix: Final = fix
