"""Who is whose child: agents start agents, and no client says which of them started which.

Only the order tells: an agent calls the tool that starts one, and then one starts. So the call is
noted, and the next sub-agent of that session is its child. Two agents that call at the same moment
may get each other's: then a file that moves up at the end moves to the other of the two, and never
out of the session. Nothing is noted of a child of the session's own agent, as nearly all are.
"""

from __future__ import annotations

from holdfast.core.model import SECOND
from holdfast.gate.agents import session_key
from holdfast.manager import services
from holdfast.manager.ids import new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.model import Event, Holder
    from holdfast.core.view import View
    from holdfast.manager.manager import LockManager

CALLS = "agent_calls"
STARTED = "agent_started"
ENDED = "agent_ended"

#: A call that no agent followed for so long was refused, or failed.
CALL_LASTS = 60 * SECOND
#: Deeper than any client lets agents start agents.
GENERATIONS_MAX = 20


def called(manager: LockManager, holder: Holder) -> None:
    """An agent is about to start another."""
    name = f"{_calls(session_key(holder))}{new_id()}"
    services.note(manager, CALLS, {"agent": holder.id, "parent": holder.key}, name=name)


def started(manager: LockManager, holder: Holder) -> None:
    """A sub-agent started: the oldest call that still waits for one was for it."""
    session = session_key(holder)
    oldest: Event | None = None
    for call in services.notes(manager, _calls(session)):
        if call.at + CALL_LASTS < manager.now():
            _over(manager, call)
        elif oldest is None:
            oldest = call
    if oldest is None:
        return
    _over(manager, oldest)
    parent = oldest.data["parent"]
    if parent not in (session, holder.key):
        _set_parent(manager, holder.key, session, parent)


def ended(manager: LockManager, holder: Holder) -> None:
    """A sub-agent ended: those that it started are its parent's now."""
    session = session_key(holder)
    above = ancestors(manager, holder)[0]
    for birth in services.notes(manager, _births(session)):
        child, parent = birth.data["child"], birth.data["parent"]
        if child == holder.key or (parent == holder.key and above == session):
            _over(manager, birth)
        elif parent == holder.key:
            _set_parent(manager, child, session, above)


def forget(manager: LockManager, session: str) -> None:
    """The session ended, and all its agents with it."""
    for start in (_calls(session), _births(session)):
        for event in services.notes(manager, start):
            _over(manager, event)


def ancestors(manager: LockManager, holder: Holder) -> list[str]:
    """The keys of a sub-agent's parent, of the parent's parent and so on: the last is that of the
    session's own agent."""
    session = session_key(holder)

    def climb(view: View) -> list[str]:
        found: list[str] = []
        key = holder.key
        while key != session and len(found) < GENERATIONS_MAX:
            birth = view.note(f"{_births(session)}{key}")
            key = birth.data["parent"] if birth is not None else session
            found.append(key)
        return found

    return services.look(manager, climb)


def descendants(manager: LockManager, holder: Holder) -> set[str]:
    """The keys of all agents below a sub-agent, as far as they run."""
    births = services.notes(manager, _births(session_key(holder)))
    found = {holder.key}
    while True:
        more = {one.data["child"] for one in births if one.data["parent"] in found} - found
        if not more:
            return found - {holder.key}
        found |= more


def _calls(session: str) -> str:
    return f"family:{session}:call:"


def _births(session: str) -> str:
    return f"family:{session}:child:"


def _set_parent(manager: LockManager, child: str, session: str, parent: str) -> None:
    data = {"child": child, "parent": parent}
    services.note(manager, STARTED, data, name=f"{_births(session)}{child}")


def _over(manager: LockManager, event: Event) -> None:
    services.note(manager, ENDED, {}, name=event.data["note"], over=True)
