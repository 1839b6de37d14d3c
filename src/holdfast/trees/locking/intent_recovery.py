"""Recovery: finishes or rolls back the operations of processes that died.

An operation whose result had become visible is finished; any other is rolled back. The doctor does
this, the next operation on the same worktree does, and an operation that fails does it for itself.
Every step can be interrupted at any point and repeated.
"""

from __future__ import annotations

import os

from holdfast.core.errors import HoldfastError
from holdfast.trees import audit_log, tree_files, worktrees
from holdfast.trees.locking import intents
from holdfast.trees.locking.intents import Intent
from holdfast.trees.repository import Repository
from holdfast.trees.snapshots import descriptors
from holdfast.trees.worktrees import Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def settle_abandoned(repository: Repository, worktree_id: str) -> None:
    """Settle all abandoned operations on a worktree."""
    for intent in intents.abandoned(repository):
        if intent.text("worktree_id") == worktree_id:
            settle(repository, intent)


def settle_collections(repository: Repository) -> None:
    """Settle every gc that was interrupted."""
    _settle_all(repository, intents.COLLECT)


def settle_imports(repository: Repository) -> None:
    """Settle every import that was interrupted."""
    _settle_all(repository, intents.IMPORT_ONE, intents.IMPORT)


def _settle_all(repository: Repository, *operations: str) -> None:
    for intent in intents.abandoned(repository):
        if intent.operation in (*operations, ""):  # an unreadable one never began
            settle(repository, intent)


def settle(repository: Repository, intent: Intent) -> str:
    """Finish an operation or roll it back, and close its intent. Returns a sentence about it."""
    doing = {
        intents.SNAPSHOT: _settle_snapshot,
        intents.RESTORE_IN_PLACE: _settle_restore,
        intents.CREATE: _settle_create,
        intents.REMOVE: _settle_remove,
        intents.IMPORT: _settle_import,
        intents.IMPORT_ONE: _settle_snapshot,
        intents.COLLECT: _settle_collection,
    }.get(intent.operation, _settle_unknown)
    done = doing(repository, intent)
    tree_files.remove_tree(staging(repository, intent.id))
    intent.close()
    return done


def staging(repository: Repository, id: str) -> str:
    """The folder in which an operation builds, and into which it moves what it removes."""
    return repository.path("staging", id)


def _settle_snapshot(repository: Repository, intent: Intent) -> str:
    id = intent.id
    if not descriptors.is_id(id):
        return _settle_unknown(repository, intent)
    worktree = _worktree(repository, intent)
    if os.path.lexists(descriptors.path(repository, id)):
        _finish_snapshot(repository, id, worktree)
        return "finished: the snapshot was whole"
    final = descriptors.folder(repository, id)
    if os.path.lexists(final):  # named, but without a descriptor: it was never visible
        os.rename(final, f"{final}{tree_files.UNFINISHED}")
    tree_files.remove_tree(f"{final}{tree_files.UNFINISHED}")
    tree_files.remove(f"{descriptors.path(repository, id)}{tree_files.UNFINISHED}")
    return "rolled back: nothing of it was visible"


def _finish_snapshot(repository: Repository, id: str, worktree: Worktree | None) -> None:
    fields = descriptors.listed(repository, id)
    if worktree is not None:
        with worktree.guard():
            parent = fields.get("parent_snapshot_id") or ""
            # A head that is not whole was skipped: the parent is the one before it.
            if parent in (worktree.head(), descriptors.nearest(repository, worktree.head())):
                worktree.move_head(id)
    from holdfast.trees.snapshots.taking import published_facts

    event = "snapshot_imported" if "origin" in fields else "snapshot_published"
    _append_once(repository, event, "snapshot_id", published_facts(fields))


def _settle_restore(repository: Repository, intent: Intent) -> str:
    worktree = _worktree(repository, intent)
    if worktree is None or worktree.config.get("made_by") != intent.id:
        return "rolled back: the payload is the old one"
    _append_once(repository, "restored_in_place", "operation_id", restored_facts(intent))
    return "finished: the payload is the new one"


