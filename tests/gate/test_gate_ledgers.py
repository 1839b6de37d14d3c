"""The stop of an agent that works in several repositories: decided in each, then held once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import until
from helpers_hook import AtTheDoor, InProcesses, Scene
from holdfast import LockManager
from holdfast.core.model import SECOND, Grant, agent_key
from holdfast.gate.guard import kept_files
from holdfast.gate.rulebook import agent_records
from holdfast.manager import transactions
from holdfast.manager.owners import running_calls
from stage import settled


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    (tmp_path / "here").mkdir()
    made = Scene(tmp_path / "here", monkeypatch)
    yield made
    made.close()


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Another repository; the gate decides there after it has decided here."""
    (tmp_path / "there/.holdfast").mkdir(parents=True)
    return tmp_path / "there"


@pytest.fixture
def ann(scene: Scene) -> AtTheDoor:
    return scene.at_the_door("ann")


@pytest.fixture
def bob(scene: Scene) -> AtTheDoor:
    return scene.at_the_door("bob")


def at(root: Path, agent: AtTheDoor | InProcesses, path: str, *, write: bool = True) -> str:
    """An edit in some repository; the reason if it was refused."""
    fields = {"file_path": f"{root}/{path}", "content": "new\n"}
    said = agent.tell("PreToolUse-Write", tool_input=fields)
    if "hookSpecificOutput" in said:
        return str(said["hookSpecificOutput"].get("permissionDecisionReason", ""))
    if write:
        (root / path).write_text("new\n")
        agent.tell("PostToolUse-Write", tool_input=fields)
    return ""


def idle_in(root: Path, session: str = "bob") -> dict[str, float | None]:
    """Seconds until each file of a session comes free because the session is idle."""
    with LockManager.open(root) as manager:
        ids = [one.id for one in manager.active_grants()]
        found = transactions.look(manager, lambda view: [view.grant(id) for id in ids])
        return {
            one.paths[0]: None if one.idle_at is None else (one.idle_at - manager.now()) / SECOND
            for one in found
            if isinstance(one, Grant) and one.holder.session == session
        }


def time_of(scene: Scene) -> int:
    with LockManager.open(scene.root) as manager:
        return manager.now()


def rests(manager: LockManager) -> bool:
    key = agent_key("claude", "bob")
    return transactions.look(manager, lambda view: agent_records.known(view, key)).rest is not None


def held_open(agent: AtTheDoor, happens: Callable[[], object], *, after: int = 4) -> None:
    """Hold the next stop open, and run `happens` meanwhile."""
    count = 0

    def wait(seconds: float, waiter: object) -> bool:
        nonlocal count
        count += 1
        agent.scene.clock.advance(seconds)
        if count == after:
            agent.held_open = False
            happens()
        return False

    agent.wait = wait  # type: ignore[method-assign]
    agent.held_open = True


def waits_here(scene: Scene, there: Path, ann: AtTheDoor, bob: AtTheDoor) -> None:
    """Let bob change a file there, and wait for one of ann's here."""
    assert at(there, bob, "b.rb") == ""
    assert ann.edit("x.rb") == ""
    assert bob.edit("x.rb")


