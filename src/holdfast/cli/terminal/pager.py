"""The visible part of a long text, and the keys that scroll it."""

from __future__ import annotations

from holdfast.cli.terminal import keystrokes
from holdfast.cli.terminal.tables import cut, wide

#: The first of these that fits is shown.
_HINTS = (
    "↑ ↓ PgUp PgDn Home End (or j k) scroll · q quits", "↑ ↓ PgUp PgDn scroll · q quits",
    "↑ ↓ scroll · q quits", "q quits",
)  # fmt: skip


class Pager:
    """The position in a text whose length may change while it is shown."""

    def __init__(self) -> None:
        self._top = 0
        self._length = 0
        self._room = 1

    def frame(self, title: str, body: list[str], width: int, height: int) -> list[str]:
        """The lines of a screen: the title, as much of the body as fits, and the keys."""
        if height < 2:
            return [title][:height]
        self._length, self._room = len(body), height - 2
        self._top = max(0, min(self._top, self._length - self._room))
        shown = body[self._top : self._top + self._room]
        filler = [""] * (self._room - len(shown))
        return [title, *shown, *filler, self._hint(width)]

    def press(self, key: str) -> None:
        """Scroll as a key says. The next frame keeps the position inside the text."""
        page = max(1, self._room - 1)
        last = max(0, self._length - self._room)
        moved = {
            keystrokes.UP: self._top - 1, keystrokes.DOWN: self._top + 1,
            keystrokes.PAGE_UP: self._top - page,
            keystrokes.PAGE_DOWN: self._top + page, keystrokes.HOME: 0, keystrokes.END: last,
        }  # fmt: skip
        self._top = max(0, min(moved.get(key, self._top), last))

    def _hint(self, width: int) -> str:
        place = self._place()
        for hint in _HINTS:
            line = f"{hint} · {place}" if place else hint
            if wide(line) <= width:
                return line
        return cut(_HINTS[-1], width)

    def _place(self) -> str:
        """Which lines are shown; empty if all of them are."""
        if self._length <= self._room:
            return ""
        return f"{self._top + 1}-{min(self._top + self._room, self._length)} of {self._length}"
