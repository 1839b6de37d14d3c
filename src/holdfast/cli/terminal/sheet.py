"""The limits for lines and tables: their width, colours or none, and the length of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.cli.printing import plain
from holdfast.cli.terminal.tables import (
    GAP,
    MORE,
    Cell,
    Column,
    cut,
    render,
    wide,
)


class Sheet(NamedTuple):
    """`width` is None for no limit. `rows_max` limits the rows of a table."""

    width: int | None
    colours: bool
    rows_max: int

    def line(self, text: str, colour: str = "") -> str:
        """One line, with control characters escaped."""
        text = plain(text) if self.width is None else cut(plain(text), self.width)
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colours and colour else text

    def lines(self, text: str, colour: str = "", indent: str = "") -> list[str]:
        """A text that must not be cut, wrapped into lines."""
        room = None if self.width is None else max(1, self.width - len(indent))
        return [self.line(indent + one, colour) for one in wrapped(plain(text), room)]

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[str]:
        """A table; no lines if there are no rows. Rows past the limit are counted."""
        if not rows:
            return []
        lines = render(columns, rows[: self.rows_max], width=self.width, colours=self.colours)
        more = len(rows) - self.rows_max
        return [*lines, *[f"{MORE} and {more} more"] * (more > 0)]

    def table_with_notes(
        self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], notes: Sequence[str]
    ) -> list[str]:
        """A table with a note for each row: beside it if it fits, otherwise below."""
        rows, more = rows[: self.rows_max], len(rows) - self.rows_max
        bare = render(columns, rows, width=self.width, colours=False)
        shown = render(columns, rows, width=self.width, colours=self.colours)
        table = max(map(wide, bare), default=0)
        lines = shown[: bool(rows)]
        for bare_row, row, note in zip(bare[1:], shown[1:], notes, strict=False):
            text = f"{' ' * (table - wide(bare_row))}{GAP}{plain(note)}" if note else ""
            if self.width is None or wide(bare_row) + wide(text) <= self.width:
                lines.append(row + text)
            else:
                lines += [row, *self.lines(note, indent=GAP)]
        return [*lines, *[f"{MORE} and {more} more"] * (more > 0)]


def wrapped(text: str, width: int | None) -> list[str]:
    """A text in lines that fit, broken between words, or inside a word that is too long."""
    if width is None or wide(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if wide(longer) <= width:
            lines[-1] = longer
            continue
        lines += [""] if lines[-1] else []
        while wide(word) > width:
            head = cut(word, width) or word[0]
            lines[-1], word = head, word[len(head) :]
            lines.append("")
        lines[-1] = word
    return lines
