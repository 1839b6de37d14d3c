"""Which snapshots gc keeps: those that something needs, and those that the settings keep.

    heads, bases     the latest snapshot of every worktree, and the one it was created from
    tags             every tagged snapshot
    operations       a snapshot that a running operation takes or reads
    keep_ancestors   the ancestors of all of these
    keep_last        the latest N snapshots of each worktree
    keep_days        every snapshot that is younger

An unknown state never counts as unneeded: if a worktree, a tag or a parent cannot be read, all of
this fails, and nothing is removed.
"""

from __future__ import annotations

from holdfast.core.model import SECOND
from holdfast.trees import tree_files, worktrees
from holdfast.trees.errors import BadTreeError, TreeDamagedError, shown
from holdfast.trees.locking import intents
from holdfast.trees.locking.lock_records import moment
from holdfast.trees.repository import Repository
from holdfast.trees.snapshots import descriptors, tags
from holdfast.trees.snapshots.descriptors import Descriptor
from holdfast.trees.worktrees import Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

_DAY_MICROSECONDS = 86_400 * SECOND
_UNDER_WAY = "an operation under way"
_KEEP_LAST_MAX = 1_000_000
_KEEP_DAYS_MAX = 36_500


class Settings:
    """What is kept in addition to the needed snapshots."""

    __slots__ = ("keep_ancestors", "keep_days", "keep_last")

    def __init__(
        self, *, keep_ancestors: bool = True, keep_last: int = 10, keep_days: float = 1
    ) -> None:
        if type(keep_last) is not int or not 0 <= keep_last <= _KEEP_LAST_MAX:
            raise _bad("keep_last", keep_last, f"a whole number from 0 to {_KEEP_LAST_MAX:,}")
        if type(keep_days) not in (int, float) or not 0 <= keep_days <= _KEEP_DAYS_MAX:
            raise _bad("keep_days", keep_days, f"a number from 0 to {_KEEP_DAYS_MAX:,}")
        if type(keep_ancestors) is not bool:
            raise _bad("keep_ancestors", keep_ancestors, "true or false")
        self.keep_ancestors: Final = keep_ancestors
        self.keep_last: Final = keep_last
        self.keep_days: Final = keep_days

    def to_dict(self) -> dict[str, Any]:
        """As they are stored, and for other programs."""
        return {name: getattr(self, name) for name in KEYS}

    def but(self, **changes: Any) -> Settings:
        """A copy with some settings changed."""
        unknown = sorted({*changes} - {*KEYS})
        if unknown:
            raise BadTreeError(
                f"unknown setting {shown(unknown[0])}", hint=f"the settings are {', '.join(KEYS)}"
            )
        return Settings(**{**self.to_dict(), **changes})


KEYS = ("keep_ancestors", "keep_last", "keep_days")


def _bad(name: str, value: object, wanted: str) -> BadTreeError:
    return BadTreeError(f"{name} cannot be {value!r}", hint=f"give {wanted}")


def settings(repository: Repository) -> Settings:
    """The settings of a repository; the defaults if there are none."""
    try:
        fields = tree_files.read_json(_settings_path(repository))
        return Settings().but(**fields)
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError, BadTreeError) as error:
        raise TreeDamagedError(
            f"gc/settings.json cannot be used: {shown(str(error))}",
            hint="correct or delete that file; no snapshot was removed",
        ) from error


def change_settings(repository: Repository, **changes: Any) -> Settings:
    """Store settings."""
    with intents.guard(repository):
        made = settings(repository).but(**changes)
        tree_files.replace(_settings_path(repository), tree_files.pretty(made.to_dict()))
    return made


def _settings_path(repository: Repository) -> str:
    return repository.path("gc", "settings.json")


def needed(repository: Repository) -> dict[str, str]:
    """The needed snapshots, each with the reason.

    Inside the guard of the intents the answer is reliable: an operation either still has its
    intent, or gave the snapshot to a worktree before it removed the intent. So intents are read
    first.
    """
    found = {id: _UNDER_WAY for id in intents.needed(repository) if id}
    for name in worktrees.names(repository):
        try:
            found |= _of_worktree(Worktree(repository, name))
        except TreeDamagedError:
            if name in worktrees.names(repository):
                raise
            continue  # removed meanwhile
    for tag in tags.every(repository):
        found[tag.snapshot_id] = f"the tag {tag.name}"
    return found


def _of_worktree(worktree: Worktree) -> dict[str, str]:
    head = worktree.head()
    named = {
        descriptors.nearest(worktree.repository, head): "the latest whole snapshot",
        worktree.base(): "the base",
        head: "the head",
    }
    return {id: f"{what} of {worktree.name}" for id, what in named.items() if id}


class Keeping:
    """All snapshots, read once, and which of them are kept.

    Later snapshots are not considered. The parent of a snapshot never changes, so it is read only
    once.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository: Final = repository
        self.every: Final[dict[str, Descriptor]] = {
            id: descriptors.listed(repository, id) for id in descriptors.visible_ids(repository)
        }
        self._parents: dict[str, str] = {}

    def kept(self, wanted: Settings, roots: dict[str, str]) -> dict[str, str]:
        """All kept snapshots, each with the reason. The roots are the needed ones."""
        found = {id: roots[id] for id in self.every if id in roots}
        if wanted.keep_ancestors:
            seen: set[str] = set()
            for root, why in roots.items():
                if why == _UNDER_WAY and root not in self.every:
                    continue  # still being taken; its parent is a head for as long
                for id in self._ancestors(root, seen):
                    found.setdefault(id, f"an ancestor of {why}")
        for id in _latest(self.every, wanted.keep_last):
            found.setdefault(id, "keep_last")
        oldest = self._repository.clock.read().wall - wanted.keep_days * _DAY_MICROSECONDS
        for id, fields in self.every.items():
            if _moment(fields) > oldest:
                found.setdefault(id, "keep_days")
        return found

    def _ancestors(self, root: str, seen: set[str]) -> Iterator[str]:
        """The ancestors of a snapshot, across removed ones, up to those already seen."""
        at = root if descriptors.is_id(root) else ""
        while at and at not in seen:
            seen.add(at)
            if at in self.every:
                yield at
            at = self._parent(at)

    def _parent(self, id: str) -> str:
        if id not in self._parents:
            known = descriptors.recorded_parent(self._repository, id)
            if known is None:
                raise TreeDamagedError(
                    f"the parent of snapshot {id} is unknown, so nothing can be removed",
                    hint="see holdfast tree doctor; keep_ancestors=false does not need it",
                    snapshot_id=id,
                )
            self._parents[id] = known
        return self._parents[id]


def _latest(every: dict[str, Descriptor], count: int) -> list[str]:
    """The latest `count` snapshots of each worktree."""
    ordered: dict[str, list[str]] = {}
    for id in sorted(every, key=lambda one: (_moment(every[one]), one), reverse=True):
        ordered.setdefault(str(every[id].get("worktree_id", "")), []).append(id)
    return [id for ids in ordered.values() for id in ids[:count]]


def _moment(fields: Descriptor) -> int:
    """When it was taken; without a readable time it counts as just taken, and so is kept."""
    try:
        return moment(str(fields["created_at"]))
    except (ValueError, KeyError):
        return 1 << 62
