"""Agents as holders: identified by (client, session, sub-agent), alive as long as the client.

The hook itself ends immediately, so no life depends on it. A resumed session is the same agent in
a new process. A command whose call was open when its client was killed may continue to write: as
long as it runs, the agent is not dead.
"""

from __future__ import annotations

import os

from holdfast.core.model import Holder, Witness, agent_key
from holdfast.gate import clients
from holdfast.manager.owners import running_calls
from holdfast.manager.owners.liveness import own_witness, witness_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.intent import Intent
    from holdfast.manager.owners.processes import Process

#: Programs that adopt orphaned processes, on a machine, for a user, or in a container.
INITS = ("systemd", "init", "launchd", "tini", "dumb-init", "docker-init", "catatonit")
#: How much of a folder's name is shown to people.
PLACE_CHARACTERS_MAX = 24


def holder_of(intent: Intent) -> Holder:
    """The agent of an intent. Its name is chosen with its first decision."""
    client, session, agent = intent.client, intent.session, intent.agent
    adapter = clients.adapter(client)
    mark = getattr(adapter, "MARK", "")
    key = agent_key(client, session, agent)
    return Holder(
        id=key,
        key=key,
        witness=_witness(intent),
        marks=(running_calls.mark(key, mark, session),) if mark and session else (),
        client=client,
        session=session,
        agent=agent,
        parent=agent_key(client, session) if agent else "",
    )


def place_of(witness: Witness | None, home: str) -> str:
    """Where a person finds an agent: the terminal of its client, or else the folder's name."""
    if witness is not None:
        from holdfast.manager.owners.identity import terminal_name
        from holdfast.manager.owners.processes import process_of

        process = process_of(witness.pid)
        terminal = terminal_name(process.terminal) if process is not None else ""
        if terminal:
            return terminal
    name = "".join(c for c in os.path.basename(home.rstrip("/")) if c.isalnum() or c in "._-")
    return name[:PLACE_CHARACTERS_MAX]


def _witness(intent: Intent) -> Witness:
    """The client's process: the one that it names, else the nearest process of that client above
    us, else our caller. A process that only adopts orphans is never taken for the client: if there
    is no other, the client was killed, and the process that it names is dead."""
    if intent.pid:
        named = witness_of(intent.pid)
        if named is not None:
            return named
    from holdfast.manager.owners.processes import ancestors

    above = ancestors()
    for process in above:
        if process.client == intent.client:
            return process.witness
    for process in above:
        if not (process.is_shell or _adopts(process, intent)):
            return process.witness
    if not above:  # the system does not show them
        return witness_of(os.getppid()) or own_witness()
    if intent.pid:
        own = own_witness()
        return Witness(
            host=own.host, boot=own.boot, namespace=own.namespace, pid=intent.pid, start=0
        )
    return own_witness() if _adopts(above[0], intent) else above[0].witness


def _adopts(process: Process, intent: Intent) -> bool:
    """Whether a process adopts orphans."""
    return process.name in INITS or (process.pid == 1 and intent.pid != 0)
