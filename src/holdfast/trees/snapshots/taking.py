"""Taking a snapshot: atomically, and never by a stale holder.

`holdfast.trees` lists the steps, and what a crash after each of them leaves behind.
"""

from __future__ import annotations

import os

from holdfast.core.errors import HoldfastError
from holdfast.trees import audit_log, engines, kernel_calls
from holdfast.trees.errors import BadTreeError, ConsistencyError, in_words
from holdfast.trees.locking import intents
from holdfast.trees.locking.intent_recovery import settle_abandoned
from holdfast.trees.locking.operation_rights import Right
from holdfast.trees.payload import entry_lists, payload_copy
from holdfast.trees.progress_reports import SILENT, Progress, Pulse
from holdfast.trees.snapshots import descriptors, publishing
from holdfast.trees.snapshots.descriptors import (
    BEST_EFFORT,
    LEVELS,
    QUIESCED,
    Descriptor,
)
from holdfast.trees.worktrees import Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.trees.locking.intents import Intent
    from holdfast.trees.payload.payload_copy import Account

NOTE_CHARACTERS_MAX = 10_000
#: In a shared worktree another process may publish after we have read the head.
_TURNS_MAX = 100


def take(
    worktree: Worktree,
    holder_id: str,
    note: str = "",
    *,
    consistency: str = QUIESCED,
    token: int | None = None,
    engine: str = "",
    progress: Progress = SILENT,
) -> Descriptor:
    """Take a snapshot of a worktree; its descriptor.

    With `quiesced`, it fails if a change is seen meanwhile; with `best_effort` it continues, and
    the descriptor lists what changed. In an exclusive worktree the caller must hold the lock, from
    the beginning until the snapshot becomes visible.
    """
    _check_words(note, consistency)
    right = Right(worktree, holder_id, token)
    with in_words(f"taking a snapshot of {worktree.name}"):
        settle_abandoned(worktree.repository, worktree.id)
        return _Publishing(worktree, right, note, consistency, engine, progress).run()


def _check_words(note: str, consistency: str) -> None:
    if consistency not in LEVELS:
        raise BadTreeError(
            f"unknown consistency {consistency!r}", hint=f"use {' or '.join(LEVELS)}"
        )
    if len(note) > NOTE_CHARACTERS_MAX:
        raise BadTreeError(
            "the note is too long", hint=f"use at most {NOTE_CHARACTERS_MAX} characters"
        )


