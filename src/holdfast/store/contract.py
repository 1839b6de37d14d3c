"""What every store promises. Types only: nothing here runs.

A store keeps the events and the resulting state, and changes both in one step. It promises no
order among callers beyond that of its gate: fairness is up to the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from holdfast.core.model import Decision, Event, Witness
from holdfast.core.view import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.store.move_marks import Move

T = TypeVar("T")

#: Whether a process, and every descendant with one of its marks, is known to be dead. None if that
#: cannot be determined from here, which counts as alive.
IsDead = Callable[[Witness, tuple[str, ...]], bool | None]


class Waiter(Protocol):
    """A waiting thread. A wake-up is a hint, and may come shortly before the change that caused it
    is visible: the caller decides again."""

    @property
    def address(self) -> str:
        """The address for the request, at which a decision that grants it wakes this waiter."""

    @property
    def descriptor(self) -> int:
        """Readable when woken, for a caller that also waits for other events; -1 if there is none,
        and such a caller must poll."""

    def wait(self, timeout: float) -> bool:
        """Wait until woken, for at most `timeout` seconds. True if woken."""

    def close(self) -> None:
        """Release the address. The request with it must have ended."""

    def discard(self) -> None:
        """Give up: no process waits any more for a request that still has this address."""


class Store(Protocol):
    """All deadlines are times of `time.monotonic()`, and are kept whatever other processes do."""

    @property
    def url(self) -> str:
        """The name under which the same store can be opened again, without a password."""

    @property
    def lease(self) -> int | None:
        """How many microseconds a lease without a ttl lasts unless it is renewed, where other hosts
        use the ledger too and cannot judge the owner; None where every user can."""

    def transact(self, decide: Callable[[View], Decision[T]], *, deadline: float) -> T:
        """Decide on the current state, commit the decision, and wake the waiters that it names.

        All or nothing. A caller whose answer was lost may repeat the same command: its ids make the
        repetition harmless.
        """

    def fenced(self, grant_id: str, token: int, *, deadline: float) -> AbstractContextManager[None]:
        """A short section in which no lock changes hands; it requires a current token."""

    def view(self, *, deadline: float) -> AbstractContextManager[View]:
        """The current state, for reading."""

    def events(self, after: int = 0, limit: int | None = None) -> Iterator[Event]:
        """The history, oldest first."""

    def wait(self, after: int, timeout: float) -> int:
        """Wait until there is an event after this one, for at most `timeout` seconds.

        Returns the number of the last event.
        """

    def waiter(self) -> Waiter:
        """A waiter that a decision can wake."""

    def trim(self, before: int) -> int:
        """Delete history before an event, without changing the state. Returns how many events."""

    def close(self) -> None:
        """Release all resources. Using the store afterwards is an error."""


#: Rows of one table of a ledger, which are the same in every store: of `events` (number, time,
#: largest token so far, type, version, data), of `repeats` (a short text for what was repeated, the
#: number of its event, count, time), of `lost` (grant, number), and of `notes` (name, number).
Page = tuple[str, "list[tuple[Any, ...]]"]


class Mover(Protocol):
    """A store of which the ledger can be moved away, or moved to; see `move_marks`.

    The memory store has none: its ledger ends with its process. All changes here are durable when
    the call returns, whatever the settings of the store are for decisions.
    """

    @property
    def store(self) -> Store:
        """The store itself."""

    def move(self, *, deadline: float) -> Move | None:
        """What this ledger says about its own move; None if it can be used."""

    def mark(
        self,
        old: Move | None,
        new: Move | None,
        check: Callable[[View], None] | None = None,
        *,
        deadline: float,
    ) -> Move | None:
        """Replace what it says by `new`, if it is `old`. Returns what it says now.

        `check` is called with the state, in the same transaction, and may raise. Once the mark is
        set, no decision is made any more, by any process that has the ledger open.
        """

    def pages(self) -> Iterator[Page]:
        """All rows, table by table. The ledger must be marked, so that it does not change."""

    def head(self, *, deadline: float) -> int:
        """The number of the last event; 0 if there was none."""

    def has_copied(self, id: str, *, deadline: float) -> bool:
        """Whether the move with this id has filled this ledger."""

    def take(
        self, id: str, pages: Callable[[], Iterator[Page]], over: Move | None, *, deadline: float
    ) -> bool:
        """Fill this ledger with the rows of another one, in one transaction. False if that was
        done before. `deadline` is for the beginning; how long the rest takes is up to the rows.

        It must be empty, or say `over` about itself: then it was moved to where the rows come
        from, and they replace it.
        """

    def call_off(self, id: str, *, deadline: float) -> bool:
        """Make sure that the move with this id never fills this ledger. False if it has."""
