"""The state of the embedded ledger at one moment, answered from its indexes."""

from __future__ import annotations

import os

from holdfast.core import codec
from holdfast.core.errors import StoreCorruptError
from holdfast.core.events import ending
from holdfast.core.model import AGENT, Event
from holdfast.store.wake import WAITER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from sqlite3 import Cursor
    from typing import Any, TypeVar

    from holdfast.core.model import Ending, Grant, Ticket
    from holdfast.store.contract import IsDead

    T = TypeVar("T")

GRANT = "select seq, expires_at, idle_at, slept from live where key = ? and grant_id = ?"
LOST = (
    "select e.seq, type, version, at, data, 0 from lost l"
    " join events e on e.seq = l.seq where id = ?"
)
ALL_GRANTS = (
    "select seq, expires_at, idle_at, slept from live"
    " where key > 'grant:' and key < 'grant;' and seq is not null"
)
OF_AGENT = (
    "select g.seq, g.expires_at, g.idle_at, g.slept from live a join live g"
    " on g.key = 'grant:' || a.grant_id and g.grant_id = a.grant_id where a.key "
)
NOTES = (
    "select e.seq, type, version, at, data, 0 from notes n join events e on e.seq = n.seq where "
)
HELD = "select key, mode, grant_id from live where "
BY_INODE = "select inode, mode, grant_id from live where inode = ?"
EVENT = "select seq, type, version, at, data, 0 from events where seq = ?"
WANTING = "select rank, seq, ripe_at, reserved from wants join tickets on id = ticket_id where "
BODIES_MAX = 512
HOPEFUL_MAX = 1
TERMS_AT_ONCE = 40


class SqlView:
    """What it says of the moment is set by the store at the start of each transaction."""

    __slots__ = (
        "_ask", "_bodies", "_folder", "_fresh", "_path", "_tickets", "anybody_waits", "dead",
        "head", "last_token", "now", "slept", "stirs", "stirs_at", "wall", "wanting",
    )  # fmt: skip

    def __init__(
        self,
        ask: Callable[..., Cursor],
        path: str,
        bodies: dict[int, Grant],
        fresh: dict[str, Grant],
        is_dead: IsDead,
    ) -> None:
        """`bodies` are grants as they began, by their event; `fresh` are grants as they are."""
        self._ask = ask
        self._path = path
        self._folder = os.path.dirname(path)
        self._bodies = bodies
        self._fresh = fresh
        self._tickets: dict[int, Ticket] = {}
        #: What was asked and answered in this transaction, by the identity of what was asked.
        self.wanting: dict[int, tuple[object, object, list[tuple[int, int, int, int]]]] = {}
        self.dead = is_dead
        self.now = 0
        self.slept = 0
        self.wall = 0
        self.head = 0
        self.last_token = 0
        self.anybody_waits = False
        self.stirs = False
        self.stirs_at: int | None = None

    def forget(self) -> None:
        """What was read in a transaction that was given up may never have been."""
        self._tickets.clear()

    def deserted(self, address: str) -> bool:
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

    def scopes(self, at: list[str], below: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
        if len(below) == 1 and len(at) < TERMS_AT_ONCE:  # what nearly everybody asks for
            found = self._ask(_text(HELD, len(at), 1), (*at, *below[0])).fetchall()
        else:
            found = []
            for sql, values in _look_ups(HELD, at, below):
                found += self._ask(sql, values).fetchall()
        if at and at[-1][:6] == "inode:":
            for key in at:
                if key[:6] == "inode:":  # rare, so this one may look at everything that is held
                    found += self._ask(BY_INODE, (key,)).fetchall()
        return found

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
        if not self.anybody_waits:
            return None
        row = self._ask("select seq, reserved from tickets where id = ?", (id,)).fetchone()
        return None if row is None else self._ticket(*row)

    def tickets(self, at: list[str], below: list[tuple[str, str]]) -> Iterator[Ticket]:
        # Whoever asks usually stops at the first that can start: read one at a time.
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
        """(rank, event, when ripe, whether reserved) of the tickets that want something there."""
        if not self.anybody_waits:
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
        """Where the first of those who want something there can be woken."""
        found = []
        for _rank, seq, _ripe_at, reserved in self._wanting(at, below)[:HOPEFUL_MAX]:
            found.append(self._ticket(seq, reserved).request.wake)
        return [address for address in found if address]

    def waiting(self, holder_key: str) -> list[Ticket]:
        if not self.anybody_waits:
            return []
        sql = "select seq, reserved from tickets where holder_key = ? order by rank"
        rows = self._ask(sql, (holder_key,)).fetchall()
        return [self._ticket(seq, reserved) for seq, reserved in rows]

    def queue(self) -> list[Ticket]:
        rows = self._ask("select seq, reserved from tickets order by rank").fetchall()
        return [self._ticket(seq, reserved) for seq, reserved in rows]


def remember(known: dict[int, T], seq: int, body: T) -> None:
    """Keep what an event says: it never changes."""
    if len(known) >= BODIES_MAX:
        known.clear()
    known[seq] = body


def event_of(row: Sequence[Any]) -> Event:
    """The event of a row (seq, type, version, at, data, repeats)."""
    seq, type, version, at, data, repeats = row
    return Event(
        seq=seq, type=type, version=version, at=at, data=codec.loads(data), repeats=repeats
    )


def build_or_fail(row: Sequence[Any] | None, build: Callable[[Event], T], path: str) -> T:
    """What an event says. One that cannot be read is damage, never "nothing is held"."""
    try:
        if row is None:
            raise ValueError("an event is missing")
        return build(event_of(row))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreCorruptError(
            f"{path} has a record that cannot be read: {error}",
            hint="stop the agents, then put a backup in its place or move it away",
            path=path,
        ) from error


_texts: dict[tuple[str, int, int], str] = {}


def _look_ups(
    start: str, at: list[str], below: list[tuple[str, str]]
) -> Iterator[tuple[str, list[str]]]:
    """The statements that find all rows at some keys and inside some ranges.

    One look-up a key, joined by `union all`: for a handful of keys ten times as fast as `in` with
    `or`, for which SQLite builds temporary tables.
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


def _text(start: str, keys: int, ranges: int) -> str:
    text = _texts.get((start, keys, ranges))
    if text is None:
        terms = [f"{start}key = ?"] * keys + [f"{start}key > ? and key < ?"] * ranges
        text = _texts[start, keys, ranges] = " union all ".join(terms)
    return text
