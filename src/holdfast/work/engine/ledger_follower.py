"""A thread that reports new events of the ledger, from any process."""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.core.model import Event
from holdfast.manager.manager import LockManager

#: For how long a lost wake-up from another process may go unnoticed.
LOOK_SECONDS = 5.0


class LedgerFollower:
    """Reports every event after a given one, until it is told to end and another event comes or a
    pause has passed."""

    def __init__(
        self,
        manager: LockManager,
        after: int,
        heard: Callable[[Event], None],
        broke: Callable[[BaseException], None],
    ) -> None:
        self._manager = manager
        self._heard = heard
        self._broke = broke
        self._is_over = False
        self._thread = threading.Thread(
            target=self._follow, args=(after,), name="holdfast watcher", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Report no more events."""
        self._is_over = True

    def join(self) -> None:
        """Wait until the thread has ended, unless we are that thread."""
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _follow(self, head: int) -> None:
        try:
            while not self._is_over:
                if self._manager.store.wait(head, LOOK_SECONDS) <= head:
                    continue
                for event in self._manager.events(after=head):
                    head = event.seq
                    self._heard(event)
        except BaseException as error:
            self._broke(error)
