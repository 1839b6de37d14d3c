"""Which leased files a commit has made clean, for `--until-commit`.

The broker detects a commit when git renames the file of a branch, or HEAD, into place, so no hook
is needed: agents' clients often disable git's hooks for their shells. A file that changed between
the last known commit and the new one, and is clean now, needs no lease any more.
"""

from __future__ import annotations

from time import monotonic

from holdfast.core.errors import HoldfastError
from holdfast.gate.git.git_files import dirty, put_aside
from holdfast.gate.guard.git_queries import GIT_SECONDS, Git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: The tree of a repository without a commit.
_NOTHING = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class CommittedFiles:
    """The commits of all checkouts of a repository."""

    __slots__ = ("_heads",)

    def __init__(self, checkouts: Iterable[str]) -> None:
        self._heads = {checkout: _head(checkout) for checkout in checkouts}

    def clean(self, leased: Iterable[str]) -> list[str]:
        """The files, out of some, that were committed since the last call and are clean now."""
        found: list[str] = []
        paths = list(leased)
        for checkout, old in list(self._heads.items()):
            new = _head(checkout)
            if new == old:
                continue
            changed = Git(checkout, monotonic() + GIT_SECONDS).names(
                "diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new
            )
            inner = [path[len(checkout) + 1 :] for path in paths if path.startswith(f"{checkout}/")]
            names = [name for name in inner if name in (changed or ())]
            try:
                kept = {*dirty(checkout, names), *put_aside(checkout)} if names else set()
            except HoldfastError:
                continue  # git does not answer: the files stay leased, and the next call asks again
            self._heads[checkout] = new
            found += [f"{checkout}/{name}" for name in names if name not in kept]
        return found


def _head(checkout: str) -> str:
    return Git(checkout, monotonic() + GIT_SECONDS).commit("HEAD") or _NOTHING
