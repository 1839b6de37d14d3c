"""Calls that do not return immediately: they wait in line for a lease, or wait for a reader.

Any number of them can wait while others proceed. Each has a ticket in the ledger, in the order in
which they came; one address is woken for all of them, and then every ticket is requested again,
which is cheap. A call whose caller was killed leaves the line.
"""

from __future__ import annotations

import errno
import os
from time import monotonic

from holdfast.core import rules
from holdfast.core.errors import HoldfastError
from holdfast.core.model import SECOND, Grant, Refusal, Waiting
from holdfast.manager.files.unfinished_edits import settles
from holdfast.manager.ledger import DEADLINE_SECONDS
from holdfast.manager.manager import FALLBACK_SECONDS, GRACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.model import ConflictInfo, Request
    from holdfast.gate.broker.leasing.command_leases import Leases
    from holdfast.gate.broker.leasing.leased_files import MustWait
    from holdfast.manager.manager import LockManager
    from holdfast.store.contract import Waiter

    #: Its id, its thread, its number and its arguments.
    Call = tuple[int, int, int, tuple[int, ...]]

#: How often a call that would block is repeated.
_BLOCKED_SECONDS = 0.02
#: How often a call is repeated that waits for another holder in its deadlock to yield.
_YIELDING_SECONDS = 0.05


class _Place:
    """One call in line."""

    __slots__ = ("awaited", "call", "conflicts", "end", "request")

    def __init__(self, call: Call, awaited: MustWait, request: Request, end: float) -> None:
        self.call = call
        self.awaited = awaited
        self.request = request
        self.end = end
        self.conflicts: Sequence[ConflictInfo] = ()


class WaitLine:
    """All waiting calls of one command."""

    def __init__(
        self,
        manager: LockManager,
        leases: Leases,
        seconds: float,
        is_waiting: Callable[[int], bool],
        again: Callable[[Call], None],
        refuse: Callable[[int, int], None],
    ) -> None:
        """`again` repeats a call, `refuse` ends it with an error."""
        self._manager = manager
        self._leases = leases
        self._seconds = seconds
        self._is_waiting = is_waiting
        self._again = again
        self._refuse = refuse
        self._places: list[_Place] = []
        self._blocked: list[Call] = []
        self._waiter: Waiter | None = None
        self._look_at = float("inf")
        #: For how long in all at least one call has waited.
        self.waited_seconds = 0.0
        self._counted_to = 0.0

    @property
    def pause(self) -> float:
        """How long the broker may sleep, in seconds."""
        if self._blocked:
            return _BLOCKED_SECONDS
        return max(0.0, self._look_at - monotonic()) if self._places else float("inf")

    @property
    def wanted(self) -> list[str]:
        """The paths that calls in line are about to write."""
        return [place.awaited.request.paths[0] for place in self._places]

    @property
    def ears(self) -> list[int]:
        """Readable when something has come free for one of them."""
        number = -1 if self._waiter is None else self._waiter.descriptor
        return [number] if number >= 0 else []

    def block(self, call: Call) -> None:
        """Repeat a call that would block until it does not."""
        self._blocked.append(call)

    def stand(self, call: Call, awaited: MustWait) -> None:
        """Put a call in line for a lease."""
        if self._waiter is None:
            self._waiter = self._manager.store.waiter()
        request = awaited.request.waiting(waiter=None, wake=self._waiter.address, grace=GRACE)
        place = _Place(call, awaited, request, monotonic() + self._seconds)
        self._places.append(place)
        self._ask(place)

    def look_if_due(self) -> None:
        """Check which calls can proceed, if the line was woken or the time has come."""
        self._count()
        if self._blocked or (self._places and (self._is_called() or monotonic() >= self._look_at)):
            self._look()

    def _count(self) -> None:
        """Add up the time with a call in line."""
        now = monotonic()
        if self._counted_to:
            self.waited_seconds += now - self._counted_to
        self._counted_to = now if self._places else 0.0

    def _is_called(self) -> bool:
        return bool(self.ears) and self._waiter is not None and self._waiter.wait(0)

    def _look(self) -> None:
        blocked, self._blocked = self._blocked, []
        for call in blocked:
            if self._is_waiting(call[0]):
                self._again(call)
        if not self._places:
            return
        self._look_at = float("inf")
        for place in list(self._places):
            self._ask(place)

    def _ask(self, place: _Place) -> None:
        now = monotonic()
        self._look_at = min(self._look_at, now + FALLBACK_SECONDS, max(place.end, now + 0.1))
        if not self._is_waiting(place.call[0]):
            self._leave_if_possible(place)
            return
        if monotonic() >= place.end:
            self._give_up(place)
            return
        try:
            outcome = self._decided(place)
            yields = isinstance(outcome, Refusal) and self._leases.waits_on(place.awaited, outcome)
        except HoldfastError:
            return  # the ledger cannot be used now; the next round tries again
        if isinstance(outcome, Waiting):
            place.conflicts = outcome.conflicts
            if outcome.check_after is not None:
                self._look_at = min(self._look_at, monotonic() + outcome.check_after / SECOND)
            return
        if yields:
            self._look_at = min(self._look_at, monotonic() + _YIELDING_SECONDS)
            return
        self._places.remove(place)
        if isinstance(outcome, Grant):
            self._go_on(place, outcome)
        else:
            self._refuse(place.call[0], self._leases.refuse_wait(place.awaited, outcome))

    def _decided(self, place: _Place) -> Grant | Waiting | Refusal:
        def decide() -> Grant | Waiting | Refusal:
            return self._manager.store.transact(
                lambda view: rules.acquire(view, place.request, wait=True),
                deadline=monotonic() + DEADLINE_SECONDS,
            )

        outcome = decide()
        if isinstance(outcome, Waiting) and settles(self._manager, outcome.conflicts):
            outcome = decide()
        return outcome

    def _go_on(self, place: _Place, grant: Grant) -> None:
        if self._manager.store.lease is not None:
            from holdfast.manager.files.ended_edits import entrust

            entrust(self._manager, grant)
        try:
            status = os.lstat(place.awaited.path)
        except OSError:
            status = None
        try:
            self._leases.waited(place.awaited, grant, status)
        except OSError as error:
            self._refuse(place.call[0], error.errno or errno.EIO)
            return
        self._again(place.call)

    def _give_up(self, place: _Place) -> None:
        try:
            late = self._leave(place, "timeout")
        except HoldfastError:
            return  # as above
        if late is not None:
            self._go_on(place, late)
        else:
            number = self._leases.refuse_wait(place.awaited, place.conflicts)
            self._refuse(place.call[0], number)

    def _leave(self, place: _Place, why: str) -> Grant | None:
        late: Grant | None = self._manager.store.transact(
            lambda view: rules.cancel(view, place.request.id, why),
            deadline=monotonic() + DEADLINE_SECONDS,
        )
        self._places.remove(place)
        if late is not None and why == "cancelled":
            self._manager.release(late.id)
            return None
        return late

    def _leave_if_possible(self, place: _Place) -> None:
        """Leave the line. If the ledger cannot be used now, the next round tries again; at the
        latest the place ends with its holder."""
        try:
            self._leave(place, "cancelled")
        except HoldfastError:
            return

    def refuse_all(self) -> None:
        """The command has ended: refuse every waiting call."""
        for place in list(self._places):
            self._leave_if_possible(place)
            self._refuse(place.call[0], errno.EACCES)
        self._places.clear()

    def close(self) -> None:
        if self._waiter is not None:
            self._waiter.close()
