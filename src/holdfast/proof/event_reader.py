"""Reading the ledger without any lock. An event's file appears whole and is never changed.

The end of the ledger is the first number without a file. A number without a file before others is a
gap: an event was lost, and later events cannot be relied on.
"""

from __future__ import annotations

import os

from holdfast.core.errors import StoreCorruptError
from holdfast.core.model import Value
from holdfast.proof import hash_chain
from holdfast.proof.dialects import proof_codec
from holdfast.proof.errors import unread
from holdfast.proof.proof_folder import ProofFolder, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

#: How far beyond the end to look for events behind a gap.
_AHEAD = tuple(2**power for power in range(11))


class ProofEvent(Value):
    """One event of the ledger: its number and its fields."""

    __slots__ = ("data", "sequence")

    def __init__(self, sequence: int, data: dict[str, Any]) -> None:
        self.sequence: Final = sequence
        self.data: Final = data

    __hash__ = None  # type: ignore[assignment]

    @property
    def type(self) -> str:
        """The type of the event."""
        type: str = self.data["type"]
        return type

    @property
    def timestamp(self) -> str:
        """When it was appended, by its own timestamp; empty without one."""
        stamp = self.data.get("timestamp")
        return stamp if isinstance(stamp, str) else ""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"sequence": self.sequence, "event": self.data}


def parsed(folder: ProofFolder, sequence: int, data: bytes) -> ProofEvent:
    """An event from its bytes. Raises StoreCorruptError."""
    try:
        return ProofEvent(sequence, proof_codec.event_of(data))
    except ValueError as error:
        raise StoreCorruptError(
            f"{folder.event_name(sequence)} cannot be read: {error}",
            hint="holdfast proof verify lists all broken events, and how to repair them",
            sequence=sequence,
        ) from None


def raw(
    folder: ProofFolder, after: int, *, calm: bool = False
) -> Iterator[tuple[int, bytes, os.stat_result]]:
    """The bytes of all events after a number, and the status of their files.

    `calm` is for a caller that knows that this was the end a moment ago.
    """
    sequence = after + 1
    while True:
        try:
            data, status = read(folder.event(sequence))
        except FileNotFoundError:
            if not has_appeared(folder, sequence, calm=calm and sequence == after + 1):
                return
            continue
        except OSError as error:
            raise unread(error) from error
        yield sequence, data, status
        sequence += 1


def has_appeared(folder: ProofFolder, sequence: int, *, calm: bool = False) -> bool:
    """Whether a number that had no file has one now; False at the end of the ledger.

    Raises StoreCorruptError if it has none and others follow.
    """
    if not any(_is_there(folder, sequence + step) for step in (_AHEAD[:1] if calm else _AHEAD)):
        return False
    if _is_there(folder, sequence):  # it was appended while we checked the next one
        return True
    raise gap(folder, sequence)


def gap(folder: ProofFolder, sequence: int) -> StoreCorruptError:
    """The error for an event that is missing in the middle."""
    return StoreCorruptError(
        f"{folder.event_name(sequence)} is missing, and later events exist",
        hint="holdfast proof verify lists all gaps, and how to repair them",
        sequence=sequence,
    )


def find_head(folder: ProofFolder, known: int) -> int:
    """The number of the last event, searched from a number that was the last one earlier.

    With 0 the search starts at the end of the chain; the folder is listed only if neither exists.
    """
    try:
        start = known or hash_chain.length(folder)
        if not (start and _is_there(folder, start)):
            return _counted(folder)
        head = start
        while _is_there(folder, head + 1) or has_appeared(folder, head + 1, calm=head == known):
            head += 1
        return head
    except OSError as error:
        raise unread(error) from error


def _counted(folder: ProofFolder) -> int:
    found = folder.sequences()
    for at, sequence in enumerate(found, 1):
        if at != sequence:
            if _is_there(folder, at):  # it was appended while the folder was listed
                return find_head(folder, at)
            raise gap(folder, at)
    return len(found)


def _is_there(folder: ProofFolder, sequence: int) -> bool:
    try:
        os.lstat(folder.event(sequence))
    except FileNotFoundError:
        return False
    return True
