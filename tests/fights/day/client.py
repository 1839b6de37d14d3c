"""A client that works all day: a real process with the client's name.

A child of it calls the real door, as a hook would, but without starting an interpreter each time.
Its shells are real, with the environment that the client gives them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

from helpers_commits import environment
from holdfast.gate.git import git_hooks

#: Runs commands and calls the door, line by line, until its input ends. One child answers the calls
#: that are answered immediately; each call that may be held open gets a child of its own.
PROGRAM = """
import json, os, subprocess, sys
from time import monotonic
from holdfast.gate import agents, lease_gate, shell
from holdfast.gate.clients import claude, codex, patch_files
from holdfast.gate.config import off_switch, settings
from holdfast.gate.door import client_events, hook_process
from holdfast.gate.guard import after_command, before_command, damage, ended_commands, file_watch
from holdfast.gate.guard import kept_files, own_commands, tree_verbs, unclaimed_changes
from holdfast.manager import manager
from holdfast.manager.owners import processes
from holdfast.store import open_store
import holdfast.store.sqlite.sqlite_store

troubles, in_trouble = [], client_events._in_trouble

def noticed(intent, error):
    troubles.append(str(error))  # what could not write passes, but not here
    return in_trouble(intent, error)

client_events._in_trouble = noticed

def ask(client, text, env, file):
    troubles.clear()
    held_open = hook_process._pause
    said = client_events.answer(client, text.encode(), env, started=monotonic(), pause=held_open)
    with open(file + ".new", "w") as stream:
        json.dump([said.code, said.stdout, said.stderr + " ".join(troubles)], stream)
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
        """Call the door. Yields while the door holds the call open, and returns its output."""
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
        """The same through the installed hook, in an interpreter of its own."""
        words = [*git_hooks.command(), self.client]
        told = {**self.env, **self.hook_env()}
        return _printed(Done(*self._tell("run", words, "/", told, text)))

    def run(self, command: str, agent: str = "") -> Done:
        """Run a command as the client's shell does."""
        told = {**self.env, **self.shell_env(agent)}
        return Done(*self._tell("run", ["bash", "-c", command], str(self.root), told, ""))

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        assert self.process.stdout is not None
        self.process.stdout.read()  # until the process is gone
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