class _Publishing:
    """One snapshot that is being taken."""

    def __init__(
        self,
        worktree: Worktree,
        right: Right,
        note: str,
        consistency: str,
        engine: str,
        progress: Progress,
    ) -> None:
        self._worktree = worktree
        self._repository = worktree.repository
        self._right = right
        self._note = note
        self._consistency = consistency
        self._progress = progress
        self._pulse = Pulse(progress, right.keep)
        self._id = descriptors.new_snapshot_id()
        self._building = publishing.building(self._repository, self._id)
        self._engine = engines.choose(
            worktree.path, self._repository.path("snapshots"), engine
        )  # fmt: skip

    def run(self) -> Descriptor:
        """All steps. After an error before it is visible, nothing of it is left."""
        intent = intents.begin(
            self._repository, intents.SNAPSHOT, id=self._id, worktree_id=self._worktree.id,
            worktree=self._worktree.name, holder_id=self._right.holder_id,
            fencing_token=self._right.token,
        )  # fmt: skip
        try:
            try:
                account = self._copy()
                self._progress.begin("write to disk")
                kernel_calls.flush(self._building)
            finally:
                self._progress.end()
            fields = self._publish(account)
        except BaseException:
            self._roll_back(intent)
            raise
        try:
            audit_log.append(self._repository, "snapshot_published", published_facts(fields))
            intent.close()
        finally:
            intent.let_go()  # if the log has no line yet, the next operation or the doctor adds it
        return fields

    def _copy(self) -> Account:
        """Copy the payload, write its lists, and check everything again."""
        source = self._worktree.path
        os.mkdir(self._building)
        files_total = bytes_total = 0
        if self._progress.wants_total:
            self._progress.begin("count")
            files_total, bytes_total = payload_copy.count(source)
        self._progress.begin("snapshot", files_total, bytes_total)
        previous = self._previous()
        account = payload_copy.Taking(
            source, self._building, self._engine, self._pulse, previous
        ).run()
        self._progress.begin("check", account.files)
        payload_copy.changed(source, self._building, self._pulse, account)
        if account.changed.count and self._consistency == QUIESCED:
            raise _not_still(account)
        return account

    def _previous(self) -> str:
        """The folder of the previous snapshot, if its lists can be relied on."""
        id = descriptors.nearest(self._repository, self._worktree.head())
        if not id:
            return ""
        folder = descriptors.folder(self._repository, id)
        try:
            known = descriptors.read(self._repository, id)["payload_hash"]["value"]
            return folder if entry_lists.hash_of_manifest(folder) == known else ""
        except (HoldfastError, OSError, KeyError, TypeError):
            return ""

    def _publish(self, account: Account) -> Descriptor:
        """Seal it, and make it visible while the lock cannot be stolen."""
        for _turn in range(_TURNS_MAX):
            head = self._worktree.head()
            parent = descriptors.nearest(self._repository, head)
            facts = self._describe(account, parent)
            fields = publishing.seal(self._repository, self._id, facts)
            with self._worktree.guard():
                self._right.check()
                if self._worktree.head() == head:
                    self._commit()
                    return fields
        raise ConsistencyError(
            f"other processes keep publishing snapshots of {self._worktree.name}",
            hint="try again later",
        )

    def _commit(self) -> None:
        """Make it visible, the head last. Only inside the guard."""
        publishing.reveal(self._repository, self._id)
        self._worktree.move_head(self._id)

    def _describe(self, account: Account, parent: str) -> Descriptor:
        worktree = self._worktree
        return {
            "snapshot_id": self._id,
            "worktree_id": worktree.id,
            "worktree": worktree.name,
            "parent_snapshot_id": parent or None,
            "created_at": self._repository.now,
            "note": self._note,
            "engine": self._engine.name,
            "isolation": worktree.isolation,
            "consistency_level": self._consistency,
            "holder_id": self._right.holder_id,
            "fencing_token": self._right.token,
            "integrity_state": "verified",
            "payload_hash": {"algo": descriptors.ALGORITHM, "value": account.payload_hash},
            "files": account.files,
            "bytes": account.bytes,
            "files_linked": account.linked,
            "changed": {"count": account.changed.count, "paths": account.changed.some},
            "degraded": {"count": account.degraded.count, "entries": account.degraded.some},
        }

    def _roll_back(self, intent: Intent) -> None:
        """Find out whether it had become visible; finish it or remove every trace."""
        from holdfast.trees.locking.intent_recovery import settle

        with kernel_calls.undisturbed():
            try:
                settle(self._repository, intent)
            except (OSError, HoldfastError):
                intent.let_go()  # the doctor finds it; the first error counts


def published_facts(fields: Descriptor) -> dict[str, object]:
    """The facts for the audit log about a snapshot."""
    names = (
        "snapshot_id", "worktree_id", "worktree", "parent_snapshot_id", "holder_id",
        "fencing_token", "consistency_level", "payload_hash",
    )  # fmt: skip
    return {name: fields.get(name) for name in names}


def warning(fields: Descriptor) -> bool:
    """Whether a user of the snapshot must be warned."""
    return fields.get("consistency_level") == BEST_EFFORT or (
        fields.get("integrity_state") == "damaged"
    )


def _not_still(account: Account) -> ConsistencyError:
    some = account.changed.some
    more = account.changed.count - len(some[:3])
    listed = ", ".join(some[:3]) + (f" and {more} more" if more > 0 else "")
    return ConsistencyError(
        f"the tree changed while the snapshot was taken: {listed}",
        hint="stop the writer and try again, or use --consistency best_effort",
        changed=some,
        changed_count=account.changed.count,
    )
