"""Keys as a terminal sends them: single bytes, and escape sequences.

A sequence may arrive in pieces, so an incomplete one is kept for the next read. Only complete keys
count: an arrow key is never taken for the escape that it begins with.
"""

from __future__ import annotations

import re

QUIT = "quit"
UP, DOWN, PAGE_UP, PAGE_DOWN, HOME, END = "up", "down", "page up", "page down", "home", "end"

_PLAIN = {
    b"q": QUIT, b"Q": QUIT, b"\x03": QUIT, b"k": UP, b"j": DOWN, b"b": PAGE_UP, b" ": PAGE_DOWN,
    b"g": HOME, b"G": END,
}  # fmt: skip
_FINALS = {b"A": UP, b"B": DOWN, b"H": HOME, b"F": END}
_NUMBERS = {b"1": HOME, b"7": HOME, b"4": END, b"8": END, b"5": PAGE_UP, b"6": PAGE_DOWN}

_CONTROL = re.compile(rb"\x1b\[([0-?]*)[ -/]*([@-~])")
_SHIFTED = re.compile(rb"\x1bO([ -~])")
_UNFINISHED = re.compile(rb"\x1b(\[[0-?]*[ -/]*|O)?\Z")
#: No key is longer; a longer sequence is not a key.
_SEQUENCE_BYTES_MAX = 64


class KeyReader:
    """Turns the bytes of successive reads into keys."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, typed: bytes) -> list[str]:
        """The known keys that are complete now."""
        typed = self._rest + typed
        self._rest = b""
        found: list[str | None] = []
        at = 0
        while at < len(typed):
            if typed[at : at + 1] != b"\x1b":
                found.append(_PLAIN.get(typed[at : at + 1]))
                at += 1
            elif whole := _CONTROL.match(typed, at) or _SHIFTED.match(typed, at):
                found.append(_sequence(whole))
                at = whole.end()
            elif _UNFINISHED.match(typed, at) and len(typed) - at < _SEQUENCE_BYTES_MAX:
                self._rest = typed[at:]
                break
            else:
                at += 1  # an escape that begins no sequence
        return [key for key in found if key is not None]


def _sequence(found: re.Match[bytes]) -> str | None:
    if found.re is _SHIFTED:
        return _FINALS.get(found[1])
    number = found[1].partition(b";")[0]  # the rest encodes Shift, Alt and Ctrl
    return _NUMBERS.get(number) if found[2] == b"~" else _FINALS.get(found[2])
