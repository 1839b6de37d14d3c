"""The embedded ledger as the source, or the target, of a move; see `holdfast.store.move_marks`."""

from __future__ import annotations

import os

from holdfast.store import move_marks
from holdfast.store.move_marks import PAGE_ROWS, TABLES, move_of
from holdfast.store.records import short_mark
from holdfast.store.sqlite.schema import MOVED, VERSION
from holdfast.store.sqlite.sections import Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.core.view import View
    from holdfast.store.contract import Page
    from holdfast.store.move_marks import Move
    from holdfast.store.sqlite.sqlite_store import SqliteStore

#: The next rows of a table, after one of them. Rows that belong to no event are the ledger's own.
_NEXT = {
    "events": "select seq, at, token, type, version, data from events where seq > ?"
    " order by seq limit ?",
    "repeats": "select once, seq, count, last_at from repeats where once > ? order by once limit ?",
    "lost": "select id, seq from lost where id > ? order by id limit ?",
    "notes": "select name, seq from notes where name > ? and seq > 0 order by name limit ?",
}
_ADD = {
    "events": "insert into events values (?, ?, ?, ?, ?, ?)",
    "repeats": "insert into repeats values (?, ?, ?, ?)",
    "lost": "insert into lost values (?, ?)",
    "notes": "insert into notes values (?, ?)",
}
_ALL = (*TABLES, "live", "tickets", "wants")
_NOTE = "select 1 from notes where name = ?"


class SqliteMover:
    """A store, to move its ledger."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store

    # As the source

    def move(self, *, deadline: float) -> Move | None:
        """What this ledger says about its own move."""
        with Snapshot(self.store, deadline, even_moved=True):
            return move_of(self.store.moved)

    def mark(
        self,
        old: Move | None,
        new: Move | None,
        check: Callable[[View], None] | None = None,
        *,
        deadline: float,
    ) -> Move | None:
        """Replace what it says by `new`, if it is `old`. Returns what it says now."""
        ask = self.store.ask

        def write() -> Move | None:
            view = self.store.look()
            found = move_of(self.store.moved)
            if found != old:
                return found
            if check is not None:
                check(view)
            self._clear_mark()
            if new is not None:
                ask("insert into notes values (?, 0)", (new.note,))
                ask(f"pragma user_version = {MOVED + VERSION}")
            return new

        return self.store.rewrite(write, deadline, even_moved=True)

    def _clear_mark(self) -> None:
        ends = (move_marks.MARK, move_marks.MARK_END)
        self.store.ask("delete from notes where name >= ? and name < ?", ends)
        self.store.ask(f"pragma user_version = {VERSION}")

    def pages(self) -> Iterator[Page]:
        """All rows, table by table."""
        from time import monotonic

        from holdfast.store.sqlite.sqlite_store import OPEN_SECONDS

        for table in TABLES:
            last: Any = 0 if table == "events" else ""
            while True:
                with Snapshot(self.store, monotonic() + OPEN_SECONDS, even_moved=True):
                    rows = self.store.ask(_NEXT[table], (last, PAGE_ROWS)).fetchall()
                if not rows:
                    break
                last = rows[-1][0]
                yield table, [_shortened(row) for row in rows] if table == "repeats" else rows

    # As the target

    def head(self, *, deadline: float) -> int:
        """The number of the last event."""
        with Snapshot(self.store, deadline, even_moved=True) as view:
            return view.head

    def has_copied(self, id: str, *, deadline: float) -> bool:
        """Whether the move with this id has filled this ledger."""
        with Snapshot(self.store, deadline, even_moved=True):
            return self._says(move_marks.copied(id))

    def _says(self, name: str) -> bool:
        return self.store.ask(_NOTE, (name,)).fetchone() is not None

    def take(
        self, id: str, pages: Callable[[], Iterator[Page]], over: Move | None, *, deadline: float
    ) -> bool:
        """Fill this ledger with the rows of another one, in one transaction."""
        store = self.store

        def write() -> bool:
            if self._says(move_marks.copied(id)):
                return False
            if self._says(move_marks.refused(id)):
                raise move_marks.called_off(store.url)
            head = store.look().head
            if over is None or move_of(store.moved) != over:
                store.refuse_moved()
                if head:
                    raise move_marks.not_empty(store.url, head)
            for table in _ALL:
                store.ask(f"delete from {table}")
            for table, rows in pages():
                store.session.cursor.executemany(_ADD[table], rows)
            self._clear_mark()
            store.ask("insert into notes values (?, 0)", (move_marks.copied(id),))
            return True

        taken = store.rewrite(write, deadline, even_moved=True)
        _sync_folder(store.folder)
        return taken

    def call_off(self, id: str, *, deadline: float) -> bool:
        """Make sure that the move with this id never fills this ledger."""
        ask = self.store.ask

        def write() -> bool:
            if self._says(move_marks.copied(id)):
                return False
            ask("insert or ignore into notes values (?, 0)", (move_marks.refused(id),))
            return True

        return self.store.rewrite(write, deadline, even_moved=True)


def _shortened(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row of `repeats` with a short text for what was repeated, as a copy has it already."""
    return (short_mark(row[0]), *row[1:]) if "\n" in row[0] else row


def _sync_folder(folder: str) -> None:
    """Make a new file's name in its folder durable."""
    if os.name == "nt":  # which has no such call, and needs none
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
