"""Restoring a snapshot: into a new worktree, or in place of the present payload.

Both build everything aside, check every hash on the way, flush, and publish atomically: by renaming
a new worktree, or by exchanging two folders. So the payload is always entirely the old one or
entirely the new one, and the head changes at the same instant, because it is inside the folder.

After an exchange, a shell whose working directory is the old folder is still there, and that folder
is then removed. `cd .` takes it to the new one.
"""

from __future__ import annotations

import os
import secrets
import time

from holdfast.core.errors import HoldfastError
from holdfast.manager.ids import new_id
from holdfast.trees import (
    audit_log,
    engines,
    kernel_calls,
    tree_files,
    worktrees,
)
from holdfast.trees.errors import (
    BadTreeError,
    TreeExistsError,
    TreeNotAllowedError,
    in_words,
)
from holdfast.trees.locking import intents
from holdfast.trees.locking.intent_recovery import (
    created_facts,
    restored_facts,
    settle,
    settle_abandoned,
    staging,
)
from holdfast.trees.locking.operation_rights import Right
from holdfast.trees.payload.payload_rebuild import Rebuilding
from holdfast.trees.progress_reports import SILENT, Progress, Pulse
from holdfast.trees.repository import Repository, checked_name
from holdfast.trees.snapshots import descriptors
from holdfast.trees.snapshots.descriptors import SHORT_CHARACTERS, Descriptor
from holdfast.trees.snapshots.verification import checked
from holdfast.trees.worktrees import EXCLUSIVE, ISOLATIONS, Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.trees.locking.intents import Intent
    from holdfast.trees.payload.payload_copy import Named

#: The key in a shared worktree's config.json that allows a restore in place.
ALLOW_IN_PLACE = "allow_restore_in_place"


class Restored:
    """The restored worktree, and what of the snapshot could not be restored."""

    __slots__ = ("degraded", "previous_head", "snapshot", "worktree")

    def __init__(
        self,
        worktree: Worktree,
        snapshot: Descriptor | None,
        degraded: Named | None = None,
        previous_head: str = "",
    ) -> None:
        self.worktree = worktree
        self.snapshot = snapshot
        self.degraded = degraded
        self.previous_head = previous_head


def create(
    repository: Repository,
    name: str,
    *,
    snapshot_id: str = "",
    isolation: str = EXCLUSIVE,
    engine: str = "",
    progress: Progress = SILENT,
) -> Restored:
    """Create a worktree, empty or from a snapshot. A new worktree needs no lock."""
    checked_name(name)
    if isolation not in ISOLATIONS:
        raise BadTreeError(
            f"unknown isolation {isolation!r}", hint=f"use {' or '.join(ISOLATIONS)}"
        )
    _refuse_taken(repository, name)
    if snapshot_id:
        checked(repository, snapshot_id)
    worktree_id = new_id()
    with in_words(f"creating the worktree {name}"):
        intent = intents.begin(
            repository, intents.CREATE, worktree=name, worktree_id=worktree_id,
            snapshot_id=snapshot_id or None, isolation=isolation,
        )  # fmt: skip
        building = staging(repository, intent.id)
        try:
            # Only now can gc no longer remove it: gc keeps every snapshot that an intent names.
            snapshot = checked(repository, snapshot_id) if snapshot_id else None
            worktrees.furnish(
                repository, building, isolation, made_by=intent.id, id=worktree_id,
                base=snapshot_id, head=snapshot_id,
            )  # fmt: skip
            degraded = _fill(repository, snapshot, building, engine, Pulse(progress), progress)
            with kernel_calls.undisturbed():
                _give_name(building, repository.place(name), name)
        except BaseException:
            _roll_back(repository, intent)
            raise
        _close(repository, intent, "worktree_created", created_facts(intent))
    return Restored(worktrees.find(repository, name), snapshot, degraded)


def new_name(snapshot_id: str) -> str:
    """A name for a restored worktree, if none was given."""
    at = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return f"restore-{snapshot_id[:SHORT_CHARACTERS]}-{at}-{secrets.token_hex(2)}"


