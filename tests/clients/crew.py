"""Agents working in a guarded repository: real clients, each of which follows a script.

A `Crew` is all agents of one client, so that one test can run with Claude Codes and with Codexes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from helpers_processes import until

from .drive import CODEX_CODE_MODEL, CODEX_MODEL, Result, Running, start_claude, start_codex
from .gated import HELD, Gated
from .servers import (
    AnthropicServer,
    Call,
    ModelServer,
    OpenAIServer,
    Step,
    Turn,
    agent,
    bash,
    code_patch,
    edit,
    patch,
    spawn,
    wait_for_agents,
)

#: The first words of every refusal, and a line of every hard stop.
REFUSED = "Refused: "
BLOCKED = "state=waiting_for_instruction"

#: A server, from the gate's point of view: writes its pid beside the repository, and keeps running.
SERVER = "echo $$ > ../pid.new; mv ../pid.new ../pid; exec sleep 600"


class Gateway:
    """A gate in the models' scripts: steps wait at it until a test opens it."""

    def __init__(self, seconds: float = 240) -> None:
        self._open = threading.Event()
        self._seconds = seconds

    def open(self) -> None:
        self._open.set()

    def then(self, step: Turn | Call | str = "Done.") -> Step:
        """A step that waits."""

        def wait(_: dict[str, Any]) -> Turn | Call | str:
            self._open.wait(self._seconds)
            return step

        return wait

    def unless_refused(self, server: ModelServer) -> Step:
        """A step that waits unless the agent was refused; a refused agent ends immediately."""

        def wait(body: dict[str, Any]) -> str:
            results = server.follow(body)[2]
            if results and is_refusal(results[-1]):
                return "I was refused."
            self._open.wait(self._seconds)
            return "Done."

        return wait


def when(ready: Callable[[], object], step: Turn | Call | str = "Done.") -> Step:
    """A step that waits for a condition; a timeout fails the turn with an error."""

    def wait(_: dict[str, Any]) -> Turn | Call | str:
        ready()
        return step

    return wait


def insist(call: Call) -> tuple[Step, Step]:
    """Be refused, and make the one retry with a second call when it is due, with `gated.HELD`."""
    return call, when(lambda: time.sleep(HELD["retry_seconds"] + 0.2), call)


def is_refusal(result: str) -> bool:
    """Whether a tool's result is the gate's refusal."""
    return REFUSED in result or BLOCKED in result


class Agent:
    """A client that was started and follows a script."""

    def __init__(self, crew: Crew, script: str, running: Running) -> None:
        self._crew, self.script, self.running = crew, script, running
        self.leave: Gateway | None = None

    @property
    def session(self) -> str:
        until(lambda: self.running.said().session, f"{self.script} says which session it is")
        return self.running.said().session

    @property
    def name(self) -> str:
        """The gate's name for the agent."""
        return self._crew.gated.names(self.session)[""]

    @property
    def results(self) -> tuple[str, ...]:
        """The results that its tools have returned to its model."""
        return self._crew.server.results(self.script)

    def has_done(self, steps: int) -> None:
        """Wait until the agent has done this many steps of its script."""
        self._crew.server.wait_for(self.script, steps)

    def ends(self) -> Result:
        """Wait for the agent's end, which must be a success."""
        if self.leave is not None:
            self.leave.open()
        result = self.running.wait()
        assert result.code == 0, result
        return result

    def has_ended(self) -> bool:
        return self.running.process.poll() is not None


