"""A checkout with a list of tasks on disk, and the real command on it, as a person types it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helpers_cli import COMMAND, Answer, as_a_person, environment
from helpers_processes import PATIENCE_SECONDS
from helpers_tasks import Checkout
from holdfast.gate.broker.command_start import demand
from holdfast.gate.sandbox import SandboxError


def why_no_broker() -> str:
    """Why no task can run on this machine; empty if one can."""
    try:
        demand()
    except SandboxError as error:
        return error.message
    return ""


class TypedCheckout(Checkout):
    """Close it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._started: list[subprocess.Popen[str]] = []

    def list(self, **scripts: str | dict[str, Any]) -> None:
        """Write `tasks.toml`: a task for each script, or for each script with more keys."""
        lines = [f"command = {json.dumps([*self.command])}", "tries = 1"]
        for name, given in scripts.items():
            keys = given if isinstance(given, dict) else {"prompt": given}
            lines += ["[[task]]", f"name = {json.dumps(name)}"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        self.write({"tasks.toml": "\n".join(lines) + "\n"})

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            as_a_person(*COMMAND, *words), cwd=self.root, env=environment(**env), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._started.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> Answer:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert "\nTraceback" not in f"\n{err}", err  # of ours; what a task printed is indented
        return Answer(process.returncode, out, err)

    def type(self, *words: str, **env: str) -> Answer:
        """Run a command to its end."""
        return self.end(self.start(*words, **env))

    def events(self) -> Sequence[dict[str, Any]]:
        """All events of the ledger."""
        return [json.loads(line) for line in self.type("log", "--json").out.splitlines()]

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()
