"""Runs a demo to its end, and makes events of the kind that a demo leaves in its ledger."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import COMMAND, Answer, environment
from helpers_postgres import Server
from helpers_processes import PATIENCE_SECONDS
from holdfast import LockManager
from holdfast.core.model import SECOND, Event
from holdfast.gate.broker.command_start import demand
from holdfast.gate.sandbox import SandboxError

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the dispatcher needs Linux")


def _lacks_broker() -> str:
    try:
        demand()
    except SandboxError as error:
        return error.message
    return ""


NEEDS_BROKER = pytest.mark.skipif(bool(_lacks_broker()), reason=f"no broker: {_lacks_broker()}")

DEMO_SECONDS = 4 * PATIENCE_SECONDS
#: The demos with agents that pause only briefly, and with a shorter wait for a rollback.
QUICK = """
import sys
from holdfast.cli import main
from holdfast.cli.demo import demo_screens, demo_tasks
demo_screens.PACE, demo_tasks.PACE, demo_tasks.BACK_SECONDS = 0.02, 0.1, 5.0
sys.exit(main(["demo", *sys.argv[1:]]))
"""


def play(*words: str, before: Sequence[str] = (), **more: str) -> Answer:
    """Run a demo to its end."""
    done = subprocess.run(
        [*before, sys.executable, "-c", QUICK, *words], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, env=environment(**more), timeout=DEMO_SECONDS, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return Answer(done.returncode, done.stdout, done.stderr)


def history_of(result: dict[str, Any], server: Server) -> int:
    """The number of events that a demo has on a server."""
    shown, _, name = result["store"].partition("#")
    assert shown == server.url(password=False)
    with LockManager.open(server.url(name)) as manager:
        return len(list(manager.events()))


def command(folder: Path, *words: str, **more: str) -> Answer:
    """Run a command in the folder that a demo kept."""
    done = subprocess.run(
        [*COMMAND, "-C", str(folder), *words], capture_output=True, text=True, check=True,
        env=environment(**more), timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    return Answer(done.returncode, done.stdout, done.stderr)


def processes_below(folder: Path) -> list[str]:
    """The processes that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(f"{folder}/"):
                found.append(process.name)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def acquired(seq: int, who: str, token: int, *paths: str, mode: str = "w", at: float = 0) -> Event:
    """An acquired grant."""
    data = {
        "id": f"grant-{seq}", "holder": {"id": who}, "keys": paths, "modes": mode * len(paths),
        "token": token, "ttl": None,
    }  # fmt: skip
    return Event(seq, "lock_acquired", round(at * SECOND) + 1, data)


def released(seq: int, grant: Event, at: float = 0) -> Event:
    """The end of a grant."""
    data = {"grant": grant.data["id"]}
    return Event(seq, "lock_released", round(at * SECOND) + 1, data)
