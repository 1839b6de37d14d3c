"""Specs that others have locked: an agent does not write inside them.

Imported only for a path whose text leads into a spec; no other edit pays for it. The caller checks
the text first, with `leads_into_spec` of `gate.intent`.

What this does not promise: a folder that is removed with specs deep below it is not searched, and
writes of a program that its command line does not show are not seen.
"""

from __future__ import annotations

import os

from holdfast.gate.intent import DENY, Answer
from holdfast.specs.spec_locks import SpecLocks, is_gone
from holdfast.specs.spec_names import specs_around, specs_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.model import Holder
    from holdfast.specs.spec_locks import Obstacle


def refusal(holder: Holder, files: Iterable[str], folders: Iterable[str] = ()) -> Answer | None:
    """The refusal for an agent that may not write these absolute paths; None if no locked spec is
    in the way.

    A folder stands for everything below it.
    """
    for path, specs, name in _touched(files, folders):
        obstacle = _locks(specs, holder).in_the_way(name)
        if obstacle is not None:
            told = _told(path, name, obstacle)
            return Answer(DENY, f"Refused: {told} {_NO_WORKAROUND}", user=f"holdfast: {told}")
    return None


_NO_WORKAROUND = "Work on something else, or ask your user. Do not work around this lock."


def _touched(files: Iterable[str], folders: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Each path with the folder of specs and the name of the spec that it lies in, or covers."""
    for path in files:
        for specs, name in specs_around(path):
            yield path, specs, name
    for folder in folders:
        whole = f"{folder.rstrip('/')}/"
        for specs, name in specs_around(whole):
            yield folder, specs, name
        for specs in specs_below(whole):
            if os.path.isdir(specs):
                for name in _locks(specs, None).locked_specs():
                    yield folder, specs, name


def _locks(specs: str, holder: Holder | None) -> SpecLocks:
    return SpecLocks(os.path.dirname(os.path.dirname(specs)), holder=holder)


def _told(path: str, spec: str, obstacle: Obstacle) -> str:
    status, lock = obstacle.status, obstacle.status.lock
    if lock is None:
        return (
            f"{path} belongs to the spec {spec}, whose lock file cannot be read ({status.error})."
        )
    where = f"on this machine ({obstacle.holder.id})" if obstacle.holder else f"on {lock.hostname}"
    told = (
        f"{path} belongs to the spec {spec}, which {lock.owner} has locked {where}, machine "
        f"{lock.machine_id}, for {status.duration}: {lock.reason or 'no reason was given'}."
    )
    if status.is_stale:
        return (
            f"{told} The lock is stale (older than its timeout): holdfast spec cleanup removes it."
        )
    if obstacle.holder is not None and is_gone(obstacle.holder):
        return f"{told} Its holder has ended: holdfast spec unlock {spec} releases it."
    return told
