"""The zone of a path: outside, the ledger's folder, git's folder, or the files of a checkout.

Decided by the text of the path alone; git is not asked (see `path_kinds`).
"""

from __future__ import annotations

from holdfast.manager.files.checkouts import GIT
from holdfast.manager.files.paths import LEDGER_FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

OUTSIDE, LEDGER, GITS, PASSING, LEASED = "outside", "ledger", "git", "passing", "leased"

_REMEMBERED_MAX = 4096


class PathZones:
    """The zones of one repository with all its checkouts."""

    __slots__ = ("_checkouts", "_folders", "_git", "_known", "_ledger")

    def __init__(
        self,
        checkouts: Iterable[str],
        git_folders: Iterable[str],
        ledger: str,
        *,
        closes_git: bool = False,
    ) -> None:
        """All are real paths; `git_folders` are those outside any checkout, and `ledger` is the
        folder of the ledger. With `closes_git` git's own files are as closed as the ledger's."""
        self._git = LEDGER if closes_git else GITS
        self._checkouts = sorted(checkouts, key=len, reverse=True)
        self._folders = tuple(f"{folder}/" for folder in git_folders)
        self._ledger = f"{ledger}/"
        self._known: dict[str, tuple[str, str, str]] = {}

    def of(self, path: str) -> tuple[str, str, str]:
        """The zone of a real path, the checkout that contains it, and the rest of the path. LEASED
        includes files that git may ignore. Cached, since a call needs it more than once."""
        known = self._known.get(path)
        if known is None:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            known = self._known[path] = self._of(path)
        return known

    def _of(self, path: str) -> tuple[str, str, str]:
        whole = f"{path}/"
        if whole.startswith(self._ledger):
            return LEDGER, "", ""
        for checkout in self._checkouts:
            if whole.startswith(f"{checkout}/"):
                inner = path[len(checkout) + 1 :]
                if f"/{inner}/".find(f"/{GIT}/") >= 0:
                    return self._git, checkout, inner
                if f"/{inner}/".find(f"/{LEDGER_FOLDER}/") >= 0:
                    return LEDGER, checkout, inner
                return LEASED, checkout, inner
        for folder in self._folders:
            if whole.startswith(folder):
                return self._git, folder[:-1], f"{GIT}/{path[len(folder) :]}"
        return OUTSIDE, "", ""
