"""The real clients as agents of tasks: called as `find_agent` does, below a sandbox, unattended.

First each client alone, in a repository without hooks: it edits a file, makes one, and runs a shell
command that writes, for a prompt that is too long for a command line and begins with a dash. Then
whole lists, as for a new user: after `holdfast init`, with no settings file.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import until
from helpers_sandbox import NEEDS_LANDLOCK
from holdfast.manager.manager import LockManager
from holdfast.work.tasks.task_agent import KNOWN, Agent, find_agent

from .crew import when
from .drive import (
    RUN_SECONDS,
    claude_environment,
    codex_environment,
    home_for,
    trust_codex_hooks,
    write_codex_config,
)
from .install import program
from .servers import (
    AnthropicServer,
    Call,
    ModelServer,
    OpenAIServer,
    Step,
    bash,
    edit,
    patch,
    read,
    shell,
    write,
)

pytestmark = NEEDS_LANDLOCK

PROMPT = '-p [[main]] it\'s "quoted" $HOME\n--help\n' + "a line of 'text'\n" * 12_000
WRITTEN = {"a.txt": "new\n", "n.txt": "fresh\n", "s.txt": "shell\n"}


def found(repo: Path, client: str, environ: dict[str, str]) -> Agent:
    """The agent that is found where this client is the only one on the PATH."""
    return find_agent(str(repo), {**environ, "PATH": str(_links(repo, client))})


def _links(repo: Path, client: str) -> Path:
    links = repo.parent / "bin"
    links.mkdir()
    (links / client).symlink_to(program(client))
    return links


def _point_codex_at(server: ModelServer, home: Path, repo: Path) -> None:
    write_codex_config(home, repo)
    config = home / "codex/config.toml"
    known = 'model = "gpt-5.5"\nfeatures = { plugins = false, apps = false }\n'
    config.write_text(known + config.read_text().replace("http://127.0.0.1:9", server.url))


def run(repo: Path, agent: Agent, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    before = [sys.executable, "-m", "holdfast", "run", "--sandbox", "--lease", "--"]
    return subprocess.run(
        [*before, *agent.words("main", PROMPT)], cwd=repo, env={**environ, **agent.environment},
        input=PROMPT, capture_output=True, text=True, timeout=RUN_SECONDS, check=False,
    )  # fmt: skip


def texts(repo: Path) -> dict[str, str]:
    return {name: (repo / name).read_text() for name in WRITTEN if (repo / name).exists()}


def test_claude_code_writes_in_every_way_without_a_person(
    repo: Path, anthropic: AnthropicServer
) -> None:
    anthropic.scripts["main"] = [
        read(repo / "a.txt"), edit(repo / "a.txt", "old", "new"),
        write(repo / "n.txt", "fresh\n"), bash("echo shell >s.txt"), "Done.",
    ]  # fmt: skip
    environ = claude_environment(home_for(repo, None, "home"), anthropic)
    done = run(repo, found(repo, "claude", environ), environ)
    assert done.returncode == 0, done
    assert texts(repo) == WRITTEN
    assert json.dumps(PROMPT.strip())[1:-1] in anthropic.asked("main")[0].text()


def test_codex_writes_in_every_way_with_one_file_of_its_home_and_not_without(
    repo: Path, openai: OpenAIServer
) -> None:
    openai.scripts["main"] = [
        patch("*** Update File: a.txt\n@@\n-old\n+new"), patch("*** Add File: n.txt\n+fresh"),
        shell("echo shell >s.txt"), "Done.",
    ]  # fmt: skip
    home = home_for(repo, None, "home")
    _point_codex_at(openai, home, repo)
    environ = codex_environment(home)
    agent = found(repo, "codex", environ)
    assert run(repo, agent, environ).returncode != 0
    assert texts(repo) == {"a.txt": "old\n"}
    for file in agent.writes:
        Path(file).touch()
    (repo / "holdfast.toml").write_text(f"[sandbox]\nwrite = {json.dumps(agent.writes)}\n")
    done = run(repo, agent, environ)
    assert done.returncode == 0, done
    assert texts(repo) == WRITTEN
    assert json.dumps(PROMPT.strip())[1:-1] in openai.asked("main")[0].text()


# Lists of tasks, as for a new user


class NewUser:
    """A repository after `holdfast init`, with one client on the PATH and no settings file."""

    def __init__(self, repo: Path, client: str, server: ModelServer) -> None:
        self.root, self.client, self.server = repo, client, server
        home = home_for(repo, None, "home")
        if isinstance(server, AnthropicServer):
            environ = claude_environment(home, server)
        else:
            _point_codex_at(server, home, repo)
            environ = codex_environment(home)
        links = _links(repo, client)
        self.environment = {**environ, "PATH": f"{links}:{os.environ['PATH']}"}
        for words in (["user.name", "Tess"], ["user.email", "tess@example.org"]):
            self.git("config", *words)
        assert self.holdfast("init", "--yes", "--client", client).returncode == 0
        if client == "codex":
            trust_codex_hooks(repo, home)

    def holdfast(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "holdfast", *words], cwd=self.root, env=self.environment,
            capture_output=True, text=True, timeout=RUN_SECONDS, check=False,
        )  # fmt: skip

    def dispatch(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = self.holdfast("dispatch", *words)
        assert not (self.root / "holdfast.toml").exists()
        assert done.returncode == 0, f"{done.stdout}{done.stderr}{self.printed()}"
        return done

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.root, check=True, capture_output=True, text=True
        )
        return done.stdout

    def read(self, path: str) -> Step:
        """Have the model read a file with the client."""
        return read(self.root / path) if self.client == "claude" else shell(f"cat {path}")

    def change(self, path: str, old: str, new: str) -> Call:
        """Have the model change a line of a file with the client."""
        if self.client == "claude":
            return edit(self.root / path, old, new)
        return patch(f"*** Update File: {path}\n@@\n-{old}\n+{new}")

    def text(self, path: str) -> str:
        return (self.root / path).read_text()

    def printed(self) -> str:
        """The agents' output, to explain a failure."""
        logs = sorted((self.root / ".holdfast/runs").glob("*/*.log"))
        return "\n".join(f"{log.parent.name}/{log.name}: {log.read_text()}" for log in logs)


