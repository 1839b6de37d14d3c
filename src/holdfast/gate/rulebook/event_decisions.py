"""The decisions of the gate: one for each event of an agent, each a pure function."""

from __future__ import annotations

from holdfast.core import bulk_rules, events
from holdfast.core.draft import Draft
from holdfast.core.model import Conflicts, Decision
from holdfast.core.wait_line import hand_over
from holdfast.gate.rulebook import agent_records, file_states
from holdfast.gate.rulebook.agent_life import Life
from holdfast.gate.rulebook.outcomes import Leased, Passed, no_edit_is_pending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.model import Grant, Holder, Request
    from holdfast.core.view import View
    from holdfast.gate.rulebook.agent_records import Block, Presence
    from holdfast.gate.rulebook.outcomes import (
        Asker,
        Denied,
        Halted,
        Held,
        Rested,
        Seen,
    )


def edit(view: View, asker: Asker, wanted: Sequence[Request]) -> Decision[Passed | Denied | Halted]:
    """An agent is about to write some files: it gets all of them, or is refused all of them."""
    life = Life(view, asker)
    return life.done(life.edit(wanted))


def write(
    view: View, asker: Asker, wanted: Sequence[Request], *, is_left: bool = False
) -> Decision[Leased | Conflicts | Denied | Halted]:
    """A command of an agent is about to write some files: as an edit, all of them or none.

    A process that an agent has left running does not wake it (`is_left`, or the agent has stopped):
    it gets free files for as long as it writes, and others are refused without a place in line.
    """
    life = Life(view, asker)
    if is_left or life.known.rest is not None:
        halted = life.halted()
        if halted is not None:
            return life.done(halted)
        wanted = [request.but(holder=life.holder) for request in wanted]
        found = bulk_rules.take_each(life.draft, wanted)
        if isinstance(found, Conflicts):
            return life.done(found)
        return life.done(Leased(life.holder, found, is_kept=False))
    outcome = life.edit(wanted)
    if not isinstance(outcome, Passed):
        return life.done(outcome)
    wanted = [request.but(holder=life.holder) for request in wanted]
    grants = [
        grant for one in wanted if (grant := bulk_rules.covering(life.draft, one)) is not None
    ]
    leased = Leased(life.holder, grants, is_kept=True, is_limited=outcome.is_limited)
    return life.done(leased)


def wait_on(
    view: View, asker: Asker, wanted: Sequence[Request], id: str
) -> Decision[Passed | Denied | Halted | None]:
    """The same edit, a moment later, while its call is held open. None: its session has ended, or
    continues in another process."""
    if not _is_here(view, asker):
        return Decision(None)
    from holdfast.gate.rulebook import contention

    life = Life(view, asker)
    return life.done(contention.wait_on(life, wanted, id))


def stop(
    view: View,
    asker: Asker,
    seen: Seen,
    *,
    hold: int = 0,
    may_go_on: bool = False,
    ends: bool = False,
    is_alone: bool = False,
) -> Decision[Passed | Held | Halted | Rested]:
    """An agent has nothing more to do; a sub-agent then `ends`.

    `hold` is how long the stop can be held open. With `may_go_on` the agent can be sent back to
    work. With `is_alone` no sub-agent of the session is at work.
    """
    from holdfast.gate.rulebook import agent_stop

    life = Life(view, asker, is_ending=ends)
    if is_alone:
        from holdfast.gate.rulebook import sessions

        sessions.gather(life)
    return life.done(agent_stop.stop(life, seen, hold, may_go_on=may_go_on, ends=ends))


def hold_on(
    view: View,
    asker: Asker,
    seen: Seen,
    *,
    until: int = 0,
    is_over: bool = False,
    ends: bool = False,
) -> Decision[Passed | Held | Halted | Rested | None]:
    """The same stop, a moment later, while it is held open. None: the agent has continued without
    it. `until` distinguishes it from a later stop. With `is_over` it can be held no longer."""
    from holdfast.gate.rulebook import agent_stop

    if not _is_here(view, asker):
        return Decision(None)
    life = Life(view, asker, is_ending=ends)
    return life.done(agent_stop.hold_on(life, seen, until, is_over=is_over, ends=ends))


def hold_along(view: View, asker: Asker, until: int) -> Decision[Held | None]:
    """A stop that has been decided here is held open in another ledger: until that hold ends the
    stop has not happened. None: no lease here ends with it."""
    from holdfast.gate.rulebook import agent_stop

    if not _is_here(view, asker):
        return Decision(None)
    life = Life(view, asker)
    return life.done(agent_stop.hold_along(life, until))


def leave(view: View, asker: Asker) -> Decision[None]:
    """The client of a call or stop that was held open is gone: the agent's waits end."""
    if not _is_here(view, asker):
        return Decision(None)
    life = Life(view, asker)
    life.hears = False
    life.leave_lines("client gone")
    return life.done(None)


def _is_here(view: View, asker: Asker) -> bool:
    """Whether the agent whose call or stop was held open is still in the same process."""
    presence = agent_records.known(view, asker.holder.key).presence
    return presence is not None and presence.witness == asker.holder.witness


