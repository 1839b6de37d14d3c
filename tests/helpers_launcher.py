"""Shared by the tests of launchers: an item with its locks, and the launcher that runs its
agents."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from conftest import until
from holdfast.core.model import Event
from holdfast.manager.manager import LockManager
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.work_items import LockRequest, WorkItem
from holdfast.work.launching.slots import Ended, Launchers

PYTHON = sys.executable


class Bench:
    """An item that may write app/x.rb and new/made.rb, and a launcher that holds these locks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.manager = LockManager.open(root)
        self.desk = ItemStore(self.manager)
        self.pool = Launchers(self.manager, spare=1)
        self.launcher = self.pool.lend()
        self._claim()

    def _claim(self) -> None:
        item = self.desk.enqueue("a", "apply", LockRequest.of((), ["app/x.rb", "new/made.rb"]))
        claimed = self.desk.claim(item, self.launcher.holder(item))
        assert isinstance(claimed, tuple)
        self.item: WorkItem = claimed[0]
        self.output = self.root / ".holdfast/runs" / self.item.id / "output"
        self._begun = max(event.seq for event in self.manager.events())

    def begin_anew(self) -> None:
        """Begin another item with the same launcher."""
        self.desk.end(self.item)
        self.launcher.leave()
        self.launcher = self.pool.lend()
        self._claim()

    # Agents

    def run(self, *command: str, **more: object) -> Ended:
        """Run an agent; how it ended."""
        settings: dict[str, object] = {
            "folder": str(self.root), "output": str(self.output), "environment": dict(os.environ),
            "timeout_seconds": 60.0, **more,
        }  # fmt: skip
        return self.launcher.run(self.item, command, **settings)  # type: ignore[arg-type]

    def sh(self, script: str, **more: object) -> Ended:
        """Run a script as an agent; how it ended."""
        return self.run("/bin/sh", "-c", script, **more)

    def shell(self, script: str, **more: object) -> str:
        """Run a script as an agent; its output."""
        return self._said(["/bin/sh", "-c", script], **more)

    def python(self, script: str, **more: object) -> str:
        """The same in Python."""
        return self._said([PYTHON, "-c", script], **more)

    def _said(self, command: Sequence[str], **more: object) -> str:
        self.output.unlink(missing_ok=True)
        assert not self.run(*command, **more).why
        return self.output.read_text(errors="replace")

    # What the tests observe

    @property
    def gaps(self) -> list[str]:
        return [event.data["path"] for event in self.events]

    @property
    def events(self) -> list[Event]:
        """The gaps since the item started."""
        found = self.manager.events(after=self._begun)
        return [event for event in found if event.type == "coverage_gap"]

    @property
    def pid(self) -> int:
        """The launcher's process id."""
        return self.launcher._process.pid

    @property
    def children(self) -> list[int]:
        """The children of the launcher, including those that have ended and were not collected."""
        found = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(word) for word in found.read_text().split()]

    def close(self) -> None:
        self.launcher.leave()
        self.pool.close()
        self.manager.close()


def before_launchers(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each launcher that is started from now on run some code first."""
    place = folder / "first"
    place.mkdir()
    (place / "sitecustomize.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def pid_in(file: Path) -> int:
    until(lambda: file.exists() and file.read_text().endswith("\n"), f"{file} has a pid")
    return int(file.read_text())
