"""A store that fails before, inside and after its commit. It wraps any store.

The seeded random numbers decide the fate of each call. Only stores that promise to survive it get a
commit that is torn in the middle: a store in memory dies with its process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.core.model import Decision, Event

if TYPE_CHECKING:
    from holdfast.core.view import View
    from holdfast.store.contract import Store, Waiter

T = TypeVar("T")

BEFORE, INSIDE, AFTER = "before", "inside", "after"
FOR_EVER = float("inf")


class Interrupted(Exception):
    """The caller got no answer. Only the simulator knows whether the store committed."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where


class Watcher(Protocol):
    """Observes what really happens in the store."""

    def looking(self, view: View) -> None:
        """A decision is about to be made on this view."""

    def committed(self, decision: Decision[Any], now: int, *, repeated: bool) -> None:
        """The events of this decision are now in the ledger; if `repeated`, all but the last one,
        which was counted instead."""

    def woken(self, addresses: tuple[str, ...], hints: tuple[str, ...]) -> None:
        """The waiters at these addresses were woken, and those that wait for these keys may try."""


class TornEvents(tuple[Event, ...]):
    """Events that cannot be read to the end."""

    def __iter__(self) -> Iterator[Event]:
        yield from tuple.__getitem__(self, slice(len(self) // 2))
        raise Interrupted(INSIDE)

    def __getitem__(self, index: object) -> Any:
        raise Interrupted(INSIDE)


class FaultyStore:
    """A store that sometimes fails, and reports to a watcher what it does.

    `stores` are connections to the same ledger, for the processes of the simulation; `turn` selects
    one of them.
    """

    def __init__(
        self,
        stores: list[Store],
        *,
        random: Random,
        watcher: Watcher,
        fault_rate: float,
        survives_tearing: bool,
    ) -> None:
        self._stores = stores
        self._random = random
        self._watcher = watcher
        self._fault_rate = fault_rate
        self._survives_tearing = survives_tearing
        self.turn = 0
        self.url = stores[0].url
        self.lease = stores[0].lease

    @property
    def store(self) -> Store:
        """The connection whose turn it is."""
        return self._stores[self.turn % len(self._stores)]

    def transact(self, decide: Callable[[View], Decision[T]], *, deadline: float = FOR_EVER) -> T:
        """As the store's, unless this call is to fail."""
        where = self._fate()
        if where == BEFORE:
            raise Interrupted(BEFORE)
        watcher = self._watcher
        made: list[tuple[Decision[T], int]] = []

        def watched(view: View) -> Decision[T]:
            watcher.looking(view)
            decision = decide(view)
            if where == INSIDE:
                if self._survives_tearing and len(decision.events) > 0:
                    return Decision(decision.outcome, TornEvents(decision.events))
                raise Interrupted(INSIDE)
            made.append((decision, view.now))
            return decision

        outcome = self.store.transact(watched, deadline=deadline)
        decision, now = made[0]
        events = decision.events
        if events:
            repeated = bool(events[-1].once) and self._head() < events[-1].seq
            watcher.committed(decision, now, repeated=repeated)
        if where == AFTER:
            raise Interrupted(AFTER)
        if decision.wake or decision.hint:
            watcher.woken(decision.wake, decision.hint)
        return outcome

    def _fate(self) -> str:
        drawn = self._random.random()
        if drawn >= self._fault_rate:
            return ""
        part = drawn / self._fault_rate
        return BEFORE if part < 0.25 else INSIDE if part < 0.55 else AFTER

    def _head(self) -> int:
        with self.store.view(deadline=FOR_EVER) as view:
            return view.head

    # The rest of the contract, unchanged

    def fenced(
        self, grant_id: str, token: int, *, deadline: float = FOR_EVER
    ) -> AbstractContextManager[None]:
        """As the store's."""
        return self.store.fenced(grant_id, token, deadline=deadline)

    def view(self, *, deadline: float = FOR_EVER) -> AbstractContextManager[View]:
        """As the store's."""
        return self.store.view(deadline=deadline)

    def events(self, after: int = 0, limit: int | None = None) -> Iterator[Event]:
        """As the store's."""
        return self.store.events(after, limit)

    def wait(self, after: int, timeout: float) -> int:
        """As the store's."""
        return self.store.wait(after, timeout)

    def waiter(self) -> Waiter:
        """As the store's."""
        return self.store.waiter()

    def trim(self, before: int) -> int:
        """As the store's."""
        return self.store.trim(before)

    def close(self) -> None:
        """Close all connections."""
        for store in self._stores:
            store.close()
