"""Real agents at a real git: programs with the names of clients, whose shells commit.

An agent is a process with the name of its client, detached from the process that runs the tests. It
asks the hook for each file that it edits, with the client's own JSON. Commands of its shell have
the environment that the client sets, and that process above them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from helpers_processes import state_of, until
from holdfast import LockManager
from holdfast.core.model import agent_key
from holdfast.gate.git import git_hooks

#: Runs the commands that it reads, line by line, until its input ends. Since it has no controlling
#: terminal yet, the first terminal that it opens becomes one.
PROGRAM = """
import json, os, subprocess, sys
terminal = [os.open(name, os.O_RDWR) for name in sys.argv[1:]]
print(os.getpid(), flush=True)
for line in sys.stdin:
    words, cwd, env, text = json.loads(line)
    done = subprocess.run(words, cwd=cwd, env=env, input=text, capture_output=True, text=True)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
"""
#: Sessions of two agents, and their keys in the ledger.
ANN = "1111aaaa-0000-4000-8000-000000000001"
BOB = "2222bbbb-0000-4000-8000-000000000002"
ANN_KEY, BOB_KEY = agent_key("claude", ANN), agent_key("codex", BOB)
FOREIGN = ("CLAUDE", "CODEX", "GIT_", "HOLDFAST", "PRE_COMMIT", "AI_AGENT")


class Done(NamedTuple):
    """How a command of an agent ended."""

    code: int
    said: str
    complained: str


def environment(folder: Path) -> dict[str, str]:
    """The environment without variables of the process that runs the tests, with git settings."""
    (folder / "gitconfig").write_text(
        "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    kept = {name: text for name, text in os.environ.items() if not name.startswith(FOREIGN)}
    return {
        **kept, "GIT_CONFIG_GLOBAL": str(folder / "gitconfig"), "GIT_CONFIG_SYSTEM": os.devnull,
    }  # fmt: skip


class Actor:
    """One program with a shell: an agent's client, or a person's terminal."""

    def __init__(self, repo: Repo, program: str, session: str = "", terminal: str = "") -> None:
        self.repo = repo
        self.client = program if session else ""
        self.session = session
        script = repo.folder / "bin" / program
        script.parent.mkdir(exist_ok=True)
        script.write_text(PROGRAM)
        self.process = subprocess.Popen(
            ["setsid", "--fork", sys.executable, str(script), *([terminal] if terminal else ())],
            text=True, cwd=repo.folder,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=repo.env,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.pid = int(self.process.stdout.readline())
        self.process.wait(30)

    def shell(self, agent: str = "") -> dict[str, str]:
        """The variables that the client sets for its shells."""
        if self.client == "claude":
            return {"CLAUDECODE": "1", "CLAUDE_PID": str(self.pid),
                    "CLAUDE_CODE_SESSION_ID": self.session}  # fmt: skip
        if self.client == "codex":
            return {"CODEX_SESSION_ID": self.session, "CODEX_THREAD_ID": agent or self.session}
        return {}

    def run(
        self, *words: object, at: Path | None = None, text: str = "", agent: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Done:  # fmt: skip
        """Run a command as the client's shell does, or with another environment."""
        told = {**self.repo.env, **(self.shell(agent) if env is None else env)}
        line = json.dumps([list(map(str, words)), str(at or self.repo.root), told, text])
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return Done(*json.loads(self.process.stdout.readline()))

    def git(self, *words: object, at: Path | None = None, agent: str = "") -> Done:
        done = self.run("git", *words, at=at, agent=agent)
        assert done.code == 0, done
        return done

    def lease(self, *names: str, agent: str = "", at: Path | None = None) -> None:
        """Ask the hook for files, as the client does before it edits them, and report the edit as
        done, as if no change had been necessary."""
        for name in names:
            self._tell("PreToolUse", name, agent, at)
            self._tell("PostToolUse", name, agent, at)

    def _tell(self, event: str, name: str, agent: str, at: Path | None) -> None:
        """Call the hook of an edit, which must not refuse it."""
        path = str((at or self.repo.root) / name)
        said: dict[str, object] = {
            "session_id": self.session, "cwd": str(at or self.repo.root),
            "hook_event_name": event,
        }  # fmt: skip
        if agent:
            said |= {"agent_id": agent, "agent_type": "general"}
        if self.client == "claude":
            said |= {"tool_name": "Write", "tool_input": {"file_path": path, "content": ""}}
        else:
            patch = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n"
            said |= {"tool_name": "apply_patch", "tool_input": {"command": patch}}
        env = self.shell() if self.client == "claude" else {}
        done = self.run(*git_hooks.command(), self.client, text=json.dumps(said), env=env)
        assert done.code == 0, done
        assert "deny" not in done.said, done

    def edit(
        self, *names: str, content: str = "new\n", agent: str = "", at: Path | None = None
    ) -> None:
        """Edit files, each with a lease."""
        for name in names:
            self._tell("PreToolUse", name, agent, at)
            file = (at or self.repo.root) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
            self._tell("PostToolUse", name, agent, at)

    def commit(self, *words: object, at: Path | None = None, agent: str = "") -> Done:
        return self.run("git", "commit", "-m", "a commit", *words, at=at, agent=agent)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        assert self.process.stdout is not None
        self.process.stdout.read()
        until(lambda: state_of(self.pid) in "ZX", "it is gone")  # its files close first

    def close(self) -> None:
        """End it, and wait until it has ended."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            if pipe is self.process.stdout and not pipe.closed:
                pipe.read()
            pipe.close()


class Repo:
    """A repository with our hooks in it, and agents that work there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = environment(folder)
        self.root = folder / "a repo"
        self.root.mkdir()
        self.actors: list[Actor] = []
        self.git("init", "--quiet")

    def git(self, *words: object, at: Path | None = None) -> str:
        """Run git as a person would, without hooks."""
        done = subprocess.run(
            ["git", "-c", f"core.hooksPath={os.devnull}", *map(str, words)], env=self.env,
            cwd=at or self.root, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done
        return done.stdout

    def start(self, *names: str) -> None:
        """A first commit with these files, a ledger, and our hooks."""
        for name in names:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(f"old {name}\n")
        if names:
            self.git("add", "--all")
            self.git("commit", "--quiet", "-m", "start")
        exclude = self.root / ".git/info/exclude"
        exclude.parent.mkdir(exist_ok=True)
        exclude.write_text(".holdfast/\n")
        (self.root / ".holdfast").mkdir()
        self.install()

    def install(self) -> None:
        states = {hook.state for hook in git_hooks.install(str(self.root))}
        assert states == {"installed"}

    def actor(self, program: str, session: str = "", terminal: str = "") -> Actor:
        made = Actor(self, program, session, terminal)
        self.actors.append(made)
        return made

    def held(self, at: Path | None = None) -> dict[str, str]:
        """The holder of each file: agents by their keys."""
        with LockManager.open(at or self.root) as manager:
            return {
                path: grant.owner.key if grant.owner.client else grant.holder
                for grant in manager.active_grants()
                for path in grant.write_paths
            }

    def name(self, key: str) -> str:
        """The name of an agent that holds a grant."""
        with LockManager.open(self.root) as manager:
            names = {grant.owner.id for grant in manager.active_grants() if grant.owner.key == key}
        assert len(names) == 1, names
        return names.pop()

    def side(self, *names: str, branch: str = "side") -> None:
        """A branch with one commit that changes these files; we stay on main, a commit ahead."""
        self.git("switch", "--quiet", "-c", branch)
        for name in names:
            (self.root / name).write_text(f"{branch} {name}\n")
        self.git("add", "--", *names)
        self.git("commit", "--quiet", "-m", branch)
        self.git("switch", "--quiet", "main")
        self.git("commit", "--quiet", "--allow-empty", "-m", "main goes on")

    def subjects(self) -> list[str]:
        return self.git("log", "--format=%s").split("\n")[:-1]

    def last(self) -> list[str]:
        """The files that the last commit changed."""
        return self.git("show", "--format=", "--name-only", "-z", "HEAD").strip("\0").split("\0")

    def close(self) -> None:
        for actor in self.actors:
            actor.close()
