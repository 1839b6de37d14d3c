"""The parents of sub-agents: agents start agents, and no client reports which started which.

Only the order shows it: an agent calls the tool that starts a sub-agent, and then one starts. So
the call is recorded, and the next sub-agent of that session is the caller's child. Two agents that
call at the same moment may get each other's child: then a file that moves up at the end moves to
the other of the two, and never out of the session. A child of the session's own agent, as nearly
all are, has no birth record.

    family:SESSION:call:ID    Call    it is about to start a sub-agent
    family:SESSION:child:KEY  Birth   which sub-agent started which

Parts of decisions, each on the draft of one.
"""

from __future__ import annotations

from holdfast.core.model import SECOND
from holdfast.gate.rulebook import agent_records
from holdfast.gate.rulebook.agent_records import Record, version_of
from holdfast.gate.rulebook.display_names import session_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from holdfast.core.draft import Draft
    from holdfast.core.model import Event, Holder
    from holdfast.core.view import View
    from holdfast.gate.rulebook.agent_records import Block, Known

#: A call that no sub-agent followed within this time was refused, or failed.
CALL_LASTS = 60 * SECOND
#: Deeper than any client lets agents start agents.
GENERATIONS_MAX = 20


class Call(Record):
    """An agent is about to start another: the next that starts in the session is its child."""

    __slots__ = ("agent", "at", "name", "parent")

    def __init__(self, name: str, *, agent: str, parent: str, at: int = 0) -> None:
        self.name = name
        self.agent: Final = agent
        self.parent: Final = parent
        self.at: Final = at

    @staticmethod
    def all_of(session_key: str) -> str:
        """The common prefix of the names of a session's calls."""
        return f"family:{session_key}:call:"

    def to_data(self) -> dict[str, Any]:
        """The data of the event."""
        return {"agent": self.agent, "parent": self.parent}

    @classmethod
    def of(cls, event: Event) -> Call:
        """The record of an event."""
        version_of(event)
        data = event.data
        return cls(data["note"], agent=data["agent"], parent=data["parent"], at=event.at)


class Birth(Record):
    """A sub-agent that another sub-agent started."""

    __slots__ = ("child", "name", "parent")

    def __init__(self, session_key: str, child: str, parent: str) -> None:
        self.name = f"{self.all_of(session_key)}{child}"
        self.child: Final = child
        self.parent: Final = parent

    @staticmethod
    def all_of(session_key: str) -> str:
        """The common prefix of the names of a session's births."""
        return f"family:{session_key}:child:"

    def to_data(self) -> dict[str, Any]:
        """The data of the event."""
        return {"child": self.child, "parent": self.parent}

    @classmethod
    def of(cls, event: Event) -> Birth:
        """The record of an event."""
        version_of(event)
        name, child = event.data["note"], event.data["child"]
        made = cls("", child, event.data["parent"])
        made.name = name
        return made


def called(draft: Draft, holder: Holder, id: str) -> None:
    """An agent is about to start another."""
    name = f"{Call.all_of(session_key(holder))}{id}"
    Call(name, agent=holder.id, parent=holder.key).write(draft, agent_records.CALLS)


def started(draft: Draft, holder: Holder) -> None:
    """A sub-agent started: the oldest pending call was for it."""
    session = session_key(holder)
    oldest: Call | None = None
    for call in map(Call.of, draft.notes(Call.all_of(session))):
        if call.at + CALL_LASTS < draft.now:
            call.end(draft, agent_records.ENDED)
        elif oldest is None:
            oldest = call
    if oldest is None:
        return
    oldest.end(draft, agent_records.ENDED)
    if oldest.parent not in (session, holder.key):
        Birth(session, holder.key, oldest.parent).write(draft, agent_records.STARTED)


def ended(draft: Draft, holder: Holder) -> None:
    """A sub-agent ended: its children become its parent's, and its pending calls end."""
    session = session_key(holder)
    above = ancestors(draft, holder)[0]
    for call in map(Call.of, draft.notes(Call.all_of(session))):
        if call.parent == holder.key:
            call.end(draft, agent_records.ENDED)
    for birth in map(Birth.of, draft.notes(Birth.all_of(session))):
        if birth.child == holder.key or (birth.parent == holder.key and above == session):
            birth.end(draft, agent_records.ENDED)
        elif birth.parent == holder.key:
            Birth(session, birth.child, above).write(draft, agent_records.STARTED)


def has_children(draft: Draft, holder: Holder) -> bool:
    """Whether an agent has sub-agents at work, or about to start, whose files go up to it."""
    session = session_key(holder)
    if any(Call.of(event).parent == holder.key for event in draft.notes(Call.all_of(session))):
        return True
    if holder.agent:
        births = map(Birth.of, draft.notes(Birth.all_of(session)))
        return any(birth.parent == holder.key for birth in births)
    return any(one.agent for one in agent_records.present(draft, agent_records.of_session(session)))


def forget(draft: Draft, session: str) -> None:
    """The session ended, and all its agents with it."""
    for call in map(Call.of, draft.notes(Call.all_of(session))):
        call.end(draft, agent_records.ENDED)
    for birth in map(Birth.of, draft.notes(Birth.all_of(session))):
        birth.end(draft, agent_records.ENDED)


def block_of(view: View | Draft, holder: Holder, known: Known | None = None) -> Block | None:
    """The block that keeps an agent from writing: its own, or that of an agent above it from before
    its own first event. A blocked agent does not write through new sub-agents; those that were at
    work already continue. `known` are the agent's records before this event."""
    if known is None:
        known = agent_records.known(view, holder.key)
    if known.blocks or not holder.agent:
        return known.blocks[0] if known.blocks else None
    since, presence = view.now, known.presence
    if presence is not None and presence.witness == holder.witness:
        since = presence.at
    for key in ancestors(view, holder):
        for block in agent_records.known(view, key).blocks:
            if block.at <= since:
                return block
    return None


def ancestors(view: View | Draft, holder: Holder) -> list[str]:
    """The keys of a sub-agent's parent, the parent's parent and so on, up to the session's own
    agent."""
    session = session_key(holder)
    found: list[str] = []
    key = holder.key
    while key != session and len(found) < GENERATIONS_MAX:
        event = view.note(f"{Birth.all_of(session)}{key}")
        key = session if event is None else Birth.of(event).parent
        found.append(key)
    return found