def in_place(
    worktree: Worktree,
    holder_id: str,
    snapshot_id: str,
    *,
    reason: str,
    token: int | None = None,
    engine: str = "",
    progress: Progress = SILENT,
) -> Restored:
    """Replace the payload of a worktree by a snapshot. Work that is in no snapshot is lost."""
    if worktree.is_shared and worktree.config.get(ALLOW_IN_PLACE) is not True:
        raise TreeNotAllowedError(
            f"worktree {worktree.name} is shared: other processes may be working in it",
            hint="restore into a new worktree (without --inplace), or allow it: "
            f'"{ALLOW_IN_PLACE}": true in its .jvs-worktree/config.json',
        )
    right = Right(worktree, holder_id, token)
    repository = worktree.repository
    checked(repository, snapshot_id)
    with in_words(f"restoring {worktree.name}"):
        settle_abandoned(repository, worktree.id)
        _refuse_elsewhere(worktree)
        intent = intents.begin(
            repository, intents.RESTORE_IN_PLACE, worktree=worktree.name,
            worktree_id=worktree.id, snapshot_id=snapshot_id, previous_head=worktree.head(),
            reason=reason, holder_id=holder_id, fencing_token=right.token,
        )  # fmt: skip
        building = staging(repository, intent.id)
        try:
            snapshot = checked(repository, snapshot_id)  # only now can gc no longer remove it
            worktrees.furnish(
                repository, building, worktree.isolation, made_by=intent.id, id=worktree.id,
                base=worktree.base(), head=snapshot_id, config=worktree.config,
            )  # fmt: skip
            pulse = Pulse(progress, right.keep)
            degraded = _fill(repository, snapshot, building, engine, pulse, progress)
            with worktree.guard():
                right.check()
                _exchange(building, worktree.path)
        except BaseException:
            _roll_back(repository, intent)
            raise
        progress.begin("clean up")
        try:
            _close(repository, intent, "restored_in_place", restored_facts(intent))
        finally:
            progress.end()
    previous = intent.text("previous_head")
    return Restored(worktrees.find(repository, worktree.name), snapshot, degraded, previous)


def _close(repository: Repository, intent: Intent, event: str, facts: dict[str, object]) -> None:
    """Once the result is visible: write to the audit log, and remove what was hidden."""
    try:
        audit_log.append(repository, event, facts)
        tree_files.remove_tree(staging(repository, intent.id))
        intent.close()
    finally:
        intent.let_go()  # if anything failed, the next operation or the doctor finishes


def _fill(
    repository: Repository,
    snapshot: Descriptor | None,
    building: str,
    engine: str,
    pulse: Pulse,
    progress: Progress,
) -> Named | None:
    """Fill a new worktree from a snapshot, if one is given, and flush it."""
    degraded = None
    try:
        if snapshot is not None:
            folder = descriptors.folder(repository, snapshot["snapshot_id"])
            chosen = engines.choose(folder, repository.path("staging"), engine)
            progress.begin("restore", snapshot.get("files", 0), snapshot.get("bytes", 0))
            rebuilding = Rebuilding(folder, building, chosen, pulse)
            rebuilding.run()
            degraded = rebuilding.degraded
        progress.begin("write to disk")
        kernel_calls.flush(building)
    finally:
        progress.end()
    return degraded


def _give_name(building: str, place: str, name: str) -> None:
    try:
        kernel_calls.rename_new(building, place)
    except FileExistsError:
        raise _taken(name) from None
    tree_files.flush_folder(os.path.dirname(place))
    tree_files.flush_folder(os.path.dirname(building))


def _exchange(building: str, place: str) -> None:
    """Exchange the new folder for the old one, atomically."""
    try:
        kernel_calls.exchange(building, place)
    except OSError as error:
        if error.errno not in kernel_calls.NOT_POSSIBLE:
            raise
        raise TreeNotAllowedError(
            "this file system cannot exchange two folders atomically",
            hint="restore into a new worktree instead: leave out --inplace",
        ) from error
    tree_files.flush_folder(os.path.dirname(place))
    tree_files.flush_folder(os.path.dirname(building))


def _refuse_elsewhere(worktree: Worktree) -> None:
    """Raise for a payload on another file system, which cannot be exchanged atomically."""
    ours = os.stat(worktree.repository.path("staging")).st_dev
    if os.stat(worktree.path).st_dev != ours:
        raise TreeNotAllowedError(
            f"worktree {worktree.name} is on a different file system from its repository, "
            "so it cannot be replaced atomically",
            hint="restore into a new worktree instead: leave out --inplace",
        )


def _refuse_taken(repository: Repository, name: str) -> None:
    if os.path.lexists(repository.place(name)):
        raise _taken(name)


def _taken(name: str) -> TreeExistsError:
    return TreeExistsError(
        f"a worktree or something else named {name} already exists",
        hint="choose another name; holdfast tree list shows the names in use",
    )


def _roll_back(repository: Repository, intent: Intent) -> None:
    with kernel_calls.undisturbed():
        try:
            settle(repository, intent)
        except (OSError, HoldfastError):
            intent.let_go()  # the doctor finds it; the first error counts
