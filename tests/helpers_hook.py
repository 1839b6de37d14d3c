"""Agents whose clients send the hook the input that real clients send.

The inputs are the samples recorded from the clients, with the session, folder and file of a test
substituted. A client sends only the events and tools for which `init` registers the hook. An agent
lives as long as a real process does.

    AtTheDoor    the function that the hook calls, so that a test can move the clock
    InProcesses  the program that clients start, once for each event
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from helpers_guard import refusal
from holdfast import LockManager
from holdfast.core.model import Event, Grant, agent_key
from holdfast.gate import clients, hook
from holdfast.gate.door import client_events
from holdfast.gate.git.commit_check import release
from holdfast.gate.intent import Reply
from holdfast.manager import transactions
from holdfast.manager.clock import FakeClock

HOOK = Path(hook.__file__)
SAMPLES = Path(__file__).parent / "clients/samples"


def sample(client: str, name: str) -> dict[str, Any]:
    """The recorded input that a client sent to its hook."""
    found = json.loads((SAMPLES / f"{client}-{name}.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


class Agent:
    """One session of a client; subclasses define how its hook is called."""

    def __init__(self, root: Path, session: str, client: str = "claude") -> None:
        self.root = root
        self.session = session
        self.client = client
        #: Whether a person is at the client's terminal.
        self.attended = True
        self.process = subprocess.Popen(["sleep", "600"])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def close(self) -> None:
        """End the agent, and all that it has started."""
        self.kill()

    def restart(self) -> None:
        """Continue the session in a new process of its client."""
        self.kill()
        self.process = subprocess.Popen(["sleep", "600"])

    @property
    def name(self) -> str:
        """The name under which people see it."""
        return self.name_of()

    def name_of(self, agent: str = "") -> str:
        """The name under which people see a sub-agent of it; empty if the ledger has none."""
        key, found = agent_key(self.client, self.session, agent), ""
        with LockManager.open(self.root) as manager:
            for event in manager.events():
                if event.type == "agent_present" and event.data["key"] == key:
                    found = event.data["agent"]
        return found

    @property
    def env(self) -> dict[str, str]:
        """The variables that the client puts into the environment of its hooks."""
        if self.client == "codex":
            return {}
        kind = "cli" if self.attended else "sdk-cli"
        return {
            "CLAUDE_PID": str(self.process.pid), "CLAUDE_PROJECT_DIR": str(self.root),
            "CLAUDE_CODE_ENTRYPOINT": kind,
        }  # fmt: skip

    def told(self, name: str, **more: Any) -> bytes | None:
        """The hook's input at an event; None if the client does not call the hook for it."""
        said = {**sample(self.client, name), "session_id": self.session, "cwd": str(self.root)}
        said.update(more)
        adapter = clients.adapter(self.client)
        assert adapter is not None
        if said["hook_event_name"] not in adapter.EVENTS:
            return None
        matcher = adapter.EVENTS[said["hook_event_name"]]
        if matcher is not None and not re.fullmatch(matcher, said["tool_name"]):
            return None
        return json.dumps(said).encode()

    def tell(self, name: str, **more: Any) -> dict[str, Any]:
        """The hook's answer to an event, by the name of its sample."""
        told = self.told(name, **more)
        return {} if told is None else self.asked(told)

    def asked(self, told: bytes) -> dict[str, Any]:
        raise NotImplementedError

    def ask(self, path: str, text: str = "new\n", **more: Any) -> dict[str, Any]:
        """The hook's answer to an agent that wants to write a file."""
        return self.tell("PreToolUse-Write", tool_input=self._file(path, text), **more)

    def edit(self, path: str, text: str = "new\n", **more: Any) -> str:
        """Ask for a file: the reason for a refusal, or "" once the file is written."""
        why = refusal(self.ask(path, text, **more))
        if not why:
            file = self.root / path
            fresh = file.with_name(f".{file.name}.new")  # as clients do: a new file, renamed
            fresh.write_text(text)
            fresh.replace(file)
            self.tell("PostToolUse-Write", tool_input=self._file(path, text), **more)
        return why

    def command(self, line: str, when: str = "PreToolUse-Bash", **more: Any) -> dict[str, Any]:
        """The hook's answer to a shell command of the agent, before it or after it."""
        return self.tell(when, tool_input={"command": line}, **more)

    def shell(self, line: str) -> subprocess.Popen[bytes]:
        """A shell command of the agent, as its client starts it, without a call of the hook."""
        variable = "CODEX_SESSION_ID" if self.client == "codex" else "CLAUDE_CODE_SESSION_ID"
        return subprocess.Popen(
            ["sh", "-c", line], cwd=self.root, env={**os.environ, variable: self.session}
        )

    def _file(self, path: str, text: str) -> dict[str, str]:
        return {"file_path": f"{self.root}/{path}", "content": text}

    def commit(self, *paths: str) -> None:
        """Commit files, with what git's hook does after it."""
        self._git("init", "--quiet")
        self._git("add", "--", *paths)
        self._git("commit", "--quiet", "-m", "a commit", "--", *paths)
        # of all processes above the tests, only this one is recognized as a client
        shell = {"CLAUDE_CODE_SESSION_ID": self.session, "CLAUDE_PID": str(os.getppid())}
        release(str(self.root), shell)

    def _git(self, *words: str) -> None:
        named = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null")
        nobodys = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(
            ["git", *named, *words], cwd=self.root, env={**os.environ, **nobodys}, check=True,
            timeout=60,
        )  # fmt: skip


