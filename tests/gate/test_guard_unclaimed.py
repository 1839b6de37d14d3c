"""Unleased files that changed while a command ran: reported to its agent, and left free.

Real git repositories, real commands, and a person who saves a file meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_commits import Repo
from helpers_guard import Shop, made_repository, settled, sh, sneaky
from helpers_hook import InProcesses, refusal
from holdfast import LockManager
from holdfast.gate.guard import kept_files, unclaimed_changes
from holdfast.manager import transactions


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    root = made_repository(tmp_path / "work")
    made = Shop(root)
    settled(root / "app/x.py", root / "lib/y.py")
    yield made
    made.close()


#: A program that changes this many new files.
MANY = 'python3 -c \'import os; os.mkdir("v"); [open(f"v/{{i}}", "w") for i in range({})]\''


def test_files_that_a_program_changed_are_reported_and_left_free(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    said = ann.run(f"mkdir gen; {sneaky('app/x.py')}; {sneaky('gen/new.py')}")
    assert said.context == (
        "While your command ran, 2 unleased files changed: app/x.py, gen/new.py. If you changed "
        "them and are still working on them, your next edit leases them; if you did not, leave "
        "them alone."
    )
    assert said.user == ""
    assert ann.held() == []
    assert bob.write("app/x.py", "bob\n").kind == "allow"
    assert ann.write("gen/new.py", "ann\n").kind == "allow"
    assert ann.held() == ["gen/new.py"]


def test_one_file_is_reported_in_the_singular(shop: Shop) -> None:
    told = shop.worker("ann").run(sneaky("app/x.py")).context
    assert "1 unleased file changed: app/x.py. If you changed it and" in told


def test_many_files_are_one_line(shop: Shop) -> None:
    told = shop.worker("ann").run(MANY.format(300)).context
    assert "300 unleased files changed: v/0, v/1, v/10, v/100, v/101 and 295 more" in told
    assert "\n" not in told


@pytest.mark.parametrize(
    "command",
    [
        sneaky("app/x.py"),  # a file that it holds
        "echo plain > app/z.py; make -v",  # a file that its line plainly writes
        "make -v; touch lib/y.py",
        "make -v",  # nothing
    ],
)
def test_an_agents_own_files_are_not_reported(shop: Shop, command: str) -> None:
    ann = shop.worker("ann")
    ann.write("app/x.py", "ann\n")
    assert ann.run(command).context == ""


def test_of_files_of_others_only_damage_is_reported(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    bob.write("app/z.py", "bob\n")
    ann.ask("make test")
    bob.write("app/z.py", "bob goes on\n")
    (shop.root / "app/x.py").write_text("a person's\n")
    assert "unleased file changed: app/x.py." in ann.ended("make test").context
    assert shop.events("damage", "lock_refused") == []
    assert (ann.held(), bob.held()) == ([], ["app/z.py"])


def test_a_file_that_a_person_has_locked_counts_as_held(shop: Shop) -> None:
    shop.manager.ask("dora", write_paths=["app/z.py"])
    ann = shop.worker("ann")
    ann.ask("make test")
    (shop.root / "app/z.py").write_text("dora's\n")
    assert "unleased" not in ann.ended("make test").context


def test_a_file_that_was_dirty_before_is_not_reported(shop: Shop) -> None:
    ann = shop.worker("ann")
    (shop.root / "app/z.py").write_text("a person's\n")
    settled(shop.root / "app/z.py")
    assert "unleased file changed: app/x.py." in ann.run(sneaky("app/x.py")).context


@pytest.mark.parametrize(
    "path",
    ["app/__pycache__/x.pyc", ".pytest_cache/last", "node_modules/a/i.js", "dist/o.js", ".coverage",
     "app/x.tmp", "app/known.tmp", "ignored.log", "build/o.js"],
)  # fmt: skip
def test_caches_and_ignored_files_are_not_reported(shop: Shop, path: str) -> None:
    sh(shop.root, "echo > app/known.tmp; git add app/known.tmp; git commit -qm known")
    settled(shop.root / "app/known.tmp")
    (shop.root / path).parent.mkdir(parents=True, exist_ok=True)
    assert shop.worker("ann").run(sneaky(path)).context == ""
    assert (shop.root / path).read_text().endswith("sneaky\n")


def test_a_file_is_not_reported_again_for_a_while(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    assert "app/x.py" in ann.run(sneaky("app/x.py")).context
    assert ann.run(sneaky("app/x.py")).context == ""
    told = ann.run(f"{sneaky('app/x.py')}; {sneaky('app/z.py')}").context
    assert "1 unleased file changed: app/z.py." in told
    assert "app/x.py" in bob.run(sneaky("app/x.py")).context  # not yet reported to this agent
    monkeypatch.setattr(unclaimed_changes, "AGAIN_SECONDS", -1)
    assert "app/x.py" in ann.run(sneaky("app/x.py")).context


def test_a_file_that_changed_while_two_ran_is_reported_to_both_and_free(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.ask("make ann")
    bob.ask("make bob")
    sh(shop.root, "echo whose > app/x.py")
    assert "app/x.py" in ann.ended("make ann").context
    settled(shop.root / "app/x.py")
    time.sleep(0.03)
    sh(shop.root, "echo bob > app/z.py")
    told = bob.ended("make bob").context
    assert "2 unleased files changed: app/x.py, app/z.py." in told
    assert ann.held() == bob.held() == []
    assert kept_files.all_running(str(shop.root)) == []


def test_nothing_is_reported_for_a_command_in_the_background(shop: Shop) -> None:
    ann = shop.worker("ann")
    ann.ask("npm run watch")
    (shop.root / "app/x.py").write_text("a person's\n")
    assert ann.settle() == ""
    assert ann.pending() == ""
    assert ann.held() == []


def test_a_report_alone_decides_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = shop.worker("ann")
    ann.ask("make test")
    (shop.root / "app/x.py").write_text("a person's\n")
    monkeypatch.setattr(transactions, "decide", lambda *_: pytest.fail("others were kept waiting"))
    assert "app/x.py" in ann.ended("make test").context


# A person who saves a file while an agent's command runs


class World:
    """A repository with git's hooks and the clients' hooks, as programs."""

    def __init__(self, folder: Path) -> None:
        self.repo = Repo(folder)
        self.repo.start("app/x.py", "lib/y.py")
        self.root = self.repo.root
        settled(self.root / "app/x.py", self.root / "lib/y.py")
        self.agents: list[InProcesses] = []

    def agent(self, session: str, client: str = "claude") -> InProcesses:
        made = InProcesses(self.root, session, client)
        self.agents.append(made)
        return made

    def shell(self, agent: InProcesses, name: str, command: str) -> str:
        """The context that an agent gets before its command, or after it."""
        said: dict[str, Any] = agent.tell(name, tool_input={"command": command})
        assert not refusal(said)
        return str(said.get("hookSpecificOutput", {}).get("additionalContext", ""))

    def close(self) -> None:
        for agent in self.agents:
            agent.kill()
        self.repo.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_what_a_person_saves_while_a_command_runs_stays_the_persons(
    world: World, client: str
) -> None:
    ann, bob, person = world.agent("ann", client), world.agent("bob"), world.repo.actor("vim")
    assert world.shell(ann, "PreToolUse-Bash", "make test") == ""
    (world.root / "lib/y.py").write_text("a person's\n")
    (world.root / "app/x.py").write_text("a person's\n")
    told = world.shell(ann, "PostToolUse-Bash", "make test")
    assert "2 unleased files changed: app/x.py, lib/y.py." in told
    assert world.repo.held() == {}
    done = person.commit("lib/y.py")
    assert (done.code, world.repo.last()) == (0, ["lib/y.py"]), done
    assert bob.edit("app/x.py") == ""  # no agent is blocked
    with LockManager.open(world.root) as manager:
        types = {event.type for event in manager.events()}
    assert not types & {"lock_refused", "contention_heartbeat", "damage"}
