"""The decisions of the gate: one for each event of an agent, each a pure function."""

from __future__ import annotations

from holdfast.core import events
from holdfast.core.draft import Draft
from holdfast.core.model import Decision
from holdfast.core.waiting import hand_over
from holdfast.gate.rulebook import records, states
from holdfast.gate.rulebook.life import Life, tell_of_what_is_free

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.model import Grant, Holder, Request
    from holdfast.core.view import View
    from holdfast.gate.rulebook.outcomes import (
        Asker,
        Denied,
        Halted,
        Held,
        Passed,
        Rested,
        Stamps,
    )
    from holdfast.gate.rulebook.records import Block, Presence


def edit(view: View, asker: Asker, wanted: Sequence[Request]) -> Decision[Passed | Denied | Halted]:
    """An agent is about to write some files: it gets all of them, or is refused all of them."""
    life = Life(view, asker)
    return life.done(life.edit(wanted))


def wait_on(
    view: View, asker: Asker, wanted: Sequence[Request], id: str
) -> Decision[Passed | Denied | Halted | None]:
    """The same edit, a moment later, while its call is held open: has the file come free? None: its
    session has ended, or goes on in another process."""
    if not _is_here(view, asker):
        return Decision(None)
    life = Life(view, asker)
    return life.done(life.wait_on(wanted, id))


def stop(
    view: View,
    asker: Asker,
    stamps: Stamps,
    *,
    hold: int = 0,
    may_go_on: bool = False,
    ends: bool = False,
) -> Decision[Passed | Held | Halted | Rested]:
    """An agent has nothing more to do; a sub-agent then `ends`.

    `hold` is how long the stop can be held open. With `may_go_on` the agent can be sent back to
    work.
    """
    from holdfast.gate.rulebook import stopping

    life = Life(view, asker, is_ending=ends)
    return life.done(stopping.stop(life, stamps, hold, may_go_on=may_go_on, ends=ends))


def hold_on(
    view: View,
    asker: Asker,
    stamps: Stamps,
    *,
    until: int = 0,
    is_over: bool = False,
    ends: bool = False,
) -> Decision[Passed | Held | Halted | Rested | None]:
    """The same stop, a moment later, while it is held open. None: the agent went on without it, and
    nothing is to be said. `until` tells it from a later stop. With `is_over` it can be held no
    longer."""
    from holdfast.gate.rulebook import stopping

    if not _is_here(view, asker):
        return Decision(None)
    life = Life(view, asker, is_ending=ends)
    return life.done(stopping.hold_on(life, stamps, until, is_over=is_over, ends=ends))


def leave(view: View, asker: Asker) -> Decision[None]:
    """The client of a call or stop that was held open is gone: nobody waits any more."""
    if not _is_here(view, asker):
        return Decision(None)
    life = Life(view, asker)
    life.leave_lines("client gone")
    return life.done(None)


def _is_here(view: View, asker: Asker) -> bool:
    """Whether an agent is still the one, in that process, whose call or stop was held open."""
    presence = records.known(view, asker.holder.key).presence
    return presence is not None and presence.witness == asker.holder.witness


def live_on(view: View, asker: Asker, *, is_tail: bool = False) -> Decision[Passed]:
    """Something happened that shows that the agent is at work, or (`is_tail`) the end of something
    that it began before."""
    life = Life(view, asker)
    life.wake_up(is_tail=is_tail)
    return life.done(life.passed())


def prompt(view: View, asker: Asker) -> Decision[tuple[Passed, list[Block]]]:
    """A person spoke to the session: whoever of it was blocked may go on. A retry that was due is
    made first."""
    life = Life(view, asker)
    for wait in list(life.known.waits):
        if life.now >= wait.retry_at:
            life.retry(wait, stops=False)
    resumed = resume(life.draft, "a new prompt", start=records.of_session(life.session_key))
    life.known.blocks.clear()
    life.wake_up()
    return life.done((life.passed(), resumed))


def session_start(view: View, asker: Asker) -> Decision[tuple[Passed, list[Presence]]]:
    """A session begins, or goes on in a new process. Who else is at work here."""
    from holdfast.gate.rulebook import stopping

    life = Life(view, asker)
    life.wake_up()
    stopping.rebind(life)
    return life.done((life.passed(), life.others()))


def agent_call(view: View, asker: Asker) -> Decision[Passed]:
    """An agent is about to start another."""
    from holdfast.gate.rulebook import family

    life = Life(view, asker)
    life.wake_up()
    family.called(life.draft, life.holder, asker.new_id())
    return life.done(life.passed())


def agent_start(view: View, asker: Asker) -> Decision[Passed]:
    """A sub-agent started."""
    from holdfast.gate.rulebook import family

    life = Life(view, asker)
    life.wake_up()
    family.started(life.draft, life.holder)
    return life.done(life.passed())


def session_end(view: View, asker: Asker) -> Decision[list[Block]]:
    """The session ended: everything of all its agents is free, and they stand in no line. What
    some of them were blocked by."""
    from holdfast.gate.rulebook import stopping

    life = Life(view, asker, is_ending=True)
    stopping.end_session(life)
    return life.done(records.blocks(life.draft, records.of_session(life.session_key)))


def fail(view: View, asker: Asker) -> Decision[None]:
    """The agent failed for good: everything of it is free, and it stands in no line."""
    life = Life(view, asker)
    life.leave_lines("failed")
    for grant in life.draft.held_by(life.holder.key):
        life.free(grant, states.ENDED)
    return life.done(None)


def commit(view: View, ids: Sequence[str]) -> Decision[list[Grant]]:
    """What was committed, and is clean now, is free."""
    states.after(states.OWNED, states.COMMITTED)
    draft = Draft(view)
    ended = []
    for id in ids:
        grant = draft.live_grant(id)
        if grant is not None:
            draft.end(grant, events.LOCK_RELEASED)
            ended.append(grant)
    hand_over(draft)
    tell_of_what_is_free(draft)
    return draft.done(ended)


def let_go_on(view: View, by: str, agent: str = "") -> Decision[list[Block]]:
    """A person lets blocked agents go on: all of them, or one by its name or key."""
    draft = Draft(view)
    return draft.done(resume(draft, by, key=_whose(draft, agent) if agent else ""))


def _whose(draft: Draft, agent: str) -> str:
    """The key of an agent that somebody names, by the name that it has or had; the text itself if
    nobody is called that, or more than one was before names were unique."""
    key = records.owner_of_name(draft, agent)
    if key:
        return key
    keys = {block.key for block in records.blocks(draft) if block.agent == agent}
    return keys.pop() if len(keys) == 1 else agent


def resume(draft: Draft, by: str, *, key: str = "", start: str = "") -> list[Block]:
    """The same as a part of a larger decision; `start` is that of the notes on some agents."""
    found = []
    for block in records.blocks(draft, start):
        if key in ("", block.key):
            state = states.after(states.BLOCKED, states.RESUMED)
            block.end(draft, records.RESUMED, agent=block.agent, by=by, state=state)
            found.append(block)
    return found


def introduced(view: View, asker: Asker) -> Holder:
    """The agent by the name that it has, or will have with its first decision."""
    return Life(view, asker).holder
