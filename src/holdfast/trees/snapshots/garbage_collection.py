"""gc: removes the snapshots that nothing needs. It first writes a plan, which a person can read;
the run then keeps every snapshot that has become needed since.

What a crash after each step leaves behind:

    1  an interrupted earlier run is finished    nothing
    2  the intent is written                     an abandoned intent
       in the guard of the intents, in batches, for each snapshot that nothing needs:
    3  its descriptor moves to gc/removed/       it is invisible; its folder still exists
    4  its folder moves into staging             it is invisible, and half removed
       after the guard:
    5  the audit log gets a line                 a line is missing
    6  the folders are removed                   a part of them is still in staging
    7  plan and intent are removed               nothing

Step 3 is one rename: before it the snapshot is whole, after it there is none. A process that is
killed leaves the intent, and the next gc, or `doctor --clean`, does the rest. A descriptor in
gc/removed lets history look up the parent of a removed snapshot.
"""

from __future__ import annotations

import os

from holdfast.core.errors import HoldfastError
from holdfast.trees import audit_log, tree_files
from holdfast.trees.errors import NoTreeError, TreeDamagedError, in_words, shown
from holdfast.trees.locking import intents
from holdfast.trees.locking.intent_recovery import (
    collected_facts,
    settle,
    settle_collections,
    staging,
)
from holdfast.trees.progress_reports import SILENT, Progress
from holdfast.trees.repository import Repository
from holdfast.trees.snapshots import descriptors, retention
from holdfast.trees.snapshots.descriptors import Descriptor
from holdfast.trees.snapshots.retention import Keeping, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from holdfast.trees.locking.intents import Intent

#: How many snapshots are hidden in one batch: the guard must be held only briefly.
_AT_ONCE_MAX = 100
_PLANS = "plans"
#: A plan that has not been run for this long is out of date.
_PLAN_SECONDS_MAX = 7 * 86_400


