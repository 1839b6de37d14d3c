"""The SQL of the room, read from the folder `sql`."""

from __future__ import annotations

import os

FOLDER = f"{os.path.dirname(__file__)}/sql"

_MARK = "-- name: "


def _read() -> dict[str, str]:
    with open(f"{FOLDER}/statements.sql", encoding="utf-8") as file:
        blocks = file.read().split(_MARK)[1:]
    named = (block.partition("\n") for block in blocks)
    return {name.strip(): text.strip() for name, _, text in named}


ALL = _read()


class Statements:
    """The statements for one repository, made on demand."""

    __slots__ = ("_made", "_number")

    def __init__(self, repository: int) -> None:
        self._number = str(repository)
        self._made: dict[str, bytes] = {}

    def look_up(self, what: str, keys: int, ranges: int, most: int = 0) -> bytes:
        """What is `held`, or who is `wanting`, at so many keys and inside so many ranges, up to
        `most` rows: one look-up for each, all of them together."""
        name = f"{what} {keys} {ranges} {most}"
        made = self._made.get(name)
        if made is None:
            terms = [self._text(f"{what}_at")] * keys + [self._text(f"{what}_inside")] * ranges
            limit = f" limit {most}" if most else ""
            made = self._keep(name, f"{' union all '.join(terms)}{limit}")
        return made

    def with_keys(self, name: str, keys: int) -> bytes:
        """A statement that adds a grant with so many keys."""
        kept = f"{name} {keys}"
        made = self._made.get(kept)
        if made is None:
            rows = [self._text("grant_itself")] + [self._text("key_of_grant")] * keys
            made = self._keep(kept, self._text(name).replace(":rows", ", ".join(rows)))
        return made

    def __getitem__(self, name: str) -> bytes:
        made = self._made.get(name)
        return self._keep(name, self._text(name)) if made is None else made

    def _text(self, name: str) -> str:
        return ALL[name].replace(":repository", self._number)

    def _keep(self, name: str, text: str) -> bytes:
        made = self._made[name] = text.encode()
        return made
