"""A repository with agents whose clock and processes a test controls.

The files, the ledger and the gate are the real ones. The test calls the gate directly with what a
client would pass to its hook.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.core.model import SECOND, Event, Grant, Holder, Witness, agent_key
from holdfast.gate import held_stops
from holdfast.gate.config.settings import Settings
from holdfast.gate.git.commit_check import free
from holdfast.gate.git.committer import Committer
from holdfast.gate.git.git_files import committed
from holdfast.gate.intent import Answer
from holdfast.gate.lease_gate import LeaseGate
from holdfast.manager.clock import FakeClock
from holdfast.manager.files.paths import Tree
from holdfast.manager.manager import LockManager
from holdfast.store import open_store
from holdfast.testing.conformance import Processes


class Stage:
    """One repository, with as many agents as a test needs."""

    def __init__(self, root: Path, settings: Settings | None = None) -> None:
        self.root = root
        self.clock = FakeClock(time.time_ns() // 1000)
        self.processes = Processes()
        self.settings = settings or Settings()
        self.clients: dict[str, Witness] = {}
        self._later: list[tuple[int, Callable[[], object]]] = []
        (root / ".holdfast").mkdir(exist_ok=True)
        store = open_store(
            f"sqlite://{root}/.holdfast/ledger.db", clock=self.clock, is_dead=self.processes.is_dead
        )
        self.manager = LockManager(store, tree=Tree(str(root)), clock=self.clock)

    def agent(self, session: str, agent: str = "", *, marks: tuple[str, ...] = ()) -> Actor:
        """An agent of a session; the session's client runs from its first agent on."""
        if session not in self.clients:
            self.clients[session] = self.processes.start()
        return Actor(self, session, agent, marks)

    def kill(self, session: str) -> None:
        """Kill the client of a session."""
        self.processes.end(self.clients.pop(session))

    def restart(self, session: str) -> None:
        """Continue the session in a new process."""
        self.clients[session] = self.processes.start()

    def later(self, seconds: float, happens: Callable[[], object]) -> None:
        """Schedule an action for a moment at which a call or a stop is held open."""
        self._later.append((self.manager.now() + round(seconds * SECOND), happens))

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and run the actions that are due."""
        self.clock.advance(seconds)
        now = self.manager.now()
        due = [one for one in self._later if one[0] <= now]
        self._later = [one for one in self._later if one[0] > now]
        for _at, happens in due:
            happens()

    def hide(self, session: str) -> None:
        """From now on nothing shows whether the client of a session lives."""
        self.processes.hide(self.clients[session])

    def events(self, *types: str) -> list[Event]:
        return [event for event in self.manager.events() if event.type in types]

    def owner(self, path: str) -> str:
        """The holder of a file, by session and agent; empty if it is free."""
        for grant in self.manager.active_grants():
            if path in grant.write_paths:
                return grant.holder
        return ""

    def queue(self) -> list[str]:
        return [ticket.request.holder.id for ticket in self.manager.queue()]

    def close(self) -> None:
        self.manager.close()


class Actor:
    """One agent."""

    def __init__(self, stage: Stage, session: str, agent: str, marks: tuple[str, ...]) -> None:
        self.stage = stage
        self.session = session
        self.agent = agent
        self.marks = marks
        self.held_open: list[float] = []

    @property
    def holder(self) -> Holder:
        parent = agent_key("claude", self.session) if self.agent else ""
        return Holder(
            id=f"claude:{self.session}" + (f":{self.agent}" if self.agent else ""),
            key=agent_key("claude", self.session, self.agent),
            witness=self.stage.clients.get(self.session),
            marks=self.marks,
            client="claude",
            session=self.session,
            agent=self.agent,
            parent=parent,
        )

    def gate(self, *, hold: bool = False, hold_seconds: float = 10_000) -> LeaseGate:
        manager = self.stage.manager
        end = manager.now() + round(hold_seconds * SECOND)
        return LeaseGate(
            manager,
            self.holder,
            self.stage.settings,
            left=lambda: (end - manager.now()) / SECOND,
            pause=self._pause if hold else None,
        )

    def _pause(self, seconds: float, waiter: object) -> bool:
        self.held_open.append(seconds)
        self.stage.pass_time(seconds)
        return False

    def stop(
        self, *, hold: bool = False, may_go_on: bool = True, hold_seconds: float = 10_000
    ) -> Answer:
        """The agent stops; the hook may hold the stop open."""
        gate = self.gate(hold=hold, hold_seconds=hold_seconds)
        end = gate.end_agent if self.agent else gate.stop
        return held_stops.hold([end(may_go_on=may_go_on)])

    def waited(self) -> float:
        """How long its calls and stops were held open, in seconds."""
        return sum(self.held_open)

    def edit(self, *paths: str, hold: bool = False, write: str | None = "new\n") -> Answer:
        """Ask the gate for an edit, and make it if it is permitted."""
        answer = self.gate(hold=hold).permit([f"{self.stage.root}/{path}" for path in paths])
        if answer.kind == "allow" and write is not None:
            for path in paths:
                file = self.stage.root / path
                file.parent.mkdir(parents=True, exist_ok=True)
                fresh = file.with_name(f".{file.name}.new")  # as clients do: a new file, renamed
                fresh.write_text(write)
                fresh.replace(file)
        return answer

    def commit(self, *paths: str) -> None:
        """Commit files, and do what git's hook does afterwards."""
        root = str(self.stage.root)
        self._git("init", "--quiet", ".")
        self._git("add", "--", *paths)
        self._git("commit", "--quiet", "-m", "a commit", "--", *paths)
        free(self.stage.manager, root, committed(root), Committer(self._shell()))

    def _shell(self) -> dict[str, str]:
        """The variables that the client sets for its shell."""
        return {"CLAUDE_CODE_SESSION_ID": self.session, "CLAUDE_PID": str(os.getppid())}

    def _git(self, *words: str) -> None:
        named = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null")
        nobodys = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(
            ["git", *named, *words], cwd=self.stage.root, env={**os.environ, **nobodys},
            check=True, timeout=60,
        )  # fmt: skip

    def calls(self) -> None:
        """Call the tool that starts a sub-agent."""
        self.gate().agent_call()

    def starts(self, child: Actor) -> None:
        """Start a sub-agent."""
        self.calls()
        child.gate().agent_start()

    def held(self) -> list[str]:
        with self.stage.manager.store.view(deadline=time.monotonic() + 60) as view:
            return sorted(grant.paths[0] for grant in view.held_by(self.holder.key))

    def grants(self) -> list[Grant]:
        with self.stage.manager.store.view(deadline=time.monotonic() + 60) as view:
            return view.held_by(self.holder.key)


def settled(*files: Path) -> None:
    """Wait until a later change can be distinguished from an earlier one."""
    newest = max(file.stat().st_ctime_ns for file in files)
    deadline = time.monotonic() + 20
    while time.time_ns() < newest + 60_000_000:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def heartbeats(stage: Stage) -> Sequence[Event]:
    return stage.events("contention_heartbeat")


__all__ = ["SECOND", "Actor", "Stage", "heartbeats", "settled"]