def restored_facts(intent: Intent) -> dict[str, Any]:
    """The facts for the audit log about a restore in place."""
    names = (
        "worktree_id", "worktree", "snapshot_id", "previous_head", "reason", "holder_id",
        "fencing_token",
    )  # fmt: skip
    return {"operation_id": intent.id, **{name: intent.fields.get(name) for name in names}}


def _settle_create(repository: Repository, intent: Intent) -> str:
    worktree = _worktree(repository, intent)
    if worktree is None or worktree.config.get("made_by") != intent.id:
        return "rolled back: the worktree did not exist yet"
    _append_once(repository, "worktree_created", "operation_id", created_facts(intent))
    return "finished: the worktree was whole"


def created_facts(intent: Intent) -> dict[str, Any]:
    """The facts for the audit log about a new worktree."""
    names = ("worktree_id", "worktree", "snapshot_id", "isolation")
    return {"operation_id": intent.id, **{name: intent.fields.get(name) for name in names}}


def _settle_remove(repository: Repository, intent: Intent) -> str:
    if not os.path.lexists(staging(repository, intent.id)):
        return "rolled back: the worktree still exists"
    id = intent.text("worktree_id")
    if worktrees.is_worktree_id(id):
        for suffix in ("json", "counter", "guard"):
            tree_files.remove(repository.path("locks", f"{id}.{suffix}"))
    _append_once(repository, "worktree_removed", "operation_id", removed_facts(intent))
    return "finished: the worktree had already been moved away"


def removed_facts(intent: Intent) -> dict[str, Any]:
    """The facts for the audit log about a removed worktree."""
    names = ("worktree_id", "worktree", "head", "holder_id", "fencing_token")
    return {"operation_id": intent.id, **{name: intent.fields.get(name) for name in names}}


def _settle_collection(repository: Repository, intent: Intent) -> str:
    """Remove the snapshots that are already in the staging folder; the others stay."""
    removed = []
    for id in intent.fields.get("snapshot_ids") or ():
        if not isinstance(id, str) or not descriptors.is_id(id):
            continue
        if os.path.lexists(descriptors.path(repository, id)):
            continue  # not reached yet, or imported again since
        if os.path.lexists(descriptors.tombstone(repository, id)):
            removed.append(id)
            tree_files.remove_tree(descriptors.folder(repository, id))
    if not removed:
        return "rolled back: no snapshot was removed"
    _append_once(repository, "snapshots_removed", "operation_id", collected_facts(intent, removed))
    return "finished: the snapshots that had been moved away are removed"


def collected_facts(intent: Intent, removed: list[str]) -> dict[str, Any]:
    """The facts for the audit log about a gc."""
    return {
        "operation_id": intent.id, "plan_id": intent.text("plan_id"), "removed": removed,
    }  # fmt: skip


def _settle_import(repository: Repository, intent: Intent) -> str:
    """Imported snapshots are whole and stay; only their tags may be missing."""
    return "finished: import it again for the rest, and for the tags"


def _settle_unknown(repository: Repository, intent: Intent) -> str:
    """An intent that cannot be read was never flushed: nothing came after it."""
    return "rolled back: nothing had begun"


def _worktree(repository: Repository, intent: Intent) -> Worktree | None:
    """The worktree of an intent, if it is still the same one."""
    try:
        found = worktrees.find(repository, intent.text("worktree"))
    except HoldfastError:
        return None
    return found if found.id == intent.text("worktree_id") else None


def _append_once(repository: Repository, event: str, field: str, facts: dict[str, Any]) -> None:
    """Write a missing line to the audit log; the killed process may have written it already."""
    for record in audit_log.records(repository):
        if record.get("event") == event and record.get(field) == facts[field]:
            return
    audit_log.append(repository, event, {**facts, "recovered": True})