class AtTheDoor(Agent):
    """An agent whose hook is the function that the program calls, on a clock that a test moves."""

    def __init__(self, scene: Scene, session: str, client: str = "claude") -> None:
        super().__init__(scene.root, session, client)
        self.scene = scene
        #: Whether calls and stops are held open; the clock advances meanwhile.
        self.held_open = False

    def reply(self, told: bytes) -> Reply:
        """The hook's complete answer."""
        pause = self.wait if self.held_open else None
        return client_events.answer(self.client, told, self.env, pause=pause)

    def asked(self, told: bytes) -> dict[str, Any]:
        reply = self.reply(told)
        assert (reply.code, reply.stderr) == (0, "")
        found = json.loads(reply.stdout) if reply.stdout else {}
        assert isinstance(found, dict)
        return found

    def wait(self, seconds: float, waiter: object) -> bool:
        self.scene.clock.advance(seconds)
        return False


class InProcesses(Agent):
    """An agent whose hook is the program that clients start."""

    def __init__(self, root: Path, session: str, client: str = "claude") -> None:
        super().__init__(root, session, client)
        self.hooks: list[subprocess.Popen[bytes]] = []

    def close(self) -> None:
        super().close()
        for started in self.hooks:
            if started.poll() is None:
                started.kill()
                started.communicate()

    def begin(self, name: str, **more: Any) -> subprocess.Popen[bytes]:
        """The hook of an event, which may be held open."""
        return self.start(self.told(name, **more))

    def begin_edit(self, path: str, text: str = "new\n") -> subprocess.Popen[bytes]:
        """The hook of an edit, which may be held open."""
        return self.begin("PreToolUse-Write", tool_input=self._file(path, text))

    def start(self, told: bytes | None) -> subprocess.Popen[bytes]:
        """The hook, started with this input."""
        assert told is not None
        kept = {name: value for name, value in os.environ.items() if "CLAUDE" not in name}
        started = subprocess.Popen(
            [sys.executable, "-I", "-S", str(HOOK), self.client], cwd="/", env={**kept, **self.env},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert started.stdin is not None
        self.hooks.append(started)
        started.stdin.write(told)
        started.stdin.close()
        started.stdin = None
        return started

    def asked(self, told: bytes) -> dict[str, Any]:
        return answer_of(self.start(told))


def answer_of(started: subprocess.Popen[bytes], seconds: float = 60) -> dict[str, Any]:
    """The output of a hook, which must end within this many seconds."""
    out, err = started.communicate(timeout=seconds)
    assert (started.returncode, err) == (0, b"")
    found = json.loads(out) if out.strip() else {}
    assert isinstance(found, dict)
    return found


class Scene:
    """A repository with a ledger, and the agents in it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.monkeypatch = monkeypatch
        self.agents: list[Agent] = []
        (root / ".holdfast").mkdir()

    @property
    def clock(self) -> FakeClock:
        """The clock of all code in this process; it stops at its first use."""
        if not hasattr(self, "_clock"):
            self._clock = FakeClock(time.time_ns() // 1000)
            self.monkeypatch.setattr("holdfast.manager.ledger.SystemClock", lambda: self._clock)
        return self._clock

    def at_the_door(self, session: str, client: str = "claude") -> AtTheDoor:
        assert self.clock
        made = AtTheDoor(self, session, client)
        self.agents.append(made)
        return made

    def in_processes(self, session: str, client: str = "claude") -> InProcesses:
        made = InProcesses(self.root, session, client)
        self.agents.append(made)
        return made

    def grants(self) -> list[Grant]:
        """All active grants."""
        with LockManager.open(self.root) as manager:
            ids = [one.id for one in manager.active_grants()]
            found = transactions.look(manager, lambda view: [view.grant(id) for id in ids])
        return [one for one in found if isinstance(one, Grant)]

    def owners(self) -> dict[str, str]:
        """The owner of each file: the session, followed by the id of a sub-agent."""
        return {
            path: "/".join(filter(None, (one.holder.session, one.holder.agent)))
            for one in self.grants()
            for path in one.paths
        }

    def queue(self) -> list[str]:
        """The sessions in the queue."""
        with LockManager.open(self.root) as manager:
            return [ticket.request.holder.session for ticket in manager.queue()]

    def events(self, *types: str) -> list[Event]:
        with LockManager.open(self.root) as manager:
            return [event for event in manager.events() if not types or event.type in types]

    def close(self) -> None:
        for agent in self.agents:
            agent.close()


__all__ = ["Agent", "AtTheDoor", "InProcesses", "Scene", "answer_of", "refusal", "sample"]
