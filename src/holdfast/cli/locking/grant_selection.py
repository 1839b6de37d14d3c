"""The grants that a command line names, by their ids or by their paths."""

from __future__ import annotations

from holdfast.cli.command_context import tree_of, view_of
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import listed, plain, quoted
from holdfast.core import keys, rules, sentences
from holdfast.core.conflicts import fate, held_conflict
from holdfast.core.draft import Draft, reach
from holdfast.core.errors import LockNotHeldError
from holdfast.core.model import Grant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.model import ConflictInfo, Holder
    from holdfast.core.view import View
    from holdfast.manager.files.paths import Place
    from holdfast.manager.manager import LockManager


def is_grant_id(text: str) -> bool:
    """Whether a word is the id of a grant. A file with such a name is written with `./`."""
    return (
        len(text) == 36
        and [len(part) for part in text.split("-")] == [8, 4, 4, 4, 12]
        and set(text) <= set("0123456789abcdef-")
    )


def owned(manager: LockManager, me: Holder, names: list[str], *, to_release: bool) -> list[Grant]:
    """The named grants of one holder, each once.

    A grant is released as a whole: with `to_release` it is an error to name only some of its paths.
    """
    ids, places = _sorted_out(manager, names)
    found: dict[str, Grant] = {}
    with view_of(manager) as view:
        for id in ids:
            grant = _by_id(view, id)
            if grant.holder.key != me.key:
                raise _of_another(grant, me)
            found[id] = grant
        mine = view.held_by(me.key) if places else []
        for place in places:
            named = [grant for grant in mine if _entries(grant, [place])]
            if not named:
                raise _not_held(view, place, me)
            found.update((grant.id, grant) for grant in named)
    if to_release:
        for grant in found.values():
            _refuse_part(grant, places, grant.id in ids)
    return list(found.values())


def held(manager: LockManager, names: list[str]) -> list[Grant]:
    """The named grants, of any holder."""
    ids, places = _sorted_out(manager, names)
    found: dict[str, Grant] = {}
    with view_of(manager) as view:
        for id in ids:
            found[id] = _by_id(view, id)
        for place in places:
            rows = list(view.scopes([key for key in (place.key, place.inode) if key], []))
            named = [view.grant(id) for _key, _mode, id in rows]
            grants = [grant for grant in named if isinstance(grant, Grant)]
            if not grants:
                raise _not_held(view, place, None)
            found.update((grant.id, grant) for grant in grants)
    return list(found.values())


def _sorted_out(manager: LockManager, names: Iterable[str]) -> tuple[list[str], list[Place]]:
    ids: list[str] = []
    places: list[Place] = []
    for name in names:
        if is_grant_id(name):
            ids.append(name)
        else:
            places.append(tree_of(manager).place(name))
    return ids, places


def _by_id(view: View, id: str) -> Grant:
    """The grant with an id. Raises an error that says how it ended, if it has."""
    known = view.grant(id)
    if not isinstance(known, Grant):
        sentences.raise_verdict(rules.verify(view, id, None, 0))
        raise AssertionError("a missing grant was verified")
    return known


def _entries(grant: Grant, places: list[Place]) -> list[str]:
    """The paths of a grant that match these places, by name or as the same file on disk."""
    wanted = {key for place in places for key in (place.key, place.inode) if key}
    return list(
        dict.fromkeys(
            path for key, path in zip(grant.keys, grant.paths, strict=True) if key in wanted
        )
    )


def _refuse_part(grant: Grant, places: list[Place], by_id: bool) -> None:
    named = set(_entries(grant, places))
    rest = [path for path in dict.fromkeys(grant.paths) if path not in named]
    if rest and not by_id:
        raise UsageError(
            f"grant {grant.id} also covers {listed(rest)}: it is released as a whole",
            hint=f"name all that it covers, or: holdfast unlock {quoted([grant.id])}",
            grant=grant.id,
            paths=rest,
        )


def _of_another(grant: Grant, me: Holder) -> LockNotHeldError:
    return LockNotHeldError(
        f"grant {grant.id} belongs to {grant.holder.id}, and you are {me.id}",
        hint=_hint(others=True),
        grant=grant.id,
        holder=grant.holder.id,
    )


def _not_held(view: View, place: Place, me: Holder | None) -> LockNotHeldError:
    """The error for a path that the caller does not hold, with its holders if there are any."""
    conflicts = _holders(view, place)
    sentence = f"{place.path} is not locked" + ("" if me is None else f" by you ({me.id})")
    if conflicts:
        sentence += f": {sentences.conflict_sentences(conflicts, view.now)}"
    return LockNotHeldError(
        plain(sentence),
        hint=_hint(others=bool(conflicts) and me is not None),
        path=place.path,
        conflicts=tuple(conflicts),
    )


def _holders(view: View, place: Place) -> list[ConflictInfo]:
    """All live grants that overlap a place, as conflicts."""
    draft = Draft(view)
    wanted = [key for key in (place.key, place.inode) if key]
    found: dict[str, ConflictInfo] = {}
    for key, mode, id in view.scopes(*reach(tuple(wanted))):
        grant = draft.live_grant(id)
        if grant is None or fate(draft, grant) or not any(keys.overlap(key, w) for w in wanted):
            continue
        found.setdefault(id, held_conflict(draft, grant, key, mode, place.path, mode))
    return list(found.values())


def _hint(*, others: bool) -> str:
    if not others:
        return "holdfast status shows who holds what; holdfast whoami shows who you are"
    return (
        "only its holder can release it (--holder ID if that is you); "
        "a person can take it away with --force --reason"
    )
