"""Writes a ledger on a server: events, and the rows that they change. It has no rules.

It only lists the statements; the session sends them together with the commit.
"""

from __future__ import annotations

from holdfast.core import codec, events
from holdfast.core.root_errors import BadKeyError
from holdfast.store.records import event_of, held_keys, remember, short_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.ledger_time import Anchor
    from holdfast.core.model import Event, Grant
    from holdfast.store.postgres.server_session import Row, Write
    from holdfast.store.postgres.server_view import Ask, ServerView
    from holdfast.store.postgres.statements import Statements

#: An entry of an index on the server has room for so much.
KEY_BYTES_MAX = 2000


class ServerRows:
    """The statements of one decision."""

    __slots__ = ("_ask", "_bodies", "_fresh", "_new_tickets", "_statements", "first", "writes")

    def __init__(
        self,
        statements: Statements,
        ask: Ask,
        bodies: dict[tuple[str, int], Grant],
        fresh: dict[str, Grant],
    ) -> None:
        self._statements = statements
        self._ask = ask
        self._bodies = bodies
        self._fresh = fresh
        #: Tickets that this decision adds, by id.
        self._new_tickets: dict[str, Event] = {}
        #: The row of the first event that this decision adds.
        self.first: Row | None = None
        self.writes: list[Write] = []

    def put_anchor(self, anchor: Anchor) -> None:
        """Store the anchor of ledger time."""
        self._write(
            "put_anchor", anchor.boot, anchor.uptime, anchor.ledger, anchor.slept, anchor.asleep
        )

    def wake(self, addresses: tuple[str, ...]) -> None:
        """Wake these addresses once the decision is committed."""
        for address in addresses:
            channel, mark, rest = address.rpartition(".")
            if mark:  # else the address of a waiter at another store, from which this was copied
                self._write("wake", channel, rest)

    def write(self, view: ServerView, history: tuple[Event, ...]) -> None:
        """Add events and apply their changes."""
        token = view.last_token
        said = self._said(history)
        for event in history:
            if event.once and self._repeat(event, said):
                continue
            grant = event.subject
            if event.type == events.LOCK_ACQUIRED and grant is not None:
                token = grant.token
            row = (
                event.seq, event.at, token, event.type, event.version, codec.written(event)
            )  # fmt: skip
            self.first = self.first or row
            if grant is not None and not event._data and event.type == events.LOCK_ACQUIRED:
                self._put_grant("acquired", row, grant, event.seq)
            elif grant is not None and not event._data and event.type == events.LOCK_RELEASED:
                self._write("released", *row, *self._removal(grant))
            else:
                self._write("add_event", *row)
                for op, id in events.changes(event):
                    self._apply(op, id, event)

    def _write(self, name: str, *values: Any) -> None:
        self.writes.append((self._statements[name], values))

    def _said(self, history: tuple[Event, ...]) -> set[str]:
        once = [short_mark(event.once) for event in history if event.once]
        return {row[0] for row in self._ask("said", (once,))} if once else set()

    def _repeat(self, event: Event, said: set[str]) -> bool:
        mark = short_mark(event.once)
        if mark in said:
            self._write("say_again", event.at, mark)
            return True
        said.add(mark)
        self._write("say", mark, event.seq, event.at)
        return False

    def _apply(self, op: str, id: str, event: Event) -> None:
        if op is events.PUT_GRANT:
            grant = event.subject or codec.grant_of(event)
            self._put_grant("put_grant", (), grant, event.seq)
        elif op is events.END_GRANT:
            assert event.subject is not None
            self._write("remove_grant", *self._removal(event.subject))
            if event.type != events.LOCK_RELEASED:
                self._write("lose_grant", id, event.seq)
        elif op is events.EXTEND_GRANT:
            data = event.data
            self._fresh.pop(id, None)
            self._write(
                "extend_grant", data["expires_at"], data["idle_at"], data["slept"],
                f"grant:{id}", id,
            )  # fmt: skip
        elif op is events.PUT_TICKET:
            self._put_ticket(event)
        elif op is events.PUT_NOTE:
            self._write("put_note", short(id), event.seq)
        elif op is events.DROP_NOTE:
            self._write("drop_note", id)
        elif op is events.RESERVE_TICKET:
            added = self._new_tickets.get(id)
            if added is None:
                added = event_of(self._ask("event_of_ticket", (id,))[0])
            ticket = codec.ticket_of(added, reserved=True)
            self._write("reserve_ticket", ticket.rank, id)
        else:
            self._write("drop_ticket", id, id)

    def _put_grant(self, name: str, first: tuple[Any, ...], grant: Grant, seq: int) -> None:
        id, holder = grant.id, short(grant.holder.key)
        limits = grant.expires_at, grant.idle_at, grant.slept
        values = [*first, f"grant:{id}", id, holder, seq, *limits]
        held = held_keys(grant)
        for key, mode, inode in held:
            values += (short(key), id, mode, inode)
        remember(self._bodies, (id, seq), grant)
        remember(self._fresh, id, grant)
        self.writes.append((self._statements.with_keys(name, len(held)), values))

    def _removal(self, grant: Grant) -> tuple[Any, ...]:
        self._fresh.pop(grant.id, None)
        keys = [key for key, _mode, _inode in held_keys(grant)]
        return grant.id, [*keys, f"grant:{grant.id}"]

    def _put_ticket(self, event: Event) -> None:
        ticket = codec.ticket_of(event)
        self._new_tickets[ticket.id] = event
        self._write(
            "put_ticket", ticket.id, ticket.arrival, ticket.request.holder.key, ticket.rank,
            ticket.grace_ends_at, ticket.ripe_at, ticket.id,
            [short(key) for key in dict.fromkeys(ticket.request.keys)],
        )  # fmt: skip


def short(key: str) -> str:
    """The key or name, if the server's indexes have room for it."""
    if len(key) > KEY_BYTES_MAX // 4 and len(key.encode()) > KEY_BYTES_MAX:
        raise BadKeyError(
            f"{key[:80]!r}… is too long for a ledger on a server",
            hint=f"at most {KEY_BYTES_MAX} bytes",
            key=key[:80],
        )
    return key
