"""Commands whose end is not reported immediately: in the background, interrupted, typed into.

Through the door, as the clients' hooks come in. The test acts for the process that keeps running.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers_guard import Session, called, context, gated, owners, settled, sh
from holdfast import LockManager
from holdfast.gate.guard import kept_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return gated(tmp_path / "work")


@pytest.fixture
def ann(root: Path) -> Session:
    ann = Session("ann", root)
    ann.write(root / "app/x.py", "ann\n")
    settled(root / "app/x.py")
    return ann


def start(session: Session, command: str, *, background: bool = False) -> dict[str, Any]:
    """Start a command; if in the background, its client immediately reports that it was started."""
    fields = {"command": command, "run_in_background": background}
    assert session.tool("PreToolUse", "Bash", fields) == {}
    if background:
        response = {"backgroundTaskId": "b1"}
        assert session.tool("PostToolUse", "Bash", fields, tool_response=response) == {}
    return fields


def damage(root: Path) -> list[str]:
    with LockManager.open(root) as manager:
        return [str(one.data["id"]) for one in manager.events() if one.type == "damage"]


TASK = {"id": "b1", "type": "shell", "status": "running"}


def test_effects_of_a_background_command_are_found_when_the_agent_rests(
    root: Path, ann: Session
) -> None:
    bob = Session("bob", root)
    start(bob, "npm run watch", background=True)
    sh(root, "echo late > app/x.py")
    bob.tell("Stop", background_tasks=[TASK])
    assert damage(root) == []  # it is still running
    bob.tell("UserPromptSubmit", prompt="and now?")
    assert damage(root) == []
    said = bob.tell("Stop", background_tasks=[])
    (id,) = damage(root)
    assert id in said["systemMessage"]
    assert "hookSpecificOutput" not in said  # at a stop, a context would resume the agent
    told = context(bob.tell("UserPromptSubmit", prompt="go on"))
    assert "your command ran, files that others hold were changed" in told
    assert f"app/x.py ({called(root, 'ann')})" in told
    assert f"holdfast undo {id}" in told
    assert f"holdfast undo {id}" in context(ann.tell("UserPromptSubmit", prompt="go on"))
    assert kept_files.all_running(str(root)) == []


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_an_interrupted_command_is_checked_at_the_next_prompt(
    root: Path, ann: Session, client: str
) -> None:
    bob = Session("bob", root, client)
    start(bob, "make all")
    sh(root, "echo half > app/x.py")
    told = context(bob.tell("UserPromptSubmit", prompt="not like this"))
    (id,) = damage(root)
    assert f"holdfast undo {id}" in told
    assert kept_files.all_running(str(root)) == []


def test_text_typed_into_a_running_program_of_codex_is_seen_at_its_end_or_at_the_stop(
    root: Path, ann: Session
) -> None:
    for end in ("PostToolUse", "Stop"):
        bob = Session(f"bob-{end}", root, "codex")
        fields = start(bob, "bash")
        sh(root, f"echo typed {end} > app/x.py")  # the client calls no hook for write_stdin
        before = len(damage(root))
        bob.tool(end, "Bash", fields) if end == "PostToolUse" else bob.tell(end)
        assert len(damage(root)) == before + 1


def test_the_end_of_a_session_settles_everything(root: Path, ann: Session) -> None:
    bob = Session("bob", root)
    start(bob, "npm run watch", background=True)
    sh(root, "echo late > app/x.py")
    bob.tell("SessionEnd", reason="other")
    assert len(damage(root)) == 1
    assert kept_files.all_running(str(root)) == []


def test_the_owners_own_work_meanwhile_is_no_damage(root: Path, ann: Session) -> None:
    bob = Session("bob", root)
    start(bob, "npm run watch", background=True)
    ann.write(root / "app/x.py", "ann goes on\n")
    bob.tell("Stop", background_tasks=[])
    assert damage(root) == []


def test_after_so_long_a_persons_file_does_not_count_as_damaged(root: Path) -> None:
    bob = Session("bob", root)
    with LockManager.open(root) as manager:
        manager.ask("dora", write_paths=["app/x.py"])
        start(bob, "npm run watch", background=True)
        (root / "app/x.py").write_text("dora's own\n")
        bob.tell("Stop", background_tasks=[])
        assert damage(root) == []


def test_other_changes_meanwhile_are_not_attributed_to_the_command(
    root: Path, ann: Session
) -> None:
    bob = Session("bob", root)
    start(bob, "npm run watch", background=True)
    (root / "app/z.py").write_text("a person's\n")
    bob.tell("Stop", background_tasks=[])
    assert owners(root) == {"app/x.py": "claude:ann"}
