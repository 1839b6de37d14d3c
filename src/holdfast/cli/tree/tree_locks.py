"""tree lock acquire, renew, release, steal, status."""

from __future__ import annotations

from typing import Any

from holdfast.cli import DONE
from holdfast.cli.parser import Call
from holdfast.cli.printing import plain, talk
from holdfast.cli.tree.tree_context import TreeContext, when
from holdfast.trees.locking import worktree_locks
from holdfast.trees.locking.lock_records import LockRecord
from holdfast.trees.locking.worktree_holders import Caller
from holdfast.trees.locking.worktree_locks import LockState
from holdfast.trees.worktrees import Worktree


def lock_acquire(call: Call) -> int:
    """Acquire the lock of a worktree."""
    context = TreeContext(call)
    worktree, caller = context.worktree(), context.caller()
    record = worktree_locks.acquire(worktree, caller.id, lease_seconds=context.lease_or_default())
    _tell(context, "locked", worktree, record, caller)
    return DONE


def lock_renew(call: Call) -> int:
    """Extend the caller's lease."""
    context = TreeContext(call)
    worktree, caller = context.worktree(), context.caller()
    record = worktree_locks.renew(
        worktree, caller.id, token=context.token(worktree), lease_seconds=context.lease()
    )  # fmt: skip
    _tell(context, "renewed", worktree, record, caller)
    return DONE


def lock_release(call: Call) -> int:
    """Release the lock."""
    context = TreeContext(call)
    worktree = context.worktree()
    record = worktree_locks.release(worktree, context.caller().id, token=context.token(worktree))
    context.answer(
        {"released": record.to_dict(), "worktree": worktree.name},
        f"released the lock of {worktree.name}",
    )
    return DONE


def lock_steal(call: Call) -> int:
    """Take over an expired lock."""
    context = TreeContext(call)
    worktree, caller = context.worktree(), context.caller()
    record = worktree_locks.steal(
        worktree,
        caller.id,
        lease_seconds=context.lease_or_default(),
        reason=call.text("reason") or "",
    )
    _tell(context, "stole", worktree, record, caller)
    return DONE


def lock_status(call: Call) -> int:
    """Show who may write."""
    context = TreeContext(call)
    worktree, caller = context.worktree(), context.caller()
    state = worktree_locks.status(worktree)
    mine = state.record is not None and state.record.holder_id == caller.id
    whose = " (you)" if mine else ""
    context.answer(
        {"worktree": worktree.name, "isolation": worktree.isolation, "holder_id": caller.id,
         "lock": {**lock_data(state), "mine": mine}},
        f"{worktree.name}: {lock_words(state)}{whose}" if not worktree.is_shared
        else f"{worktree.name}: shared, so it has no lock and any process may write (high risk)",
    )  # fmt: skip
    return DONE


def lock_data(state: LockState) -> dict[str, Any]:
    """A lock as data for other programs."""
    return {
        "state": state.state,
        "remaining_seconds": round(state.remaining_seconds, 3),
        "record": state.record.to_dict() if state.record is not None else None,
        "why": state.why,
    }


def lock_words(state: LockState) -> str:
    """A lock as text for people."""
    record = state.record
    if record is None:
        return state.state if not state.why else f"{state.state}: {plain(state.why)}"
    if state.state == worktree_locks.EXPIRED:
        return f"expired, was held by {plain(record.holder_id)}"
    return f"{plain(record.holder_id)} until {when(record.lease_expires_at)}"


def _tell(
    context: TreeContext, verb: str, worktree: Worktree, record: LockRecord, caller: Caller
) -> None:
    context.answer(
        {"lock": record.to_dict(), "worktree": worktree.name, "how": caller.how},
        f"{verb} {worktree.name} for {plain(record.holder_id)} until "
        f"{when(record.lease_expires_at)}, token {record.fencing_token}",
    )
    if not context.as_json:
        talk(f"  {plain(caller.how)}")
