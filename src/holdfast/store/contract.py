"""What every store promises. Types only: nothing here runs.

A store holds the events and the state that they lead to, and changes both in one step. It
does not promise order among callers beyond that of its gate: fairness is the rulebook's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from holdfast.core.model import Decision, Event, Witness
from holdfast.core.view import View

T = TypeVar("T")

#: Whether a process, and every descendant that carries one of its marks, is proven to be gone.
#: None if that cannot be judged from here: it counts as alive.
IsDead = Callable[[Witness, tuple[str, ...]], bool | None]


class Waiter(Protocol):
    """One who waits to be woken. A wake-up is a hint, and may come a moment before what it tells
    of can be seen: decide again."""

    @property
    def address(self) -> str:
        """What to put into a request so that whoever serves it can wake us."""

    @property
    def descriptor(self) -> int:
        """Ready to be read when woken, for a caller that waits for other things too; -1 if there is
        none, and such a caller has to look again by itself."""

    def wait(self, timeout: float) -> bool:
        """Wait until woken, at most so many seconds. True if woken."""

    def close(self) -> None:
        """Give the address back. The request that named it must have ended."""

    def discard(self) -> None:
        """Give up: whatever request still names the address is not waited for any more."""


class Store(Protocol):
    """All deadlines are moments of `time.monotonic()`, and hold whatever other processes do."""

    @property
    def url(self) -> str:
        """The name under which the same store can be opened again."""

    def transact(self, decide: Callable[[View], Decision[T]], *, deadline: float) -> T:
        """Decide on the present state, commit what was decided, wake whom it concerns.

        All or nothing. A caller whose answer was lost may repeat the same command: the ids in it
        make the repeat harmless.
        """

    def fenced(self, grant_id: str, token: int, *, deadline: float) -> AbstractContextManager[None]:
        """A short section in which nothing changes hands, entered only by a current token."""

    def view(self, *, deadline: float) -> AbstractContextManager[View]:
        """The present state, to read."""

    def events(self, after: int = 0, limit: int | None = None) -> Iterator[Event]:
        """The history, oldest first."""

    def wait(self, after: int, timeout: float) -> int:
        """Wait until there is an event after this one, at most so many seconds.

        The number of the last one.
        """

    def waiter(self) -> Waiter:
        """Somebody who can be woken by a decision."""

    def trim(self, before: int) -> int:
        """Forget history before an event. The state is not touched. How many events went."""

    def close(self) -> None:
        """Let go of everything. Using it afterwards is an error."""
