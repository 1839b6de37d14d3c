"""Files pass from one agent to another: over to the first in line, down to a sub-agent, up again.

Parts of decisions, each on the life of one agent.
"""

from __future__ import annotations

from holdfast.core import bulk_rules, events
from holdfast.core.conflicts import fate
from holdfast.core.draft import NOTHING
from holdfast.core.model import Grant
from holdfast.gate.rulebook import agent_family, agent_records, file_states
from holdfast.gate.rulebook.agent_life import FOR_EDIT, FOR_NEXT_EDIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from holdfast.core.model import ConflictInfo, Holder, Request
    from holdfast.gate.rulebook.agent_life import Life
    from holdfast.gate.rulebook.agent_records import Rest, Wait
    from holdfast.gate.rulebook.outcomes import Stamps


# Over to the first in line


def notice(life: Life, *, untold: bool = False) -> None:
    """Update the agent's waits. A wait whose file was handed over ends; a file that was handed over
    and not used in time is released. News that the agent cannot hear now waits for its next event;
    with `untold` at least the handover is recorded."""
    for wait in [*life.known.handed, *(life.known.waits if life.asker.wake else ())]:
        if life.draft.ticket(wait.ticket) is not None:
            continue
        grant = life.draft.grant(wait.ticket)
        is_handed = wait in life.known.handed  # possibly in this decision
        why = fate(life.draft, grant) if isinstance(grant, Grant) else ""
        if isinstance(grant, Grant) and not why:
            if not is_handed and (life.hears or life.goes_on or untold):
                handed(life, wait, file_states.HANDED_OVER)
        elif (grant is not None or is_handed) and life.hears:
            if isinstance(grant, Grant):
                life.draft.end(grant, events.LOCK_REAPED, why=why)
            life.lapsed.extend(wait.blocked)
            life.forget(wait)


def handed(life: Life, wait: Wait, cause: str) -> None:
    """A wait has succeeded: the file is the agent's."""
    state = file_states.after(wait.state, cause)
    wait.write(life.draft, agent_records.HANDED_OVER, state=state, cause=cause)
    life.known.waits.remove(wait)
    told = wait.but(handed=True)
    life.known.handed.append(told)
    life.came.append(told)


def over(life: Life, wait: Wait, cause: str, **facts: Any) -> None:
    """A wait has ended."""
    state = file_states.after(wait.state, cause)
    life.forget(wait, state=state, cause=cause, **facts)


def claim(life: Life, stamps: Stamps, wanted: Mapping[str, Request] = NOTHING) -> None:
    """Files that were handed over and are used now become a lease each, which lasts as long as
    their owner. The unused rest stays reserved as long as it would have been."""
    for wait in list(life.known.handed):
        grant = life.draft.live_grant(wait.ticket)
        if grant is None or stamps.keys().isdisjoint(grant.paths):
            continue
        heirs, left = [], [path for path in wait.paths if path not in stamps]
        for path in dict.fromkeys(grant.paths):
            request = wanted.get(path)
            if path not in stamps or (request and life.draft.live_grant(request.id)):
                continue
            heir = request or _heir(life, grant, (path,), FOR_EDIT, for_life=True)
            heirs.append(heir.but(stamp=stamps[path]))
        rest = _heir(life, grant, left, FOR_NEXT_EDIT) if left else None
        if rest is None or grant.expires_at is None:
            if heirs:
                bulk_rules.move(life.draft, grant, heirs)
            else:  # its client has just died, and other grants took the files
                life.draft.end(grant, events.LOCK_RELEASED)
            life.forget(wait)
            continue
        rest = rest.but(ttl=max(0, grant.expires_at - life.now))
        bulk_rules.move(life.draft, grant, [*heirs, rest])
        blocked = [path for path in wait.blocked if path in left]
        kept = wait.but(ticket=rest.id, paths=left, keys=rest.keys, blocked=blocked)
        kept.write(life.draft, agent_records.HANDED_OVER)
        life.known.handed[life.known.handed.index(wait)] = kept


def _heir(
    life: Life, grant: Grant, paths: Sequence[str], reason: str, *, for_life: bool = False
) -> Request:
    keys = [key for key, of in zip(grant.keys, grant.paths, strict=True) if of in paths]
    id = life.asker.new_id()
    return bulk_rules.heir(grant, life.holder, id, keys, reason, for_life=for_life)


# Down to a sub-agent, and up again


def hand_down(
    life: Life,
    conflicts: Sequence[ConflictInfo],
    stamps: Stamps = NOTHING,
    *,
    in_turn: bool = False,
) -> bool:
    """Pass files that an agent above holds down to a sub-agent that they keep waiting; `stamps` are
    the files' stamps, as far as they are known. False if another agent holds one of them, if the
    agent above is about to write one, or, with `in_turn`, if another agent of the session is
    first in line."""
    if not life.holder.agent:
        return False
    above = agent_family.ancestors(life.draft, life.holder)
    found: dict[str, set[str]] = {}
    for one in conflicts:
        if one.kind == "reservation":
            if in_turn and one.holder_key.startswith(life.session_key):
                return False
        elif one.holder_key in above:
            found.setdefault(one.grant_id, set()).add(one.held_path)
        else:
            return False
    grants = {id: grant for id in found if (grant := life.draft.live_grant(id)) is not None}
    if any(life.asker.is_writing(one.holder.key, one.keys) for one in grants.values()):
        return False
    for id, grant in grants.items():
        paths = found[id]
        if grant.reason == FOR_NEXT_EDIT:  # covers several files, some of them held above
            heirs = [
                _heir(life, grant, (path,), FOR_EDIT, for_life=True).but(stamp=stamps.get(path, ""))
                for path in dict.fromkeys(grant.paths)
                if path in paths
            ]
            bulk_rules.move(life.draft, grant, heirs)
        else:
            move(life, grant, life.holder)
    return bool(found)


def move(life: Life, grant: Grant, holder: Holder) -> Grant:
    """Pass a lease to another agent, with the stamp of its file."""
    id, is_kept = life.asker.new_id(), grant.reason == FOR_NEXT_EDIT
    heir = bulk_rules.heir(
        grant, holder, id, reason=FOR_EDIT if is_kept else None, for_life=is_kept
    )
    return bulk_rules.move(life.draft, grant, [heir])[0]


def move_up(life: Life, grant: Grant, parent: Holder, rest: Rest | None) -> None:
    """Pass a lease to the agent above; if that has stopped already, the lease ends by `idle`."""
    moved = move(life, grant, parent)
    if rest is not None:
        idle_at = max(life.now, rest.held_until) + life.asker.idle
        life.draft.extend(moved, expires_at=moved.expires_at, idle_at=idle_at)
