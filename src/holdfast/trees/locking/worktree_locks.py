"""The lock of an exclusive worktree: acquire, renew, release, steal, and the check before a commit.

Every change is a compare-and-swap inside the worktree's guard. The counter is written before the
record: a process that is killed in between has used up a token and acquired nothing. The lease
exists only for progress; safety comes from checking the token again, inside the guard, at the
moment when a result becomes visible.

A lock whose owner is dead must still expire and be stolen explicitly.
"""

from __future__ import annotations

import os

from holdfast.core.errors import (
    FencingError,
    HoldfastError,
    LockConflictError,
    LockExpiredError,
    LockNotHeldError,
)
from holdfast.core.ledger_time import Reading, iso
from holdfast.core.model import SECOND
from holdfast.trees import audit_log, tree_files
from holdfast.trees.errors import TreeDamagedError, TreeNotAllowedError, shown
from holdfast.trees.locking.lock_records import (
    Counter,
    LockRecord,
    after,
    is_expired,
    moment,
    read_record,
)
from holdfast.trees.repository import LEASE_SECONDS_DEFAULT, checked_lease
from holdfast.trees.worktrees import Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

FREE = "free"
HELD = "held"
EXPIRED = "expired"
UNREADABLE = "unreadable"


class LockState:
    """The state of a lock, as read from the files once."""

    __slots__ = ("record", "remaining_seconds", "state", "why")

    def __init__(
        self, state: str, record: LockRecord | None, remaining_seconds: float = 0, why: str = ""
    ) -> None:
        self.state: Final = state
        self.record: Final = record
        self.remaining_seconds: Final = remaining_seconds
        self.why: Final = why


def status(worktree: Worktree) -> LockState:
    """Who holds the lock now. Takes no guard and changes nothing."""
    reading = worktree.repository.clock.read()
    try:
        record = read_record(_record_path(worktree))
    except (OSError, ValueError) as error:
        return LockState(UNREADABLE, None, why=shown(str(error)))
    if record is None:
        return LockState(FREE, None)
    counter = Counter.read(_counter_path(worktree))
    if is_expired(record, counter, reading):
        return LockState(EXPIRED, record)
    left = moment(record.lease_expires_at) - reading.wall
    if counter.lock_id == record.lock_id and counter.boot == reading.boot != "":
        left = counter.ends_at_uptime - reading.uptime
    return LockState(HELD, record, left / SECOND)


def acquire(
    worktree: Worktree, holder_id: str, *, lease_seconds: float = LEASE_SECONDS_DEFAULT
) -> LockRecord:
    """Acquire the lock of a worktree if it is free."""
    checked_lease(lease_seconds)
    _refuse_shared(worktree)
    with worktree.guard():
        _check_there(worktree)
        lock = _LockFiles(worktree)
        if lock.record is not None:
            raise _expired(lock.record) if lock.is_expired else _conflict(lock.record, holder_id)
        record = lock.issue(holder_id, lease_seconds)
        lock.publish(record)
        audit_log.append(worktree.repository, "lock_acquired", _facts(worktree, record))
        return record


def renew(
    worktree: Worktree,
    holder_id: str,
    *,
    token: int | None = None,
    lease_seconds: float | None = None,
) -> LockRecord:
    """Extend the holder's own lease. An expired one is refused: that lock must be stolen.

    Since the lease ended nothing has kept others out, and a new token makes that visible.
    """
    if lease_seconds is not None:
        checked_lease(lease_seconds)
    with worktree.guard():
        lock = _LockFiles(worktree)
        record = lock.own(holder_id, token)
        if lock.is_expired:
            raise _expired(record)
        return lock.extend(record, lease_seconds or record.lease_seconds)


def release(worktree: Worktree, holder_id: str, *, token: int | None = None) -> LockRecord:
    """Release the holder's own lock, expired or not."""
    with worktree.guard():
        record = _LockFiles(worktree).own(holder_id, token)
        audit_log.append(worktree.repository, "lock_released", _facts(worktree, record))
        os.unlink(_record_path(worktree))
        tree_files.flush_folder(worktree.repository.path("locks"))
        return record


