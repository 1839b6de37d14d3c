"""Hooks that are killed at random moments of their lives, while several agents work on one tree.

A client times out, a person closes the terminal, the machine runs out of memory: a hook may end
between any two steps. What it decided is then recorded whole or not at all, and all agents go on.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers_hook import HOOK, InProcesses, refusal
from helpers_processes import LINUX_ONLY
from holdfast import LockManager
from holdfast.core import rules
from holdfast.core.model import SECOND, Grant, agent_key
from holdfast.gate.door import client_events
from holdfast.gate.rulebook import agent_records
from holdfast.gate.rulebook.agent_life import FOR_NEXT_EDIT
from holdfast.manager import transactions
from stage import settled

if TYPE_CHECKING:
    from holdfast.core.view import View

pytestmark = LINUX_ONLY

SEED = 20_261_117
#: The least number of hooks that are killed while they run; some end before the kill.
KILLS = 200
CASES_MAX = 1000
FILES = ("app/x.rb", "lib/y.rb", "app/models/user.rb")
CHILD = {"agent_id": "a0000000000000001", "agent_type": "general-purpose"}
#: Short, so that a hook that waits also reaches the end of its wait and its retry.
SETTINGS = "[gate]\nhold_seconds = 0.3\nretry_seconds = 1.2\nidle_seconds = 0.5\n"
KINDS = ("edit", "edit", "edit", "stop", "stop", "prompt", "commit", "command", "sub-agent", "end")


class Worker(InProcesses):
    """One agent. A kill may cut off what it does first; what it does next goes on."""

    def directly(self, told: bytes | None) -> dict[str, Any]:
        """The answer of the hook's function, which never waits."""
        assert told is not None
        reply = client_events.answer(self.client, told, self.env)
        assert (reply.code, reply.stderr) == (0, "")
        assert "could not decide" not in reply.stdout, reply.stdout
        found = json.loads(reply.stdout) if reply.stdout else {}
        assert isinstance(found, dict)
        return found

    def write(self, path: str, text: str, **of: Any) -> bool:
        """Edit a file, if the hook permits it."""
        fields = self._file(path, text)
        if refusal(self.directly(self.told("PreToolUse-Write", tool_input=fields, **of))):
            return False
        (self.root / path).write_text(text)
        self.directly(self.told("PostToolUse-Write", tool_input=fields, **of))
        return True

    def committing(self) -> subprocess.Popen[bytes]:
        """Git's hook after a commit of this agent."""
        self._git("add", "--all", "--", *FILES)
        self._git("commit", "--quiet", "--allow-empty", "-m", "a commit")
        named = {"CLAUDE_CODE_SESSION_ID": self.session, "CLAUDE_PID": str(os.getpid())}
        kept = {name: value for name, value in os.environ.items() if "CLAUDE" not in name}
        started = subprocess.Popen(
            [sys.executable, "-I", "-S", str(HOOK), "git", "post-commit"], cwd=self.root,
            env={**kept, **named}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.hooks.append(started)
        return started


class World:
    """One repository, some agents, and a source of random choices."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / ".holdfast").mkdir()
        (root / "holdfast.toml").write_text(SETTINGS)
        (root / ".git").rmdir()
        settled(*(root / path for path in FILES))
        self.workers = [Worker(root, f"{name}-session") for name in ("ann", "bob", "cid", "dan")]
        self.workers[0]._git("init", "--quiet")
        self.chance = random.Random(SEED)
        self.cut_off: Counter[str] = Counter()
        self.finished: Counter[str] = Counter()
        self.life = self._life()

    def _life(self) -> float:
        """How long a hook runs here."""
        begun = time.monotonic()
        for worker in self.workers:
            worker.tell("SessionStart")
        return (time.monotonic() - begun) / len(self.workers)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()

    def case(self) -> None:
        """One event of one agent, whose hook is killed at some moment; then the same event
        again."""
        worker, kind = self.chance.choice(self.workers), self.chance.choice(KINDS)
        of = CHILD if self.chance.random() < 0.25 else {}
        path = self.chance.choice(FILES)
        text = f"{self.chance.random()}\n"
        if kind in ("edit", "stop") and self.chance.random() < 0.6:
            self._contend(worker, path, refused=kind == "stop", of=of)
        if kind == "commit":
            hook = worker.committing()
        else:
            hook = worker.start(self._told(worker, kind, path, of))
        self._kill(kind, hook)
        self.look()
        if kind == "edit":
            worker.write(path, text, **of)
        elif kind != "commit":
            worker.directly(self._told(worker, kind, path, of))
            if kind == "end":
                worker.directly(worker.told("SessionStart"))
        self.look()

    def _contend(self, worker: Worker, path: str, *, refused: bool, of: dict[str, str]) -> None:
        """Another agent has the file that this one wants, or was already refused it."""
        other = self.chance.choice([one for one in self.workers if one is not worker])
        other.directly(other.told("UserPromptSubmit"))
        other.write(path, "another's\n")
        if refused:
            worker.directly(worker.told("UserPromptSubmit"))
            worker.write(path, "x\n", **of)

    def _told(self, worker: Worker, kind: str, path: str, of: dict[str, str]) -> bytes | None:
        if kind == "edit":
            return worker.told("PreToolUse-Write", tool_input=worker._file(path, "x\n"), **of)
        if kind == "command":
            return worker.told("PreToolUse-Bash", tool_input={"command": f"make {path}"}, **of)
        if kind == "sub-agent" or (kind == "stop" and of):
            return worker.told("SubagentStop", **CHILD)
        names = {"stop": "Stop", "prompt": "UserPromptSubmit", "end": "SessionEnd"}
        return worker.told(names[kind])

    def _kill(self, kind: str, hook: subprocess.Popen[bytes]) -> None:
        """Kill the hook at any moment of its run, or at one after it has opened the ledger."""
        if self.chance.random() < 0.5:
            time.sleep(self.chance.uniform(0, 1.2 * self.life))
        else:
            self._until_it_has_the_ledger(hook)
            held = kind in ("edit", "stop") and self.chance.random() < 0.5
            time.sleep(self.chance.uniform(0, 0.8 if held else 0.3 * self.life))
        hook.send_signal(signal.SIGKILL)
        hook.communicate(timeout=60)
        (self.cut_off if hook.returncode == -signal.SIGKILL else self.finished)[kind] += 1

    def _until_it_has_the_ledger(self, hook: subprocess.Popen[bytes]) -> None:
        folder, ledger = Path(f"/proc/{hook.pid}/fd"), f"{self.root}/.holdfast/"
        while hook.poll() is None:
            try:
                if any(os.readlink(one).startswith(ledger) for one in folder.iterdir()):
                    return
            except OSError:
                continue

    # Invariants between any two events

    def look(self) -> None:
        """Check that the ledger opens and has nothing half done in it."""
        with LockManager.open(self.root) as manager:
            transactions.look(manager, self._look)

    def _look(self, view: View) -> None:
        owners: dict[str, str] = {}
        tickets = {ticket.id: ticket for ticket in view.queue()}
        waits = {wait.ticket: wait for wait in agent_records.waits(view) if wait.ticket}
        for grant in view.grants():
            key = grant.holder.key
            if rules.is_live(view, grant):
                for path in grant.paths:
                    assert owners.setdefault(path, key) == key, f"{path} has two owners"
            assert grant.id not in tickets, "an agent is in line for what it has"
            if grant.reason == FOR_NEXT_EDIT:
                assert grant.id in waits, "a file was handed over, and no agent waits for it"
            known = agent_records.known(view, key)
            assert known.presence is not None, (
                f"{key} holds something, but the ledger has no such agent"
            )
            assert known.presence.shown == grant.holder.id
            assert agent_records.owner_of_name(view, known.presence.shown) == key
            if known.rest is not None and grant.reason != FOR_NEXT_EDIT:
                assert grant.idle_at is not None, f"{key} rests, and no timer runs for its files"
            if grant.idle_at is not None:
                assert known.rest is not None, f"a timer runs for {key}, which does not rest"
        for ticket in tickets.values():
            assert ticket.id in waits, "a ticket is in line, and no record says what for"
            wait = waits[ticket.id]
            assert wait.retry_at == wait.denied_at + wait.retry_seconds * SECOND

    def all_go_on(self) -> None:
        """Check that no agent waits forever: when the others have ended, it gets what it wants."""
        one = self.chance.choice(self.workers)
        others = [worker for worker in self.workers if worker is not one]
        for worker in others:
            worker.directly(worker.told("SessionEnd"))
        one.directly(one.told("UserPromptSubmit"))
        one.directly(one.told("SubagentStop", stop_hook_active=True, **CHILD))
        for path in FILES:
            assert one.write(path, f"{self.chance.random()}\n"), path
        one.directly(one.told("SessionEnd"))
        with LockManager.open(self.root) as manager:
            left = transactions.look(manager, _left)
        assert left == []
        for worker in self.workers:
            worker.directly(worker.told("SessionStart"))

    def a_client_dies(self) -> None:
        """A client dies: nothing of it stays, and the same session may come back."""
        one, other = self.chance.sample(self.workers, 2)
        one.kill()
        session = agent_key("claude", one.session)
        with LockManager.open(self.root) as manager:
            live = transactions.look(manager, lambda view: _live_of(view, session))
            assert live == []
            assert all(one.session != ticket.request.holder.session for ticket in manager.queue())
        other.directly(other.told("UserPromptSubmit"))
        one.restart()
        one.directly(one.told("SessionStart-resume"))
        self.look()


def _left(view: View) -> list[str]:
    """All that is held or remembered, except names, reports that a person has to read, and whether
    the files of those reports are free."""
    stays = (agent_records.BLOCKED, agent_records.FREE_AGAIN)
    notes = [event.type for event in view.notes("gate:@") if event.type not in stays]
    held = [grant.id for grant in view.grants() if rules.is_live(view, grant)]
    return [*notes, *held, *(ticket.id for ticket in view.queue())]


def _live_of(view: View, session: str) -> list[Grant]:
    return [grant for grant in view.held_within(session) if rules.is_live(view, grant)]


@pytest.fixture
def world(repository: Path, bundled: None) -> Iterator[World]:
    made = World(repository)
    yield made
    made.close()


def test_hooks_killed_at_random_moments_leave_nothing_half_done(world: World) -> None:
    print(f"seed {SEED}, a hook lives for {world.life * 1000:.0f} ms")
    number = 0
    while sum(world.cut_off.values()) < KILLS and number < CASES_MAX:
        number += 1
        world.case()
        if number % 10 == 0:
            world.all_go_on()
        if number % 15 == 0:
            world.a_client_dies()
    print(f"killed {dict(world.cut_off)}, too late for {dict(world.finished)}")
    assert sum(world.cut_off.values()) == KILLS
    types = Counter(event.type for event in _events(world.root))
    for type in ("contention_heartbeat", "file_handed_over", "stop_held", "agent_blocked"):
        assert types[type], f"{type} never happened, so this shows nothing about it"


def _events(root: Path) -> list[Any]:
    with LockManager.open(root) as manager:
        return list(manager.events())
