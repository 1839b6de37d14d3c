"""Importing the snapshots of a jvs repository, which is only read.

Each snapshot is copied, verified against the hash that jvs recorded, and published like any other;
a file that is unchanged since the parent is stored once. Our ids are derived from those of jvs, so
a second import, or one after a crash, continues where the last one ended. Tags and pins are
imported too, and the latest snapshot of each jvs worktree gets the tag `jvs-WORKTREE`, so that gc
keeps it.

Not imported are locks, the audit log, worktrees, and work in them that is in no snapshot.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import shutil

from holdfast.core.errors import HoldfastError, StoreFullError, StoreReadonlyError
from holdfast.trees import audit_log, engines, kernel_calls, tree_files
from holdfast.trees.errors import (
    BadTreeError,
    ConsistencyError,
    TreeDamagedError,
    TreeExistsError,
    in_words,
    shown,
)
from holdfast.trees.foreign.jvs_repository import (
    MARKS,
    JvsRepository,
    JvsSnapshot,
)
from holdfast.trees.locking import intents
from holdfast.trees.locking.intent_recovery import (
    settle,
    settle_imports,
    staging,
)
from holdfast.trees.payload import payload_copy
from holdfast.trees.progress_reports import SILENT, Progress, Pulse
from holdfast.trees.repository import Repository
from holdfast.trees.snapshots import descriptors, publishing, tags
from holdfast.trees.snapshots.descriptors import BEST_EFFORT, LEVELS, Descriptor
from holdfast.trees.snapshots.taking import published_facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from holdfast.trees.locking.intents import Intent
    from holdfast.trees.payload.payload_copy import Account

_ID_CHARACTERS = 20
#: No space, or read-only: the next snapshot would fail too.
_NO_USE_TO_GO_ON = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_COMPRESSED = "compression_manifest"


class Imported:
    """The imported snapshots, those already here, those that failed, and the new tags."""

    __slots__ = ("already", "brought", "failed", "root", "tags")

    def __init__(self, root: str) -> None:
        self.root: Final = root
        self.brought: dict[str, str] = {}
        self.already: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.tags: dict[str, str] = {}

    def to_dict(self) -> dict[str, Any]:
        """For other programs: the ids of jvs, and ours."""
        return {
            "from": self.root, "brought": self.brought, "already": self.already,
            "failed": self.failed, "tags": self.tags,
        }  # fmt: skip


def bring(
    repository: Repository, where: str, *, engine: str = "", progress: Progress = SILENT
) -> Imported:
    """Import every snapshot that is not here yet from the jvs repository around a folder."""
    repository.check_changeable()
    source = JvsRepository.open(where)
    done = Imported(source.root)
    with in_words(f"importing {source.root}"):
        settle_imports(repository)
        every = source.ids()
        # So that no gc removes one before it has its tag.
        intent = intents.begin(
            repository, intents.IMPORT, alone=True, source=source.root,
            snapshot_ids=[id_here(source, id) for id in every],
        )  # fmt: skip
        try:
            for id in every:
                _bring_one(repository, source, id, done, engine, progress)
            _tag_all(repository, source, done)
        finally:
            intent.close()
    return done


def id_here(source: JvsRepository, id: str) -> str:
    """Our id for a snapshot of jvs, which is always the same."""
    return hashlib.sha256(f"jvs {source.id} {id}".encode()).hexdigest()[:_ID_CHARACTERS]


def _bring_one(
    repository: Repository,
    source: JvsRepository,
    id: str,
    done: Imported,
    engine: str,
    progress: Progress,
) -> None:
    here = id_here(source, id)
    if descriptors.is_visible(repository, here):
        done.already[id] = here
        return
    try:
        snapshot = source.read(id)
        _Import(repository, source, snapshot, engine, progress).run()
        done.brought[id] = here
    except (StoreFullError, StoreReadonlyError):
        raise
    except HoldfastError as error:
        done.failed[id] = error.message
    except OSError as error:
        if error.errno in _NO_USE_TO_GO_ON:
            raise
        done.failed[id] = f"snapshot {id} of jvs was not imported: {shown(str(error))}"


class _Import:
    """One snapshot that is being imported."""

    def __init__(
        self,
        repository: Repository,
        source: JvsRepository,
        snapshot: JvsSnapshot,
        engine: str,
        progress: Progress,
    ) -> None:
        self._repository = repository
        self._source = source
        self._snapshot = snapshot
        self._progress = progress
        self._id = id_here(source, snapshot.id)
        self._building = publishing.building(repository, self._id)
        self._engine = engines.choose(snapshot.folder, repository.path("snapshots"), engine)

    def run(self) -> None:
        repository = self._repository
        intent = intents.begin(repository, intents.IMPORT_ONE, id=self._id)
        try:
            payload = self._payload(intent)
            account = self._copy(payload)
            self._snapshot.check(self._building)
            kernel_calls.flush(self._building)
            fields = publishing.seal(repository, self._id, self._describe(account))
            with kernel_calls.undisturbed():
                publishing.reveal(repository, self._id)
        except BaseException:
            with kernel_calls.undisturbed():
                try:
                    settle(repository, intent)
                except (OSError, HoldfastError):
                    intent.let_go()
            raise
        try:
            audit_log.append(repository, "snapshot_imported", published_facts(fields))
            tree_files.remove_tree(staging(repository, intent.id))
            intent.close()
        finally:
            intent.let_go()

    def _payload(self, intent: Intent) -> str:
        """The folder with the payload: that of jvs, or an unpacked copy of a compressed one."""
        snapshot = self._snapshot
        if not snapshot.fields.get("compression"):
            return snapshot.folder
        packed = snapshot.mark.get(_COMPRESSED)
        if not isinstance(packed, dict) or packed.get("type") != "gzip":
            raise _unreadable(snapshot.id, "its compression is unknown here")
        place = staging(self._repository, intent.id)
        os.mkdir(place)
        unpacked = f"{place}/unpacked"
        shutil.copytree(snapshot.folder, unpacked, symlinks=True)
        try:
            for one in packed["files"]:
                _unpack(unpacked, str(one["path"]), int(one["original_size"]))
        except (KeyError, TypeError, ValueError, EOFError, OSError) as error:
            raise _unreadable(snapshot.id, f"it cannot be unpacked: {error}") from error
        return unpacked

    def _copy(self, payload: str) -> Account:
        os.mkdir(self._building)
        self._progress.begin(f"import {self._snapshot.id}")
        try:
            pulse = Pulse(self._progress)
            parent = self._parent()
            previous = descriptors.folder(self._repository, parent) if parent else ""
            account = payload_copy.Taking(
                payload, self._building, self._engine, pulse, previous, without=MARKS
            ).run()
            payload_copy.changed(payload, self._building, pulse, account, without=MARKS)
        finally:
            self._progress.end()
        if account.changed.count:
            raise ConsistencyError(
                f"snapshot {self._snapshot.id} of jvs changed while it was read",
                hint="make sure that nothing writes there, and try again",
            )
        return account

    def _parent(self) -> str:
        """Our copy of its parent, or of the nearest ancestor that is here."""
        seen = set()
        at = self._snapshot.parent
        while at and at not in seen:
            seen.add(at)
            here = id_here(self._source, at)
            if descriptors.is_visible(self._repository, here):
                return here
            at = self._source.parent_of(at)
        return ""

    def _describe(self, account: Account) -> Descriptor:
        fields = self._snapshot.fields
        worktree = str(fields.get("worktree_name", ""))
        level = fields.get("consistency_level")
        token = fields.get("fencing_token")
        return {
            "snapshot_id": self._id,
            "worktree_id": hashlib.sha256(
                f"jvs {self._source.id} worktree {worktree}".encode()
            ).hexdigest()[:32],
            "worktree": worktree,
            "parent_snapshot_id": self._parent() or None,
            "created_at": str(fields.get("created_at", "")),
            "note": str(fields.get("note", "")),
            "engine": self._engine.name,
            "isolation": "exclusive",
            # jvs without locks promises nothing about writers, and records nothing.
            "consistency_level": level if level in LEVELS else BEST_EFFORT,
            "holder_id": None,
            "fencing_token": token if isinstance(token, int) else None,
            "integrity_state": "verified",
            "payload_hash": {"algo": descriptors.ALGORITHM, "value": account.payload_hash},
            "files": account.files,
            "bytes": account.bytes,
            "files_linked": account.linked,
            "changed": {"count": 0, "paths": []},
            "degraded": {"count": account.degraded.count, "entries": account.degraded.some},
            "origin": {
                "program": "jvs", "repository_id": self._source.id,
                "snapshot_id": self._snapshot.id,
                "parent_snapshot_id": self._snapshot.parent or None,
                "payload_root_hash": fields.get("payload_root_hash"),
                "partial_paths": fields.get("partial_paths") or [],
            },
        }  # fmt: skip


def _tag_all(repository: Repository, source: JvsRepository, done: Imported) -> None:
    here = {**done.already, **done.brought}
    for name, wanted_id in source.heads():
        id = _brought_up_to(source, wanted_id, here)
        if id:
            done.tags[_follow(repository, f"jvs-{name}", id, here)] = here[id]
    wanted = [*source.refs()]
    for id in reversed(here):
        try:
            told = source.read(id).fields.get("tags")
        except HoldfastError:
            continue
        wanted += [(str(tag), id) for tag in (told if isinstance(told, list) else ())]
    for name, id in wanted:
        if id in here:
            done.tags[_tag(repository, name, id, here[id])] = here[id]


def _brought_up_to(source: JvsRepository, id: str, here: dict[str, str]) -> str:
    """The snapshot, or if it could not be imported, the nearest ancestor that could."""
    seen = set()
    while id and id not in here and id not in seen:
        seen.add(id)
        id = source.parent_of(id)
    return id if id in here else ""


def _follow(repository: Repository, name: str, id: str, here: dict[str, str]) -> str:
    """Move the tag of a jvs worktree to its present snapshot."""
    known = tags.find(repository, name)
    if known is None or known.snapshot_id not in here.values():
        return _tag(repository, name, id, here[id])
    return tags.add(repository, name, here[id], move=True).name


def _tag(repository: Repository, name: str, id: str, here: str) -> str:
    """Tag it with its name in jvs, or a similar one if that is in use or invalid here."""
    for one in (name, f"jvs-{name}", f"{name}-{id}", f"jvs-{name}-{id}"):
        try:
            return tags.add(repository, one, here).name
        except (TreeExistsError, BadTreeError):
            continue
    return tags.add(repository, f"jvs-{id}", here, move=True).name  # a name that always works


def _unpack(root: str, path: str, size: int) -> None:
    """Replace a packed file by its content."""
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path!r} leads out of the tree")
    packed = f"{root}/{path}.gz"
    status = os.stat(packed, follow_symlinks=False)
    with tree_files.opened(root, "/".join(parts[:-1])), gzip.open(packed, "rb") as data:
        left = size
        with open(f"{root}/{path}", "xb") as file:
            while part := data.read(min(left + 1, 1 << 20)):
                left -= len(part)
                if left < 0:
                    break
                file.write(part)
    if left:
        raise ValueError(f"the size of {path!r} has changed")
    os.chmod(f"{root}/{path}", status.st_mode & 0o7777)
    os.utime(f"{root}/{path}", ns=(status.st_mtime_ns, status.st_mtime_ns))
    os.unlink(packed)


def _unreadable(id: str, why: str) -> TreeDamagedError:
    return TreeDamagedError(
        f"snapshot {id} of jvs was not imported: {why}",
        hint="restore it with jvs, and take a snapshot of that",
        snapshot_id=id,
    )
