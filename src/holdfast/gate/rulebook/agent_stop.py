"""An agent has nothing more to do: it waits a while for refused files, rests, and ends.

While a stop is held open it has not happened: the agent continues if a file comes free for it.
"""

from __future__ import annotations

from holdfast.core import events
from holdfast.core.conflicts import OWNER_DEAD, fate
from holdfast.core.model import Holder, ids_of
from holdfast.gate.rulebook import (
    agent_family,
    agent_records,
    contention,
    display_names,
    file_states,
    handover,
)
from holdfast.gate.rulebook.outcomes import Held, Rested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.model import Grant
    from holdfast.gate.rulebook.agent_life import Life
    from holdfast.gate.rulebook.agent_records import Rest, Wait
    from holdfast.gate.rulebook.outcomes import Halted, Passed, Seen


def stop(
    life: Life, seen: Seen, hold: int, *, may_go_on: bool, ends: bool
) -> Passed | Held | Halted | Rested:
    """The stop of an agent that may have files to wait for."""
    life.hears, life.goes_on = False, may_go_on
    if life.known.blocks:  # only a person lets it continue
        return _stopped(life, seen, ends=ends)
    life.look_round()
    halted = contention.retry_what_is_due(life)
    if halted is not None:
        return _stopped(life, seen, ends=ends, halted=halted)
    if life.came and may_go_on:
        return _go_on(life, seen)
    waits = [
        wait for wait in life.known.waits if not wait.held and contention.stands_in_line(life, wait)
    ]
    if waits and life.asker.wake and may_go_on and hold > 0:
        return _hold(life, waits, seen, life.now + hold)
    return _stopped(life, seen, ends=ends)


def hold_on(
    life: Life, seen: Seen, until: int, *, is_over: bool, ends: bool
) -> Passed | Held | Halted | Rested | None:
    """The stop that is held open, once more."""
    life.hears, life.goes_on = False, True
    rest = life.known.rest
    if rest is None or not rest.held_until:
        return None
    if until not in (0, rest.held_until) and rest.held_until > life.now:
        return None  # that hold belongs to a later stop
    life.look_round()
    halted = contention.retry_what_is_due(life)
    if halted is not None:
        return _stopped(life, seen, ends=ends, halted=halted)
    if life.came:
        return _go_on(life, seen)
    if is_over or life.now >= rest.held_until:
        return _stopped(life, seen, ends=ends)
    return Held(life.holder, rest.held_until)


def hold_along(life: Life, until: int) -> Held | None:
    """The stop that another ledger holds open."""
    if life.known.rest is None or life.known.rest.held_until or life.known.blocks:
        return None
    life.rest(held_until=until)
    return Held(life.holder, until)


def end_holds_below(life: Life) -> None:
    """The user spoke to the session: end the holds of its sub-agents' stops."""
    for rest in agent_records.rests(life.draft, agent_records.of_session(life.session_key)):
        if rest.key != life.holder.key and rest.held_until > life.now:
            rest.held_only_until(life.now).write(life.draft, agent_records.RESTING)


def _go_on(life: Life, seen: Seen) -> Passed:
    """The stop has not happened: a file came free for the agent."""
    life.hears = True
    handover.notice(life)
    passed = life.passed()
    handover.claim(life, seen.waited)
    life.wake_up()
    return passed


def _hold(life: Life, waits: Sequence[Wait], seen: Seen, hold_until: int) -> Held:
    """Hold the stop open until a retry is due. If the hook that holds it is killed, the leases end
    all the same."""
    until = min(hold_until, *(wait.retry_at for wait in waits))
    for wait in [wait for wait in waits if wait.retry_at <= until] or waits:
        wait.write(life.draft, agent_records.STOP_HELD, state=wait.state)
    _free_unchanged(life, seen)
    life.rest(held_until=until)
    return Held(life.holder, until)


def _stopped(
    life: Life, seen: Seen, *, ends: bool, halted: Halted | None = None
) -> Halted | Rested:
    """Release unchanged files now, and the others in a while, or pass them up to the parent."""
    left, given_back = _not_done(life)
    life.leave_lines("ended" if ends else "stopped")
    _free_unchanged(life, seen)
    if ends:
        _end(life)
        return Rested(life.holder, left, given_back, life.known.blocks)
    life.rest()
    return halted or Rested(life.holder, left, given_back)


def _not_done(life: Life) -> tuple[list[str], list[str]]:
    """The files that the agent was refused and did not get, and those that have just come free for
    it or were reserved for its retry."""
    left: list[str] = []
    given_back = [path for wait in life.came for path in wait.blocked]
    for wait in life.known.waits:
        is_kept = bool(wait.ticket) and life.draft.live_grant(wait.ticket) is not None
        (given_back if is_kept else left).extend(wait.blocked)
    return left, given_back


def is_unchanged(grant: Grant, seen: Seen) -> bool:
    """Whether the file of a lease is unchanged since the lease was taken; False if unknown."""
    return bool(grant.stamp) and seen.leases.get(grant.id) == grant.stamp


def _free_unchanged(life: Life, seen: Seen) -> None:
    for grant in life.draft.held_by(life.holder.key):
        if is_unchanged(grant, seen):
            life.free(grant, file_states.RESTED)


def _end(life: Life) -> None:
    """A sub-agent ended: the files it changed go up to its parent and are not released. It has no
    parent only if the session has ended before."""
    held = life.draft.held_by(life.holder.key)
    parent = _parent(life) if held else None
    for grant in held:
        why = fate(life.draft, grant)
        if why not in ("", OWNER_DEAD):
            life.draft.end(grant, events.LOCK_REAPED, why=why)
        elif parent is None:
            life.free(grant, file_states.ENDED)
        else:
            handover.move_up(life, grant, *parent)
    agent_family.ended(life.draft, life.holder)
    agent_records.end_all(life.draft, agent_records.of_agent(life.holder.key))


def _parent(life: Life) -> tuple[Holder, Rest | None] | None:
    """The nearest agent above a sub-agent that has not ended, in this process, and its rest."""
    above = agent_family.ancestors(life.draft, life.holder)
    for key in above:
        known = agent_records.known(life.draft, key)
        if known.presence is not None:
            return known.presence.in_process(life.holder.witness), known.rest
    if agent_records.owner_of_name(life.draft, display_names.above(life.holder)):
        return None
    # Its leases are older than the records of agents, and so are the agents above it.
    own, agent = life.holder, ids_of(above[0])[1]
    parent = Holder(
        id=above[0], key=above[0], witness=own.witness, client=own.client, session=own.session,
        agent=agent, parent=life.session_key if agent else "",
    )  # fmt: skip
    return display_names.introduce(life.draft, parent, life.asker.place()), None