class Plan:
    """The snapshots that a gc would remove, and the reasons why the others stay."""

    __slots__ = ("created_at", "id", "kept", "remove", "settings")

    def __init__(
        self,
        id: str,
        settings: Settings,
        remove: list[dict[str, Any]],
        kept: dict[str, str],
        created_at: str,
    ) -> None:
        self.id: Final = id
        self.settings: Final = settings
        self.remove: Final = remove
        self.kept: Final = kept
        self.created_at: Final = created_at

    @property
    def bytes(self) -> int:
        """Their total size. An upper bound: files that other snapshots share stay."""
        return sum(one["bytes"] for one in self.remove)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for the file and for other programs."""
        return {
            "plan_id": self.id, "created_at": self.created_at,
            "settings": self.settings.to_dict(), "remove": self.remove, "kept": self.kept,
            "bytes": self.bytes,
        }  # fmt: skip


class Collected:
    """The removed snapshots, and those of the plan that became needed, with the reasons."""

    __slots__ = ("bytes", "removed", "spared")

    def __init__(self) -> None:
        self.removed: list[str] = []
        self.spared: dict[str, str] = {}
        self.bytes = 0


def plan(repository: Repository, wanted: Settings | None = None) -> Plan:
    """Find the snapshots that nothing needs, and write a plan. Removes nothing."""
    chosen = wanted if wanted is not None else retention.settings(repository)
    with in_words("planning a gc"):
        with intents.guard(repository):
            roots = retention.needed(repository)
        keeping = Keeping(repository)
        kept = keeping.kept(chosen, roots)
        remove = [_entry(fields) for id, fields in keeping.every.items() if id not in kept]
        remove.sort(key=lambda one: (one["created_at"], one["snapshot_id"]))
        made = Plan(os.urandom(4).hex(), chosen, remove, kept, repository.now)
        os.makedirs(repository.path("gc", _PLANS), exist_ok=True)
        _forget_old_plans(repository)
        tree_files.write_new(_plan_path(repository, made.id), tree_files.pretty(made.to_dict()))
        tree_files.flush_folder(repository.path("gc", _PLANS))
    return made


def run(repository: Repository, plan_id: str, progress: Progress = SILENT) -> Collected:
    """Remove the snapshots of a plan that are still not needed."""
    repository.check_changeable()
    done = Collected()
    with in_words("collecting snapshots"):
        settle_collections(repository)
        chosen = _read_plan(repository, plan_id)
        ids = [one["snapshot_id"] for one in chosen.remove]
        ids = [id for id in ids if descriptors.is_visible(repository, id)]
        intent = intents.begin(
            repository, intents.COLLECT, alone=True, plan_id=plan_id, snapshot_ids=ids
        )
        try:
            _take_away(repository, intent, chosen, done)
            progress.begin("remove", len(done.removed))
            audit_log.append(repository, "snapshots_removed", collected_facts(intent, done.removed))
            _clear(repository, intent, progress)
            tree_files.remove(_plan_path(repository, plan_id))
            intent.close()
        except (OSError, HoldfastError):
            _try_to_settle(repository, intent)
            raise
        finally:
            # Stop immediately on an interrupt: the next gc removes what is hidden.
            intent.let_go()
            progress.end()
    return done


def _try_to_settle(repository: Repository, intent: Intent) -> None:
    try:
        settle(repository, intent)
    except (OSError, HoldfastError):
        intent.let_go()  # the next gc or the doctor finishes; the first error counts


def _take_away(repository: Repository, intent: Intent, chosen: Plan, done: Collected) -> None:
    """Steps 3 and 4."""
    os.makedirs(repository.path("gc", descriptors.REMOVED), exist_ok=True)
    os.makedirs(staging(repository, intent.id), exist_ok=True)
    tree_files.flush_folder(repository.path("gc"))
    current = retention.settings(repository)
    keeping = Keeping(repository)
    left = [*chosen.remove]
    while left:
        batch, left = left[:_AT_ONCE_MAX], left[_AT_ONCE_MAX:]
        with intents.guard(repository):
            roots = retention.needed(repository)
            kept = keeping.kept(current, roots) | keeping.kept(chosen.settings, roots)
            for one in batch:
                id = one["snapshot_id"]
                if id in kept:
                    done.spared[id] = kept[id]
                elif descriptors.is_visible(repository, id):
                    _take_one(repository, intent, id)
                    done.removed.append(id)
                    done.bytes += one["bytes"]
        for folder in ("descriptors", "gc/" + descriptors.REMOVED, "snapshots"):
            tree_files.flush_folder(repository.path(folder))


def _take_one(repository: Repository, intent: Intent, id: str) -> None:
    os.rename(descriptors.path(repository, id), descriptors.tombstone(repository, id))
    try:
        os.rename(descriptors.folder(repository, id), f"{staging(repository, intent.id)}/{id}")
    except FileNotFoundError:
        return  # a doctor found it without its descriptor and is removing it


def _clear(repository: Repository, intent: Intent, progress: Progress) -> None:
    """Step 6."""
    place = staging(repository, intent.id)
    for name in sorted(os.listdir(place)):
        tree_files.remove_tree(f"{place}/{name}")
        progress.advance(1)
    tree_files.remove_tree(place)


def _entry(fields: Descriptor) -> dict[str, Any]:
    size = fields.get("bytes")
    return {
        "snapshot_id": fields["snapshot_id"], "created_at": str(fields["created_at"]),
        "worktree": str(fields.get("worktree", "")), "note": str(fields.get("note", "")),
        "bytes": size if isinstance(size, int) else 0,
    }  # fmt: skip


def _plan_path(repository: Repository, id: str) -> str:
    return repository.path("gc", _PLANS, f"{id}.json")


def _read_plan(repository: Repository, id: str) -> Plan:
    path = _plan_path(repository, id)
    if not descriptors.is_beginning(id) or not os.path.lexists(path):
        raise NoTreeError(
            f"there is no plan {shown(id[:80])}", hint="create one: holdfast tree gc plan"
        )
    try:
        fields = tree_files.read_json(path)
        remove: list[dict[str, Any]] = [
            {"snapshot_id": str(one["snapshot_id"]), "bytes": int(one["bytes"])}
            for one in fields["remove"]
        ]
        if not all(descriptors.is_id(one["snapshot_id"]) for one in remove):
            raise ValueError("it names something that is not a snapshot")
        return Plan(id, Settings().but(**fields["settings"]), remove, {}, fields["created_at"])
    except (OSError, ValueError, KeyError, TypeError, HoldfastError) as error:
        raise TreeDamagedError(
            f"the plan {id} cannot be used: {shown(str(error))}",
            hint="nothing was removed; create another: holdfast tree gc plan",
        ) from error


def _forget_old_plans(repository: Repository) -> None:
    folder = repository.path("gc", _PLANS)
    oldest = repository.clock.read().wall / 1e6 - _PLAN_SECONDS_MAX
    for name in os.listdir(folder):
        if os.stat(f"{folder}/{name}", follow_symlinks=False).st_mtime < oldest:
            tree_files.remove(f"{folder}/{name}")