class Crew:
    """All agents of one client in a guarded repository, and the tools of their models."""

    client: str
    leads = False
    """Whether they must have sub-agents: Codexes that can do that edit in another way."""

    def __init__(self, gated: Gated, server: ModelServer) -> None:
        self.gated, self.server = gated, server

    def start(self, script: str, *steps: Step, **more: Any) -> Agent:
        """Start a client that does these steps, in a home of its own unless one is given."""
        self.server.scripts[script] = list(steps)
        more.setdefault("home", self.gated.home())
        more.setdefault("env", self.gated.variables)
        more.setdefault("before", self.gated.before)
        return Agent(self, script, self._start(f"[[{script}]]", **more))

    def run(self, script: str, *steps: Step, **more: Any) -> Agent:
        """Start a client as `start` does, and wait for its end."""
        started = self.start(script, *steps, **more)
        started.ends()
        return started

    def owner(self, *steps: Step, script: str = "owner", **more: Any) -> Agent:
        """An agent that has done these steps (by default: changed `a.txt` from "old" to "mine") and
        keeps working until the test calls `ends`."""
        steps = steps or (self.edit("a.txt", "old", "mine"),)
        leave = Gateway()
        started = self.start(script, *steps, leave.then(), **more)
        started.leave = leave
        started.has_done(len(steps))
        return started

    def _start(self, prompt: str, **more: Any) -> Running:
        raise NotImplementedError

    def edit(self, path: str, old: str, new: str) -> Call:
        """Replace one line of a file."""
        raise NotImplementedError

    def insert(self, path: str, line: str, before: str) -> Call:
        """Put a line before another one."""
        raise NotImplementedError

    def shell(self, command: str) -> Call:
        """Run a command, and wait for it."""
        raise NotImplementedError

    def delegate(self, *scripts: str) -> list[Step]:
        """Start sub-agents, all at the same time, and wait for them."""
        raise NotImplementedError


class Claudes(Crew):
    client = "claude"
    server: AnthropicServer

    def _start(self, prompt: str, **more: Any) -> Running:
        return start_claude(self.gated.root, prompt, self.server, **more)

    def edit(self, path: str, old: str, new: str) -> Call:
        return edit(self.gated.root / path, old, new)

    def insert(self, path: str, line: str, before: str) -> Call:
        return self.edit(path, f"{before}\n", f"{line}\n{before}\n")

    def shell(self, command: str) -> Call:
        return bash(command)

    def delegate(self, *scripts: str) -> list[Step]:
        return [Turn(calls=tuple(agent(f"[[{script}]]") for script in scripts))]


class Codexes(Crew):
    client = "codex"
    server: OpenAIServer

    def _start(self, prompt: str, **more: Any) -> Running:
        more.setdefault("model", CODEX_CODE_MODEL if self.leads else CODEX_MODEL)
        return start_codex(self.gated.root, prompt, self.server, **more)

    def edit(self, path: str, old: str, new: str) -> Call:
        return (code_patch if self.leads else patch)(change(path, old, new))

    def insert(self, path: str, line: str, before: str) -> Call:
        return patch(f"*** Update File: {path}\n@@\n+{line}\n {before}")

    def shell(self, command: str) -> Call:
        return Call("exec_command", {"cmd": command, "yield_time_ms": 30_000})

    def delegate(self, *scripts: str) -> list[Step]:
        return [*(spawn(f"[[{script}]]", script) for script in scripts), wait_for_agents()]


def change(path: str, old: str, new: str) -> str:
    """The part of a patch that replaces one line of a file."""
    return f"*** Update File: {path}\n@@\n-{old}\n+{new}"


#: How often two agents meet on one file.
ROUNDS = 10


def meet_on_one_file(one: Crew, two: Crew) -> None:
    """Two agents in parallel, repeatedly: each time one edits, and the other is refused, waits at
    its stop for the one retry, and is blocked."""
    gated = one.gated
    gated.write("a.txt", "end\n")
    lines: list[str] = []
    for number in range(ROUNDS):
        over = Gateway()
        players = {}
        for crew, who in ((one, "one"), (two, "two")):
            line = f"{number} by {who}"
            steps = crew.insert("a.txt", line, "end"), over.unless_refused(crew.server)
            home = gated.root.parent / who
            players[line] = crew.start(f"{who}-{number}", *steps, home=home)
        loser = first_to_end(*players.values())
        (winner,) = (line for line, player in players.items() if player is not loser)
        lines.append(winner)
        assert gated.text().splitlines() == [*lines, "end"]
        over.open()
        for line, player in players.items():
            player.ends()
            assert is_refusal("".join(player.results)) is (line != winner)
        blocked = gated.blockers()[number:]
        assert [(one["agent"], one["blocked_file"]) for one in blocked] == [(loser.name, "a.txt")]
        assert gated.held() == {}
    assert gated.text().splitlines() == [*lines, "end"]


def first_to_end(*players: Agent) -> Agent:
    """Wait until one of these agents has ended, and return it."""
    until(lambda: any(player.has_ended() for player in players), "one of the clients ended")
    return next(player for player in players if player.has_ended())
