"""The state of the embedded ledger at one moment, read from its indexes."""

from __future__ import annotations

import os

from holdfast.core import codec, keys
from holdfast.core.draft import in_order
from holdfast.core.events import ending
from holdfast.core.model import AGENT
from holdfast.store.records import build_or_fail, remember, without_resources
from holdfast.store.sqlite.wake_ups import WAITER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from sqlite3 import Cursor
    from typing import Any

    from holdfast.core.model import Ending, Event, Grant, Ticket
    from holdfast.store.contract import IsDead

GRANT = "select seq, expires_at, idle_at, slept from live where key = ? and grant_id = ?"
LOST = (
    "select e.seq, type, version, at, data, 0 from lost l"
    " join events e on e.seq = l.seq where id = ?"
)
ALL_GRANTS = (
    "select seq, expires_at, idle_at, slept from live"
    " where key > 'grant:' and key < 'grant;' and seq is not null"
)
SOME_GRANTS = (
    "select seq, grant_id from live where key > 'grant:' and key < 'grant;' and seq > ?"
    " order by seq limit ?"
)
OF_AGENT = (
    "select g.seq, g.expires_at, g.idle_at, g.slept from live a join live g"
    " on g.key = 'grant:' || a.grant_id and g.grant_id = a.grant_id where a.key "
)
NOTES = (
    "select e.seq, type, version, at, data, 0 from notes n join events e on e.seq = n.seq where "
)
HELD = "select key, mode, grant_id from live where "
ANYHOW = "select 1 from live where "
WRITTEN = "select 1 from live where mode = 'w' and "
BY_INODE = "select inode, mode, grant_id from live where inode = ?"
HELD_NEXT = (
    "select key, mode, grant_id from live where (key, grant_id) > (?, ?) and key < ?"
    " order by key, grant_id limit ?"
)
EVENT = "select seq, type, version, at, data, 0 from events where seq = ?"
WANTING = "select rank, seq, ripe_at, reserved from wants join tickets on id = ticket_id where "
HINTED_MAX = 1
TERMS_AT_ONCE = 40
#: How many rows are read at first, and in later pages of a long result.
ROWS_AT_ONCE = 40
ROWS_OF_MANY = 640
#: Greater than every id.
LAST_ID = "\U0010ffff"


