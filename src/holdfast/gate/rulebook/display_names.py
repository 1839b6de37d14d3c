"""The names of agents: the client, where a person finds it, and enough of its id.

    claude@pts/3:faf2          a session, in a terminal or else by its folder
    claude@pts/3:faf2/9c1e     a sub-agent of it

The end of an id is used, because some clients begin theirs with the time. It grows from four
characters until no other agent has, or ever had, that name. Names are for people: keys decide
whether two agents are the same.
"""

from __future__ import annotations

from holdfast.core.model import Holder, agent_key
from holdfast.gate.rulebook import agent_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.draft import Draft
    from holdfast.core.view import View

#: The number of characters shown of an id, if they are unique.
SHORTEST = 4


def session_key(holder: Holder) -> str:
    """The key of the session's own agent; those of its sub-agents start with it."""
    return agent_key(holder.client, holder.session)


def named(holder: Holder, shown: str) -> Holder:
    """The same agent under a name."""
    if holder.id == shown:
        return holder
    return Holder(
        id=shown, key=holder.key, witness=holder.witness, marks=holder.marks, user=holder.user,
        client=holder.client, session=holder.session, agent=holder.agent, parent=holder.parent,
    )  # fmt: skip


def above(holder: Holder) -> str:
    """The name of the session's own agent, from the name of any agent of the session."""
    return holder.id.rpartition("/")[0] if holder.agent else holder.id


def introduce(draft: Draft, holder: Holder, place: str) -> Holder:
    """The agent under the name that it gets: it is new here, or has moved. From now on no other
    agent gets that name, nor the name that a sub-agent's begins with: a session that was unknown is
    at work here too."""
    found = named(holder, choose(draft, holder, place))
    for name, key in ((above(found), session_key(found)), (found.id, found.key)):
        if not agent_records.owner_of_name(draft, name):
            agent_records.Name(name, key).write(draft, agent_records.NAMED)
            if key != found.key:
                session = Holder(
                    id=name, key=key, witness=found.witness, client=found.client,
                    session=found.session,
                )  # fmt: skip
                _note(draft, session, place)
    _note(draft, found, place)
    return found


def _note(draft: Draft, holder: Holder, place: str) -> None:
    agent_records.Presence(
        holder.key, shown=holder.id, client=holder.client, session=holder.session,
        agent=holder.agent, place=place, witness=holder.witness,
        marks=holder.marks, at=draft.now,
    ).write(draft, agent_records.PRESENT)  # fmt: skip


def choose(view: View | Draft, holder: Holder, place: str) -> str:
    """The name of an agent that has none yet, or has moved."""
    if not holder.agent:
        return _session_name(view, holder, place)
    session = agent_records.known(view, session_key(holder)).presence
    start = session.shown if session is not None else _session_name(view, holder, place)
    return _shortest(view, f"{start}/", holder.agent, holder.key)


def _session_name(view: View | Draft, holder: Holder, place: str) -> str:
    start = f"{holder.client}@{place}:" if place else f"{holder.client}:"
    return _shortest(view, start, holder.session, session_key(holder))


def _shortest(view: View | Draft, start: str, id: str, key: str) -> str:
    """The shortest name that is this agent's own, or unused."""
    letters = "".join(character for character in id if character.isalnum()) or id
    for length in range(min(SHORTEST, len(letters)), len(letters) + 1):
        name = f"{start}{letters[-length:]}"
        if agent_records.owner_of_name(view, name) in ("", key):
            return name
    number = 2
    while agent_records.owner_of_name(view, f"{start}{letters}~{number}") not in ("", key):
        number += 1
    return f"{start}{letters}~{number}"
