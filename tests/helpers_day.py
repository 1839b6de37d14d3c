"""Clients that work all day, and a record of who has what that knows nothing of any ledger.

A client is a real process with the client's name. It asks the real door in a child, as a hook
would, only without starting an interpreter each time; its shells are real ones, with the
environment that the client gives them.

The record is kept from what agents did and were told. It judges each answer of the gate: was the
refusal right, and should what was allowed have been refused?
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from helpers_commits import environment
from holdfast.gate import githooks

#: Runs commands and asks the door, line by line, until nobody tells it anything any more. One child
#: answers what is answered at once; what may be held open gets a child of its own.
PROGRAM = """
import json, os, subprocess, sys
from time import monotonic
from holdfast.gate import agents, door, guard, leases, patch, process, settings, shell, switch
from holdfast.gate.clients import claude, codex
from holdfast.gate.guard import after, aside, before, damage, leasing, own, trees, watching
from holdfast.manager import manager, processes
from holdfast.store import open_store
import holdfast.store.sqlite

def ask(client, text, env, file):
    said = door.answer(client, text.encode(), env, started=monotonic(), pause=process._pause)
    with open(file + ".new", "w") as stream:
        json.dump([said.code, said.stdout, said.stderr], stream)
    os.rename(file + ".new", file)

def fork(task):
    child = os.fork()
    if child == 0:
        try:
            task()
        finally:
            os._exit(0)
    return child

def keep():
    os.close(into)
    for line in os.fdopen(source):
        ask(*json.loads(line))
        os.write(1, b"0\\n")

source, into = os.pipe()
children = {fork(keep)}
os.close(source)
print(os.getpid(), flush=True)
for line in sys.stdin:
    kind, *told = json.loads(line)
    if kind == "run":
        words, cwd, env, text = told
        done = subprocess.run(words, cwd=cwd, env=env, input=text, capture_output=True, text=True)
        print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
    elif kind == "ask quickly":
        os.write(into, json.dumps(told).encode() + b"\\n")
    else:
        children = {one for one in children if os.waitpid(one, os.WNOHANG)[0] == 0}
        children.add(fork(lambda: ask(*told)))
        print(max(children), flush=True)
"""


class Done(NamedTuple):
    """How a command ended."""

    code: int
    said: str
    complained: str


class Client:
    """One client of an agent, as a process."""

    def __init__(self, folder: Path, root: Path, client: str, session: str) -> None:
        self.folder, self.root, self.client, self.session = folder, root, client, session
        self.env = environment(folder)
        self.asked = 0
        self.start()

    def start(self) -> None:
        script = self.folder / "bin" / self.client
        script.parent.mkdir(exist_ok=True)
        script.write_text(PROGRAM)
        self.process = subprocess.Popen(
            ["setsid", "--fork", sys.executable, str(script)], text=True, cwd=self.folder,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.env,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.pid = int(self.process.stdout.readline())
        self.process.wait(30)

    def _tell(self, *told: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(told)}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def hook_env(self) -> dict[str, str]:
        if self.client == "codex":
            return {}
        return {"CLAUDE_PID": str(self.pid), "CLAUDE_CODE_SESSION_ID": self.session}

    def shell_env(self, agent: str = "") -> dict[str, str]:
        if self.client == "codex":
            return {"CODEX_SESSION_ID": self.session, "CODEX_THREAD_ID": agent or self.session}
        return {"CLAUDECODE": "1", **self.hook_env()}

    def ask(self, text: str, *, quick: bool = True) -> Generator[None, None, dict[str, Any]]:
        """Ask the door. Yields as long as it holds the call open, and returns what it printed."""
        self.asked += 1
        file = self.folder / f"{self.session}-{self.asked}"
        kind = "ask quickly" if quick else "ask"
        self.child = self._tell(kind, self.client, text, self.hook_env(), str(file))
        end = time.monotonic() + 60
        while not file.exists():
            assert time.monotonic() < end, text
            time.sleep(0.001)
            yield
        done = Done(*json.loads(file.read_text()))
        file.unlink()
        return _printed(done)

    def ask_hook(self, text: str) -> dict[str, Any]:
        """The same through the installed hook, an interpreter of its own."""
        words = [*githooks.command(), self.client]
        told = {**self.env, **self.hook_env()}
        return _printed(Done(*self._tell("run", words, "/", told, text)))

    def run(self, command: str, agent: str = "") -> Done:
        """Run a command as the client's shell does."""
        told = {**self.env, **self.shell_env(agent)}
        return Done(*self._tell("run", ["bash", "-c", command], str(self.root), told, ""))

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        assert self.process.stdout is not None
        self.process.stdout.read()  # until it is gone
        self.close()

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            if pipe is self.process.stdout and not pipe.closed:
                pipe.read()
            pipe.close()


