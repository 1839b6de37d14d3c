"""The world around the gate: files that change, processes on two hosts, clients and their agents.

All of it follows one seed. Nothing here uses the rulebook: the stamps of files, deaths, and who can
detect them follow from the actions of the simulation itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.core.model import SECOND, Holder, Request, Witness
from holdfast.manager.clock import FakeClock

HERE, ABROAD = "here", "abroad"
CLIENTS = ("claude", "codex")
FILES = ("app/a", "app/b", "app/ab", "lib/a", "lib/b", "docs/x")
#: Agents whose names a careless rule would confuse: they begin and end alike.
ID_START = "0199-"
ID_ENDS = ("-faf2", "faf2", "0c1e", "f-af2", "2")
#: A file that was changed more recently than this has no stamp: another change could go unseen.
TICK = SECOND // 50


class File:
    """A file: how often it was changed, when last, and whether the change is committed."""

    __slots__ = ("changed_at", "is_dirty", "version")

    def __init__(self) -> None:
        self.version = 1
        self.changed_at = -SECOND
        self.is_dirty = False


class GateWorld:
    """Files, processes and clocks. `viewer` is the host that reads the ledger."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.elapsed = 0
        self.viewer = HERE
        self.files = {path: File() for path in FILES}
        self._running: set[Witness] = set()
        self._starts = 0
        self._orphans: dict[str, int] = {}

    def advance(self, microseconds: int) -> None:
        """Time passes for all processes."""
        self.elapsed += microseconds
        self.clock.advance(microseconds / SECOND)

    # Files

    def write(self, path: str) -> None:
        """A file is changed."""
        file = self.files[path]
        file.version += 1
        file.changed_at = self.elapsed
        file.is_dirty = True

    def stamp(self, path: str) -> str:
        """The stamp of a file now; empty if a change could go unseen."""
        file = self.files[path]
        return "" if self.elapsed - file.changed_at < TICK else f"v{file.version}"

    def stamps(self, paths: Sequence[str]) -> dict[str, str]:
        """The stamps of some files."""
        return {path: self.stamp(path) for path in paths}

    # Life and death

    def start(self, host: str) -> Witness:
        """A new process."""
        self._starts += 1
        witness = Witness(
            host=host, boot="1", namespace="", pid=100 + self._starts % 7, start=self._starts
        )
        self._running.add(witness)
        return witness

    def kill(self, witness: Witness) -> None:
        """A process ends."""
        self._running.discard(witness)

    def leave_running(self, mark: str, microseconds: int) -> None:
        """A command whose call was open continues without its client for a while."""
        self._orphans[mark] = self.elapsed + microseconds

    def runs(self, witness: Witness | None) -> bool:
        """Whether a process really lives."""
        return witness in self._running

    def is_dead(self, witness: Witness, marks: tuple[str, ...]) -> bool | None:
        """Whether the reader of the ledger can prove a process dead."""
        if witness.host != self.viewer:
            return None
        if witness in self._running:
            return False
        return not any(self._orphans.get(mark, 0) > self.elapsed for mark in marks)


class Call:
    """A running hook: it has read the world, and has not answered yet.

    `stage` is empty before its first decision, then "edit" or "stop" while it is held open.
    """

    __slots__ = ("facts", "kind", "stage", "until", "wait_id")

    def __init__(self, kind: str, **facts: Any) -> None:
        self.kind = kind
        self.facts = facts
        self.stage = ""
        self.until = 0
        self.wait_id = ""


class Agent:
    """One agent of a session, as its client knows it. `writes` are the files it may write now."""

    def __init__(self, session: Session, agent: str) -> None:
        self.session = session
        self.agent = agent
        self.key = f"@{session.client}/{session.id}/{agent}"
        self.calls: list[Call] = []
        self.writes: list[tuple[str, ...]] = []
        self.again: tuple[str, ...] = ()
        self.is_idle = False
        self.is_gone = False

    @property
    def holder(self) -> Holder:
        """The agent as a holder."""
        session = self.session
        return Holder(
            id=self.key, key=self.key, witness=session.witness, marks=(f"mark of {self.key}",),
            client=session.client, session=session.id, agent=self.agent,
            parent=session.key if self.agent else "",
        )  # fmt: skip

    @property
    def is_alive(self) -> bool:
        """Whether its client runs."""
        return self.session.is_alive

    def request(self, id: str, path: str, stamp: str) -> Request:
        """The gate's request for one file."""
        return Request(id, self.holder, (path,), "w", (path,), ttl=None, reason="edit", stamp=stamp)


class Session:
    """A session of a client: a process, its own agent, its sub-agents."""

    def __init__(self, world: GateWorld, client: str, id: str, host: str) -> None:
        self.world = world
        self.client = client
        self.id = id
        self.host = host
        self.key = f"@{client}/{id}/"
        self.witness = world.start(host)
        self.main = Agent(self, "")
        self.subs: list[Agent] = []
        self.born = 0

    @property
    def is_alive(self) -> bool:
        """Whether its client runs."""
        return self.world.runs(self.witness)

    @property
    def agents(self) -> list[Agent]:
        """Its own agent and the sub-agents."""
        return [self.main, *self.subs]

    def new_sub(self) -> Agent:
        """Another sub-agent, whose id ends like that of an earlier one."""
        self.born += 1
        sub = Agent(self, f"a0b1{self.born}9c1e")
        self.subs.append(sub)
        return sub

    def drop_calls(self) -> None:
        """End all its hooks; nothing more will be written."""
        for agent in self.agents:
            agent.calls.clear()
            agent.writes.clear()
            agent.again = ()


class Step:
    """The call that was just made to the gate, with the facts that it is based on."""

    __slots__ = ("agent", "at", "facts", "kind", "viewer")

    def __init__(
        self, kind: str, agent: Agent | None, facts: Mapping[str, Any], at: int, viewer: str
    ) -> None:
        self.kind = kind
        self.agent = agent
        self.facts = facts
        self.at = at
        self.viewer = viewer

    @property
    def key(self) -> str:
        """The key of the agent that makes the step; empty for a person."""
        return "" if self.agent is None else self.agent.key

    @property
    def wanted(self) -> Sequence[str]:
        """The files that it wants to write."""
        found: Sequence[str] = self.facts.get("paths", ())
        return found

    def __str__(self) -> str:
        told = " ".join(
            f"{value}" for name, value in self.facts.items() if name not in ("seen", "stamps")
        )
        return f"{self.kind} {self.key} {told}".strip()
