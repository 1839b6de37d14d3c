"""An uncontested edit, through the hook command that `init` installs.

It is timed from start to end, beside the same virtual environment's interpreter doing nothing, in
turn in one run; then again on a ledger with 10,000 leases and a long history.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path

from bench import ledger, locks
from bench.harness import Row, Seat, at_most, compare
from bench.shell import BARE, install, milliseconds

HOOK = "hook"
FULL = "hook, full ledger"
LEASES = 10_000
EVENTS = 1_000_000


def installed_command(commands: Path, folder: Path) -> list[str]:
    """The hook command from a client's settings, run as the client runs it."""
    subprocess.run(
        [commands / "holdfast", "-C", folder, "init", "--client", "claude"],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    settings = json.loads((folder / ".claude/settings.local.json").read_text())
    (group,) = settings["hooks"]["PreToolUse"]
    (handler,) = group["hooks"]
    return [handler["command"], *handler["args"]]


def run(scratch: Path, quick: bool) -> list[Row]:
    rounds = 15 if quick else 80
    commands = install(scratch / "installed")
    small, full = (locks.repository(scratch / name) for name in ("small", "full"))
    command = installed_command(commands, small)
    samples: dict[str, list[float]] = {name: [] for name in (BARE, HOOK, FULL)}
    work: dict[str, list[float]] = {name: [] for name in samples}
    with Seat() as keeper:  # its leases are held as long as it lives
        keeper.ask(ledger.fill, full, LEASES, LEASES if quick else EVENTS)
        lines = {BARE: [str(commands / "python"), "-c", "pass"], HOOK: command, FULL: command}
        inputs = {name: told_in(scratch, name, full if name == FULL else small) for name in lines}
        os.environ["CLAUDE_PID"] = str(os.getpid())
        complaints = scratch / "complaints"
        with contextlib.chdir(scratch):
            for number in range(rounds + 2):
                for name, line in lines.items():
                    spent, worked = milliseconds(line, complaints, str(inputs[name]))
                    if number >= 2:  # the first runs compile, and fill the system's caches
                        samples[name].append(spent)
                        work[name].append(worked)
    return [
        compare("edit through the hook", "ms", samples, HOOK, BARE, at_most(1.4)),
        compare("edit through the hook, processor time", "ms", work, HOOK, BARE),
        compare(_of_full(quick), "ms", samples, FULL, HOOK, at_most(1.05)),
    ]


def _of_full(quick: bool) -> str:
    """The contents of the full ledger, in words."""
    return f"with {LEASES:,} leases" if quick else f"with {LEASES:,} leases and {EVENTS:,} events"


def told_in(scratch: Path, name: str, folder: Path) -> Path:
    """The input of a client's hook call, as a file."""
    file = scratch / f"told-{len(name)}"
    told = {
        "session_id": "bench", "cwd": str(folder), "hook_event_name": "PreToolUse",
        "tool_name": "Edit", "tool_input": {"file_path": str(folder / locks.PATH)},
    }  # fmt: skip
    file.write_text(json.dumps(told))
    return file
