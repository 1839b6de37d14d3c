"""Agents as holders: who it is by (client, session, sub-agent), alive as long as the client.

The hook itself ends at once, so nothing hangs on it. A session that is resumed is the same agent
in a new process. A killed client may leave programs behind that go on writing: they carry the
session's id in their environment, and as long as one of them runs the agent is not dead.
"""

from __future__ import annotations

import os

from holdfast.core.model import Holder, agent_key
from holdfast.gate import clients
from holdfast.manager.liveness import own_witness, witness_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.model import Witness
    from holdfast.gate.intent import Intent

#: How much of a long id is shown to people.
SHOWN = 8


def session_key(holder: Holder) -> str:
    """The key of the session's own agent; those of its sub-agents start with it."""
    return agent_key(holder.client, holder.session)


def relative(holder: Holder, key: str) -> Holder:
    """Another agent of the same session, by its key."""
    agent = key[len(session_key(holder)) :]
    shown = f"{holder.client}:{holder.session[:SHOWN]}"
    return Holder(
        id=f"{shown}:{agent[:SHOWN]}" if agent else shown,
        key=key,
        witness=holder.witness,
        marks=holder.marks,
        client=holder.client,
        session=holder.session,
        agent=agent,
        parent=session_key(holder) if agent else "",
    )


def holder_of(intent: Intent) -> Holder:
    """The agent that an intent is of."""
    client, session, agent = intent.client, intent.session, intent.agent
    shown = f"{client}:{session[:SHOWN]}"
    adapter = clients.adapter(client)
    mark = getattr(adapter, "MARK", "")
    return Holder(
        id=f"{shown}:{agent[:SHOWN]}" if agent else shown,
        key=agent_key(client, session, agent),
        witness=_witness(intent),
        marks=(f"{mark}={session}",) if mark and session else (),
        client=client,
        session=session,
        agent=agent,
        parent=agent_key(client, session) if agent else "",
    )


def _witness(intent: Intent) -> Witness:
    """The client's process: the one that it names, else the nearest above us that is it, else
    whoever called us."""
    if intent.pid:
        named = witness_of(intent.pid)
        if named is not None:
            return named
    from holdfast.manager.processes import ancestors

    above = ancestors()
    for process in above:
        if process.client == intent.client:
            return process.witness
    for process in above:
        if not process.is_shell:
            return process.witness
    return witness_of(os.getppid()) or own_witness()
