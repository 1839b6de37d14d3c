"""The guard's records in the ledger, as typed values: each has a version and one decoder.

    Damage   files of others changed while a command ran, and how they can be restored
    Told     an agent has to be told of it

Version 1 had no `by_key` in `Told`: only a name identified whose command it was. A record of a
newer version is refused rather than guessed at.
"""

from __future__ import annotations

from holdfast.core.errors import RecordVersionError
from holdfast.core.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

    from holdfast.core.model import Event

VERSION = 2

#: The events of the guard.
DAMAGE = "damage"
TO_BE_TOLD = "damage_to_be_told"
TOLD = "damage_told"
UNDONE = "damage_undone"
FORGOTTEN = "damage_forgotten"


def damage_name(id: str) -> str:
    """The name of the note on damage."""
    return f"damaged:{id}"


def told_name(key: str, id: str = "") -> str:
    """The name of the note that an agent has to be told; without an id, the prefix of all such."""
    return f"damage-for:{key}:{id}"


class DamagedFile(Value):
    """A file that was changed while another held it.

    `before` and `after` are digests of its content, `was` is its kind before. If `kept`, the old
    content is beside the ledger under `number`.
    """

    __slots__ = ("after", "before", "kept", "mode", "number", "owner", "owner_key", "path", "was")

    def __init__(
        self,
        *,
        path: str,
        owner: str,
        owner_key: str,
        was: str,
        mode: int,
        before: str,
        after: str,
        kept: bool,
        number: int,
    ) -> None:
        self.path: Final = path
        self.owner: Final = owner
        self.owner_key: Final = owner_key
        self.was: Final = was
        self.mode: Final = mode
        self.before: Final = before
        self.after: Final = after
        self.kept: Final = kept
        self.number: Final = number

    def to_data(self) -> dict[str, Any]:
        return self._fields()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> DamagedFile:
        return cls(
            path=data["path"], owner=data["owner"], owner_key=data["owner_key"], was=data["was"],
            mode=data["mode"], before=data["before"], after=data["after"], kept=data["kept"],
            number=data["number"],
        )  # fmt: skip


class Damage(Value):
    """Files of others were changed while a command of `by` ran. Whether that command changed them
    is not known."""

    __slots__ = ("by", "by_key", "command", "files", "id")

    def __init__(
        self, *, id: str, by: str, by_key: str, command: str, files: Sequence[DamagedFile]
    ) -> None:
        self.id: Final = id
        self.by: Final = by
        self.by_key: Final = by_key
        self.command: Final = command
        self.files: Final = tuple(files)

    def with_files(self, files: Sequence[DamagedFile]) -> Damage:
        """The same, of some of its files."""
        return Damage(id=self.id, by=self.by, by_key=self.by_key, command=self.command, files=files)

    def to_data(self) -> dict[str, Any]:
        files = [one.to_data() for one in self.files]
        return {"version": VERSION, **self._fields(), "files": files}

    @classmethod
    def of(cls, event: Event) -> Damage:
        data = _readable(event)
        return cls(
            id=data["id"], by=data["by"], by_key=data["by_key"], command=data["command"],
            files=[DamagedFile.of(one) for one in data["files"]],
        )  # fmt: skip


class Told(Value):
    """What one agent has to be told of damage: to its own files, or during its own command.

    `by_key` is empty in a record of version 1: then only the damage itself has the key of the agent
    whose command it was.
    """

    __slots__ = ("by", "by_key", "command", "id", "paths")

    def __init__(
        self, *, id: str, by: str, by_key: str, command: str, paths: Sequence[str]
    ) -> None:
        self.id: Final = id
        self.by: Final = by
        self.by_key: Final = by_key
        self.command: Final = command
        self.paths: Final = tuple(paths)

    def to_data(self) -> dict[str, Any]:
        return {"version": VERSION, **self._fields(), "paths": list(self.paths)}

    @classmethod
    def of(cls, event: Event) -> Told:
        data = _readable(event)
        return cls(
            id=data["id"], by=data["by"], by_key=data.get("by_key", ""), command=data["command"],
            paths=data["paths"],
        )  # fmt: skip


def _readable(event: Event) -> Mapping[str, Any]:
    """An event's data, if this version can read it."""
    version = event.data.get("version", 1)
    if isinstance(version, int) and version <= VERSION:
        return event.data
    raise RecordVersionError(
        f"event {event.seq} ({event.type}) was written by a newer version of Holdfast "
        f"(record version {version}, this one reads up to {VERSION})",
        hint="upgrade: pip install --upgrade holdfast",
        record=event.type,
        seq=event.seq,
        version=version,
    )
