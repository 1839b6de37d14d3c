"""Sessions begin, continue in another process, and end.

Parts of decisions, each on the life of the session's own agent.
"""

from __future__ import annotations

from holdfast.core.conflicts import OWNER_DEAD, fate
from holdfast.gate.rulebook import (
    agent_family,
    agent_records,
    file_states,
    handover,
)
from holdfast.gate.rulebook.agent_life import FOR_NEXT_EDIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.model import Holder, Witness
    from holdfast.core.view import View
    from holdfast.gate.rulebook.agent_life import Life
    from holdfast.gate.rulebook.agent_records import Presence


def elsewhere(view: View, holder: Holder) -> Presence | None:
    """Where else a session is open: its last event came from another process, which is alive."""
    presence = agent_records.known(view, holder.key).presence
    if presence is None or presence.witness in (None, holder.witness):
        return None
    return presence if view.dead(presence.witness, ()) is False else None


def others(life: Life) -> list[Presence]:
    """The other agents at work here. Agents that ended without an event are forgotten, and no file
    stays reserved for them, even if a command of theirs still writes."""
    found = []
    for one in agent_records.present(life.draft):
        if (one.client, one.session) == (life.holder.client, life.holder.session):
            continue
        if life.draft.is_dead(one.witness):
            _forget(life, one)
        else:
            found.append(one)
    return found


def _forget(life: Life, gone: Presence) -> None:
    """An agent ended without an event. Its leases stay until another agent wants the files."""
    for ticket in list(life.draft.waiting(gone.key)):
        life.draft.drop(ticket, "waiter dead")
    for grant in life.draft.held_by(gone.key):
        if grant.reason == FOR_NEXT_EDIT:
            life.free(grant, file_states.ENDED)
    if gone.agent:
        agent_family.ended(life.draft, gone.in_process(gone.witness))
    else:
        agent_family.forget(life.draft, gone.key)
    agent_records.end_all(life.draft, agent_records.of_agent(gone.key))


def begin(life: Life) -> None:
    """The session has started, which is not work: if it rests, it continues to rest.

    In a new process it keeps the files that it had. It rests until it does something, because a
    person may only look at it, so it waits in no queue; and its sub-agents ended with the old
    process."""
    presence = life.known.presence
    is_new = presence is None or presence.witness != life.holder.witness
    if is_new:
        life.leave_lines("client gone")
        agent_family.forget(life.draft, life.holder.key)
    for one in agent_records.present(life.draft, agent_records.of_session(life.holder.key)):
        if _is_gone(life, one.witness):
            _forget(life, one)
    has_come = _rebind(life)
    if is_new and (has_come or life.known.rest is not None):
        life.rest()
    life.show_life()


def _is_gone(life: Life, witness: Witness | None) -> bool:
    """Whether that is an earlier process of the session, and not a second window."""
    return witness != life.holder.witness and life.draft.is_dead(witness) is not False


def _rebind(life: Life) -> bool:
    """Move the leases that the session and its sub-agents had under a dead process to this one.
    Returns whether there were any."""
    has_come = False
    for grant in life.draft.held_within(life.holder.key):
        if not _is_gone(life, grant.holder.witness):
            continue
        if grant.reason == FOR_NEXT_EDIT:  # reserved for an edit of the old process
            life.free(grant, file_states.ENDED)
        elif fate(life.draft, grant) in ("", OWNER_DEAD):
            moved = handover.move(life, grant, life.holder)
            if grant.idle_at is not None and life.known.rest is not None:
                life.draft.extend(moved, expires_at=moved.expires_at, idle_at=grant.idle_at)
            has_come = True
    return has_come


def gather(life: Life) -> None:
    """No sub-agent is at work: one that the user interrupted did not report its end. Their files go
    to the session's own agent."""
    session = life.holder.key
    for one in agent_records.present(life.draft, agent_records.of_session(session)):
        if one.agent:
            _forget(life, one)
    for grant in life.draft.held_within(session):
        if grant.holder.key != session and fate(life.draft, grant) in ("", OWNER_DEAD):
            handover.move(life, grant, life.holder)


def end(life: Life) -> None:
    """End all leases and waits of the session's agents. Their blocks stay: a person has to read
    them."""
    session = life.session_key
    for wait in agent_records.waits(life.draft, agent_records.of_session(session)):
        life.leave_line(wait, "ended")
    for grant in life.draft.held_within(session):
        life.free(grant, file_states.ENDED)
    agent_records.end_all(life.draft, agent_records.of_session(session))
    agent_family.forget(life.draft, session)
