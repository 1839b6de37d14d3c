"""One finding of the doctor."""

from __future__ import annotations

from holdfast.core.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: The guard held.
HELD = "held"
#: The guard failed: something that must not happen could.
FAILED = "failed"
#: Worth knowing; the guard holds all the same, or that cannot be determined.
NOTE = "note"
#: Not tried, because it is absent or not wanted.
SKIPPED = "skipped"


class Finding(Value):
    """One check: what it is about, its name, its result, details, and how to fix it.

    `about` is a client's name, or `gate`, `settings`, `git`, `sandbox`, `ledger`, `doctor`.
    """

    __slots__ = ("about", "check", "detail", "fix", "state")

    def __init__(self, about: str, check: str, state: str, detail: str = "", fix: str = "") -> None:
        self.about: Final = about
        self.check: Final = check
        self.state: Final = state
        self.detail: Final = detail
        self.fix: Final = fix
