"""Files that switch the gate, changed past it: detected at the next event, reported once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers_guard import ENV, Session, copied, gated, refusal
from holdfast import LockManager
from holdfast.gate.config import seals
from holdfast.gate.config.off_switch import Off, switch_off, switch_on

LOCAL = ".claude/settings.local.json"
SHARED = ".claude/settings.json"
HOOKS = ".codex/hooks.json"
CONFIG = ".codex/config.toml"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with which every test begins; no test works in it."""
    folder = tmp_path_factory.mktemp("model")
    root = gated(folder / "work")
    (root / "holdfast.toml").unlink()
    subprocess.run(
        [sys.executable, "-m", "holdfast", "init", "--client", "claude,codex"],
        cwd=root, env={**ENV, "HOME": str(folder)}, check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return root


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    return copied(model, tmp_path / "work")


def told(root: Path, client: str = "claude", event: str = "PreToolUse") -> str:
    """The message to the user of some agent at its next event."""
    said = Session("ann", root, client).tool(event, "Bash", {"command": "ls"})
    return str(said.get("systemMessage", ""))


def settings(root: Path, name: str = LOCAL) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / name).read_text())
    return found


def without_guard(found: dict[str, Any]) -> None:
    del found["hooks"]["PreToolUse"]


def switched_off(found: dict[str, Any]) -> None:
    found["disableAllHooks"] = True


def opened(found: dict[str, Any]) -> None:
    del found["hooks"]["PreToolUse"][0]["hooks"][0]["onFailure"]


def changed(root: Path, change: Any, name: str = LOCAL) -> None:
    """Change settings by a script, past the gate."""
    found = settings(root, name)
    change(found)
    (root / name).write_text(json.dumps(found))


def events(root: Path) -> list[str]:
    with LockManager.open(root) as manager:
        return [event.data["path"] for event in manager.events() if event.type == seals.CHANGED]


@pytest.mark.parametrize("change", [without_guard, switched_off, opened])
def test_hooks_that_a_script_took_away_are_told_to_the_user_once(root: Path, change: Any) -> None:
    assert told(root) == ""
    changed(root, change)
    heard = told(root)
    assert f"{LOCAL} was changed" in heard
    assert "holdfast init" in heard
    assert told(root) == ""
    assert events(root) == [LOCAL]


@pytest.mark.parametrize("name", [LOCAL, HOOKS])
def test_settings_that_are_gone_or_no_json_are_told(root: Path, name: str) -> None:
    (root / name).unlink()
    assert name in told(root)
    (root / name).write_text("{")
    assert told(root) == "", "the user has been told already"


def test_an_agent_of_either_client_notices_what_was_done_to_the_other(root: Path) -> None:
    changed(root, without_guard, HOOKS)
    assert HOOKS in told(root, "claude")
    changed(root, without_guard)
    assert LOCAL in told(root, "codex")


def test_codex_hooks_that_codex_would_not_read_are_told(root: Path) -> None:
    changed(root, lambda found: found.update(mine=1), HOOKS)
    assert HOOKS in told(root)


def test_hooks_switched_off_elsewhere_are_told(root: Path) -> None:
    (root / SHARED).write_text('{"disableAllHooks": true}')
    assert SHARED in told(root)
    (root / CONFIG).write_text("[features]\nhooks = false\n")
    assert CONFIG in told(root)


def test_what_clients_write_themselves_is_no_news(root: Path) -> None:
    changed(root, lambda found: found.update(permissions={"allow": ["Bash(ls:*)"]}))
    (root / SHARED).write_text('{"model": "small"}')
    (root / CONFIG).write_text('model = "x"\n')
    changed(root, lambda found: found.update(description="mine"), HOOKS)
    assert told(root) == ""
    assert events(root) == []


def test_a_gate_that_a_script_switched_off_is_told(root: Path) -> None:
    (root / ".holdfast/off").touch()
    heard = told(root)
    assert ".holdfast/off" in heard
    assert "holdfast on" in heard
    assert told(root) == ""
    (root / ".holdfast/off").unlink()
    assert "switched on again" in told(root)


def test_a_gate_that_a_person_switched_off_is_no_news(root: Path) -> None:
    switch_off(str(root), Off("tess", "now", "lunch"))
    assert told(root) == ""
    switch_on(str(root))
    assert told(root) == ""


def test_the_edit_is_decided_as_ever(root: Path) -> None:
    Session("bob", root).tool("PreToolUse", "Write", {"file_path": f"{root}/a.txt", "content": ""})
    changed(root, without_guard)
    said = Session("ann", root).tool(
        "PreToolUse", "Write", {"file_path": f"{root}/a.txt", "content": ""}
    )
    assert refusal(said)
    assert f"{LOCAL} was changed" in said["systemMessage"]


def test_seals_that_cannot_be_read_keep_nothing_from_working(root: Path) -> None:
    (root / seals.FILE).write_bytes(b"\xff\xfe\nrubbish\n")
    assert told(root) == ""
    (root / seals.FILE).unlink()
    assert told(root) == ""


def test_undo_leaves_no_seals(root: Path) -> None:
    seals.unseal(str(root))
    assert not (root / seals.FILE).exists()
    seals.unseal(str(root))
    seals.seal_off(str(root))
    assert not (root / seals.FILE).exists()
