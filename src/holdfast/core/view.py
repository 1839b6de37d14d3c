"""The questions that a decision may ask a store. Types only: nothing here runs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from holdfast.core.model import Ending, Event, Grant, Ticket, Witness

    class View(Protocol):
        """The state as a decision sees it. Answers come from indexes, and are valid for the whole
        transaction."""

        @property
        def now(self) -> int:
            """Ledger time. It never goes back."""

        @property
        def slept(self) -> int:
            """The machine's total sleep over the history of the ledger."""

        @property
        def wall(self) -> int:
            """The wall clock, for tokens only."""

        @property
        def head(self) -> int:
            """The sequence number of the last event."""

        @property
        def lease(self) -> int | None:
            """How long a lease without a ttl lasts unless it is renewed; None if it lasts as long
            as its owner, which every user of the ledger can judge."""

        @property
        def has_tickets(self) -> bool:
            """Whether there are any tickets."""

        @property
        def grace_over(self) -> bool:
            """Whether any ticket's grace is over. Until then, tickets affect no other request."""

        @property
        def last_token(self) -> int:
            """The largest token issued so far."""

        def dead(self, witness: Witness, marks: tuple[str, ...]) -> bool | None:
            """Whether the process, and every process with one of its marks, is known to be dead;
            None if that cannot be determined from here, which counts as alive."""

        def gave_up(self, address: str) -> bool:
            """Whether the process with this address has stopped waiting."""

        def grant(self, id: str) -> Grant | Ending | None:
            """A grant, or how it was lost, while the history still has that."""

        def scopes(
            self, at: list[str], below: list[tuple[str, str]]
        ) -> Iterator[tuple[str, str, str]]:
            """(key, mode, grant id) of everything held at these keys or inside these ranges, each
            once, by key and then by id, read on demand. The keys of inodes come last in `at`; no
            resource is inside the root."""

        def is_free(self, at: list[str], below: list[tuple[str, str]]) -> bool:
            """Whether `scopes` has no rows there."""

        def count(
            self, at: list[str], below: list[tuple[str, str]], *, writes: bool, most: int
        ) -> int:
            """The number of rows that `scopes` has for one key, counted up to `most`, which is much
            faster than reading them; with `writes` only those for writing. Not for keys of
            inodes."""

        def held_by(self, holder_key: str) -> list[Grant]:
            """The grants of one holder."""

        def held_within(self, start: str) -> list[Grant]:
            """The grants of all agents whose keys begin with `start`."""

        def some_grants(self, after: int, count: int) -> list[tuple[int, str]]:
            """(number, id) of grants that have not ended, oldest first: the first `count` with
            numbers above `after`. The numbers are internal to the store. For listings, like
            `grants`."""

        def grants(self) -> list[Grant]:
            """All grants that have not ended, oldest first. For listings; no rule uses it."""

        def note(self, name: str) -> Event | None:
            """The last event with this note's name, unless that event ended the note."""

        def notes(self, start: str) -> list[Event]:
            """All notes whose names begin with `start`, oldest first."""

        def ticket(self, id: str) -> Ticket | None:
            """A ticket that is still in the queue."""

        def tickets(self, at: list[str], below: list[tuple[str, str]]) -> Iterator[Ticket]:
            """The tickets that want one of these keys or a key inside these ranges, by rank."""

        def ripe(self, at: list[str], below: list[tuple[str, str]]) -> list[Ticket]:
            """Those of them that are reservations, or due to become one, by rank."""

        def waiting(self, holder_key: str) -> list[Ticket]:
            """The tickets of one holder, by rank."""

        def queue(self) -> list[Ticket]:
            """All tickets, by rank. For listings; a rule uses it only for very large conflicts."""
