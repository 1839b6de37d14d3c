"""tree lock acquire, renew, release, steal, status."""

from __future__ import annotations

from typing import Any

from holdfast.cli import DONE
from holdfast.cli.parser import Call
from holdfast.cli.printing import plain, talk
from holdfast.cli.tree.tree_context import TreeDesk, when
from holdfast.trees.locking import worktree_locks
from holdfast.trees.locking.lock_records import LockRecord
from holdfast.trees.locking.worktree_holders import Me
from holdfast.trees.locking.worktree_locks import LockState
from holdfast.trees.worktrees import Worktree


def lock_acquire(call: Call) -> int:
    """Take the lock of a worktree."""
    desk = TreeDesk(call)
    worktree, me = desk.worktree(), desk.me()
    record = worktree_locks.acquire(worktree, me.id, lease_seconds=desk.lease_or_default())
    _tell(desk, "locked", worktree, record, me)
    return DONE


def lock_renew(call: Call) -> int:
    """Extend one's lease."""
    desk = TreeDesk(call)
    worktree, me = desk.worktree(), desk.me()
    record = worktree_locks.renew(
        worktree, me.id, token=desk.token(worktree), lease_seconds=desk.lease()
    )  # fmt: skip
    _tell(desk, "renewed", worktree, record, me)
    return DONE


def lock_release(call: Call) -> int:
    """Give the lock back."""
    desk = TreeDesk(call)
    worktree = desk.worktree()
    record = worktree_locks.release(worktree, desk.me().id, token=desk.token(worktree))
    desk.answer(
        {"released": record.to_dict(), "worktree": worktree.name},
        f"gave back the lock of {worktree.name}",
    )
    return DONE


def lock_steal(call: Call) -> int:
    """Take over an expired lock."""
    desk = TreeDesk(call)
    worktree, me = desk.worktree(), desk.me()
    record = worktree_locks.steal(
        worktree, me.id, lease_seconds=desk.lease_or_default(), reason=call.text("reason") or ""
    )
    _tell(desk, "stole", worktree, record, me)
    return DONE


def lock_status(call: Call) -> int:
    """Show who may write."""
    desk = TreeDesk(call)
    worktree, me = desk.worktree(), desk.me()
    state = worktree_locks.status(worktree)
    mine = state.record is not None and state.record.holder_id == me.id
    whose = " (you)" if mine else ""
    desk.answer(
        {"worktree": worktree.name, "isolation": worktree.isolation, "holder_id": me.id,
         "lock": {**lock_data(state), "mine": mine}},
        f"{worktree.name}: {lock_words(state)}{whose}" if not worktree.is_shared
        else f"{worktree.name}: shared, so it has no lock and anybody may write (high risk)",
    )  # fmt: skip
    return DONE


def lock_data(state: LockState) -> dict[str, Any]:
    """A lock for other programs."""
    return {
        "state": state.state,
        "remaining_seconds": round(state.remaining_seconds, 3),
        "record": state.record.to_dict() if state.record is not None else None,
        "why": state.why,
    }


def lock_words(state: LockState) -> str:
    """A lock for people."""
    record = state.record
    if record is None:
        return state.state if not state.why else f"{state.state}: {plain(state.why)}"
    if state.state == worktree_locks.EXPIRED:
        return f"expired, was {plain(record.holder_id)}'s"
    return f"{plain(record.holder_id)} until {when(record.lease_expires_at)}"


def _tell(desk: TreeDesk, verb: str, worktree: Worktree, record: LockRecord, me: Me) -> None:
    desk.answer(
        {"lock": record.to_dict(), "worktree": worktree.name, "how": me.how},
        f"{verb} {worktree.name} for {plain(record.holder_id)} until "
        f"{when(record.lease_expires_at)}, token {record.fencing_token}",
    )
    if not desk.as_json:
        talk(f"  {plain(me.how)}")
