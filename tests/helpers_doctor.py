"""A whole installation with real hooks, and the doctor's findings about it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from helpers_init import SOURCE, Installation, Site
from holdfast.gate.doctor import examine
from holdfast.gate.doctor.finding import Finding

EDIT, SHELL, WORK = "a forbidden edit", "a forbidden shell write", "free work"
STORE, COMMIT, FREE_COMMIT = "a broken ledger", "a forbidden commit", "a free commit"
DENIAL = {
    "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": "no",
    }
}


class Clinic(Installation):
    """Holdfast with its hooks for both clients and git, for a test to break."""

    def __init__(self, folder: Path, site: str | Site = "site") -> None:
        super().__init__(folder, site)
        if not self.is_shared:
            shutil.copy(SOURCE / "gate/hook.py", self.script)
        self.tmp = folder / "tmp"
        self.tmp.mkdir()
        self.init("--client", "claude,codex", "--git")

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "TMPDIR": str(self.tmp)}

    def doctor(self, *words: str, code: int, **env: str) -> dict[tuple[str, str], dict[str, Any]]:
        """The doctor's findings by subject and check; the exit code must match."""
        answer = self.hold("doctor", "--json", *words, env=env)
        assert answer.code == code, answer
        assert answer.json["ok"] is (code == 0)
        assert os.listdir(self.tmp) == [], "the doctor left files behind"
        self.answer = answer
        return {(one["about"], one["check"]): one for one in answer.json["findings"]}

    def set(self, file: Path, change: Any) -> None:
        """Change the settings of a client."""
        data = json.loads(file.read_text())
        change(data)
        file.write_text(json.dumps(data))

    def before_tools(self, file: Path, **fields: Any) -> None:
        """Change the hook that runs before a tool."""
        self.set(file, lambda data: data["hooks"]["PreToolUse"][0]["hooks"][0].update(fields))

    def in_a_shell(self, file: Path, line: str) -> None:
        """Make the hook a line for a shell, as earlier versions wrote it."""
        handler = {"type": "command", "command": line, "timeout": 240}
        self.set(file, lambda data: data["hooks"]["PreToolUse"][0].update(hooks=[handler]))


def states(found: dict[tuple[str, str], dict[str, Any]], about: str) -> dict[str, str]:
    return {check: one["state"] for (who, check), one in found.items() if who == about}


def script(text: str) -> str:
    return f"import json, os, sys, time\nsys.stdin.read()\n{text}\n"


def examined(here: Clinic, patience_seconds: float) -> list[Finding]:
    return examine(str(here.root), here.env, patience_seconds=patience_seconds)
