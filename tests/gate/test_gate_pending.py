"""An edit that the gate has allowed and the client has not made yet.

Between the two the client may ask its user for permission, which takes any length of time. The
lease must still be the agent's when the write happens, whatever its own family does meanwhile.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers_hook import AtTheDoor, Scene, refusal
from holdfast.core.model import agent_key
from holdfast.gate import lease_gate, pending_writes
from stage import settled

CHILD = {"agent_id": "child"}
PATCH = "*** Begin Patch\n*** Add File: ROOT/x.txt\n+x\n*** End Patch\n"
EDITS = {
    "claude": ("PreToolUse-Write", {"file_path": "ROOT/x.txt", "content": "x"}),
    "codex": ("PreToolUse-apply_patch", {"command": PATCH}),
}


@pytest.fixture
def scene(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (repository / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\n")
    made = Scene(repository, monkeypatch)
    yield made
    made.close()


@pytest.fixture
def ann(scene: Scene) -> AtTheDoor:
    return scene.at_the_door("ann")


def ask(agent: AtTheDoor, path: str, **more: Any) -> str:
    """Ask for a file without writing it yet: the reason for a refusal, else ""."""
    return refusal(agent.ask(path, **more))


def finish(agent: AtTheDoor, path: str, **more: Any) -> None:
    """Make the write that was allowed."""
    (agent.root / path).write_text("finished\n")
    agent.tell("PostToolUse-Write", tool_input={"file_path": f"{agent.root}/{path}"}, **more)


def test_seed002_04_a_commit_leaves_what_a_sub_agent_is_about_to_write(
    scene: Scene, ann: AtTheDoor
) -> None:
    assert not ann.edit("x.txt", **CHILD)
    assert not ann.edit("y.txt", **CHILD)
    assert not ask(ann, "x.txt", **CHILD)
    ann.commit("x.txt", "y.txt")
    assert scene.owners() == {"x.txt": "ann/child"}
    finish(ann, "x.txt", **CHILD)
    ann.commit("x.txt")
    assert scene.owners() == {}


def test_seed002_04_what_an_agent_is_about_to_write_does_not_go_down_to_its_sub_agent(
    scene: Scene, ann: AtTheDoor
) -> None:
    assert not ann.edit("y.txt")
    assert not ask(ann, "x.txt")
    assert "x.txt" in ann.edit("x.txt", **CHILD)
    assert not ann.edit("y.txt", **CHILD)
    assert scene.owners() == {"x.txt": "ann", "y.txt": "ann/child"}


def test_what_was_written_comes_down_at_once_to_the_sub_agent_that_waits(
    scene: Scene, ann: AtTheDoor
) -> None:
    (scene.root / "holdfast.toml").write_text("[gate]\nhold_seconds = 20\n")
    assert not ask(ann, "x.txt")
    ann.held_open = True
    waited: list[float] = []

    def wait(seconds: float, waiter: object) -> bool:
        waited.append(seconds)
        if len(waited) == 2:
            finish(ann, "x.txt")
        return False

    ann.wait = wait  # type: ignore[method-assign]
    assert not ann.edit("x.txt", **CHILD)
    assert len(waited) == 2
    assert scene.owners() == {"x.txt": "ann/child"}


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_the_next_tool_call_of_an_agent_shows_that_its_earlier_edit_is_over(
    scene: Scene, client: str
) -> None:
    """The user refused it, or the patch did not match: no client reports that."""
    bob = scene.at_the_door("bob", client)
    hook, fields = EDITS[client]
    fields = {name: text.replace("ROOT", str(scene.root)) for name, text in fields.items()}
    assert not refusal(bob.tell(hook, tool_input=fields))
    assert refusal(bob.tell(hook, tool_input=fields, **CHILD))
    bob.command("ls")
    assert not refusal(bob.tell(hook, tool_input=fields, **CHILD))


def test_an_agent_that_starts_another_has_ended_its_edit(scene: Scene, ann: AtTheDoor) -> None:
    assert not ask(ann, "x.txt")
    ann.tell("PreToolUse-Agent")
    assert not ann.edit("x.txt", **CHILD)
    assert scene.owners() == {"x.txt": "ann/child"}


def test_another_edit_of_the_agent_replaces_what_it_was_about_to_write(
    scene: Scene, ann: AtTheDoor
) -> None:
    assert not ask(ann, "x.txt")
    assert not ask(ann, "y.txt")
    assert not ann.edit("x.txt", **CHILD)
    assert "y.txt" in ann.edit("y.txt", **CHILD)


def test_a_refused_edit_is_not_about_to_happen(scene: Scene, ann: AtTheDoor) -> None:
    bob = scene.at_the_door("bob")
    assert not bob.edit("x.txt")
    assert ask(ann, "x.txt")
    assert not pending_writes.is_busy(str(scene.root), agent_key("claude", "ann"), ["x.txt"])


def test_an_edit_that_failed_inside_is_not_about_to_happen(
    scene: Scene, ann: AtTheDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no")

    with monkeypatch.context() as patch:
        patch.setattr(lease_gate.LeaseGate, "decide", fails)
        assert ask(ann, "x.txt")
    assert not pending_writes.is_busy(str(scene.root), agent_key("claude", "ann"), ["x.txt"])


def test_it_is_marked_before_it_is_decided(
    scene: Scene, ann: AtTheDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that is decided after the edit must find the mark, however soon it comes."""
    assert not ann.edit("x.txt")
    decide, seen = lease_gate.LeaseGate.decide, []

    def watched(gate: lease_gate.LeaseGate, rule: Any) -> Any:
        seen.append(pending_writes.is_writing(str(scene.root), gate.holder.key, ["x.txt"]))
        return decide(gate, rule)

    monkeypatch.setattr(lease_gate.LeaseGate, "decide", watched)
    assert not ask(ann, "x.txt")
    assert seen == [True]


def test_a_line_that_writes_and_commits_frees_what_it_wrote(scene: Scene, ann: AtTheDoor) -> None:
    assert not refusal(ann.command("echo new > x.txt && git commit -am x"))
    (scene.root / "x.txt").write_text("new\n")
    assert scene.owners() == {"x.txt": "ann"}
    ann.commit("x.txt")
    assert scene.owners() == {}


def test_a_hard_link_is_the_same_file(scene: Scene, ann: AtTheDoor) -> None:
    (scene.root / "x.txt").write_text("old\n")
    (scene.root / "z.txt").hardlink_to(scene.root / "x.txt")
    settled(scene.root / "x.txt")
    assert not ask(ann, "x.txt")
    assert ann.edit("z.txt", **CHILD)