def steal(
    worktree: Worktree,
    holder_id: str,
    *,
    lease_seconds: float = LEASE_SECONDS_DEFAULT,
    reason: str = "",
) -> LockRecord:
    """Take over a lock whose lease has expired. Of several contenders, exactly one succeeds.

    The audit log records it, with both parties, before it takes effect.
    """
    checked_lease(lease_seconds)
    _refuse_shared(worktree)
    with worktree.guard():
        _check_there(worktree)
        lock = _LockFiles(worktree, steals=True)
        if lock.is_free:
            raise LockNotHeldError(
                f"worktree {worktree.name} is not locked, so there is nothing to steal",
                hint="holdfast tree lock acquire",
            )
        if not lock.is_expired:
            raise _conflict(lock.record, holder_id, verb="cannot be stolen: it")
        record = lock.issue(holder_id, lease_seconds)
        facts = {**_facts(worktree, record), "reason": reason, "stolen_from": _party(lock.record)}
        audit_log.append(worktree.repository, "lock_stolen", facts)
        lock.replace(record)
        return record


def check(worktree: Worktree, holder_id: str, *, token: int | None = None) -> LockRecord:
    """The record, if this holder may change the worktree with it now.

    Without a guard around it, the answer holds only for this moment. With a token, a lock that has
    been taken over since is `E_FENCING_MISMATCH`, whichever holder has it now.
    """
    lock = _LockFiles(worktree)
    record = lock.own(holder_id, token)
    if lock.is_expired:
        raise _expired(record)
    return record


def discard(worktree: Worktree) -> None:
    """Remove the lock with its worktree. Only inside the guard, which is removed as well."""
    for path in (_record_path(worktree), _counter_path(worktree)):
        tree_files.remove(path)
    tree_files.remove(worktree.repository.path("locks", f"{worktree.id}.guard"))


class _LockFiles:
    """The lock's files as they are inside the guard, at one reading of the clocks."""

    def __init__(self, worktree: Worktree, *, steals: bool = False) -> None:
        self._worktree = worktree
        self._reading: Reading = worktree.repository.clock.read()
        self._counter = Counter.read(_counter_path(worktree))
        self.record: LockRecord | None = None
        self.is_expired = False
        self.is_free = False
        try:
            self.record = read_record(_record_path(worktree))
            self.is_free = self.record is None
        except (OSError, ValueError) as error:
            self._judge_unreadable(error, steals)
        if self.record is not None:
            self.is_expired = is_expired(self.record, self._counter, self._reading)

    def _judge_unreadable(self, error: Exception, steals: bool) -> None:
        """An unreadable record refuses every holder for one lease; then it can be stolen."""
        written = os.stat(_record_path(self._worktree), follow_symlinks=False).st_mtime
        left = written + LEASE_SECONDS_DEFAULT - self._reading.wall / SECOND
        self.is_expired = left <= 0
        if steals and self.is_expired:
            return
        hint = f"it can be stolen in {left:.0f} s" if left > 0 else "holdfast tree lock steal"
        raise TreeDamagedError(
            f"the lock of worktree {self._worktree.name} cannot be read: {shown(str(error))}",
            hint=f"{hint}; see holdfast tree doctor",
        )

    def own(self, holder_id: str, token: int | None) -> LockRecord:
        """The record, if it belongs to this holder and has this token."""
        record, name = self.record, self._worktree.name
        if token is not None and (record is None or record.fencing_token != token):
            now = f"{record.holder_id} holds it" if record else "it is not held"
            raise FencingError(
                f"the token {token} of worktree {name} has been superseded: {now} now",
                hint="stop writing; see what was published since: holdfast tree history",
                token=token, current_token=record.fencing_token if record else self._counter.token,
            )  # fmt: skip
        if record is None:
            raise LockNotHeldError(
                f"the lock of worktree {name} is not held",
                hint="acquire it first: holdfast tree lock acquire",
                holder=holder_id,
            )
        if record.holder_id != holder_id:
            raise LockNotHeldError(
                f"the lock of worktree {name} belongs to {record.holder_id}, not to {holder_id}",
                hint="holdfast tree lock status shows until when",
                holder=holder_id, **_party(record),
            )  # fmt: skip
        return record

    def issue(self, holder_id: str, lease_seconds: float) -> LockRecord:
        """A new lock with a new token, which is used up from here on."""
        import uuid  # importing it takes as long as all the rest, and it is seldom needed

        now = self._reading.wall
        record = LockRecord(
            lock_id=str(uuid.uuid4()), worktree_id=self._worktree.id, holder_id=holder_id,
            created_at=iso(now), last_renewed_at=iso(now),
            lease_expires_at=iso(after(now, lease_seconds)),
            fencing_token=self._counter.next(self.record, self._reading),
        )  # fmt: skip
        self._count(record, lease_seconds)
        return record

    def extend(self, record: LockRecord, lease_seconds: float) -> LockRecord:
        """The same lock with a lease that starts now."""
        renewed = record.renewed(self._reading.wall, lease_seconds)
        self._count(renewed, lease_seconds)
        self.replace(renewed)
        return renewed

    def _count(self, record: LockRecord, lease_seconds: float) -> None:
        ends = after(self._reading.uptime, lease_seconds)
        token = max(self._counter.token, record.fencing_token)
        Counter(token, record.lock_id, self._reading.boot, ends).write(
            _counter_path(self._worktree)
        )

    def publish(self, record: LockRecord) -> None:
        """Create the record with a link, which cannot overwrite another program's record."""
        path = _record_path(self._worktree)
        beside = f"{path}{tree_files.UNFINISHED}"
        tree_files.remove(beside)
        try:
            tree_files.write_new(beside, tree_files.pretty(record.to_dict()))
            os.link(beside, path)
        except FileExistsError:
            raise _conflict(None, record.holder_id) from None
        finally:
            tree_files.remove(beside)
        tree_files.flush_folder(os.path.dirname(path))

    def replace(self, record: LockRecord) -> None:
        """Replace the record."""
        tree_files.replace(_record_path(self._worktree), tree_files.pretty(record.to_dict()))


