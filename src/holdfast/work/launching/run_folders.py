"""What is kept on disk for an item: the output of its agents, and its files as they were before.

.holdfast/runs/<item>/<phase>.log    the output of a phase's agent
.holdfast/runs/<item>/before*        the files that it may write, as they were: see
                                     `holdfast.manager.files.keepsakes`
.holdfast/runs/<item>/left/          the files as a failed agent had left them
.holdfast/runs/<item>/changes.patch  what a task has changed
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.manager.files.keepsakes import Keepsake, put_back
from holdfast.manager.files.unfinished_edits import FOLDER
from holdfast.work.engine.callbacks import Lost

if TYPE_CHECKING:
    from holdfast.manager.ledger import Ledger


def _always() -> bool:
    return True


class Run:
    """The folder of one item, as one attempt at it sees it.

    All attempts share the folder. `is_current` is called before anything is kept, restored or
    accepted, while no other process can do that: it tells whether the item still belongs to this
    attempt. If not, the content belongs to another attempt, and `Lost` is raised.
    """

    def __init__(self, root: str, item: str, is_current: Callable[[], bool] = _always) -> None:
        self.folder = f"{root}/{FOLDER}/{item}"
        self.root = root
        self.item = item
        self._keepsake = Keepsake(root, item)
        self._is_current = is_current

    def log(self, phase: str, round: int = 0) -> str:
        """The file for the output of a phase's agent."""
        return f"{self.folder}/{phase}-{round}.log" if round else f"{self.folder}/{phase}.log"

    def keep(self, paths: Iterable[str]) -> None:
        """Keep these files as they are now. The caller holds the locks, and nothing has started: an
        older keepsake of this item is no longer needed."""
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

    def put_back(self, manager: Ledger | None = None, *, only_held: bool = False) -> list[str]:
        """Restore the files, and forget the keepsake; which of them had changed. With `only_held`,
        those that the item still holds. With a ledger that several hosts share, those that no
        other holder could write since."""
        if not self._keepsake.is_there:
            return []  # nothing had started
        with self._alone():
            if manager is not None and (only_held or manager.store.lease is not None):
                return put_back(manager, self._keepsake, self.item, by_owner=True) or []
            return self._keepsake.put_back()

    def accept(self, *, lands: bool = False) -> bool:
        """From now on the work cannot be undone; with `lands` its files are held until `landed`.
        False if another process has undone it already."""
        with self._alone():
            return self._keepsake.accept(lands=lands)

    def landed(self) -> None:
        """Nothing is left to do for accepted work."""
        if self._keepsake.is_accepted:
            with self._keepsake.alone():
                self._keepsake.landed()

    def forget(self) -> None:
        """The files as they were are no longer needed."""
        if self._keepsake.is_there:
            with self._alone():
                self._keepsake.forget()

    @contextmanager
    def finishing(self) -> Iterator[bool]:
        """While an item is ended in the ledger, no other process restores its files; then the
        keepsake is no longer needed. False if another process has restored them already."""
        with self._alone():
            was_there = self._keepsake.is_there
            yield was_there
            self._keepsake.forget()

    def demand_current(self) -> None:
        """Raises Lost if the item belongs to another process now."""
        if not self._is_current():
            raise Lost(self.folder)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._keepsake.alone():
            self.demand_current()
            yield

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
