"""Agents in a repository that other programs examine: they live as long as the test's process."""

from __future__ import annotations

import time

from holdfast.core.model import Holder, agent_key
from holdfast.gate.config.settings import Settings
from holdfast.gate.intent import Answer
from holdfast.gate.lease_gate import LeaseGate
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import own_witness

#: The retry time of agents whose retry must soon be due.
HASTY_SECONDS = 0.05


class Agent:
    """One agent, and its gate."""

    def __init__(
        self, manager: LockManager, session: str, settings: Settings | None = None
    ) -> None:
        self._manager = manager
        self.session = session
        self._settings = settings or Settings()
        self.key = agent_key("claude", session)

    @property
    def gate(self) -> LeaseGate:
        holder = Holder(
            id=self.key, key=self.key, witness=own_witness(), client="claude", session=self.session
        )
        return LeaseGate(self._manager, holder, self._settings)

    @property
    def name(self) -> str:
        return self.gate.introduce().id

    def edit(self, *paths: str) -> Answer:
        assert self._manager.tree is not None
        return self.gate.permit([f"{self._manager.tree.root}/{path}" for path in paths])


def blocked(manager: LockManager, session: str, path: str) -> Agent:
    """An agent whose retry for a file failed because another agent has it."""
    agent = Agent(manager, session, Settings(retry_seconds=HASTY_SECONDS))
    assert agent.edit(path).kind == "deny"
    time.sleep(2 * HASTY_SECONDS)
    assert agent.edit(path).kind == "halt"
    return agent
