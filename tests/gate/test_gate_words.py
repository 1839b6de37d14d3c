"""No message to an agent is lost: what one event could not deliver, the next one delivers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_guard import context, refusal
from helpers_hook import AtTheDoor, Scene
from holdfast.gate import clients
from stage import settled

ANN, BOB, CID = "ann-session", "bob-session", "cid-session"

FREE = "app/x.rb came free"
YOURS = "is yours now"
GONE = "not yours any more"

#: Possible next events of an agent: samples of its client's input, and the fields put into them.
NEXT: list[tuple[str, str, dict[str, Any]]] = [
    ("claude", "PreToolUse-Write", {"tool_input": {"file_path": "lib/y.rb", "content": "x"}}),
    ("claude", "PreToolUse-Bash", {"tool_input": {"command": "make"}}),
    ("claude", "PreToolUse-Agent", {}),
    ("claude", "PreToolUse-Agent-background", {}),
    ("claude", "PostToolUse-Write", {"tool_input": {"file_path": "lib/y.rb", "content": "x"}}),
    ("claude", "PostToolUse-Bash", {"tool_input": {"command": "make"}}),
    ("claude", "PostToolUse-Agent", {}),
    ("claude", "PostToolUse-Agent-background", {}),
    ("claude", "PostToolUseFailure-Bash", {"tool_input": {"command": "make"}}),
    ("claude", "UserPromptSubmit", {}),
    ("claude", "UserPromptSubmit-notification", {}),
    ("claude", "SubagentStart", {"agent_id": "sub"}),
    ("claude", "SubagentStop", {"agent_id": "sub"}),
    ("claude", "SessionStart", {}),
    ("claude", "Stop", {}),
    ("claude", "Stop", {"stop_hook_active": True}),
    ("claude", "StopFailure-subagent", {"agent_id": None}),
    ("codex", "PreToolUse-apply_patch", {}),
    ("codex", "PreToolUse-Bash", {"tool_input": {"command": "make"}}),
    ("codex", "PreToolUse-spawn_agent", {}),
    ("codex", "PostToolUse-apply_patch", {}),
    ("codex", "PostToolUse-Bash", {"tool_input": {"command": "make"}}),
    ("codex", "UserPromptSubmit", {}),
    ("codex", "SubagentStart", {"agent_id": "sub"}),
    ("codex", "SubagentStop", {"agent_id": "sub"}),
    ("codex", "SessionStart", {}),
    ("codex", "Stop", {}),
    ("codex", "Stop", {"stop_hook_active": True}),
    ("codex", "Stop", {"hook_event_name": "Interrupt"}),
]


def named(case: object) -> str:
    return "-".join(map(str, case)) if isinstance(case, tuple) else str(case)


@pytest.fixture
def scene(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    settled(repository / "app/x.rb", repository / "lib/y.rb")
    made = Scene(repository, monkeypatch)
    yield made
    made.close()


def heard(said: dict[str, Any]) -> str:
    """The part of an answer that the agent itself reads."""
    on = said["reason"] if said.get("decision") == "block" else ""
    return "\n".join(filter(None, (refusal(said), context(said), on)))


def asks(agent: AtTheDoor, path: str) -> dict[str, Any]:
    """The answer to an agent of either client that wants to write a file."""
    if agent.client == "claude":
        return agent.ask(path)
    patch = f"*** Begin Patch\n*** Add File: {path}\n+new\n*** End Patch\n"
    return agent.tell("PreToolUse-apply_patch", tool_input={"command": patch})


def kept_for_bob(scene: Scene, client: str) -> AtTheDoor:
    """An agent that was refused a file, which has since been reserved for it."""
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB, client)
    ann.edit("app/x.rb")
    assert refusal(asks(bob, "app/x.rb"))
    ann.tell("SessionEnd")
    return bob


def test_every_event_that_the_clients_tell_is_tried() -> None:
    for client in clients.NAMES:
        adapter = clients.adapter(client)
        assert adapter is not None
        tried = {more.get("hook_event_name", name.split("-")[0]) for who, name, more in NEXT
                 if who == client}  # fmt: skip
        assert tried == adapter.EVENTS.keys() - {"SessionEnd"}


@pytest.mark.parametrize("case", NEXT, ids=named)
def test_seed002_12_that_a_file_came_free_is_heard_with_this_event_or_the_next(
    scene: Scene, case: tuple[str, str, dict[str, Any]]
) -> None:
    client, name, more = case
    bob = kept_for_bob(scene, client)
    told = [heard(bob.tell(name, **more)), heard(bob.command("ls")), heard(bob.command("ls"))]
    assert [FREE in text for text in told] in ([True, False, False], [False, True, False]), told
    # and the message is true
    said = next(text for text in told if FREE in text)
    assert (YOURS in said) is (scene.owners().get("app/x.rb") == BOB)
    assert (GONE in said) is ("app/x.rb" not in scene.owners())


@pytest.mark.parametrize("case", NEXT, ids=named)
def test_seed002_12_that_it_is_not_the_agents_any_more_is_heard_too(
    scene: Scene, case: tuple[str, str, dict[str, Any]]
) -> None:
    client, name, more = case
    bob = kept_for_bob(scene, client)
    assert YOURS in heard(bob.command("ls"))
    scene.clock.advance(31)
    told = [heard(bob.tell(name, **more)), heard(bob.command("ls")), heard(bob.command("ls"))]
    assert [GONE in text for text in told] in ([True, False, False], [False, True, False]), told


@pytest.mark.parametrize("client", clients.NAMES)
def test_seed002_12_one_that_is_refused_something_else_hears_it_beside_the_refusal(
    scene: Scene, client: str
) -> None:
    cid = scene.at_the_door(CID)
    cid.edit("lib/y.rb")
    bob = kept_for_bob(scene, client)
    bob.command("ls")
    scene.clock.advance(31)
    said = refusal(asks(bob, "lib/y.rb"))
    assert cid.name in said
    assert GONE in said


def test_what_was_decided_while_a_call_was_held_open_is_said_at_its_end(scene: Scene) -> None:
    scene.at_the_door(CID).edit("lib/y.rb")
    bob = kept_for_bob(scene, "claude")
    bob.held_open = True
    said = refusal(bob.ask("lib/y.rb"))
    assert FREE in said
    assert YOURS in said


@pytest.mark.parametrize("client", clients.NAMES)
def test_one_that_is_blocked_hears_what_is_not_kept_for_it_any_more(
    scene: Scene, client: str
) -> None:
    cid = scene.at_the_door(CID)
    cid.edit("lib/y.rb")
    bob = scene.at_the_door(BOB, client)
    assert refusal(asks(bob, "lib/y.rb"))
    scene.clock.advance(170)
    assert kept_for_bob(scene, client)
    scene.clock.advance(10)
    said = refusal(asks(bob, "lib/y.rb"))
    assert "state=waiting_for_instruction" in said
    assert GONE in said
    assert "app/x.rb" not in scene.owners()


def test_one_whose_stop_ends_blocked_hears_it_when_its_user_has_spoken(scene: Scene) -> None:
    cid = scene.at_the_door(CID)
    cid.edit("lib/y.rb")
    bob = scene.at_the_door(BOB)
    assert refusal(asks(bob, "lib/y.rb"))
    scene.clock.advance(170)
    kept_for_bob(scene, "claude")
    scene.clock.advance(10)
    assert "state=waiting_for_instruction" in bob.tell("Stop")["systemMessage"]
    assert "app/x.rb" not in scene.owners()
    assert GONE in heard(bob.tell("UserPromptSubmit"))


def test_one_that_is_sent_back_to_work_hears_both(scene: Scene) -> None:
    bob = kept_for_bob(scene, "claude")
    bob.command("ls")
    cid = scene.at_the_door(CID)
    cid.edit("lib/y.rb")
    assert refusal(bob.ask("lib/y.rb"))
    scene.clock.advance(31)
    cid.tell("SessionEnd")
    said = bob.tell("Stop")
    assert said["decision"] == "block"
    assert f"lib/y.rb came free and {YOURS}" in said["reason"]
    assert GONE in said["reason"]
