"""Grants as the manager returns them: to their holder, and in listings."""

from __future__ import annotations

from holdfast.core.keys import INODE, kind
from holdfast.core.ledger_time import iso
from holdfast.core.model import READ, SECOND, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any

    from holdfast.core.model import Grant, Holder


def paths_of(grant: Grant, mode: str) -> tuple[str, ...]:
    """The paths of a grant in one mode, as the request spelled them."""
    return tuple(
        path
        for key, held, path in zip(grant.keys, grant.modes, grant.paths, strict=True)
        if held == mode and kind(key) != INODE
    )


def moment(microseconds: int) -> datetime:
    """Ledger time as a datetime in UTC."""
    from datetime import datetime, timedelta, timezone

    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017
    return epoch + timedelta(microseconds=microseconds)


class GrantSnapshot:
    """A grant at one moment. It does not follow later changes."""

    __slots__ = ("_grant",)

    released = False

    def __init__(self, grant: Grant) -> None:
        self._grant = grant

    @property
    def id(self) -> str:
        """Unique, and never reused."""
        return self._grant.id

    @property
    def holder(self) -> str:
        """The holder's name, for people."""
        return self._grant.holder.id

    @property
    def owner(self) -> Holder:
        """The holder, in full."""
        return self._grant.holder

    @property
    def read_paths(self) -> tuple[str, ...]:
        """The paths locked for reading; a folder ends with a slash."""
        return paths_of(self._grant, READ)

    @property
    def write_paths(self) -> tuple[str, ...]:
        """The paths locked for writing."""
        return paths_of(self._grant, WRITE)

    @property
    def acquired_at(self) -> datetime:
        """When it was acquired."""
        return moment(self._grant.acquired_at)

    @property
    def expires_at(self) -> datetime | None:
        """When it ends; None if it lasts as long as its owner. On a server's ledger such a lease
        ends then unless its owner has renewed it, which happens by itself."""
        expires_at = self._grant.expires_at
        return None if expires_at is None else moment(expires_at)

    @property
    def ttl_seconds(self) -> float | None:
        """By how much a renewal extends it."""
        return None if self._grant.ttl is None else self._grant.ttl / SECOND

    @property
    def token(self) -> int:
        """The fencing token: larger than that of every earlier grant."""
        return self._grant.token

    @property
    def reason(self) -> str:
        """The reason given in the request."""
        return self._grant.reason

    def to_dict(self) -> dict[str, Any]:
        """As plain data, with times as UTC ISO 8601."""
        grant = self._grant
        return {
            "id": grant.id,
            "holder": grant.holder.id,
            "read_paths": list(self.read_paths),
            "write_paths": list(self.write_paths),
            "acquired_at": iso(grant.acquired_at),
            "expires_at": None if grant.expires_at is None else iso(grant.expires_at),
            "released": self.released,
            "token": grant.token,
            "reason": grant.reason,
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()})"


class LockGrant(GrantSnapshot):
    """A grant for its holder: `released` queries the store."""

    __slots__ = ("_has_ended",)

    def __init__(self, grant: Grant, has_ended: Callable[[str], bool]) -> None:
        self._grant = grant
        self._has_ended = has_ended

    @property
    def released(self) -> bool:  # type: ignore[override]
        """Whether it was released, or has ended in another way."""
        return self._has_ended(self.id)
