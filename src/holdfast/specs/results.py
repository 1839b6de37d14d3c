"""The results of spec locks, and the content of their files. All values are immutable.

`to_dict` uses the names of the files and of the other programs, in the order of the slots, and
omits missing fields.
"""

from __future__ import annotations

from holdfast.core.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

VERSION = "1.0.0"
TIMEOUT_HOURS_DEFAULT = 24


def _spelled(name: str) -> str:
    """`machine_id` as `machineId`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _plain(value: Any) -> Any:
    if isinstance(value, Shape):
        return value.to_dict()
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


class Shape(Value):
    """A value with a form for other programs."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        found = {_spelled(name): value for name, value in self._fields().items()}
        return {name: _plain(value) for name, value in found.items() if value is not None}


class LockMetadata(Shape):
    """The content of a lock file. `timeout` is in hours, `timestamp` is when it was acquired."""

    __slots__ = ("owner", "machine_id", "hostname", "timestamp", "reason", "timeout", "version")  # noqa: RUF023

    def __init__(
        self,
        *,
        owner: str,
        machine_id: str,
        hostname: str,
        timestamp: str,
        reason: str | None = None,
        timeout: float = TIMEOUT_HOURS_DEFAULT,
        version: str = VERSION,
    ) -> None:
        self.owner: Final = owner
        self.machine_id: Final = machine_id
        self.hostname: Final = hostname
        self.timestamp: Final = timestamp
        self.reason: Final = reason
        self.timeout: Final = timeout
        self.version: Final = version


class MachineId(Shape):
    """A machine: `id` is its host name and a unique part."""

    __slots__ = ("id", "hostname", "created_at")  # noqa: RUF023

    def __init__(self, *, id: str, hostname: str, created_at: str) -> None:
        self.id: Final = id
        self.hostname: Final = hostname
        self.created_at: Final = created_at


class MachineInfo(Shape):
    """The machine for people to read."""

    __slots__ = ("id", "hostname", "created_at", "platform", "user")  # noqa: RUF023

    def __init__(
        self, *, id: str, hostname: str, created_at: str, platform: str, user: str
    ) -> None:
        self.id: Final = id
        self.hostname: Final = hostname
        self.created_at: Final = created_at
        self.platform: Final = platform
        self.user: Final = user


class LockResult(Shape):
    """The result of an attempt to lock."""

    __slots__ = ("success", "error", "lock", "existing_lock")  # noqa: RUF023

    def __init__(
        self,
        success: bool,
        *,
        error: str | None = None,
        lock: LockMetadata | None = None,
        existing_lock: LockMetadata | None = None,
    ) -> None:
        self.success: Final = success
        self.error: Final = error
        self.lock: Final = lock
        self.existing_lock: Final = existing_lock


class UnlockResult(Shape):
    """The result of an attempt to unlock. `message` is for people, and not an error."""

    __slots__ = ("success", "error", "forced", "previous_lock", "message")  # noqa: RUF023

    def __init__(
        self,
        success: bool,
        *,
        error: str | None = None,
        forced: bool | None = None,
        previous_lock: LockMetadata | None = None,
        message: str | None = None,
    ) -> None:
        self.success: Final = success
        self.error: Final = error
        self.forced: Final = forced
        self.previous_lock: Final = previous_lock
        self.message: Final = message


class LockStatus(Shape):
    """The state of a spec. With an `error` the state is unknown, and the spec counts as locked.

    `is_owned_by_me` tells whether the lock belongs to this machine, `is_held_by_me` whether it also
    belongs to the caller. `holder` is the holder on this machine, if a note names it.
    """

    __slots__ = (  # noqa: RUF023
        "spec_name", "locked", "lock", "is_stale", "is_owned_by_me", "is_held_by_me", "duration",
        "holder", "error",
    )  # fmt: skip

    def __init__(
        self,
        spec_name: str,
        locked: bool,
        *,
        lock: LockMetadata | None = None,
        is_stale: bool | None = None,
        is_owned_by_me: bool | None = None,
        duration: str | None = None,
        is_held_by_me: bool | None = None,
        holder: str | None = None,
        error: str | None = None,
    ) -> None:
        self.spec_name: Final = spec_name
        self.locked: Final = locked
        self.lock: Final = lock
        self.is_stale: Final = is_stale
        self.is_owned_by_me: Final = is_owned_by_me
        self.duration: Final = duration
        self.is_held_by_me: Final = is_held_by_me
        self.holder: Final = holder
        self.error: Final = error


class CleanedLock(Shape):
    """One stale lock that was removed."""

    __slots__ = ("spec_name", "lock")  # noqa: RUF023

    def __init__(self, spec_name: str, lock: LockMetadata) -> None:
        self.spec_name: Final = spec_name
        self.lock: Final = lock


class FailedLock(Shape):
    """One lock that could not be read or removed."""

    __slots__ = ("spec_name", "error")  # noqa: RUF023

    def __init__(self, spec_name: str, error: str) -> None:
        self.spec_name: Final = spec_name
        self.error: Final = error


class CleanupResult(Shape):
    """The result of a clean-up."""

    __slots__ = ("cleaned", "cleaned_locks", "errors")

    def __init__(
        self, cleaned_locks: Sequence[CleanedLock] = (), errors: Sequence[FailedLock] = ()
    ) -> None:
        self.cleaned: Final = len(cleaned_locks)
        self.cleaned_locks: Final = tuple(cleaned_locks)
        self.errors: Final = tuple(errors)
