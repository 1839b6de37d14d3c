"""Tables that fit the terminal. A long path loses its middle, prose its end."""

from __future__ import annotations

import os
import sys

from holdfast.cli.printing import is_terminal, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = "  "
MORE = "…"

BOLD, DIM, RED, GREEN, YELLOW = "1", "2", "31", "32", "33"


class Cell:
    """One text in a table, and its colour."""

    __slots__ = ("colour", "text")

    def __init__(self, text: str, colour: str = "") -> None:
        self.text = plain(text)
        self.colour = colour


class Column:
    """A heading, the smallest width of the column, and whether it holds prose."""

    __slots__ = ("heading", "narrowest", "prose")

    def __init__(self, heading: str, narrowest: int = 0, *, prose: bool = False) -> None:
        self.heading = heading
        self.narrowest = narrowest  # 0: never narrower than its texts
        self.prose = prose


def terminal_width() -> int | None:
    """The number of columns; None without a limit, as in a pipe."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and 0 < int(given) < 100_000:
        return int(given)
    return _size()[0] if is_terminal() else None


def terminal_height() -> int | None:
    """The number of lines of a terminal; None elsewhere."""
    return _size()[1] if is_terminal() else None


def _size() -> tuple[int | None, int | None]:
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return None, None
    return size.columns or None, size.lines or None


def render(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    width: int | None,
    colours: bool,
) -> list[str]:
    """The table as lines, none wider than `width`."""
    shown = [column for at, column in enumerate(columns) if any(row[at].text for row in rows)]
    picked = [columns.index(column) for column in shown]
    lines = [[Cell(column.heading, DIM) for column in shown]]
    lines += [[row[at] for at in picked] for row in rows]
    widths = [max(wide(line[at].text) for line in lines) for at in range(len(shown))]
    if width is not None:
        _narrow(widths, shown, width - len(GAP) * (len(shown) - 1))
    return [
        _line(_fitted(line, widths, shown), line, width=width, colours=colours) for line in lines
    ]


def _narrow(widths: list[int], columns: Sequence[Column], width: int) -> None:
    """Narrow the widest column that may shrink, until all fit or none may."""
    while sum(widths) > width:
        giving = [at for at, column in enumerate(columns) if 0 < column.narrowest < widths[at]]
        if not giving:
            return
        widest = max(giving, key=lambda at: widths[at])
        widths[widest] -= 1


def _fitted(line: Sequence[Cell], widths: list[int], columns: Sequence[Column]) -> list[str]:
    fitted = []
    for cell, width, column in zip(line, widths, columns, strict=True):
        text = (ended if column.prose else shortened)(cell.text, width)
        fitted.append(text + " " * (width - wide(text)))
    return fitted


def _line(texts: list[str], cells: Sequence[Cell], *, width: int | None, colours: bool) -> str:
    left = width
    parts: list[str] = []
    for at, (text, cell) in enumerate(zip(texts, cells, strict=True)):
        last = at == len(texts) - 1
        text = text.rstrip() if last else text + GAP
        if left is not None:
            text = cut(text, left)
            left -= wide(text)
        parts.append(f"\x1b[{cell.colour}m{text}\x1b[0m" if colours and cell.colour else text)
    return "".join(parts).rstrip()


def wide(text: str) -> int:
    """The number of columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1
        for character in text
    )


def cut(text: str, width: int) -> str:
    """The beginning of a text, as much as fits."""
    while wide(text) > max(0, width):
        text = text[: max(0, width)] if len(text) > width >= 0 else text[:-1]
    return text


def ended(text: str, width: int) -> str:
    """A text cut at its end to fit."""
    return text if wide(text) <= width else cut(cut(text, width - wide(MORE)) + MORE, width)


def shortened(text: str, width: int) -> str:
    """A text cut in its middle to fit, since the name of a file is at the end of its path."""
    if wide(text) <= width:
        return text
    if width < 3:
        return cut(MORE, width)
    head = cut(text, (width - 1) // 3)
    tail = text
    while wide(tail) > width - 1 - wide(head):
        tail = tail[1:]
    return head + MORE + tail