def _printed(done: Done) -> dict[str, Any]:
    assert done.code == 0, done
    assert not done.complained, done
    return json.loads(done.said) if done.said.strip() else {}


# The record


class Claim:
    """Somebody changes a file, or stands in line for it (`weak`: then it may be refused to others,
    but need not be). It ends some time between two moments."""

    def __init__(self, who: str, since: float, *, weak: bool) -> None:
        self.who, self.since, self.weak = who, since, weak
        self.written = False
        self.ends_early = self.ends = float("inf")

    def __repr__(self) -> str:
        how = "weak" if self.weak else "written" if self.written else "asked"
        return f"{self.who} ({how}, {self.since:.3f} to {self.ends_early:.3f}/{self.ends:.3f})"


class Record:
    """Who has changed what since when, as far as agents themselves know it."""

    def __init__(self, idle_seconds: float) -> None:
        self.idle_seconds = idle_seconds
        self.claims: dict[str, list[Claim]] = {}
        self.lines: dict[str, str] = {}
        self.wrong: list[str] = []

    def now(self) -> float:
        return time.monotonic()

    def _open(self, path: str) -> list[Claim]:
        now = self.now()
        return [one for one in self.claims.get(path, ()) if one.ends > now]

    def claim(self, path: str, who: str, *, weak: bool = False) -> Claim:
        for one in self._open(path):
            if one.who == who and one.weak == weak and one.ends == float("inf"):
                return one
        made = Claim(who, self.now(), weak=weak)
        self.claims.setdefault(path, []).append(made)
        return made

    def wrote(self, path: str, who: str, line: str) -> None:
        self.claim(path, who).written = True
        self.lines[line] = f"{who} in {path}"

    def end(
        self, who: str, paths: Iterable[str] | None = None, *, weak: bool | None = None
    ) -> None:
        """What somebody had of these is free."""
        for path in list(self.claims) if paths is None else paths:
            for one in self._open(path):
                if one.who == who and weak in (None, one.weak):
                    one.ends_early = one.ends = self.now()

    def move(self, paths: Iterable[str], who: str, to: str) -> None:
        for path in paths:
            for one in self._open(path):
                if one.who == who and not one.weak:
                    one.ends_early = one.ends = self.now()
                    self.claim(path, to).written = one.written

    def rest(self, who: str, begun: float) -> None:
        """Somebody stopped, between that moment and now."""
        for path, some in self.claims.items():
            for one in self._open(path):
                if one.who == who and one in some:
                    one.weak = one.weak or not one.written
                    one.ends_early = begun + self.idle_seconds
                    one.ends = self.now() + self.idle_seconds + 0.05

    def wake(self, who: str) -> None:
        """And is at work again since some time before now."""
        for path in self.claims:
            for one in self._open(path):
                if one.who == who:
                    one.weak = one.weak or one.ends_early < self.now()
                    one.ends_early = one.ends = float("inf")

    def crash(self, who: str) -> None:
        """Somebody dies, and comes back at once: whoever stands in line may have been quicker."""
        for path in self.claims:
            for one in self._open(path):
                if one.who == who and not self.is_free(path, who):
                    one.weak = True

    def mine(self, who: str) -> list[str]:
        """What somebody has changed and not yet committed."""
        return sorted(
            path for path in self.claims
            if any(one.who == who and not one.weak for one in self._open(path))
        )  # fmt: skip

    def is_free(self, path: str, who: str) -> bool:
        """Whether nobody else has any business there."""
        return all(one.who == who for one in self._open(path))

    def taken(self, who: str) -> list[str]:
        """What others have changed for sure, and will have for a while."""
        soon = self.now() + 0.3
        return sorted(
            path for path in self.claims
            if any(
                one.who.partition("/")[0] != who and one.written and not one.weak
                and one.ends_early > soon
                for one in self._open(path)
            )
        )  # fmt: skip

    def judge(
        self, who: str, paths: Iterable[str], begun: float, refused: str, *, family: bool = False
    ) -> None:
        """An answer of the gate, to a question that was asked at a moment and answered by now."""
        now = self.now()
        others = [
            (path, one)
            for path in paths
            for one in self.claims.get(path, ())
            if one.ends > begun and one.who != who
            and not (family and one.who.partition("/")[0] == who.partition("/")[0])
        ]  # fmt: skip
        if refused and not others:
            self.wrong.append(f"{begun:.3f} {who} was refused {sorted(paths)} wrongly: {refused}")
        missed = [
            (path, one) for path, one in others
            if not one.weak and one.since < begun and one.ends_early > now
        ]  # fmt: skip
        if not refused and missed:
            self.wrong.append(f"{begun:.3f} {who} was not refused {sorted(paths)}: {missed}")
        assert not self.wrong, "\n".join(self.wrong)