class SqlView:
    """The store sets `now` and the like at the start of each transaction."""

    __slots__ = (
        "_ask", "_bodies", "_folder", "_fresh", "_path", "_tickets", "asked_by_inode", "crowded",
        "dead", "grace_ends_at", "grace_over", "has_tickets", "head", "last_token", "now", "slept",
        "wall", "wanting",
    )  # fmt: skip

    #: Every process that uses this ledger can judge the owners of leases.
    lease: int | None = None

    def __init__(
        self,
        ask: Callable[..., Cursor],
        path: str,
        bodies: dict[int, Grant],
        fresh: dict[str, Grant],
        is_dead: IsDead,
    ) -> None:
        """`bodies` are grants as they began, by event; `fresh` are grants as they are now."""
        self._ask = ask
        self._path = path
        self._folder = os.path.dirname(path)
        self._bodies = bodies
        self._fresh = fresh
        self._tickets: dict[int, Ticket] = {}
        #: Whether a file with several names was requested, which may need a scan of all rows.
        self.asked_by_inode = False
        #: The keys where this transaction found many locks.
        self.crowded: list[str] | None = None
        #: The queries of this transaction and their results, by the identity of the query.
        self.wanting: dict[int, tuple[object, object, list[tuple[int, int, int, int]]]] = {}
        self.dead = is_dead
        self.now = 0
        self.slept = 0
        self.wall = 0
        self.head = 0
        self.last_token = 0
        self.has_tickets = False
        self.grace_over = False
        self.grace_ends_at: int | None = None

    def forget(self) -> None:
        """Drop the cache after a rollback: what it has read may never have been committed."""
        self._tickets.clear()

    def gave_up(self, address: str) -> bool:
        return address[:6] == WAITER and not os.path.exists(f"{self._folder}/{address}")

    # Grants

    def grant(self, id: str) -> Grant | Ending | None:
        fresh = self._fresh.get(id)
        if fresh is not None:
            return fresh
        row = self._ask(GRANT, ("grant:" + id, id)).fetchone()
        if row is not None:
            return self._grant(row)
        lost = self._ask(LOST, (id,)).fetchone()
        return None if lost is None else build_or_fail(lost, ending, self._path)

    def _grant(self, row: tuple[Any, ...]) -> Grant:
        seq, expires_at, idle_at, slept = row
        grant = self._bodies.get(seq)
        if grant is None:
            event = self._ask(EVENT, (seq,)).fetchone()
            grant = build_or_fail(event, codec.grant_of, self._path)
            remember(self._bodies, seq, grant)
        if grant.expires_at == expires_at and grant.idle_at == idle_at and grant.slept == slept:
            return grant
        return grant.extended(expires_at=expires_at, idle_at=idle_at, slept=slept)

    def scopes(self, at: list[str], below: list[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
        if len(at) + len(below) <= TERMS_AT_ONCE:
            found = None if self.crowded is at else self._some(at, below)
            if found is not None:
                return iter(found)
            return self._one_by_one(_terms(at, below))
        return self._scopes(at, below)

    def is_free(self, at: list[str], below: list[tuple[str, str]]) -> bool:
        if len(at) + len(below) > TERMS_AT_ONCE:
            return next(self._scopes(at, below), None) is None
        return self._some(at, below) == []

    def _some(
        self, at: list[str], below: list[tuple[str, str]]
    ) -> list[tuple[str, str, str]] | None:
        """All rows there, in order; None if there are many."""
        if not at and not below:
            return []
        if len(below) == 1 and below[0][0]:  # nearly all requests
            text = _text(HELD, len(at), 1, ROWS_AT_ONCE)
            found = self._ask(text, (*at, *below[0])).fetchall()
        else:
            below = without_resources(below)
            values = [*at, *(end for inside in below for end in inside)]
            found = self._ask(_text(HELD, len(at), len(below), ROWS_AT_ONCE), values).fetchall()
        if len(found) >= ROWS_AT_ONCE:
            self.crowded = at  # a second query must not get the same answer
            return None
        if at and at[-1][:6] == "inode:":
            self.asked_by_inode = True
            for key in at:
                if key[:6] == "inode:":
                    found += self._ask(BY_INODE, (key,)).fetchall()
        return sorted(set(found), key=_place) if len(found) > 1 else found

    def _scopes(
        self, at: list[str], below: list[tuple[str, str]]
    ) -> Iterator[tuple[str, str, str]]:
        terms = _terms(at, below)
        for begin in range(0, len(terms), TERMS_AT_ONCE):
            some = terms[begin : begin + TERMS_AT_ONCE]
            # The keys of inodes must come last: `_some` examines only the last one.
            exact = sorted([low for low, high in some if not high], key=_is_inode)
            found = self._some(exact, [ends for ends in some if ends[1]])
            if found is not None:
                yield from found
                continue
            yield from self._one_by_one(some)

    def _one_by_one(self, terms: list[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
        for low, high in terms:
            yield from self._all_of(low, high)

    def _all_of(self, low: str, high: str) -> Iterator[tuple[str, str, str]]:
        """All rows at one key, or inside one range, in order and page by page."""
        if not high and _is_inode(low):
            yield from sorted(self._ask(BY_INODE, (low,)).fetchall(), key=_place)
            return
        last, end = ((low, LAST_ID), high) if high else ((low, ""), f"{low}\0")
        count = ROWS_AT_ONCE  # few are enough for a refusal
        while True:
            found = self._ask(HELD_NEXT, (*last, end, count)).fetchall()
            yield from found
            if len(found) < count:
                return
            last = found[-1][0], found[-1][2]
            count = min(2 * count, ROWS_OF_MANY)

    def count(self, at: list[str], below: list[tuple[str, str]], *, writes: bool, most: int) -> int:
        below = without_resources(below)
        values = [*at, *(end for inside in below for end in inside)]
        text = _text(WRITTEN if writes else ANYHOW, len(at), len(below), most)
        found: tuple[int] = self._ask(f"select count(*) from ({text})", values).fetchone()
        return found[0]

    def held_by(self, holder_key: str) -> list[Grant]:
        if holder_key.startswith(AGENT):
            rows = self._ask(f"{OF_AGENT}= ?", (f"grant:{holder_key}",)).fetchall()
        else:
            rows = self._ask(f"{ALL_GRANTS} and mode = ?", (holder_key,)).fetchall()
        return [self._grant(row) for row in rows]

    def held_within(self, start: str) -> list[Grant]:
        ends = (f"grant:{start}", f"grant:{start}\U0010ffff")
        rows = self._ask(f"{OF_AGENT}>= ? and a.key < ?", ends).fetchall()
        return [self._grant(row) for row in rows]

    def some_grants(self, after: int, count: int) -> list[tuple[int, str]]:
        return self._ask(SOME_GRANTS, (after, count)).fetchall()

    def grants(self) -> list[Grant]:
        rows = self._ask(ALL_GRANTS).fetchall()
        return sorted(map(self._grant, rows), key=lambda grant: grant.token)

    # Notes

    def note(self, name: str) -> Event | None:
        row = self._ask(f"{NOTES}name = ?", (name,)).fetchone()
        return None if row is None else build_or_fail(row, lambda event: event, self._path)

    def notes(self, start: str) -> list[Event]:
        rows = self._ask(
            f"{NOTES}name >= ? and name < ? order by e.seq", (start, f"{start}\U0010ffff")
        ).fetchall()
        return [build_or_fail(row, lambda event: event, self._path) for row in rows]

    # Tickets

    def _ticket(self, seq: int, reserved: int) -> Ticket:
        ticket = self._tickets.get(seq)
        if ticket is None:
            event = self._ask(EVENT, (seq,)).fetchone()
            ticket = build_or_fail(event, codec.ticket_of, self._path)
            remember(self._tickets, seq, ticket)
        return ticket.as_reserved() if reserved else ticket

    def ticket(self, id: str) -> Ticket | None:
        if not self.has_tickets:
            return None
        row = self._ask("select seq, reserved from tickets where id = ?", (id,)).fetchone()
        return None if row is None else self._ticket(*row)

    def tickets(self, at: list[str], below: list[tuple[str, str]]) -> Iterator[Ticket]:
        # Callers usually stop at the first that can start, so tickets are read one at a time.
        for _rank, seq, _ripe_at, reserved in self._wanting(at, below):
            yield self._ticket(seq, reserved)

    def ripe(self, at: list[str], below: list[tuple[str, str]]) -> list[Ticket]:
        now = self.now
        return [
            self._ticket(seq, reserved)
            for _rank, seq, ripe_at, reserved in self._wanting(at, below)
            if ripe_at <= now
        ]

    def _wanting(
        self, at: list[str], below: list[tuple[str, str]]
    ) -> list[tuple[int, int, int, int]]:
        """(rank, event, end of patience, whether reserved) of the tickets that overlap there."""
        if not self.has_tickets:
            return []
        known = self.wanting.get(id(at))
        if known is not None and known[0] is at and known[1] is below:
            return known[2]
        found: set[tuple[int, int, int, int]] = set()
        for sql, values in _look_ups(WANTING, at, below):
            found.update(self._ask(sql, values).fetchall())
        self.wanting[id(at)] = (at, below, ranked := sorted(found))
        return ranked

    def addresses(self, at: list[str], below: list[tuple[str, str]]) -> list[str]:
        """The addresses of the first waiters for keys there."""
        found = []
        for _rank, seq, _ripe_at, reserved in self._wanting(at, below)[:HINTED_MAX]:
            found.append(self._ticket(seq, reserved).request.wake)
        return [address for address in found if address]

    def waiting(self, holder_key: str) -> list[Ticket]:
        if not self.has_tickets:
            return []
        sql = "select seq, reserved from tickets where holder_key = ? order by rank"
        rows = self._ask(sql, (holder_key,)).fetchall()
        return [self._ticket(seq, reserved) for seq, reserved in rows]

    def queue(self) -> list[Ticket]:
        rows = self._ask("select seq, reserved from tickets order by rank").fetchall()
        return [self._ticket(seq, reserved) for seq, reserved in rows]


def _terms(at: list[str], below: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The keys, each paired with an empty text, and the ranges, in the order of their rows."""
    exactly, folders = in_order(at, below)
    inside = [ends for folder in folders for ends in without_resources([_range(folder)])]
    return sorted([*((key, "") for key in exactly), *inside])


def _place(row: tuple[str, str, str]) -> tuple[str, str]:
    return row[0], row[2]


def _is_inode(key: str) -> bool:
    return key[:6] == "inode:"


def _range(folder: str) -> tuple[str, str]:
    inside = keys.below(folder)
    assert inside is not None
    return inside


_texts: dict[tuple[str, int, int, int], str] = {}


def _look_ups(
    start: str, at: list[str], below: list[tuple[str, str]]
) -> Iterator[tuple[str, list[str]]]:
    """The statements that find all rows at some keys and inside some ranges.

    They have one look-up per key, joined by `union all`. For a handful of keys that is ten times as
    fast as `in` with `or`, for which SQLite builds temporary tables.
    """
    if len(at) + len(below) <= TERMS_AT_ONCE:
        values = list(at)
        for inside in below:
            values.extend(inside)
        yield _text(start, len(at), len(below)), values
        return
    for begin in range(0, len(at), TERMS_AT_ONCE):
        some = at[begin : begin + TERMS_AT_ONCE]
        yield _text(start, len(some), 0), some
    for begin in range(0, len(below), TERMS_AT_ONCE):
        ranges = below[begin : begin + TERMS_AT_ONCE]
        yield _text(start, 0, len(ranges)), [end for inside in ranges for end in inside]


def _text(start: str, at: int, ranges: int, most: int = 0) -> str:
    text = _texts.get((start, at, ranges, most))
    if text is None:
        terms = [f"{start}key = ?"] * at + [f"{start}key > ? and key < ?"] * ranges
        text = " union all ".join(terms) + (f" limit {most}" if most else "")
        _texts[start, at, ranges, most] = text
    return text
