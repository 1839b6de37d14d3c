"""A ledger on a server as the source, or the target, of a move; see `holdfast.store.move_marks`."""

from __future__ import annotations

from time import monotonic

import psycopg

from holdfast.store import move_marks
from holdfast.store.move_marks import PAGE_ROWS, TABLES, move_of
from holdfast.store.postgres import server_errors
from holdfast.store.postgres.server_rows import short
from holdfast.store.postgres.server_session import INSIDE_SECONDS, SessionLostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    from holdfast.core.view import View
    from holdfast.store.contract import Page
    from holdfast.store.move_marks import Move
    from holdfast.store.postgres.server_session import ServerSession, Write
    from holdfast.store.postgres.server_store import PostgresStore

    T = TypeVar("T")
    Row = tuple[Any, ...]
    #: What a change returns, and its statements; without any, nothing is committed.
    Change = tuple[T, list[Write]]

#: How long the server waits for the next rows of a copy, and how long we wait for the server to
#: take them, to commit them, or to find the next ones.
PAGE_SECONDS = 120.0
OPEN_SECONDS = 10.0


class ServerMover:
    """A store, to move its ledger."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store

    # As the source

    def move(self, *, deadline: float) -> Move | None:
        """What this ledger says about its own move."""
        return self._read(lambda session, row: move_of(row[-1]), deadline)

    def mark(
        self,
        old: Move | None,
        new: Move | None,
        check: Callable[[View], None] | None = None,
        *,
        deadline: float,
    ) -> Move | None:
        """Replace what it says by `new`, if it is `old`. Returns what it says now."""

        def change(session: ServerSession, row: Row) -> Change[Move | None]:
            found = move_of(row[-1])
            if found != old:
                return found, []
            if check is not None:
                check(self.store.look(row))
            text = None if new is None else new.text
            return new, [(session.statements["put_move"], (text,))]

        return self._change(change, INSIDE_SECONDS, deadline)

    def pages(self) -> Iterator[Page]:
        """All rows, table by table."""
        for table in TABLES:
            last: Any = 0 if table == "events" else ""
            while rows := self._next(table, last):
                yield table, rows
                last = rows[-1][0]

    def _next(self, table: str, last: Any) -> list[Row]:
        def read(session: ServerSession, row: Row) -> list[Row]:
            session.connection.deadline = monotonic() + PAGE_SECONDS
            return session.ask(session.statements[f"next_{table}"], (last, PAGE_ROWS))

        return self._read(read, monotonic() + OPEN_SECONDS)

    # As the target

    def head(self, *, deadline: float) -> int:
        """The number of the last event."""
        return self._read(lambda session, row: int(row[0]), deadline)

    def has_copied(self, id: str, *, deadline: float) -> bool:
        """Whether the move with this id has filled this ledger."""
        return self._read(lambda session, row: _says(session, move_marks.copied(id)), deadline)

    def take(
        self, id: str, pages: Callable[[], Iterator[Page]], over: Move | None, *, deadline: float
    ) -> bool:
        """Fill this ledger with the rows of another one, in one transaction."""
        here = self.store.url

        def change(session: ServerSession, row: Row) -> Change[bool]:
            if _says(session, move_marks.copied(id)):
                return False, []
            if _says(session, move_marks.refused(id)):
                raise move_marks.called_off(here)
            move = move_of(row[-1])
            if over is None or move != over:
                if move is not None:
                    raise move_marks.gone(move, here)
                if row[0]:
                    raise move_marks.not_empty(here, row[0])
            self._fill(session, pages)
            statements = session.statements
            return True, [
                (statements["put_move"], (None,)),
                (statements["add_mark"], (move_marks.copied(id),)),
            ]

        return self._change(change, PAGE_SECONDS, deadline)

    def _fill(self, session: ServerSession, pages: Callable[[], Iterator[Page]]) -> None:
        connection, number = session.connection, session.repository
        try:
            connection.deadline = monotonic() + PAGE_SECONDS
            connection.execute(session.statements["clear"], prepare=False)
            for table, rows in pages():
                connection.deadline = monotonic() + PAGE_SECONDS
                with connection.cursor().copy(session.statements[f"copy_{table}"]) as copy:
                    for row in rows:
                        if table == "notes":
                            short(row[0])
                        copy.write_row((number, *row))
            connection.deadline = monotonic() + PAGE_SECONDS
        except psycopg.Error as error:
            raise session.failed(error) from error
        except TimeoutError as error:
            raise SessionLostError("no answer in time") from error

    def call_off(self, id: str, *, deadline: float) -> bool:
        """Make sure that the move with this id never fills this ledger."""

        def change(session: ServerSession, row: Row) -> Change[bool]:
            if _says(session, move_marks.copied(id)):
                return False, []
            return True, [(session.statements["add_mark"], (move_marks.refused(id),))]

        return self._change(change, INSIDE_SECONDS, deadline)

    # Transactions

    def _read(self, read: Callable[[ServerSession, Row], T], deadline: float) -> T:
        store = self.store
        while True:
            mutex = store.lock(deadline)
            try:
                session, row = store.begun(deadline, 0, even_moved=True)
                try:
                    return read(session, row)
                finally:
                    store.end_reading(None)
            except SessionLostError as lost:
                if monotonic() >= deadline:
                    raise server_errors.away(store.url, str(lost)) from lost
            finally:
                if mutex is store.mutex:
                    mutex.release()

    def _change(
        self,
        change: Callable[[ServerSession, Row], Change[T]],
        inside_seconds: float,
        deadline: float,
    ) -> T:
        """Change the tables beside the rules. If the answer is lost, the result is not known: each
        change here may be repeated, and then finds what it did."""
        store = self.store
        mutex = store.lock(deadline)
        try:
            session, row = store.begun(deadline, inside_seconds, even_moved=True)
            try:
                result, writes = change(session, row)
                if writes:
                    session.commit(writes)
                    store.forget()
                else:
                    session.roll_back()
                return result
            except SessionLostError as lost:
                store.forget()
                raise server_errors.away(store.url, str(lost)) from lost
            except BaseException:
                store.forget()
                store.end_reading(None)
                raise
        finally:
            if mutex is store.mutex:
                mutex.release()


def _says(session: ServerSession, name: str) -> bool:
    return bool(session.ask(session.statements["has_note"], (name,)))
