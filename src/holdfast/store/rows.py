"""Writing the embedded ledger: events, and the rows that they change. No rules: only execution."""

from __future__ import annotations

from holdfast.core import codec, events
from holdfast.core.model import WRITE
from holdfast.store.sqlview import remember

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from sqlite3 import Cursor

    from holdfast.core.model import Event, Grant
    from holdfast.core.time import Anchor


class Rows:
    """The tables, to be changed. There must be a transaction."""

    __slots__ = ("_ask", "_bodies")

    def __init__(self, ask: Callable[..., Cursor], bodies: dict[int, Grant]) -> None:
        self._ask = ask
        self._bodies = bodies

    def put_anchor(self, anchor: Anchor) -> None:
        """Where ledger time is counted from."""
        self._ask(
            "insert or replace into anchor values (1, ?, ?, ?, ?, ?)",
            (anchor.boot, anchor.uptime, anchor.ledger, anchor.slept, anchor.asleep),
        )

    def write(self, token: int, history: tuple[Event, ...]) -> None:
        """Add events, and change what they change. `token` is the last that was issued."""
        for event in history:
            if event.once and self._repeat(event):
                continue
            if event.type == events.LOCK_ACQUIRED and event.subject is not None:
                token = event.subject.token
            self._ask(
                "insert into events values (?, ?, ?, ?, ?, ?)",
                (event.seq, event.at, token, event.type, event.version, codec.written(event)),
            )
            for op, id in events.changes(event):
                self._apply(op, id, event)

    def _repeat(self, event: Event) -> bool:
        ask = self._ask
        again = ask(
            "update repeats set count = count + 1, last_at = ? where once = ?",
            (event.at, event.once),
        )
        if again.rowcount:
            return True
        ask("insert into repeats values (?, ?, 0, ?)", (event.once, event.seq, event.at))
        return False

    def _apply(self, op: str, id: str, event: Event) -> None:
        ask = self._ask
        if op is events.PUT_GRANT:
            self._put_grant(event.subject or codec.grant_of(event), event.seq)
        elif op is events.END_GRANT:
            assert event.subject is not None
            for key in _held_keys(event.subject):
                ask("delete from live where key = ? and grant_id = ?", (key, id))
            ask("delete from live where key = ? and grant_id = ?", (f"grant:{id}", id))
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
        elif op is events.RESERVE_TICKET:
            ask(
                "update tickets set reserved = 1, ripe_at = 0, rank = seq - (1 << 62) where id = ?",
                (id,),
            )
        else:
            self._drop_ticket(id, event)

    def _put_grant(self, grant: Grant, seq: int) -> None:
        ask, id = self._ask, grant.id
        ask(
            "insert into live values (?, ?, ?, ?, ?, ?, ?, null)",
            (f"grant:{id}", id, grant.holder.key, seq,
             grant.expires_at, grant.idle_at, grant.slept),
        )  # fmt: skip
        for key, (mode, inode) in _held_keys(grant).items():
            ask(
                "insert into live values (?, ?, ?, null, null, null, null, ?)",
                (key, id, mode, inode),
            )
        remember(self._bodies, seq, grant)

    def _put_ticket(self, event: Event) -> None:
        ask = self._ask
        ticket = codec.ticket_of(event)
        ask(
            "insert into tickets values (?, ?, ?, ?, ?, ?, 0, ?)",
            (ticket.id, ticket.arrival, ticket.request.holder.key, ticket.rank, ticket.stirs_at,
             ticket.ripe_at, ticket.request.wake),
        )  # fmt: skip
        for key in dict.fromkeys(ticket.request.keys):
            ask("insert into wants values (?, ?)", (key, ticket.id))

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


def _held_keys(grant: Grant) -> dict[str, tuple[str, str | None]]:
    """Each key of a grant once, with its mode (a write if it is held both ways) and its inode.

    An inode stands in the row of its path: a row of its own would be one more to write for every
    file, and hardly anybody ever asks for a file by another name.
    """
    found: dict[str, tuple[str, str | None]] = {}
    last = ("", "", "")
    for key, mode, path in zip(grant.keys, grant.modes, grant.paths, strict=True):
        if key.startswith("inode:") and last[1:] == (mode, path):
            found[last[0]] = (found[last[0]][0], key)
        elif key not in found or mode == WRITE:
            found[key] = (mode, None)
            last = (key, mode, path)
    return found
