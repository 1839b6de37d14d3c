"""A real repository with the gate in it, as `holdfast init` installs it, for real clients.

The settings are short ones: a test sets the time of the one retry, and which calls are held open.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from helpers_cli import Answer, Repository, Terminal, environment
from helpers_processes import PATIENCE_SECONDS

from .drive import hooks_for, write_json

#: The answer is immediate, and no agent waits for anything.
AT_ONCE = {"hold_seconds": 0, "retry_seconds": 600, "timeout_seconds": 30, "wake": False}
#: The answer is immediate, and a stop is held for at most a second: then comes the one retry.
HELD = {"hold_seconds": 0, "retry_seconds": 1, "timeout_seconds": 60}
#: The call is held open until the file is free.
WOKEN = {"hold_seconds": 40, "retry_seconds": 120, "timeout_seconds": 60}
#: The answer is immediate, and a stop is held until the file is free.
WAITED = {"hold_seconds": 0, "retry_seconds": 60, "timeout_seconds": 120}


class Gated(Repository):
    """A repository of the fixture `repo`, guarded."""

    #: Further variables of its clients.
    variables: Mapping[str, str] = {}
    #: The command line of a program that starts its clients; empty if nothing does.
    before: Sequence[str] = ()

    def __init__(self, repo: Path) -> None:  # the repository exists already
        self.root = repo
        self._homes = 0

    def init(self, notify: Sequence[str] = (), /, **settings: object) -> Self:
        """Install the gate for both clients and git, with these settings of it. `notify` is the
        command that reports blocked agents."""
        lines = [f"{name} = {_toml(value)}" for name, value in settings.items()]
        top = f"notify = {json.dumps(list(notify))}"
        (self.root / "holdfast.toml").write_text("\n".join([top, "[gate]", *lines, ""]))
        for name, value in (("user.name", "Tess"), ("user.email", "tess@example.org")):
            self.git("config", name, value)
        self.git("add", "holdfast.toml")
        self.git("commit", "-q", "-m", "settings")
        answer = self.hold("init", "--client", "claude,codex", "--git")
        assert answer.code == 0, answer
        check = self.hold("init", "--client", "claude,codex", "--check")
        assert check.code == 0, check
        return self

    def git(self, *words: str) -> str:
        """Run git as a person would, from the gate's point of view; its output."""
        done = subprocess.run(
            ["git", *words], cwd=self.root, env=environment(), check=True, capture_output=True,
            text=True, timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        return done.stdout

    def by_a_person(self, *words: str) -> Answer:
        """Type a command at a terminal, under no agent, even if an agent runs the tests."""
        terminal = Terminal(self)
        try:
            return terminal.hold(*words)
        finally:
            terminal.close()

    def home(self) -> Path:
        """A home of its own for a client, so that two clients share nothing."""
        self._homes += 1
        return self.root.parent / f"home-{self._homes}"

    def held(self) -> dict[str, str]:
        """The held files, each with its holder."""
        return {path: grant["holder"] for grant in self.grants() for path in grant["write_paths"]}

    def names(self, session: str) -> dict[str, str]:
        """The names of a session's agents, by their ids; the main agent's id is empty."""
        found = [event["data"] for event in self.happened("agent_present")]
        return {one["sub_agent"]: one["agent"] for one in found if one["session"] == session}

    def text(self, path: str = "a.txt") -> str:
        return (self.root / path).read_text()

    def write(self, path: str, text: str) -> None:
        """Write a file as a person would, past the gate."""
        (self.root / path).write_text(text)

    def happened(self, type: str) -> list[dict[str, Any]]:
        """The events of a type."""
        return [event for event in self.events() if event["type"] == type]

    def now(self) -> str:
        """The ledger's present time."""
        now: str = self.look("status", "--json").json["now"]
        return now

    def blockers(self) -> list[dict[str, Any]]:
        """The reports on agents that were stopped."""
        found: list[dict[str, Any]] = self.hold("blockers", "--json").json["blockers"]
        return found

    def let_stops_wait(self) -> Path:
        """Give both clients a hook of the user's own that keeps them at a stop until this file
        exists: otherwise both end right after it. Call it before `init`."""
        go = self.root.parent / "go"
        hooks = hooks_for(f"until [ -e {go} ]; do sleep 0.05; done", ["Stop"])
        write_json(self.root / ".claude" / "settings.json", hooks)
        write_json(self.root / ".codex" / "hooks.json", hooks)
        return go


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
