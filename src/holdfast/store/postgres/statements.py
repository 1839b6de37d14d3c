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
    """The statements for one repository."""

    __slots__ = ("_made", "_number")

    def __init__(self, repository: int) -> None:
        self._number = str(repository)
        self._made: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        made = self._made.get(name)
        if made is None:
            text = ALL[name].replace(":head", ALL["head"])
            made = self._made[name] = text.replace(":repository", self._number)
        return made
