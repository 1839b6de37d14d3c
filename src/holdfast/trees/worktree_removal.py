"""Removing a worktree: it is hidden atomically, and then deleted. Its snapshots stay."""

from __future__ import annotations

import errno
import os

from holdfast.core.errors import HoldfastError
from holdfast.trees import audit_log, kernel_calls, tree_files
from holdfast.trees.errors import BadTreeError, TreeNotAllowedError, in_words
from holdfast.trees.locking import intents, worktree_locks
from holdfast.trees.locking.intent_recovery import (
    removed_facts,
    settle,
    settle_abandoned,
    staging,
)
from holdfast.trees.locking.operation_rights import Right
from holdfast.trees.payload import quick_compare
from holdfast.trees.progress_reports import SILENT, Progress
from holdfast.trees.repository import MAIN
from holdfast.trees.snapshots import descriptors
from holdfast.trees.worktrees import Worktree


def remove(
    worktree: Worktree,
    holder_id: str,
    *,
    token: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> None:
    """Remove a worktree. An exclusive one requires the lock and the token, even with `force`.

    Without `force` it is refused if the payload has content that its latest snapshot lacks.
    """
    if worktree.name == MAIN:
        raise BadTreeError("main cannot be removed", hint="remove the whole repository by hand")
    repository = worktree.repository
    right = Right(worktree, holder_id, token)
    with in_words(f"removing {worktree.name}"):
        settle_abandoned(repository, worktree.id)
        if not force:
            _refuse_unsaved(worktree)
        intent = intents.begin(
            repository, intents.REMOVE, worktree=worktree.name, worktree_id=worktree.id,
            head=worktree.head(), holder_id=holder_id, fencing_token=right.token,
        )  # fmt: skip
        try:
            with worktree.guard():
                right.check()
                _move_away(worktree, staging(repository, intent.id))
                worktree_locks.discard(worktree)
            audit_log.append(repository, "worktree_removed", removed_facts(intent))
            progress.begin("remove")
            tree_files.remove_tree(staging(repository, intent.id))
            intent.close()
        except BaseException:
            with kernel_calls.undisturbed():
                try:
                    settle(repository, intent)
                except (OSError, HoldfastError):
                    intent.let_go()
            raise
        finally:
            progress.end()


def _move_away(worktree: Worktree, to: str) -> None:
    try:
        os.rename(worktree.path, to)
    except OSError as error:
        if error.errno not in (*kernel_calls.NOT_POSSIBLE, errno.EBUSY):
            raise
        raise TreeNotAllowedError(
            f"worktree {worktree.name} is on another file system and cannot be moved away",
            hint="unmount it, and remove the empty folder by hand",
        ) from error
    tree_files.flush_folder(os.path.dirname(worktree.path))


def _refuse_unsaved(worktree: Worktree) -> None:
    head = worktree.head()
    found: str | None
    if head and descriptors.is_visible(worktree.repository, head):
        folder = descriptors.folder(worktree.repository, head)
        found = next(quick_compare.differences(worktree.path, folder), None)
    else:
        found = next(quick_compare.everything(worktree.path), None)
    if found is not None:
        raise TreeNotAllowedError(
            f"worktree {worktree.name} has content that is in no snapshot, such as {found}",
            hint="take a snapshot first, or remove it with --force",
        )
