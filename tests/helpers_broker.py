"""A repository in which commands run below a broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import COMMAND, environment
from helpers_processes import PATIENCE_SECONDS
from holdfast.core.errors import HoldfastError
from holdfast.gate.broker.command_start import demand


def _lacks() -> str:
    try:
        demand()
    except HoldfastError as error:
        return error.message
    return ""


NEEDS_BROKER = pytest.mark.skipif(bool(_lacks()), reason=_lacks() or "can have a broker")


class Site:
    """A git repository beside a folder for flags, and the command in it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "repo"
        self.flags = folder / "flags"
        self.flags.mkdir(parents=True)
        self.root.mkdir()
        self.git("init", "-q")
        for name, value in (("user.name", "a"), ("user.email", "a@b"), ("gc.auto", "0")):
            self.git("config", name, value)
        (self.root / "a.txt").write_text("alpha\n")
        (self.root / "b.txt").write_text("bravo\n")
        (self.root / ".gitignore").write_text("ignored/\n*.out\n")
        self.git("add", ".")
        self.git("commit", "-qm", "begin")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.root, check=True, capture_output=True, text=True
        )
        return done.stdout

    def holdfast(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words], cwd=self.root, env=environment(), capture_output=True, text=True,
            check=False, timeout=PATIENCE_SECONDS,
        )  # fmt: skip

    def lease(self, line: str, *options: str) -> subprocess.CompletedProcess[str]:
        """A shell line below a broker."""
        return self.holdfast("run", "--lease", *options, "--", "sh", "-c", line)

    def python(self, text: str, *options: str) -> subprocess.CompletedProcess[str]:
        """A Python program below a broker."""
        return self.holdfast("run", "--lease", *options, "--", sys.executable, "-c", text)

    def begin(self, line: str, *options: str) -> subprocess.Popen[str]:
        """A shell line below a broker, which runs in the background."""
        return subprocess.Popen(
            [*COMMAND, "run", "--lease", *options, "--", "sh", "-c", line], cwd=self.root,
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def flag(self, name: str) -> Path:
        return self.flags / name

    def raise_flag(self, name: str) -> None:
        self.flag(name).touch()

    def wait_for(self, name: str) -> str:
        """The part of a shell line that waits for a flag."""
        return f"while [ ! -e {self.flag(name)} ]; do sleep 0.02; done"

    def until_flag(self, name: str) -> None:
        until(self.flag(name).exists, f"the flag {name}")

    def grants(self) -> list[dict[str, Any]]:
        said = json.loads(self.holdfast("status", "--json").stdout)
        found: list[dict[str, Any]] = said["grants"]
        return found

    def held(self) -> list[str]:
        """The leased paths."""
        return sorted({path for grant in self.grants() for path in grant["write_paths"]})

    def text(self, name: str) -> str:
        return (self.root / name).read_text()


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end, f"timed out waiting for {what}"
        time.sleep(0.02)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out, err


def broker_of(process: subprocess.Popen[str]) -> int:
    """The broker of a runner: its only child."""
    folder = f"/proc/{process.pid}/task/{process.pid}/children"
    found: list[int] = []

    def is_there() -> bool:
        found[:] = map(int, Path(folder).read_text().split())
        return bool(found)

    until(is_there, "the broker")
    return found[0]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