def test_while_a_stop_is_held_every_ledger_knows_of_it(
    scene: Scene, there: Path, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    (there / "same.rb").write_text("as it was\n")
    settled(there / "same.rb")
    assert at(there, bob, "same.rb", write=False) == ""
    waits_here(scene, there, ann, bob)
    seen: list[dict[str, float | None]] = []
    held_open(bob, lambda: seen.append(idle_in(there)))
    bob.tell("Stop")
    (during,) = seen
    assert "same.rb" not in during
    assert during["b.rb"] is not None
    assert during["b.rb"] > 150  # the 30 s begin when the held stop ends


def test_seed002_19_a_prompt_overtakes_a_held_stop_in_every_ledger(
    scene: Scene, there: Path, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    waits_here(scene, there, ann, bob)
    held_open(bob, lambda: bob.tell("UserPromptSubmit"))
    assert bob.tell("Stop") == {}
    assert idle_in(there) == {"b.rb": None}
    scene.clock.advance(3600)
    assert idle_in(there) == {"b.rb": None}


def test_seed002_19_a_held_stop_that_ends_starts_the_rest_in_every_ledger(
    scene: Scene, there: Path, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    waits_here(scene, there, ann, bob)
    bob.held_open = True
    assert "state=waiting_for_instruction" in bob.tell("Stop")["systemMessage"]
    (seconds,) = idle_in(there).values()
    assert seconds == 30
    scene.clock.advance(31)
    assert idle_in(there) == {}


@pytest.mark.parametrize("where", ["here", "there"])
def test_seed002_19_an_agent_that_is_sent_back_rests_in_no_ledger(
    scene: Scene, there: Path, ann: AtTheDoor, bob: AtTheDoor, where: str
) -> None:
    mine, theirs = (there, scene.root) if where == "here" else (scene.root, there)
    assert at(mine, bob, "b.rb") == ""
    assert at(theirs, ann, "x.rb") == ""
    assert at(theirs, bob, "x.rb")
    held_open(bob, lambda: ann.tell("SessionEnd"))
    said = bob.tell("Stop")
    assert said["decision"] == "block"
    assert "x.rb came free" in said["reason"]
    assert idle_in(mine) == {"b.rb": None}
    assert idle_in(theirs) == {"x.rb": None}


def test_of_two_that_are_waited_for_in_two_ledgers_the_first_to_come_free_is_enough(
    scene: Scene, there: Path, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    cid = scene.at_the_door("cid")
    for root, owner in ((scene.root, ann), (there, cid)):
        assert at(root, bob, "b.rb") == ""
        assert at(root, owner, "x.rb") == ""
        assert at(root, bob, "x.rb")
    held_open(bob, lambda: cid.tell("SessionEnd"), after=7)
    begun = time_of(scene)
    said = bob.tell("Stop")
    assert said["decision"] == "block"
    assert time_of(scene) - begun < 10 * SECOND
    assert idle_in(there) == {"b.rb": None, "x.rb": None}
    assert idle_in(scene.root) == {"b.rb": None}
    assert "work on something else" in bob.edit("x.rb").lower()


def test_one_who_is_blocked_in_one_ledger_rests_in_the_other(
    scene: Scene, there: Path, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    cid = scene.at_the_door("cid")
    assert at(there, bob, "b.rb") == ""
    assert at(there, cid, "x.rb") == ""
    assert at(there, bob, "x.rb")
    assert ann.edit("x.rb") == ""
    assert bob.edit("x.rb")
    scene.clock.advance(180)
    cid.tell("SessionEnd")  # bob gets it there, but the retry here fails
    said = bob.tell("Stop")
    assert "decision" not in said
    assert "state=waiting_for_instruction" in said["systemMessage"]
    scene.clock.advance(31)
    assert idle_in(there) == {}


def test_a_client_that_dies_waits_in_no_ledger(
    scene: Scene, there: Path, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    cid = scene.at_the_door("cid")
    for root, owner in ((scene.root, ann), (there, cid)):
        assert at(root, owner, "x.rb") == ""
        assert at(root, bob, "x.rb")
    held_open(bob, bob.kill)
    assert bob.tell("Stop") == {}
    for root in (scene.root, there):
        with LockManager.open(root) as manager:
            assert manager.queue() == []


def test_seed002_19_a_hook_that_is_killed_leaves_every_ledger_with_its_timer(
    scene: Scene, there: Path
) -> None:
    ann, bob = scene.in_processes("ann"), scene.in_processes("bob")
    (scene.root / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\n")
    assert at(there, bob, "b.rb") == ""
    assert bob.edit("b.rb") == ""
    assert ann.edit("x.rb") == ""
    assert bob.edit("x.rb")
    hook = bob.begin("Stop")
    with LockManager.open(scene.root) as manager, LockManager.open(there) as other:
        until(lambda: rests(manager) and rests(other), "the stop is known in both")
    assert hook.poll() is None
    hook.kill()
    hook.communicate(timeout=60)
    for root in (scene.root, there):
        assert idle_in(root)["b.rb"] is not None


def test_a_ledger_in_trouble_keeps_no_other_from_hearing_of_a_stop(
    scene: Scene, there: Path, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    waits_here(scene, there, ann, bob)
    (there / ".holdfast/ledger.db").write_bytes(b"this is no database" * 100)
    held_open(bob, lambda: ann.tell("SessionEnd"))
    said = bob.tell("Stop")
    assert said["decision"] == "block"
    assert "this stop could not be recorded" in said["systemMessage"]


def test_a_hook_has_the_time_that_its_own_repository_gives_it(
    scene: Scene, there: Path, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    (scene.root / "holdfast.toml").write_text("[gate]\ntimeout_seconds = 15\n")
    assert at(there, ann, "x.rb") == ""
    bob.held_open = True
    begun = time_of(scene)
    assert at(there, bob, "x.rb")
    assert 1 <= (time_of(scene) - begun) / SECOND <= 3.5  # 5 s, less the time to decide


def test_a_command_that_one_ledger_refuses_has_begun_in_none(
    scene: Scene, there: Path, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    assert at(there, ann, "x.rb") == ""
    for line in ("echo > y.rb; echo > ../there/x.rb", "make; echo > ../there/x.rb"):
        said = bob.command(line)
        assert said["hookSpecificOutput"]["permissionDecision"] == "deny"
        for root in (scene.root, there):
            folder = root / running_calls.FOLDER
            assert [names for _, _, names in os.walk(folder) if names] == [], line
        assert kept_files.all_running(str(scene.root)) == []


# One ledger inside another's folder


def test_a_ledger_around_that_of_the_session_hears_of_its_stop(
    tmp_path: Path, bob: AtTheDoor
) -> None:
    (tmp_path / ".holdfast").mkdir()
    assert at(tmp_path, bob, "b.rb") == ""
    bob.tell("Stop")
    assert idle_in(tmp_path)["b.rb"] is not None
    bob.tell("SessionEnd")
    assert idle_in(tmp_path) == {}


def test_one_who_is_blocked_writes_nothing_around_its_ledger_either(
    scene: Scene, tmp_path: Path, ann: AtTheDoor, bob: AtTheDoor
) -> None:
    (tmp_path / ".holdfast").mkdir()
    assert ann.edit("x.rb") == ""
    assert bob.edit("x.rb")
    scene.clock.advance(180)
    assert "waiting_for_instruction" in bob.edit("x.rb")
    assert "waiting_for_instruction" in at(tmp_path, bob, "b.rb")
