"""The state of a ledger on a server at one moment, read from its indexes."""

from __future__ import annotations

from holdfast.core import codec
from holdfast.core.draft import in_order
from holdfast.core.events import ending
from holdfast.core.keys import below as inside_of
from holdfast.core.model import AGENT
from holdfast.store.postgres.listener import WAITER, WAITER_SECONDS
from holdfast.store.records import build_or_fail, remember, without_resources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeVar

    from holdfast.core.model import Ending, Event, Grant, Ticket
    from holdfast.store.contract import IsDead

    T = TypeVar("T")
    Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
    Ranges = list[tuple[str, str]]
    #: The id of a grant or a ticket, and the number of the event with which it began.
    Began = tuple[str, int]
    #: A ticket: rank, event, end of patience, whether reserved, id.
    Wanted = tuple[int, int, int, bool, str]
    LookUp = Callable[..., list[tuple[Any, ...]]]

#: How many rows are read at first, and in later pages of a long result.
ROWS_AT_ONCE = 40
ROWS_OF_MANY = 2000
#: How many keys and ranges are looked up by one statement.
TERMS_AT_ONCE = 40
#: How many tickets are read at once; a rule usually stops at the first that can start.
TICKETS_AT_ONCE = 8
#: Greater than every id, and than every key.
LAST = "\U0010ffff"


