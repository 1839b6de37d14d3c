"""What a decision may ask of a store. Types only: nothing here runs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from holdfast.core.model import Ending, Event, Grant, Ticket, Witness

    class View(Protocol):
        """What a decision may ask. Answers come from indexes and hold for the whole transaction."""

        @property
        def now(self) -> int:
            """Ledger time. It never goes back."""

        @property
        def slept(self) -> int:
            """How long the machine has slept, in all that the ledger has seen."""

        @property
        def wall(self) -> int:
            """The wall clock, for tokens only."""

        @property
        def head(self) -> int:
            """The sequence number of the last event."""

        @property
        def has_tickets(self) -> bool:
            """Whether there is any ticket at all."""

        @property
        def grace_over(self) -> bool:
            """Whether any ticket has waited out its grace. Until then none concerns others."""

        @property
        def last_token(self) -> int:
            """The largest token that was ever issued."""

        def dead(self, witness: Witness, marks: tuple[str, ...]) -> bool | None:
            """Whether the process and all that carry its marks are proven to be gone; None if that
            cannot be judged from here, which counts as alive."""

        def deserted(self, address: str) -> bool:
            """Whether the process that was to be woken at this address has given up waiting."""

        def grant(self, id: str) -> Grant | Ending | None:
            """A grant, or how it was lost, as long as history remembers."""

        def scopes(
            self, at: list[str], below: list[tuple[str, str]]
        ) -> Iterator[tuple[str, str, str]]:
            """(key, mode, grant id) of all that is held at these keys or inside these ranges, each
            once, by key and then by id. No more is read than is asked for. The keys of inodes come
            last in `at`; no resource is inside the root."""

        def is_free(self, at: list[str], below: list[tuple[str, str]]) -> bool:
            """Whether `scopes` has no rows there."""

        def count(
            self, at: list[str], below: list[tuple[str, str]], *, writes: bool, most: int
        ) -> int:
            """How many rows `scopes` has for one key, counted up to `most`, which is much quicker
            than to read them; with `writes` only those to write. Not for keys of inodes."""

        def held_by(self, holder_key: str) -> list[Grant]:
            """What one holder has."""

        def held_within(self, start: str) -> list[Grant]:
            """What all those agents have whose keys start like this."""

        def some_grants(self, after: int, count: int) -> list[tuple[int, str]]:
            """(number, id) of grants that have not ended, oldest first: the first `count` whose
            numbers, which only the store understands, are larger. For people, like `grants`."""

        def grants(self) -> list[Grant]:
            """All grants that have not ended, oldest first. For people; no rule asks for it."""

        def note(self, name: str) -> Event | None:
            """The last event that said this name, unless it said that it is over."""

        def notes(self, start: str) -> list[Event]:
            """All notes whose names start like this, oldest first."""

        def ticket(self, id: str) -> Ticket | None:
            """A ticket that still waits."""

        def tickets(self, at: list[str], below: list[tuple[str, str]]) -> Iterator[Ticket]:
            """The tickets that want these keys or something inside these ranges, by rank."""

        def ripe(self, at: list[str], below: list[tuple[str, str]]) -> list[Ticket]:
            """Those of them that are reservations, or have waited long enough to be, by rank."""

        def waiting(self, holder_key: str) -> list[Ticket]:
            """The tickets of one holder, by rank."""

        def queue(self) -> list[Ticket]:
            """All tickets, by rank. For people; a rule asks for it only if very much is held."""
