"""An agent has nothing more to do: it waits a while for what it was refused, rests, and ends.

While a stop is held open it has not happened: the agent goes on if what it waits for comes free.
"""

from __future__ import annotations

from holdfast.core import events
from holdfast.core.conflicts import OWNER_DEAD, fate
from holdfast.gate.rulebook import family, naming, records, states
from holdfast.gate.rulebook.life import HANDED_OVER, is_unchanged
from holdfast.gate.rulebook.outcomes import Held, Rested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.gate.rulebook.life import Life
    from holdfast.gate.rulebook.outcomes import Halted, Passed, Stamps
    from holdfast.gate.rulebook.records import Wait


def stop(
    life: Life, stamps: Stamps, hold: int, *, may_go_on: bool, ends: bool
) -> Passed | Held | Halted | Rested:
    """There is nothing more to do, but perhaps to wait."""
    if life.known.blocks:  # only a person lets it go on
        return _stopped(life, stamps, ends=ends)
    life.look_round()
    halted = _retry_what_is_due(life)
    if halted is not None:
        return _stopped(life, stamps, ends=ends, halted=halted)
    if life.came and may_go_on:
        return _go_on(life, stamps)
    waits = [wait for wait in life.known.waits if not wait.held and life.stands_in_line(wait)]
    if waits and life.may_wait and may_go_on and hold > 0:
        return _hold(life, waits, stamps, life.now + hold)
    return _stopped(life, stamps, ends=ends)


def hold_on(
    life: Life, stamps: Stamps, until: int, *, is_over: bool, ends: bool
) -> Passed | Held | Halted | Rested | None:
    """The stop that is held open."""
    rest = life.known.rest
    if rest is None or not rest.held_until or until not in (0, rest.held_until):
        return None
    life.look_round()
    halted = _retry_what_is_due(life)
    if halted is not None:
        return _stopped(life, stamps, ends=ends, halted=halted)
    if life.came:
        return _go_on(life, stamps)
    if is_over or life.now >= rest.held_until:
        return _stopped(life, stamps, ends=ends)
    return Held(life.holder, rest.held_until)


def _retry_what_is_due(life: Life) -> Halted | None:
    for wait in list(life.known.waits):
        if life.now >= wait.retry_at:
            halted = life.retry(wait)
            if halted is not None:
                return halted
    return None


def _go_on(life: Life, stamps: Stamps) -> Passed:
    """The stop has not happened: what was waited for is there."""
    passed = life.passed()
    life.claim(stamps)
    life.wake_up()
    return passed


def _hold(life: Life, waits: Sequence[Wait], stamps: Stamps, hold_until: int) -> Held:
    """The stop is held open until a retry is due. If the hook that holds it is killed, the leases
    end all the same."""
    until = min(hold_until, *(wait.retry_at for wait in waits))
    for wait in [wait for wait in waits if wait.retry_at <= until] or waits:
        wait.write(life.draft, records.STOP_HELD, state=states.RETRY_PENDING)
    _free_unchanged(life, stamps)
    life.rest(held_until=until)
    return Held(life.holder, until)


def _stopped(
    life: Life, stamps: Stamps, *, ends: bool, halted: Halted | None = None
) -> Halted | Rested:
    """What was never changed is free, the rest is in a while, or goes up to the parent."""
    left = [path for wait in (*life.known.waits, *life.came) for path in wait.blocked]
    life.leave_lines("ended" if ends else "stopped")
    _free_unchanged(life, stamps)
    if ends:
        _end(life)
        return Rested(life.holder, left, life.known.blocks)
    life.rest()
    return halted or Rested(life.holder, left)


def _free_unchanged(life: Life, stamps: Stamps) -> None:
    """What was waited for until now may have been another's when its stamp was taken, and changed
    since."""
    waits = records.known(life.draft.view, life.holder.key).waits
    waited = {path for wait in waits for path in wait.paths}
    for grant in life.draft.held_by(life.holder.key):
        is_known = grant.reason != HANDED_OVER and grant.paths[0] not in waited
        if is_known and is_unchanged(grant, stamps):
            life.free(grant, states.RESTED)


def _end(life: Life) -> None:
    """A sub-agent ended: what it changed goes up to its parent, not into the open."""
    held = life.draft.held_by(life.holder.key)
    if held:
        above = family.ancestors(life.draft, life.holder)[0]
        parent = naming.relative(life.draft, life.holder, above)
        rest = records.known(life.draft, above).rest
        for grant in held:
            why = fate(life.draft, grant)
            if why in ("", OWNER_DEAD):
                life.move_up(grant, parent, rest)
            else:
                life.draft.end(grant, events.LOCK_REAPED, why=why)
    family.ended(life.draft, life.holder)
    records.end_all(life.draft, records.of_agent(life.holder.key))


def end_session(life: Life) -> None:
    """Everything of all agents of the session is free. That one was blocked is not forgotten:
    somebody has to read it."""
    session = life.session_key
    for wait in records.waits(life.draft, records.of_session(session)):
        life.leave_line(wait, "ended")
    for grant in life.draft.held_within(session):
        life.free(grant, states.ENDED)
    records.end_all(life.draft, records.of_session(session))
    family.forget(life.draft, session)


def rebind(life: Life) -> None:
    """The same session in a new process: what it had under the old one is still its own. Its
    sub-agents are gone with that, and their files are their parent's again."""
    for grant in life.draft.held_within(life.holder.key):
        if grant.holder.witness == life.holder.witness:
            continue
        if grant.reason == HANDED_OVER:  # kept for what the old process was about to do
            life.free(grant, states.ENDED)
        elif fate(life.draft, grant) in ("", OWNER_DEAD):
            life.move(grant, life.holder)