def live_on(view: View, asker: Asker, *, is_tail: bool = False) -> Decision[Passed]:
    """An event showed that the agent is at work, or (`is_tail`) that earlier work of it ended."""
    life = Life(view, asker)
    life.wake_up(is_tail=is_tail)
    return life.done(life.passed())


def prompt(view: View, asker: Asker) -> Decision[tuple[Passed, list[Block]]]:
    """A person spoke to the session: its blocked agents may continue. A retry that is due is made
    first."""
    life = Life(view, asker)
    if life.known.waits:
        from holdfast.gate.rulebook import contention

        contention.retry_what_is_due(life, stops=False)
    from holdfast.gate.rulebook import agent_stop

    agent_stop.end_holds_below(life)
    resumed = resume(life.draft, "a new prompt", start=agent_records.of_session(life.session_key))
    life.known.blocks.clear()
    life.wake_up()
    return life.done((life.passed(), resumed))


def session_start(
    view: View, asker: Asker
) -> Decision[tuple[Passed, list[Presence], Presence | None]]:
    """A session begins, or continues: in a new process, or after its context was cleared or
    compacted. Returns the other agents at work here, and where else the session is open, which is
    only reported."""
    from holdfast.gate.rulebook import sessions

    elsewhere = sessions.elsewhere(view, asker.holder)
    life = Life(view, asker, is_ending=elsewhere is not None)
    if elsewhere is None:
        sessions.begin(life)
    return life.done((life.passed(), sessions.others(life), elsewhere))


def agent_call(view: View, asker: Asker) -> Decision[Passed | Halted]:
    """An agent is about to start another, which a blocked agent may not."""
    from holdfast.gate.rulebook import agent_family

    life = Life(view, asker)
    life.wake_up()
    halted = life.halted()
    if halted is not None:
        return life.done(halted)
    agent_family.called(life.draft, life.holder, asker.new_id())
    return life.done(life.passed())


def agent_start(view: View, asker: Asker) -> Decision[Passed]:
    """A sub-agent started."""
    from holdfast.gate.rulebook import agent_family

    life = Life(view, asker)
    life.wake_up()
    agent_family.started(life.draft, life.holder)
    return life.done(life.passed())


def session_end(view: View, asker: Asker) -> Decision[list[Block]]:
    """The session ended: all leases and waits of its agents end. Returns their blocks."""
    from holdfast.gate.rulebook import sessions

    life = Life(view, asker, is_ending=True)
    sessions.end(life)
    return life.done(agent_records.blocks(life.draft, agent_records.of_session(life.session_key)))


def fail(view: View, asker: Asker) -> Decision[None]:
    """The agent failed for good: all its leases and waits end."""
    life = Life(view, asker)
    life.hears = False
    life.leave_lines("failed")
    for grant in life.draft.held_by(life.holder.key):
        life.free(grant, file_states.ENDED)
    return life.done(None)


def commit(
    view: View,
    ids: Sequence[str],
    is_writing: Callable[[str, Sequence[str]], bool] = no_edit_is_pending,
) -> Decision[list[Grant]]:
    """End the leases of files that were committed and are clean now, unless an edit tool is about
    to write them; `is_writing` as in `Asker`."""
    from holdfast.gate.rulebook.unblocking import note_what_is_free

    file_states.after(file_states.OWNED, file_states.COMMITTED)
    draft = Draft(view)
    ended = []
    for id in ids:
        grant = draft.live_grant(id)
        if grant is not None and not is_writing(grant.holder.key, grant.keys):
            draft.end(grant, events.LOCK_RELEASED)
            ended.append(grant)
    hand_over(draft)
    note_what_is_free(draft)
    return draft.done(ended)


def limit(view: View, ids: Sequence[str], length: int) -> Decision[None]:
    """A requester was refused for these leases: give an end, `length` from now, to those whose
    owners cannot be judged from here."""
    from holdfast.gate.rulebook import lease_limits

    draft = Draft(view)
    lease_limits.limit(draft, ids, length)
    return draft.done(None)


def let_go_on(view: View, by: str, agent: str = "") -> Decision[list[Block]]:
    """A person lets blocked agents continue: all of them, or one by its name or key."""
    draft = Draft(view)
    return draft.done(resume(draft, by, key=_whose(draft, agent) if agent else ""))


def _whose(draft: Draft, agent: str) -> str:
    """The key of an agent by a name that it has or had; the text itself if no agent has that name,
    or several had it before names were unique."""
    key = agent_records.owner_of_name(draft, agent)
    if key:
        return key
    keys = {block.key for block in agent_records.blocks(draft) if block.agent == agent}
    return keys.pop() if len(keys) == 1 else agent


def resume(draft: Draft, by: str, *, key: str = "", start: str = "") -> list[Block]:
    """The same as a part of a larger decision; `start` is that of the notes on some agents."""
    found = []
    for block in agent_records.blocks(draft, start):
        if key in ("", block.key):
            state = file_states.after(block.state, file_states.RESUMED)
            block.end(draft, agent_records.RESUMED, agent=block.agent, by=by, state=state)
            found.append(block)
    return found


def introduced(view: View, asker: Asker) -> Holder:
    """The agent under the name that it has, or will get with its first decision."""
    return Life(view, asker).holder
