"""Worktrees with one writer each, and atomic snapshots.

    repository         where a repository's files are, and how it is found
    worktrees          folders with a payload, and the facts about each
    worktree_removal   a worktree is removed in one step
    locking            a worktree's lock, and operations that a crash may interrupt
    payload            files: walked, copied, hashed, rebuilt
    snapshots          taken, published, found, compared, restored, collected
    engines            how content is copied: plainly, or by sharing blocks
    foreign            repositories of other programs
    occupants          processes that are inside a folder
    audit_log          the hash-chained log
    tree_damage        the doctor: every kind of damage
    progress_reports   the progress of a long operation
    tree_files         small files written whole, folders removed whole
    kernel_calls       flush, exchange, clone
    errors             the errors of trees

The room may import the manager and what is below it. Only the command line imports it.

How a snapshot is published, and what a crash after each step leaves behind:

    1  lock and token are checked       nothing
    2  the intent is written, locked    an abandoned intent
    3  payload and lists are copied     the intent, and a part of snapshots/ID.tmp
    4  everything is checked again      the same
    5  all is flushed to the disk       the same
    6  descriptors/ID.json.tmp          the same, and that
    7  .READY in snapshots/ID.tmp       the same
       in the worktree's guard:
    8  lock and token are checked       the same
    9  snapshots/ID.tmp becomes ID      a folder without a descriptor: it is invisible
    10 the descriptor gets its name     a whole, visible snapshot; the head is the old one
    11 the head is moved                a whole snapshot; a line is missing in the audit log
       after the guard:
    12 the audit log gets a line        a whole snapshot; the intent
    13 the intent is removed            nothing

After a crash, the next snapshot or restore of that worktree, or `doctor --clean`, rolls the
operation back up to step 9 and finishes it from step 10 on. A superseded holder fails at step 3
(when it renews) or 8, and removes its own leftovers. A steal cannot come between 8 and 11, because
stealing takes the same guard: a holder that is stopped inside delays the steal until it continues
or is killed. That is unlikely, because the guard is held only for a few renames.

A restore in place has the same shape: intent, payload into staging/ID, flush, then in the guard
the check and one exchange of two folders, which changes payload and head at the same instant;
then the log, the removal of the old payload, and the intent. A crash before the exchange leaves
the old payload and a staging folder; a crash after it leaves the new payload and a staging folder
with the old one. A new worktree is a rename out of staging, a removed one a rename into it.
"""

from __future__ import annotations

from holdfast.trees.errors import (
    BadTreeError,
    ConsistencyError,
    ForeignTreeError,
    NoTreeError,
    PartialSnapshotError,
    TreeAccessError,
    TreeDamagedError,
    TreeExistsError,
    TreeNotAllowedError,
    TreeVersionError,
)
from holdfast.trees.foreign.jvs_import import Imported, bring
from holdfast.trees.locking.lock_records import LockRecord
from holdfast.trees.locking.worktree_locks import (
    LockState,
    acquire,
    check,
    release,
    renew,
    status,
    steal,
)
from holdfast.trees.progress_reports import Progress
from holdfast.trees.repository import Repository
from holdfast.trees.snapshots.garbage_collection import Collected, Plan
from holdfast.trees.snapshots.garbage_collection import plan as plan_gc
from holdfast.trees.snapshots.garbage_collection import run as run_gc
from holdfast.trees.snapshots.restoring import Restored, create, in_place
from holdfast.trees.snapshots.retention import Settings
from holdfast.trees.snapshots.snapshot_diff import Change, between
from holdfast.trees.snapshots.taking import take
from holdfast.trees.snapshots.verification import verify
from holdfast.trees.tree_damage import Finding, examine
from holdfast.trees.worktree_removal import remove
from holdfast.trees.worktrees import Worktree, around, find

__all__ = [
    "BadTreeError", "Change", "Collected", "ConsistencyError", "Finding", "ForeignTreeError",
    "Imported", "LockRecord", "LockState", "NoTreeError", "PartialSnapshotError", "Plan",
    "Progress", "Repository", "Restored", "Settings", "TreeAccessError", "TreeDamagedError",
    "TreeExistsError", "TreeNotAllowedError", "TreeVersionError", "Worktree", "acquire", "around",
    "between", "bring", "check", "create", "examine", "find", "in_place", "plan_gc", "release",
    "remove", "renew", "run_gc", "status", "steal", "take", "verify",
]  # fmt: skip