@pytest.fixture(params=["claude", "codex"])
def user(request: pytest.FixtureRequest, repo: Path) -> NewUser:
    """A new user of each client in turn."""
    servers = {"claude": "anthropic", "codex": "openai"}
    return NewUser(repo, request.param, request.getfixturevalue(servers[request.param]))


def test_two_tasks_of_a_list_collide_on_a_file_and_both_edits_are_committed(user: NewUser) -> None:
    (user.root / "a.txt").write_text("first\nsecond\n")
    user.git("commit", "-q", "-a", "-m", "two lines")
    user.server.scripts["one"] = [
        user.read("a.txt"),
        when(lambda: user.server.wait_for("two", 1), user.change("a.txt", "first", "half")),
        when(lambda: _until_a_call_waits(user.root), user.change("a.txt", "half", "FIRST")),
        "Done.",
    ]
    user.server.scripts["two"] = [
        user.read("a.txt"),
        when(lambda: user.server.wait_for("one", 2), user.change("a.txt", "second", "SECOND")),
        user.read("a.txt"),
        user.change("a.txt", "second", "SECOND"),
        "Done.",
    ]
    (user.root / "tasks.toml").write_text(
        "commit = true\n"
        '[[task]]\nname = "one"\nprompt = "Change the first line. [[one]]"\n'
        '[[task]]\nname = "two"\nprompt = "Change the second line. [[two]]"\n'
    )
    done = user.dispatch("tasks.toml")
    assert user.text("a.txt") == "FIRST\nSECOND\n"
    refused = user.server.results("two")[1]
    assert ("ESTALE" if user.client == "claude" else "Failed to write file") in refused
    log = user.git("log", "-2", "--format=%an: %s", "--name-only").split("\n")
    assert [line for line in log if line] == [
        "Tess: Change the second line. [[two]]", "a.txt",
        "Tess: Change the first line. [[one]]", "a.txt",
    ]  # fmt: skip
    assert user.git("status", "--porcelain") == "?? tasks.toml\n"
    shown = done.stderr.split("->")[0]
    assert f"agent: {shlex.join(KNOWN[user.client][1])} <'prompt of one'" in shown


def test_a_task_writes_the_new_file_that_it_declares_and_no_other(user: NewUser) -> None:
    if user.client == "claude":
        steps = [write(user.root / name, "fresh\n") for name in ("n.txt", "other.txt")]
    else:
        steps = [patch(f"*** Add File: {name}\n+fresh") for name in ("n.txt", "other.txt")]
    user.server.scripts["main"] = [*steps, "Done."]
    (user.root / "tasks.toml").write_text(
        '[[task]]\nname = "one"\nprompt = "Make two files. [[main]]"\nwrites = ["n.txt"]\n'
    )
    user.dispatch("tasks.toml")
    assert user.git("status", "--porcelain") == "?? n.txt\n?? tasks.toml\n"
    assert user.text("n.txt") == "fresh\n"


def test_a_failed_check_goes_back_to_the_client_with_its_output(user: NewUser) -> None:
    def work(body: dict[str, Any]) -> Call | str:
        is_told = "no new line in b.txt" in json.dumps(body)
        return user.change("b.txt", "old", "new") if is_told else "I have nothing to do."

    steps: list[Step] = [user.read("b.txt"), work, "Done."]
    user.server.scripts["main"] = steps
    (user.root / "tasks.toml").write_text(
        "check = 'grep -q new b.txt || { echo no new line in b.txt; exit 1; }'\n"
        '[[task]]\nname = "one"\nprompt = "Change b. [[main]]"\n'
    )
    user.dispatch("tasks.toml")
    assert user.text("b.txt") == "new\n"


def test_the_items_of_a_checklist_are_done_and_ticked(user: NewUser) -> None:
    for name in ("a", "b"):
        user.server.scripts[name] = [
            user.read(f"{name}.txt"), user.change(f"{name}.txt", "old", name), "Done.",
        ]  # fmt: skip
    todo = "# To do\n\n- [ ] Change a [[a]]\n- [x] nothing\n- [ ] Change b [[b]]\n"
    (user.root / "TODO.md").write_text(todo)
    user.dispatch("TODO.md")
    assert user.text("TODO.md") == todo.replace("[ ]", "[x]")
    assert (user.text("a.txt"), user.text("b.txt")) == ("a\n", "b\n")
    again = user.dispatch("TODO.md")
    assert user.text("a.txt") == "a\n", again


def test_prompts_on_the_command_line_are_tasks(user: NewUser) -> None:
    for name in ("a", "b"):
        user.server.scripts[name] = [
            user.read(f"{name}.txt"), user.change(f"{name}.txt", "old", name), "Done.",
        ]  # fmt: skip
    user.dispatch("--task", "Change a [[a]]", "--task", "Change b [[b]]")
    assert (user.text("a.txt"), user.text("b.txt")) == ("a\n", "b\n")


def _until_a_call_waits(root: Path) -> None:
    with LockManager.open(str(root)) as manager:
        until(lambda: manager.queue(), "a call of the other task stands in line")