def _record_path(worktree: Worktree) -> str:
    return worktree.repository.path("locks", f"{worktree.id}.json")


def _counter_path(worktree: Worktree) -> str:
    return worktree.repository.path("locks", f"{worktree.id}.counter")


def _refuse_shared(worktree: Worktree) -> None:
    if worktree.is_shared:
        raise TreeNotAllowedError(
            f"worktree {worktree.name} is shared: it has no lock",
            hint="any process may write to it at any time; an exclusive one has a single writer",
        )


def _check_there(worktree: Worktree) -> None:
    """Raise if the worktree was removed while we waited."""
    if not os.path.exists(worktree.control("id")):
        raise LockNotHeldError(
            f"worktree {worktree.name} has been removed meanwhile", hint="holdfast tree list"
        )


def _facts(worktree: Worktree, record: LockRecord) -> dict[str, object]:
    return {"worktree": worktree.name, **record.to_dict()}


def _party(record: LockRecord | None) -> dict[str, object]:
    if record is None:
        return {"holder_id": "unreadable", "fencing_token": 0}
    return {
        "holder_id": record.holder_id, "lock_id": record.lock_id,
        "fencing_token": record.fencing_token, "lease_expires_at": record.lease_expires_at,
    }  # fmt: skip


def _conflict(record: LockRecord | None, holder_id: str, verb: str = "") -> HoldfastError:
    if record is None:
        return LockConflictError("another process has just taken the lock", hint="check again")
    mine = record.holder_id == holder_id
    who = "you have" if mine else f"{record.holder_id} has"
    return LockConflictError(
        f"{f'the lock {verb} has not expired; ' if verb else ''}{who} it until "
        f"{record.lease_expires_at}",
        hint="use it, or renew it: holdfast tree lock renew" if mine
        else "wait for it to end, or work in another worktree: holdfast tree create NAME",
        **_party(record),
    )  # fmt: skip


def _expired(record: LockRecord) -> LockExpiredError:
    return LockExpiredError(
        f"the lease of {record.holder_id} ended at {record.lease_expires_at}",
        hint="holdfast tree lock steal takes it over, even for its holder",
        **_party(record),
    )
