"""Writes the embedded ledger: events, and the rows that they change. It has no rules."""

from __future__ import annotations

from holdfast.core import codec, events
from holdfast.store.records import BODIES_MAX, event_of, held_keys, short_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from sqlite3 import Cursor

    from holdfast.core.ledger_time import Anchor
    from holdfast.core.model import Event, Grant
    from holdfast.store.sqlite.sql_view import SqlView

    #: Sequence number, time and largest token of the last event; when the first grace ends.
    Head = tuple[int, int, int, int | None]

ADD = "insert into events values (?, ?, ?, ?, ?, ?)"
#: The event that added a ticket, in the columns of `event_of`.
ADDED = "select seq, type, version, at, data, 0 from tickets join events using (seq) where id = ?"

#: Whether rows were copied from another store, which has only a short text of what was repeated.
HAS_COPY = "select 1 from notes where name >= ? and name < ?"
COPIED, COPIED_END = "ledger copied ", "ledger copied!"


class Rows:
    """The tables, for writing. The caller must be in a transaction."""

    __slots__ = ("_ask", "_bodies", "_fresh", "_held")

    def __init__(
        self, ask: Callable[..., Cursor], bodies: dict[int, Grant], fresh: dict[str, Grant]
    ) -> None:
        self._ask = ask
        self._bodies = bodies
        self._fresh = fresh
        self._held: dict[str, list[tuple[str, str, str | None]]] = {}

    def put_anchor(self, anchor: Anchor) -> None:
        """Store the anchor of ledger time."""
        self._ask(
            "insert or replace into anchor values (1, ?, ?, ?, ?, ?)",
            (anchor.boot, anchor.uptime, anchor.ledger, anchor.slept, anchor.asleep),
        )

    def write(self, view: SqlView, history: tuple[Event, ...]) -> Head | None:
        """Add events and apply their changes. Returns the new head, if it is known."""
        if len(history) == 1 and (head := self._write_plain(view, history[0])) is not None:
            return head
        token = view.last_token
        for event in history:
            if event.once and self._repeat(event):
                continue
            if event.type == events.LOCK_ACQUIRED and event.subject is not None:
                token = event.subject.token
            self._ask(
                ADD, (event.seq, event.at, token, event.type, event.version, codec.written(event))
            )
            for op, id in events.changes(event):
                self._apply(op, id, event)
        self._fresh.clear()
        return None

    def _write_plain(self, view: SqlView, event: Event) -> Head | None:
        """The fast path for the two commonest types of event."""
        grant = event.subject
        if grant is None or event._data:
            return None
        type, seq, at = event.type, event.seq, event.at
        if type == events.LOCK_ACQUIRED:
            token = grant.token
            self._put_grant(grant, seq)
        elif type == events.LOCK_RELEASED:
            token = view.last_token
            self._remove_grant(grant)
        else:
            return None
        self._ask(ADD, (seq, at, token, type, event.version, codec.written(event)))
        return seq, at, token, view.grace_ends_at

    def _repeat(self, event: Event) -> bool:
        ask = self._ask
        again = ask(
            "update repeats set count = count + 1, last_at = ? where once = ?",
            (event.at, event.once),
        )
        if again.rowcount:
            return True
        if (
            ask(HAS_COPY, (COPIED, COPIED_END)).fetchone()
            and ask(
                "update repeats set count = count + 1, last_at = ? where once = ?",
                (event.at, short_mark(event.once)),
            ).rowcount
        ):
            return True
        ask("insert into repeats values (?, ?, 0, ?)", (event.once, event.seq, event.at))
        return False

    def _apply(self, op: str, id: str, event: Event) -> None:
        ask = self._ask
        if op is events.PUT_GRANT:
            self._put_grant(event.subject or codec.grant_of(event), event.seq)
        elif op is events.END_GRANT:
            assert event.subject is not None
            self._remove_grant(event.subject)
            if event.type != events.LOCK_RELEASED:
                ask("insert into lost values (?, ?)", (id, event.seq))
        elif op is events.EXTEND_GRANT:
            data = event.data
            ask(
                "update live set expires_at = ?, idle_at = ?, slept = ? where key = ?",
                (data["expires_at"], data["idle_at"], data["slept"], f"grant:{id}"),
            )
        elif op is events.PUT_TICKET:
            self._put_ticket(event)
        elif op is events.PUT_NOTE:
            ask("insert or replace into notes values (?, ?)", (id, event.seq))
        elif op is events.DROP_NOTE:
            ask("delete from notes where name = ?", (id,))
        elif op is events.RESERVE_TICKET:
            self._reserve_ticket(id)
        else:
            self._drop_ticket(id, event)

    def _put_grant(self, grant: Grant, seq: int) -> None:
        ask, id = self._ask, grant.id
        ask(
            "insert into live values (?, ?, ?, ?, ?, ?, ?, null)",
            ("grant:" + id, id, grant.holder.key, seq,
             grant.expires_at, grant.idle_at, grant.slept),
        )  # fmt: skip
        held = held_keys(grant)
        for key, mode, inode in held:
            ask(
                "insert into live values (?, ?, ?, null, null, null, null, ?)",
                (key, id, mode, inode),
            )
        if len(self._bodies) >= BODIES_MAX:
            self._bodies.clear()
            self._fresh.clear()
            self._held.clear()
        self._bodies[seq] = self._fresh[id] = grant
        self._held[id] = held

    def _remove_grant(self, grant: Grant) -> None:
        ask, id = self._ask, grant.id
        self._fresh.pop(id, None)
        for key, _mode, _inode in self._held.pop(id, None) or held_keys(grant):
            ask("delete from live where key = ? and grant_id = ?", (key, id))
        ask("delete from live where key = ? and grant_id = ?", ("grant:" + id, id))

    def _put_ticket(self, event: Event) -> None:
        ask = self._ask
        ticket = codec.ticket_of(event)
        ask(
            "insert into tickets values (?, ?, ?, ?, ?, ?, 0, ?)",
            (ticket.id, ticket.arrival, ticket.request.holder.key, ticket.rank,
             ticket.grace_ends_at, ticket.ripe_at, ticket.request.wake),
        )  # fmt: skip
        for key in dict.fromkeys(ticket.request.keys):
            ask("insert into wants values (?, ?)", (key, ticket.id))

    def _reserve_ticket(self, id: str) -> None:
        row = self._ask(ADDED, (id,)).fetchone()
        ticket = codec.ticket_of(event_of(row), reserved=True)
        self._ask(
            "update tickets set reserved = 1, ripe_at = 0, rank = ? where id = ?",
            (ticket.rank, id),
        )

    def _drop_ticket(self, id: str, event: Event) -> None:
        ask = self._ask
        if event.subject is not None:
            keys = event.subject.keys
        else:
            sql = "select data from tickets join events using (seq) where id = ?"
            keys = codec.loads(ask(sql, (id,)).fetchone()[0])["keys"]
        for key in dict.fromkeys(keys):
            ask("delete from wants where key = ? and ticket_id = ?", (key, id))
        ask("delete from tickets where id = ?", (id,))
