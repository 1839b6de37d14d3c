"""Workspaces with specs, machines that are always the same, and locks of other programs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from helpers_cli import Repository
from holdfast import Holder
from holdfast.specs import MachineId, SpecLocks, staleness


class Fixed:
    """A machine that is always the same one."""

    def __init__(self, id: str = "pc-1") -> None:
        self.id = id

    def get_machine_id(self) -> MachineId:
        return MachineId(id=self.id, hostname=self.id.partition("-")[0], created_at="")


def made_workspace(root: Path) -> Path:
    """A workspace with two specs, in a repository of its own."""
    for name in ("demo", "other"):
        (root / ".kiro/specs" / name).mkdir(parents=True)
    (root / ".git").mkdir()
    return root


def made_repository(root: Path) -> Repository:
    """The same with a real repository, for commands."""
    made = Repository(root)
    for name in ("demo", "other"):
        (made.root / ".kiro/specs" / name).mkdir(parents=True)
    return made


def locks(root: Path, holder: str | Holder = "agent", id: str = "pc-1", **more: Any) -> SpecLocks:
    """The locks of a workspace for one holder on one machine."""
    more.setdefault("settle_seconds", 0)
    return SpecLocks(root, Fixed(id), holder=holder, owner="ann", **more)


def foreign(file: Path, **fields: Any) -> bytes:
    """A lock as another program writes it."""
    now = staleness.written(time.time_ns() // 1_000_000)
    lock = {
        "owner": "bob", "machineId": "far-1", "hostname": "far", "timestamp": now,
        "reason": None, "timeout": 24, "version": "1.0.0", **fields,
    }  # fmt: skip
    data = json.dumps(lock, indent=2).encode()
    file.write_bytes(data)
    return data


def powerless() -> list[str]:
    """The prefix for a program that modes should stop, even under root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"]