class ServerView:
    """The store sets `now` and the like at the start of each transaction."""

    __slots__ = (
        "_ask", "_bodies", "_fresh", "_look_up", "_place", "_tickets", "_wanted", "dead",
        "grace_over", "has_tickets", "head", "last_token", "lease", "now", "slept", "wall",
    )  # fmt: skip

    def __init__(
        self,
        ask: Ask,
        look_up: LookUp,
        place: str,
        bodies: dict[Began, Grant],
        fresh: dict[str, Grant],
        is_dead: IsDead,
        lease: int | None,
    ) -> None:
        """`bodies` are grants as they began; `fresh` are grants as they are now."""
        self._ask = ask
        self._look_up = look_up
        self._place = place
        self._bodies = bodies
        self._fresh = fresh
        self._tickets: dict[Began, Ticket] = {}
        #: The queries of this transaction for tickets, by identity, and their results.
        self._wanted: dict[int, tuple[object, object, list[Wanted]]] = {}
        self.dead = is_dead
        self.lease = lease
        self.now = self.slept = self.wall = self.head = self.last_token = 0
        self.has_tickets = self.grace_over = False

    def begin(self) -> None:
        """Forget what belongs to an earlier transaction."""
        self._wanted.clear()

    def forget(self) -> None:
        """Forget what may never have been committed."""
        self._tickets.clear()
        self._wanted.clear()

    def gave_up(self, address: str) -> bool:
        if not address.startswith(WAITER):
            return False
        return not self._ask("has_waiter", (address, WAITER_SECONDS))[0][0]

    # Grants

    def grant(self, id: str) -> Grant | Ending | None:
        fresh = self._fresh.get(id)
        if fresh is not None:
            return fresh
        rows = self._ask("grant", (f"grant:{id}", id))
        if rows:
            return self._grants(rows)[0]
        lost = self._ask("lost", (id,))
        return self._built(lost[0], ending) if lost else None

    def _grants(self, rows: list[tuple[Any, ...]]) -> list[Grant]:
        """The grants of rows (id, event, end, end of rest, sleep), in their order."""
        bodies = self._bodies_of(self._bodies, [(row[0], row[1]) for row in rows], codec.grant_of)
        return [
            body.extended(expires_at=expires_at, idle_at=idle_at, slept=slept)
            for body, (_, _, expires_at, idle_at, slept) in zip(bodies, rows, strict=True)
        ]

    def _bodies_of(
        self, cache: dict[Began, T], wanted: list[Began], build: Callable[[Event], T]
    ) -> list[T]:
        """Grants or tickets as they began. The number of the event alone would be that of another
        one after a backup was restored; the id alone, of a request that joined the queue again."""
        bodies = {began: cache[began] for began in wanted if began in cache}
        missing = [began for began in wanted if began not in bodies]
        if missing:
            rows = self._ask("some_events", ([seq for _, seq in missing],))
            found = {row[0]: row for row in rows}
            for began in missing:
                bodies[began] = self._built(found.get(began[1]), build)
                remember(cache, began, bodies[began])
        return [bodies[began] for began in wanted]

    def _built(self, row: tuple[Any, ...] | None, build: Callable[[Event], Any]) -> Any:
        return build_or_fail(row, build, self._place, "restore a backup of the database")

    def scopes(self, at: list[str], below: Ranges) -> Iterator[tuple[str, str, str]]:
        if len(at) + len(below) > TERMS_AT_ONCE:
            return self._many(at, below)
        found = self._some(at, below)
        return self._one_by_one(_terms(at, below)) if found is None else iter(found)

    def is_free(self, at: list[str], below: Ranges) -> bool:
        if len(at) + len(below) > TERMS_AT_ONCE:
            return next(self._many(at, below), None) is None
        return self._some(at, below) == []

    def _some(self, at: list[str], below: Ranges) -> list[tuple[str, str, str]] | None:
        """All rows there, in order; None if there are many."""
        if not at and not below:
            return []
        found = self._look_up("held", at, without_resources(below), ROWS_AT_ONCE)
        if len(found) >= ROWS_AT_ONCE:
            return None
        if at and _is_inode(at[-1]):
            found += self._ask("held_by_inode", ([key for key in at if _is_inode(key)],))
        return sorted(set(found), key=_place) if len(found) > 1 else found

    def _many(self, at: list[str], below: Ranges) -> Iterator[tuple[str, str, str]]:
        """All rows of a request with many keys, in order."""
        terms = _terms(at, below)
        for begin in range(0, len(terms), TERMS_AT_ONCE):
            some = terms[begin : begin + TERMS_AT_ONCE]
            # The keys of inodes must come last: `_some` examines only the last one.
            exact = sorted([low for low, high in some if not high], key=_is_inode)
            found = self._some(exact, [ends for ends in some if ends[1]])
            yield from self._one_by_one(some) if found is None else found

    def _one_by_one(self, terms: Ranges) -> Iterator[tuple[str, str, str]]:
        for low, high in terms:
            if high or not _is_inode(low):
                yield from self._pages(low, high)
            else:
                yield from sorted(self._ask("held_by_inode", ([low],)), key=_place)

    def _pages(self, low: str, high: str) -> Iterator[tuple[str, str, str]]:
        # The text after a key, for texts without the character 0, is the key with 1 behind it.
        last, end = ((low, LAST), high) if high else ((low, ""), f"{low}\x01")
        count = ROWS_AT_ONCE  # few are enough for a refusal
        while True:
            found = self._ask("held_next", (*last, end, count))
            yield from found
            if len(found) < count:
                return
            last = found[-1][0], found[-1][2]
            count = ROWS_OF_MANY

    def count(self, at: list[str], below: Ranges, *, writes: bool, most: int) -> int:
        low, high = _ends(without_resources(below))
        values = (at, not writes, low, high, not writes, most, most)
        return int(self._ask("count_held", values)[0][0])

    def held_by(self, holder_key: str) -> list[Grant]:
        if holder_key.startswith(AGENT):
            key = f"grant:{holder_key}"
            return self._grants(self._ask("grants_of_agents", (key, f"{key}\x01")))
        return self._grants(self._ask("grants_of", (holder_key,)))

    def held_within(self, start: str) -> list[Grant]:
        ends = (f"grant:{start}", f"grant:{start}{LAST}")
        return self._grants(self._ask("grants_of_agents", ends))

    def some_grants(self, after: int, count: int) -> list[tuple[int, str]]:
        return self._ask("some_grants", (after, count))

    def grants(self) -> list[Grant]:
        return sorted(self._grants(self._ask("all_grants", ())), key=lambda grant: grant.token)

    # Notes

    def note(self, name: str) -> Event | None:
        rows = self._ask("note", (name,))
        return self._built(rows[0], lambda event: event) if rows else None

    def notes(self, start: str) -> list[Event]:
        rows = self._ask("notes", (start, f"{start}{LAST}"))
        return [self._built(row, lambda event: event) for row in rows]

    # Tickets

    def _some_tickets(self, rows: list[tuple[Any, ...]]) -> list[Ticket]:
        """The tickets of rows (id, event, whether reserved), in their order."""
        wanted = [(row[0], row[1]) for row in rows]
        bodies = self._bodies_of(self._tickets, wanted, codec.ticket_of)
        return [
            body.as_reserved() if row[2] else body for body, row in zip(bodies, rows, strict=True)
        ]

    def ticket(self, id: str) -> Ticket | None:
        if not self.has_tickets:
            return None
        rows = self._ask("ticket", (id,))
        return self._some_tickets(rows)[0] if rows else None

    def tickets(self, at: list[str], below: Ranges) -> Iterator[Ticket]:
        wanting = self._wanting(at, below)
        for begin in range(0, len(wanting), TICKETS_AT_ONCE):
            some = wanting[begin : begin + TICKETS_AT_ONCE]
            yield from self._some_tickets([(id, seq, held) for _, seq, _, held, id in some])

    def ripe(self, at: list[str], below: Ranges) -> list[Ticket]:
        now = self.now
        rows = self._wanting(at, below)
        return self._some_tickets(
            [(id, seq, held) for _, seq, ripe, held, id in rows if ripe <= now]
        )

    def _wanting(self, at: list[str], below: Ranges) -> list[Wanted]:
        """The tickets that overlap there."""
        if not self.has_tickets:
            return []
        known = self._wanted.get(id(at))
        if known is not None and known[0] is at and known[1] is below:
            return known[2]
        if len(at) + len(below) <= TERMS_AT_ONCE:
            parts = [(at, below)]
        else:
            parts = [(some, []) for some in _parts(at)] + [([], some) for some in _parts(below)]
        ranked = sorted(
            {row for keys, ranges in parts for row in self._look_up("wanting", keys, ranges)}
        )
        self._wanted[id(at)] = (at, below, ranked)
        return ranked

    def first_address(self, at: list[str], below: Ranges) -> list[str]:
        """The address of the first waiter for keys there."""
        rows = [(id, seq, held) for _, seq, _, held, id in self._wanting(at, below)[:1]]
        return [one.request.wake for one in self._some_tickets(rows) if one.request.wake]

    def waiting(self, holder_key: str) -> list[Ticket]:
        if not self.has_tickets:
            return []
        return self._some_tickets(self._ask("waiting", (holder_key,)))

    def queue(self) -> list[Ticket]:
        return self._some_tickets(self._ask("queue", ()))


def _parts(terms: list[T]) -> list[list[T]]:
    return [terms[begin : begin + TERMS_AT_ONCE] for begin in range(0, len(terms), TERMS_AT_ONCE)]


def _ends(ranges: Ranges) -> tuple[list[str], list[str]]:
    return [low for low, _ in ranges], [high for _, high in ranges]


def _terms(at: list[str], below: Ranges) -> Ranges:
    """The keys, each paired with an empty text, and the ranges, in the order of their rows."""
    exactly, folders = in_order(at, below)
    inside = [ends for folder in folders for ends in without_resources([_range(folder)])]
    return sorted([*((key, "") for key in exactly), *inside])


def _place(row: tuple[str, str, str]) -> tuple[str, str]:
    return row[0], row[2]


def _is_inode(key: str) -> bool:
    return key[:6] == "inode:"


def _range(folder: str) -> tuple[str, str]:
    inside = inside_of(folder)
    assert inside is not None
    return inside
