"""Clones of one repository, each guarded as on a host of its own; their ledger is on a server."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from helpers_cli import Answer, children_of, environment
from helpers_init import copied
from helpers_processes import state_of, until
from holdfast.core.events import ENDINGS
from holdfast.gate import door

from .drive import Running
from .gated import Gated

#: What starts a client that has process ids of its own: no other host can judge it. All its
#: processes end with the process that the test knows.
APART = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
#: How long a lease lasts for a Holdfast made by `with_short_leases`.
SHORT_SECONDS = 4

_LINE = "LEASE_SECONDS = 120\n"


class Host(Gated):
    """A guarded clone, with the store's URL in the environment of each command and client."""

    def __init__(self, root: Path, url: str, site: Path | None = None) -> None:
        """`site` has the Holdfast of this host, if it has one of its own."""
        super().__init__(root)
        self.variables = {"HOLDFAST_STORE": url}
        self._own = {} if site is None else {"PYTHONPATH": str(site)}

    def hold(
        self,
        *words: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Answer:
        known = {**self.variables, **self._own, **(env or {})}
        return super().hold(*words, cwd=cwd, env=known, **more)

    def look(self, *words: object) -> Answer:
        return self.hold(*words)

    def leases(self, path: str) -> dict[str, tuple[float, float]]:
        """When each holder had a path, by the ledger."""
        began = {
            event["data"]["id"]: (event["data"]["holder"]["id"], time_of(event))
            for event in self.happened("lock_acquired")
            if path in event["data"]["keys"]
        }
        ended = [event for event in self.events() if event["type"] in ENDINGS]
        return {
            began[id][0]: (began[id][1], time_of(event))
            for event in ended
            if (id := event["data"]["grant"]) in began
        }

    def clone(self, root: Path, url: str, site: Path | None = None) -> Host:
        """Another clone on another host, with the same settings."""
        words = ["git", "clone", "-q", str(self.root), str(root)]
        subprocess.run(words, env=environment(), check=True)
        made = Host(root, url, site)
        for name, value in (("user.name", "Tess"), ("user.email", "tess@example.org")):
            made.git("config", name, value)
        answer = made.hold("init", "--client", "claude,codex", "--git")
        assert answer.code == 0, answer
        return made


def with_short_leases(folder: Path) -> Path:
    """A copy of Holdfast in which a lease on a server lasts for SHORT_SECONDS."""
    site = folder / "site"
    hook = Path(door.__file__).parents[1] / "hook.py"
    file = copied(site, hook.read_text()) / "store/postgres/server_store.py"
    text = file.read_text()
    assert _LINE in text
    file.write_text(text.replace(_LINE, f"LEASE_SECONDS = {SHORT_SECONDS}\n"))
    return site


def time_of(event: dict[str, Any]) -> float:
    """When an event happened, by the server's clock, which is also that of the files here."""
    return datetime.fromisoformat(event["timestamp"]).timestamp()


def stop(running: Running) -> list[int]:
    """Stop a client that was started with APART and all other processes of its host. Returns their
    ids, for `go_on`."""
    (first,) = children_of(running.pid)
    space = os.readlink(f"/proc/{first}/ns/pid")
    found = [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_in(name, space)]
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    for pid in found:
        until(lambda: state_of(pid) in "TZX", "it is stopped")  # noqa: B023
    return found


def go_on(pids: list[int]) -> None:
    """Let stopped processes go on."""
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def _is_in(name: str, space: str) -> bool:
    try:
        return os.readlink(f"/proc/{name}/ns/pid") == space
    except OSError:
        return False
