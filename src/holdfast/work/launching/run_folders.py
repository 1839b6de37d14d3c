"""What is kept of an item on disk: what its agents printed, and its files as they were before.

.holdfast/runs/<item>/<phase>.log    what the agent of a phase printed
.holdfast/runs/<item>/before*        the files that it may write, as they were: see
                                     `holdfast.manager.files.keepsakes`
.holdfast/runs/<item>/left/          what an agent that failed had made of them
.holdfast/runs/<item>/changes.patch  what a task has changed
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.manager.files.keepsakes import Keepsake
from holdfast.manager.files.unfinished_edits import FOLDER
from holdfast.work.engine.callbacks import Lost

if TYPE_CHECKING:
    from holdfast.manager.files.keepsakes import IsHeld


def _always() -> bool:
    return True


class Run:
    """The folder of one item, as one attempt at it sees it.

    All attempts have the same folder. `is_current` is asked before anything is kept, put back or
    accepted, while no other process can do that: it says whether this attempt is still the item's.
    If not, what is kept there is another's, and `Lost` is raised.
    """

    def __init__(self, root: str, item: str, is_current: Callable[[], bool] = _always) -> None:
        self.folder = f"{root}/{FOLDER}/{item}"
        self.root = root
        self._keepsake = Keepsake(root, item)
        self._is_current = is_current

    def log(self, phase: str, round: int = 0) -> str:
        """The file for what the agent of a phase prints."""
        return f"{self.folder}/{phase}-{round}.log" if round else f"{self.folder}/{phase}.log"

    def keep(self, paths: Iterable[str]) -> None:
        """Keep these files as they are now. The caller holds the locks, and nothing has begun: an
        older keepsake of this item is of no use any more."""
        with self._alone():
            self._keepsake.keep(paths)

    def begin(self) -> None:
        """From now on each file is kept before it is written. The caller holds the locks."""
        with self._alone():
            self._keepsake.begin()

    @property
    def keepsake(self) -> Keepsake:
        """The files as they were."""
        return self._keepsake

    def put_back(self, is_held: IsHeld | None = None) -> list[str]:
        """Put the files back as they were, and forget how that was. Which of them had changed.
        `is_held`: see `Keepsake.put_back`."""
        if not self._keepsake.is_there:
            return []  # nothing had begun
        with self._alone():
            return self._keepsake.put_back(is_held)

    def accept(self, *, lands: bool = False) -> bool:
        """From now on the work cannot be undone; with `lands` its files are held until `landed`.
        False if another process has undone it already."""
        with self._alone():
            return self._keepsake.accept(lands=lands)

    def landed(self) -> None:
        """Nothing is left to do of what was accepted."""
        if self._keepsake.is_accepted:
            with self._keepsake.alone():
                self._keepsake.landed()

    def forget(self) -> None:
        """The files as they were are not needed any more."""
        if self._keepsake.is_there:
            with self._alone():
                self._keepsake.forget()

    @contextmanager
    def finishing(self) -> Iterator[bool]:
        """While an item is ended in the ledger, no other process puts its files back; then the
        keepsake is not needed any more. False if another process has put them back already."""
        with self._alone():
            was_there = self._keepsake.is_there
            yield was_there
            self._keepsake.forget()

    def demand_current(self) -> None:
        """Raises Lost if the item is another's now."""
        if not self._is_current():
            raise Lost(self.folder)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._keepsake.alone():
            self.demand_current()
            yield

    def remove(self) -> None:
        """Nothing is kept any more."""
        shutil.rmtree(self.folder, ignore_errors=True)
