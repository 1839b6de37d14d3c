"""In which line of a TOML text a key is set, where a table comes more than once.

It only finds lines: the meaning of a text is left to the standard library's reader.
"""

from __future__ import annotations

import re

#: The lines above all tables.
TOP = -1

_HEAD = re.compile(r"\s*\[\[\s*[\"']?([^\]\"']+?)[\"']?\s*\]\]")
_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
_KEY = re.compile(r"\s*(?:([A-Za-z0-9_-]+)|\"([^\"]*)\"|'([^']*)')\s*[.=]")


class Lines:
    """The lines of one text whose tables of one name come more than once."""

    __slots__ = ("_at",)

    def __init__(self, text: str, table: str) -> None:
        self._at: dict[tuple[int, str], int] = {}
        index, prefix, closing = TOP, "", ""
        for number, line in enumerate(text.split("\n"), 1):
            if closing:
                closing = "" if closing in line else closing
                continue
            if (head := _HEAD.match(line)) and head[1] == table:
                index, prefix = index + 1, ""
                self._at[index, ""] = number
            elif inner := head or _TABLE.match(line):
                prefix = inner[1].removeprefix(f"{table}.")
                index_of = index if inner[1].startswith(f"{table}.") else TOP
                self._at.setdefault((index_of, prefix.partition(".")[0].strip("\"' ")), number)
            elif (key := _KEY.match(line)) and not prefix:
                name = next(one for one in key.groups() if one is not None)
                self._at.setdefault((index, name), number)
                closing = _opened(line[key.end() :])

    def of(self, index: int, key: str = "") -> int:
        """The line of a key, or else of its table; 0 if it cannot be found."""
        found = self._at.get((index, key)) or self._at.get((index, ""))
        return found or (0 if index == TOP else self._at.get((TOP, "task"), 0))


def _opened(value: str) -> str:
    """What closes a multi-line text that begins in a value and does not end in it."""
    for quote in ('"""', "'''"):
        if quote in value and value.count(quote) % 2 == 1:
            return quote
    return ""
