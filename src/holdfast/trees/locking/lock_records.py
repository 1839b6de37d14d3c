"""The record of a worktree's lock, with the seven fields that every program may rely on.

Each record has a counter file, which outlives it. The counter has the last token that was issued,
so that no token is ever issued twice, and the end of the lease by the machine's uptime, so that
setting the wall clock neither ends nor extends a lease. Other programs need only the record.
"""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.core.ledger_time import Reading, iso
from holdfast.core.model import SECOND, Value
from holdfast.trees import tree_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LockRecord(Value):
    """Who may write to a worktree, until when, and with which token."""

    __slots__ = (
        "created_at", "fencing_token", "holder_id", "last_renewed_at", "lease_expires_at",
        "lock_id", "worktree_id",
    )  # fmt: skip

    def __init__(
        self,
        *,
        lock_id: str,
        worktree_id: str,
        holder_id: str,
        created_at: str,
        last_renewed_at: str,
        lease_expires_at: str,
        fencing_token: int,
    ) -> None:
        self.lock_id: Final = lock_id
        self.worktree_id: Final = worktree_id
        self.holder_id: Final = holder_id
        self.created_at: Final = created_at
        self.last_renewed_at: Final = last_renewed_at
        self.lease_expires_at: Final = lease_expires_at
        self.fencing_token: Final = fencing_token

    def to_dict(self) -> dict[str, Any]:
        """The seven fields, in their fixed order."""
        return {name: getattr(self, name) for name in _ORDER}

    @property
    def lease_seconds(self) -> float:
        """The full length of the lease."""
        return (moment(self.lease_expires_at) - moment(self.last_renewed_at)) / SECOND

    def renewed(self, now: int, lease_seconds: float) -> LockRecord:
        """The same lock with a fresh lease."""
        fields = self.to_dict()
        fields |= {"last_renewed_at": iso(now), "lease_expires_at": iso(after(now, lease_seconds))}
        return LockRecord(**fields)


_ORDER = (
    "lock_id", "worktree_id", "holder_id", "created_at", "last_renewed_at", "lease_expires_at",
    "fencing_token",
)  # fmt: skip


def read_record(path: str) -> LockRecord | None:
    """The record in a file; None without a file. Raises ValueError for an invalid one."""
    try:
        fields = tree_files.read_json(path)
    except FileNotFoundError:
        return None
    for name in _ORDER:
        wanted = int if name == "fencing_token" else str
        if type(fields.get(name)) is not wanted:
            raise ValueError(f"{name} is missing, or is not what it should be")
    record = LockRecord(**{name: fields[name] for name in _ORDER})
    for text in (record.created_at, record.last_renewed_at, record.lease_expires_at):
        moment(text)
    return record


class Counter:
    """The last token, and the end of one lease by the uptime of one boot."""

    __slots__ = ("boot", "ends_at_uptime", "lock_id", "token")

    def __init__(
        self, token: int = 0, lock_id: str = "", boot: str = "", ends_at_uptime: int = 0
    ) -> None:
        self.token = token
        self.lock_id = lock_id
        self.boot = boot
        self.ends_at_uptime = ends_at_uptime

    @classmethod
    def read(cls, path: str) -> Counter:
        """The counter in a file. An unreadable one counts as empty, which is safe: the next token
        then comes from the wall clock."""
        try:
            fields = tree_files.read_json(path)
            made = cls(
                int(fields["token"]), str(fields["lock_id"]), str(fields["boot"]),
                int(fields["ends_at_uptime"]),
            )  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError):
            return cls()
        return made

    def write(self, path: str) -> None:
        """Write it to the disk."""
        tree_files.replace(
            path, tree_files.pretty({name: getattr(self, name) for name in self.__slots__})
        )

    def next(self, record: LockRecord | None, reading: Reading) -> int:
        """A token greater than every earlier one, even if the counter was lost."""
        seen = max(self.token, record.fencing_token if record is not None else 0)
        return max(seen + 1, reading.wall)


def is_expired(record: LockRecord, counter: Counter, reading: Reading) -> bool:
    """Whether the lease has expired: by uptime where that is known, else by the wall clock."""
    if counter.lock_id == record.lock_id and counter.boot == reading.boot != "":
        return reading.uptime >= counter.ends_at_uptime
    return reading.wall >= moment(record.lease_expires_at)


def moment(text: str) -> int:
    """The microseconds since 1970 of an ISO 8601 text. Raises ValueError."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    gone = at - _EPOCH
    return (gone.days * 86400 + gone.seconds) * SECOND + gone.microseconds


def after(now: int, seconds: float) -> int:
    """The moment so many seconds later."""
    return now + round(seconds * SECOND)
