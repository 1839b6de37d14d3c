"""Which files other holders have released since the broker started, read from the ledger's history.

Such a file may have changed, so a write by a process that started before is stale.
"""

from __future__ import annotations

from time import monotonic, time_ns

from holdfast.core import events
from holdfast.gate.broker.leasing.leased_files import found_changed_at
from holdfast.manager.ledger import DEADLINE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from holdfast.core.model import Decision, Event
    from holdfast.core.view import View
    from holdfast.gate.broker.places.path_lookup import Found
    from holdfast.manager.manager import LockManager

    T = TypeVar("T")


class OthersChanges:
    """Follows the history for one broker."""

    __slots__ = ("_is_ours", "_lost", "_manager", "_newest", "_own", "_seen", "began", "released")

    def __init__(
        self,
        manager: LockManager,
        own: set[str],
        is_ours: Callable[[Event], bool],
        lost: Callable[[str], None],
    ) -> None:
        """`own` are the ids of the command's grants. `is_ours` says whether another lease that
        ended was the command's own nevertheless; `lost` is called with the id of a grant that was
        taken away."""
        self._manager = manager
        self._own = own
        self._is_ours = is_ours
        self._lost = lost
        #: When the broker started.
        self.began = time_ns()
        #: The paths that other holders have released since.
        self.released: set[str] = set()
        #: The last event that was processed, and the last one that is known to exist.
        self._seen = self._newest = self._head()

    def changed_at(self, found: Found, shown: str, *, sees_all: bool) -> int:
        """When another holder changed a file since the broker started; 0 if none did. `sees_all`:
        every decision in the command's name was made by `transact`."""
        changed = found_changed_at(found)
        if changed < self.began:
            return 0
        if not sees_all or self._seen < self._newest:
            self.follow()
        return changed if shown in self.released else 0

    def follow(self) -> None:
        """Process the events of the ledger since the last time."""
        for event in self._manager.store.events(self._seen):
            self._heed(event)

    def follow_if_behind(self) -> None:
        """The same, if the ledger has new events."""
        if self._head() != self._seen:
            self.follow()

    def transact(self, decide: Callable[[View], Decision[T]]) -> T:
        """Decide in the ledger. The events of the decision are processed without another read."""
        head = 0
        history: tuple[Event, ...] = ()

        def noted(view: View) -> Decision[T]:
            nonlocal head, history
            decision = decide(view)
            head, history = view.head, decision.events
            return decision

        outcome = self._manager.store.transact(noted, deadline=monotonic() + DEADLINE_SECONDS)
        self._newest = head + len(history)
        # A repeated refusal is not an event of its own: the next event has its number.
        if head == self._seen and not any(event.once for event in history):
            for event in history:
                self._heed(event)
        return outcome

    def _heed(self, event: Event) -> None:
        self._seen = event.seq
        if event.type not in events.ENDINGS:
            return
        id = event.data["grant"] if event.subject is None else event.subject.id
        if id not in self._own:
            if not self._is_ours(event):
                self.released.update(event.data["paths"])
        elif event.type != events.LOCK_RELEASED:
            self._lost(id)

    def _head(self) -> int:
        with self._manager.store.view(deadline=monotonic() + DEADLINE_SECONDS) as view:
            return view.head
