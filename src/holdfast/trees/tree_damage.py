"""The doctor: looks for every kind of damage, and removes leftovers that are certainly unused.

Leftovers are certainly unused if no living process can be working on them: an intent whose lock is
free, and unfinished files without an intent. Everything else is reported with a remedy and left to
people. Cleaning twice changes nothing the second time.

Without `strict` it checks names, records, descriptors and lineage; with it, also every byte of
every snapshot and every line of the audit log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from holdfast.core.errors import HoldfastError
from holdfast.core.model import Value
from holdfast.trees import audit_log, tree_files, worktrees
from holdfast.trees.errors import shown
from holdfast.trees.foreign import format_numbers
from holdfast.trees.locking import intent_recovery, intents, worktree_locks
from holdfast.trees.locking.operation_guard import Guard
from holdfast.trees.progress_reports import SILENT, Progress
from holdfast.trees.repository import FOLDERS, Repository
from holdfast.trees.snapshots import descriptors, tags
from holdfast.trees.snapshots.descriptors import READY, Descriptor
from holdfast.trees.snapshots.verification import verify
from holdfast.trees.worktrees import Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

ERROR = "error"
WARNING = "warning"
#: Worth knowing, but not damage.
NOTICE = "notice"

_CLEAN = "holdfast tree doctor --strict --clean"


class Finding(Value):
    """One problem: a stable code, its severity, its place, and its remedy."""

    __slots__ = ("cleaned", "code", "path", "remedy", "severity", "what")

    def __init__(
        self, code: str, severity: str, path: str, what: str, remedy: str, cleaned: bool = False
    ) -> None:
        self.code: Final = code
        self.severity: Final = severity
        self.path: Final = shown(path)
        self.what: Final = what
        self.remedy: Final = remedy
        self.cleaned: Final = cleaned

    def to_dict(self) -> dict[str, object]:
        """For other programs."""
        return {
            "code": self.code, "severity": self.severity, "path": self.path, "what": self.what,
            "remedy": self.remedy, "cleaned": self.cleaned,
        }  # fmt: skip


def examine(
    repository: Repository,
    *,
    strict: bool = False,
    clean: bool = False,
    progress: Progress = SILENT,
) -> list[Finding]:
    """All problems. With `clean`, unused leftovers are removed and reported as such."""
    examination = _Examination(repository, clean)
    looks: list[Callable[[], Iterator[Finding]]] = [
        examination.intents,
        examination.leftovers,
        examination.beside,
        examination.snapshots,
        examination.lineage,
        examination.tags,
        examination.worktrees,
        examination.locks,
        examination.torn_log,
        examination.strangers,
    ]
    found = [finding for look in looks for finding in look()]
    if strict:
        found += examination.log()
        found += examination.payloads(progress)
    return found


class _Examination:
    """One examination of one repository."""

    def __init__(self, repository: Repository, clean: bool) -> None:
        self._repository = repository
        self._clean = clean

    # Leftovers of interrupted operations

    def intents(self) -> Iterator[Finding]:
        for intent in intents.abandoned(self._repository):
            path = self._repository.path("intents", f"{intent.id}.json")
            what = f"{intent.operation or 'something'} was interrupted, and its process is gone"
            if self._clean:
                what = f"{what}; {intent_recovery.settle(self._repository, intent)}"
            yield Finding("E_ORPHAN_INTENT", WARNING, path, what, _CLEAN, self._clean)

    def leftovers(self) -> Iterator[Finding]:
        """Unfinished files without an intent, which is written first and removed last."""
        seen = [path for path in self._unfinished() if os.path.lexists(path)]
        known = intents.ids(self._repository)
        for path in seen:
            if _operation(path) in known or not os.path.lexists(path):
                continue
            if self._clean and os.path.isdir(path) and not os.path.islink(path):
                tree_files.remove_tree(path)
            elif self._clean:
                tree_files.remove(path)
            yield self._leftover(path)

    def _unfinished(self) -> Iterator[str]:
        control = self._repository.path
        for folder in ("snapshots", "descriptors"):
            for name in sorted(os.listdir(control(folder))):
                if name.endswith(tree_files.UNFINISHED):
                    yield control(folder, name)
        for name in sorted(os.listdir(control("staging"))):
            yield control("staging", name)

    def beside(self) -> Iterator[Finding]:
        """Temporary files beside small files, which exist only inside a guard."""
        repository = self._repository
        for worktree in worktrees.each(repository):
            lock = repository.path("locks", worktree.id)
            paths = (worktree.control("head_snapshot"), f"{lock}.json", f"{lock}.counter")
            yield from self._beside(paths, worktree.guard)
        head = repository.path("audit", "head.json")
        yield from self._beside((head,), lambda: audit_log.guard(repository))
        named = [repository.path("gc", "settings.json")]
        named += [
            repository.path(tags.FOLDER, name.removesuffix(tree_files.UNFINISHED))
            for name in os.listdir(repository.path(tags.FOLDER))
            if name.endswith(tree_files.UNFINISHED)
        ]
        yield from self._beside((*named,), lambda: intents.guard(repository))

    def _beside(self, paths: tuple[str, ...], guard: Callable[[], Guard]) -> Iterator[Finding]:
        unfinished = [f"{path}{tree_files.UNFINISHED}" for path in paths]
        if not any(map(os.path.lexists, unfinished)):
            return
        with guard():
            found = [path for path in unfinished if os.path.lexists(path)]
            for path in found if self._clean else ():
                tree_files.remove(path)
        for path in found:
            yield self._leftover(path)

    def _leftover(self, path: str) -> Finding:
        what = "it was never finished, and no process is working on it"
        return Finding("E_ORPHAN_TMP", WARNING, path, what, _CLEAN, self._clean)

    # Snapshots

    def snapshots(self) -> Iterator[Finding]:
        repository = self._repository
        # In this order: an operation with a folder and no intent has a descriptor by now.
        folders = {name for name in os.listdir(repository.path("snapshots")) if _is_id(name)}
        busy = intents.ids(repository)
        described = {
            name.removesuffix(".json")
            for name in os.listdir(repository.path("descriptors"))
            if name.endswith(".json")
        }
        for id in sorted(folders - busy):
            yield from self._snapshot(id, id in described)
        for id in sorted(described - folders):
            if os.path.lexists(descriptors.folder(repository, id)):
                continue  # published meanwhile
            yield Finding(
                "E_SNAPSHOT_MISSING", ERROR, descriptors.path(repository, id),
                "it describes a snapshot that does not exist",
                "restore the snapshot from a backup, or remove the descriptor by hand",
            )  # fmt: skip

    def _snapshot(self, id: str, described: bool) -> Iterator[Finding]:
        found = self._described(id) if described else self._undescribed(id)
        # A gc removes the descriptor first: what is missing after that should be missing.
        if found is not None and not (described and descriptors.was_removed(self._repository, id)):
            yield found

    def _undescribed(self, id: str) -> Finding | None:
        folder = descriptors.folder(self._repository, id)
        if descriptors.was_removed(self._repository, id) and (
            intents.is_under_way(self._repository, intents.COLLECT) or not os.path.lexists(folder)
        ):
            return None  # a gc is removing it
        # Without a descriptor it was never visible, and without an intent it never will be.
        if self._clean:
            os.rename(folder, f"{folder}{tree_files.UNFINISHED}")
            tree_files.remove_tree(f"{folder}{tree_files.UNFINISHED}")
        what = "it has no descriptor"
        return Finding("E_PARTIAL_SNAPSHOT", WARNING, folder, what, _CLEAN, self._clean)

    def _described(self, id: str) -> Finding | None:
        folder = descriptors.folder(self._repository, id)
        if not os.path.lexists(f"{folder}/{READY}"):
            return Finding(
                "E_PARTIAL_SNAPSHOT", ERROR, folder, f"it has a descriptor and no {READY}",
                "restore it from a backup, or remove snapshot and descriptor by hand",
            )  # fmt: skip
        why = descriptors.fault(self._repository, id)
        if not why:
            return None
        return Finding(
            "E_DESCRIPTOR_DAMAGED", ERROR, descriptors.path(self._repository, id), why,
            "do not rely on it; restore it from a backup",
        )  # fmt: skip

    def lineage(self) -> Iterator[Finding]:
        repository = self._repository
        parents = {
            id: _parent(descriptors.listed(repository, id))
            for id in descriptors.visible_ids(repository)
        }
        for id, parent in parents.items():
            if parent and parent not in parents and not descriptors.was_removed(repository, parent):
                yield Finding(
                    "E_MISSING_PARENT", ERROR, descriptors.path(repository, id),
                    f"the snapshot before it, {shown(parent)}, is missing",
                    "restore that one from a backup; this one is whole without it",
                )  # fmt: skip
        for circle in _circles(parents):
            yield Finding(
                "E_PARENT_CYCLE", ERROR, descriptors.path(repository, circle[0]),
                f"they form a cycle: {', '.join(circle)}",
                "restore the descriptors from a backup",
            )  # fmt: skip

    def tags(self) -> Iterator[Finding]:
        repository = self._repository
        for name in tags.names(repository):
            why = tags.fault(repository, name)
            if why:
                yield Finding(
                    "E_BAD_TAG", ERROR, repository.path(tags.FOLDER, f"{name}.json"), why,
                    f"holdfast tree tag remove {name}, then create it again",
                )  # fmt: skip

    def payloads(self, progress: Progress) -> Iterator[Finding]:
        for id in descriptors.visible_ids(self._repository):
            if descriptors.fault(self._repository, id):
                continue
            for why in verify(self._repository, id, progress):
                yield Finding(
                    "E_PAYLOAD_DAMAGED", ERROR, descriptors.folder(self._repository, id), why,
                    "recover it from a backup; do not restore it into a worktree",
                )  # fmt: skip

    # Worktrees and their locks

    def worktrees(self) -> Iterator[Finding]:
        ids: dict[str, str] = {}
        for name in worktrees.names(self._repository):
            try:
                worktree = Worktree(self._repository, name)
                yield from self._heads(worktree)
            except HoldfastError as error:
                if name not in worktrees.names(self._repository):
                    continue  # removed meanwhile
                yield Finding(
                    "E_WORKTREE_DAMAGED", ERROR, self._repository.place(name), error.message,
                    "restore .jvs-worktree, or create a new worktree and move the payload there",
                )  # fmt: skip
                continue
            if worktree.id in ids:
                yield Finding(
                    "E_WORKTREE_DOUBLE", ERROR, worktree.path,
                    f"it has the same id as {ids[worktree.id]}, as after a copy by hand",
                    "create a worktree with holdfast tree create and move the payload there",
                )  # fmt: skip
            ids.setdefault(worktree.id, name)

    def _heads(self, worktree: Worktree) -> Iterator[Finding]:
        for name, id in (("head_snapshot", worktree.head()), ("base_snapshot", worktree.base())):
            if id and not (_is_id(id) and descriptors.is_visible(self._repository, id)):
                yield Finding(
                    "E_BAD_HEAD", ERROR, worktree.control(name),
                    f"it names {shown(id)}, which is not an existing snapshot",
                    "write the id of a snapshot of holdfast tree history --all into it",
                )  # fmt: skip

    def locks(self) -> Iterator[Finding]:
        repository = self._repository
        # In this order: a lock belongs to a worktree that was created before it.
        names = sorted(os.listdir(repository.path("locks")))
        busy = intents.ids(repository)
        known = {worktree.id: worktree for worktree in worktrees.each(repository)}
        for worktree in known.values():
            yield from self._lock(worktree)
        # Checked twice: a removal may have begun since, and removes its lock last.
        if busy or intents.ids(repository) or len(known) != len(worktrees.names(repository)):
            return  # it may belong to a worktree that is being created, or that cannot be read
        for name in names:
            path = repository.path("locks", name)
            if name.partition(".")[0] in known or not os.path.lexists(path):
                continue
            if self._clean:
                tree_files.remove(path)
            yield Finding(
                "E_ORPHAN_LOCK", WARNING, path, "its worktree no longer exists", _CLEAN,
                self._clean,
            )  # fmt: skip

    def _lock(self, worktree: Worktree) -> Iterator[Finding]:
        state = worktree_locks.status(worktree)
        path = self._repository.path("locks", f"{worktree.id}.json")
        if state.state == worktree_locks.UNREADABLE:
            yield Finding(
                "E_LOCK_UNREADABLE", ERROR, path, state.why,
                "holdfast tree lock steal, five minutes after it was last written",
            )  # fmt: skip
        elif state.state == worktree_locks.EXPIRED and state.record is not None:
            yield Finding(
                "E_STALE_LOCK", NOTICE, path,
                f"the lease of {state.record.holder_id} ended at {state.record.lease_expires_at}",
                "holdfast tree lock steal takes it over; a release by its holder ends it",
            )  # fmt: skip

    def strangers(self) -> Iterator[Finding]:
        for name in format_numbers.strangers(self._repository.control, FOLDERS):
            yield Finding(
                "E_UNKNOWN_FILE", NOTICE, self._repository.path(name),
                "this version of holdfast does not know it",
                "check what it is; if no program needs it there, move it away",
            )  # fmt: skip

    # The audit log

    def torn_log(self) -> Iterator[Finding]:
        if audit_log.torn_at(self._repository) is None:
            return
        with audit_log.guard(self._repository):
            torn = audit_log.torn_at(self._repository) is not None
        if torn:
            if self._clean:
                audit_log.mend(self._repository)
            yield Finding(
                "E_AUDIT_TORN", WARNING, self._repository.path("audit", "audit.jsonl"),
                "its last line was cut off by a crash", _CLEAN, self._clean,
            )  # fmt: skip

    def log(self) -> Iterator[Finding]:
        path = self._repository.path("audit", "audit.jsonl")
        for number, why in audit_log.faults(self._repository):
            yield Finding(
                "E_AUDIT_DAMAGED", ERROR, path, f"line {number}: {why}",
                "it was changed; compare it with a backup",
            )  # fmt: skip


def _operation(path: str) -> str:
    """The operation that an unfinished file belongs to."""
    name = os.path.basename(path)
    return name.removesuffix(tree_files.UNFINISHED).removesuffix(".json")


def _is_id(name: str) -> bool:
    return descriptors.is_id(name)


def _parent(fields: Descriptor) -> str:
    found = fields.get("parent_snapshot_id")
    return found if isinstance(found, str) else ""


def _circles(parents: dict[str, str]) -> Iterator[list[str]]:
    """Cycles of parents, each once."""
    done: set[str] = set()
    for start in parents:
        way: list[str] = []
        at = start
        while at and at in parents and at not in done:
            done.add(at)
            way.append(at)
            at = parents[at]
        if at in way:
            yield way[way.index(at) :]
