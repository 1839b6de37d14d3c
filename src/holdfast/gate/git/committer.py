"""Which agent or person makes a commit, and so which leases are its own.

The environment of the agent's shell identifies it; the nearest client above this process decides
which part of the environment counts. An agent may commit what its sub-agents have, but a sub-agent
not what its parent has. Outside of any agent, the committer's own leases are only those of the
processes above this one, such as the shell of a terminal.

What this does not promise: to distinguish a sub-agent of Claude Code from its session, because
nothing in the environment of its shell does; so it commits as the session.
"""

from __future__ import annotations

from holdfast.core.model import Grant, agent_key
from holdfast.manager.owners.identity import (
    CLAUDE_PID_VARIABLE,
    HOLDER_VARIABLE,
    whoami,
)
from holdfast.manager.owners.liveness import sees_processes
from holdfast.manager.owners.processes import ancestors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from holdfast.core.model import Holder, Witness
    from holdfast.manager.manager import LockManager

GRANT_VARIABLE = "HOLDFAST_GRANT"
TOKEN_VARIABLE = "HOLDFAST_TOKEN"
#: Each client that names its session to its shells, and its sub-agent too if it does.
_SESSIONS = (
    ("claude", "CLAUDE_CODE_SESSION_ID", ""),
    ("codex", "CODEX_SESSION_ID", "CODEX_THREAD_ID"),
)


class Committer:
    """The agent or person who makes this commit."""

    __slots__ = ("_agents", "_client", "_grant", "_keys", "_processes", "_token", "is_person")

    def __init__(self, env: Mapping[str, str]) -> None:
        named = _named(env)
        client, above = _up_to_client(env)
        if client:
            named = {client: named[client]} if client in named else {}
        self._agents: Final = {agent_key(name, *agent) for name, agent in named.items()}
        self._keys: Final = {whoami(env).holder.key, *self._agents}
        self._grant: Final = env.get(GRANT_VARIABLE, "")
        #: The id alone does not prove anything: every refusal because of the grant shows it.
        self._token: Final = env.get(TOKEN_VARIABLE, "")
        self._processes: Final = above
        # A client that does not name its session to its shells has one in each process.
        self._client: Final = "" if named else client
        known = named or client or self._grant or env.get(HOLDER_VARIABLE)
        self.is_person: Final = not known

    def is_holder(self, holder: Holder) -> bool:
        """Whether that is the committer itself, not an agent below it."""
        if holder.key in self._keys:
            return True
        return holder.witness in self._processes and holder.client in ("", self._client)

    def owns(self, manager: LockManager, grant: Grant) -> bool:
        """Whether a lease belongs to the committer, or to an agent below it."""
        holder = grant.holder
        sent_out = grant.id == self._grant and str(grant.token) == self._token
        if sent_out or self.is_holder(holder):
            return True
        if not holder.agent or not self._agents:
            return False
        from holdfast.gate.rulebook import agent_family
        from holdfast.manager import transactions

        above = transactions.look(manager, lambda view: agent_family.ancestors(view, holder))
        return not self._agents.isdisjoint(above)


def _named(env: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Session and sub-agent of each client that is named in the environment."""
    found = {}
    for client, session_variable, agent_variable in _SESSIONS:
        agent = env.get(agent_variable, "") if agent_variable else ""
        session = env.get(session_variable, "") or agent
        if session:
            found[client] = session, "" if agent == session else agent
    return found


def _up_to_client(env: Mapping[str, str]) -> tuple[str, list[Witness]]:
    """The nearest client above this process, and the processes up to it; all if there is none.

    A client that another one started inherits its environment. In a sandbox no client may be
    visible.
    """
    above = []
    for process in ancestors() if sees_processes() else ():
        above.append(process.witness)
        client = "claude" if str(process.pid) == env.get(CLAUDE_PID_VARIABLE) else process.client
        if client:
            return client, above
    return "", above
