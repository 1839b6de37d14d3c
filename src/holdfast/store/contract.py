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
