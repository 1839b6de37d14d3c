"""kse, as it was observed to behave: it checks for a lock, and if there is none it writes
`.lock.tmp`, renames that over `.lock` even if one has appeared since, and reads it back.

Written from the program's effects on disk, without any code of ours. 3.0.1 keeps its specs in
`.kiro`, 3.6.65 in `.sce`. A folder in the place of a file makes it crash (EISDIR); here that raises
an exception.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FIELDS = ("owner", "machineId", "hostname", "timestamp")


class Kse:
    """One user of kse on one machine, in one home. `pause` is called between its check and its
    write."""

    def __init__(
        self, root: Path, home: str, machine: str, pause: Callable[[], None] = lambda: None
    ) -> None:
        self.specs = root / home / "specs"
        self.machine = machine
        self.pause = pause

    def file(self, spec: str) -> Path:
        return self.specs / spec / ".lock"

    def read(self, spec: str) -> dict[str, Any] | None:
        """The lock of a spec; None if it cannot be parsed."""
        try:
            text = self.file(spec).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            lock = json.loads(text)
        except ValueError:
            return None
        if not isinstance(lock, dict) or not isinstance(lock.get("timeout"), int | float):
            return None
        if not all(isinstance(lock.get(name), str) for name in FIELDS):
            return None
        return lock if lock["owner"] and lock["machineId"] else None

    def lock(self, spec: str, hours: float = 24) -> str:
        """The error that kse reports; empty if it acquired the lock."""
        if not (self.specs / spec).is_dir():
            return "Spec not found"
        if self.read(spec) is not None:
            return "Spec is already locked"
        self.pause()
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        lock = {
            "owner": self.machine, "machineId": self.machine, "hostname": "pc", "timestamp": now,
            "reason": None, "timeout": hours, "version": "1.0.0",
        }  # fmt: skip
        draft = self.specs / spec / ".lock.tmp"
        draft.write_text(json.dumps(lock, indent=2, ensure_ascii=False), encoding="utf-8")
        draft.rename(self.file(spec))
        kept = self.read(spec)
        return "" if kept == lock else "Spec is already locked"

    def unlock(self, spec: str, *, force: bool = False) -> str:
        lock = self.read(spec)
        if lock is not None and lock["machineId"] != self.machine and not force:
            return "Lock owned by different machine"
        self.file(spec).unlink(missing_ok=True)
        return ""

    def cleanup(self) -> None:
        """Remove the stale locks."""
        for folder in self.specs.iterdir():
            lock = self.read(folder.name)
            if lock is None:
                continue
            taken = datetime.fromisoformat(lock["timestamp"]).timestamp()
            if time.time() - taken > lock["timeout"] * 3600:
                self.file(folder.name).unlink()


def made(root: Path, *homes: str, specs: tuple[str, ...] = ("demo",)) -> Path:
    """A workspace with specs in each of these homes."""
    for home in homes:
        for spec in specs:
            os.makedirs(root / home / "specs" / spec)
    (root / ".git").mkdir()
    return root
