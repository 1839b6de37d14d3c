"""Commands that ended: one decision on everything that has to be recorded about them.

Facts come first: files of others that changed, with their old content kept; files that were made
and removed again; other changed files. Then one transaction in which the ledger decides whose they
are: leases on files that are gone again are released, files that others still hold are damage of
which their owners must be told, and the rest belongs to no one.
"""

from __future__ import annotations

import os

from holdfast.core import events
from holdfast.core.conflicts import fate
from holdfast.core.model import Value
from holdfast.gate.guard import guard_records
from holdfast.gate.guard.guard_records import (
    Damage,
    Told,
    damage_name,
    told_name,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Final

    from holdfast.core.draft import Draft
    from holdfast.core.model import Holder
    from holdfast.gate.guard.file_watch import ChangedFile
    from holdfast.gate.guard.guard_records import DamagedFile
    from holdfast.manager.files.paths import Tree


class Ended(Value):
    """A command that ended, and the files of others that changed meanwhile, as recorded."""

    __slots__ = ("command", "files", "hurt", "id")

    def __init__(
        self, id: str, command: str, hurt: Sequence[ChangedFile], files: Sequence[DamagedFile]
    ) -> None:
        self.id: Final = id
        self.command: Final = command
        self.hurt: Final = tuple(hurt)
        self.files: Final = tuple(files)


class Facts(Value):
    """Everything known, without reading the ledger, when an agent's commands ended.

    `gone`: paths of files that they made and removed again. `changed`: other changed files, each
    path by its key. `forgotten`: ids of damage that can no longer be undone. `is_heard`: whether
    the answer to this event reaches the agent.
    """

    __slots__ = ("changed", "ended", "forgotten", "gone", "is_heard")

    def __init__(
        self,
        ended: Sequence[Ended],
        *,
        is_heard: bool,
        gone: Iterable[str] = (),
        changed: Mapping[str, str] | None = None,
        forgotten: Sequence[str] = (),
    ) -> None:
        self.ended: Final = tuple(ended)
        self.is_heard: Final = is_heard
        self.gone: Final = frozenset(gone)
        self.changed: Final = changed or {}
        self.forgotten: Final = tuple(forgotten)


class Outcome(Value):
    """What was decided: the `damages`, the keys of the agents that are `called` to be told, and
    the changed paths that are `free`."""

    __slots__ = ("called", "damages", "free")

    def __init__(self, damages: Sequence[Damage], called: Sequence[str], free: Sequence[str]):
        self.damages: Final = tuple(damages)
        self.called: Final = tuple(called)
        self.free: Final = tuple(free)


def gone(tree: Tree, files: Iterable[str]) -> list[str]:
    """The paths of those files that no longer exist."""
    return [tree.place(file).path for file in files if not os.path.lexists(file)]


def write_down(draft: Draft, holder: Holder, facts: Facts) -> Outcome:
    """Record everything that an agent's commands left behind: a part of the decision on the event
    with which they ended."""
    free = _free(draft, facts.changed)
    for grant in draft.held_by(holder.key) if facts.gone else ():
        if facts.gone.issuperset(grant.paths):
            draft.end(grant, events.LOCK_RELEASED)
    damages = []
    called: dict[str, None] = {}
    for ended in facts.ended:
        hurt = [
            (one, file)
            for one, file in zip(ended.hurt, ended.files, strict=True)
            if _is_live(draft, one.grant)
        ]
        if not hurt:
            continue
        damage = Damage(
            id=ended.id, by=holder.id, by_key=holder.key, command=ended.command,
            files=[file for _one, file in hurt],
        )  # fmt: skip
        damages.append(damage)
        draft.say(guard_records.DAMAGE, damage.to_data(), name=damage_name(damage.id))
        for key, told in _told(damage, [one for one, _file in hurt], is_heard=facts.is_heard):
            draft.say(guard_records.TO_BE_TOLD, told.to_data(), name=told_name(key, damage.id))
            called[key] = None
    for id in facts.forgotten:
        if draft.note(name := damage_name(id)) is not None:
            draft.say(guard_records.FORGOTTEN, {"id": id}, name=name, over=True)
    return Outcome(damages, list(called), free)


def _told(
    damage: Damage, hurt: Sequence[ChangedFile], *, is_heard: bool
) -> Iterable[tuple[str, Told]]:
    """What each agent has to be told about damage: the owners, and the agent whose command ran
    unless the answer to this event tells it."""
    paths: dict[str, list[str]] = {}
    for one in hurt:
        for key in (one.key, one.parent):  # a sub-agent may be gone before it is asked anything
            if key and key != damage.by_key:
                paths.setdefault(key, []).append(one.path)
    if not is_heard:
        paths[damage.by_key] = [f"{one.path} ({one.owner})" for one in hurt]
    for key, some in paths.items():
        yield (
            key,
            Told(
                id=damage.id, by=damage.by, by_key=damage.by_key, command=damage.command, paths=some
            ),
        )


def _free(draft: Draft, changed: Mapping[str, str]) -> list[str]:
    """Those paths, by their keys, that no one holds."""
    if not changed:
        return []
    held = {key for key, _mode, id in draft.scopes(list(changed), []) if _is_live(draft, id)}
    return [path for key, path in changed.items() if key not in held]


def _is_live(draft: Draft, id: str) -> bool:
    grant = draft.live_grant(id)
    return grant is not None and not fate(draft, grant)
