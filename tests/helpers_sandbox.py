"""Helpers of the sandbox tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers_cli import Answer, Repository, environment
from helpers_processes import PATIENCE_SECONDS
from holdfast import LockManager
from holdfast.gate.sandbox.kernel import landlock
from holdfast.manager.grants import GrantSnapshot

NEEDS_LANDLOCK = pytest.mark.skipif(
    not landlock.support().is_enough, reason=f"needs Landlock: {landlock.support().lacks}"
)

#: Makes a system call fail with a given error, then runs the rest of the line.
WITHOUT_CALL = """
import ctypes, os, struct, sys
number, said, *command = sys.argv[1:]
def step(code, jump_true, jump_false, k):
    return struct.pack("HBBI", code, jump_true, jump_false, k)
program = (
    step(0x20, 0, 0, 0)                                # load the number of the call
    + step(0x15, 0, 1, int(number))                    # is it this one?
    + step(0x06, 0, 0, 0x00050000 | int(said))         # then return the error
    + step(0x06, 0, 0, 0x7FFF0000)                     # otherwise let it pass
)
held = ctypes.create_string_buffer(program)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]
whole = Program(4, ctypes.addressof(held))
library = ctypes.CDLL(None, use_errno=True)
assert library.prctl(38, 1, 0, 0, 0) == 0
assert library.prctl(22, 2, ctypes.byref(whole), 0, 0) == 0, ctypes.get_errno()
os.execvp(command[0], command)
"""

#: The command as it would be on a kernel with an older Landlock.
OLD_KERNEL = """
import sys
from holdfast.gate.sandbox.kernel import landlock
landlock.support = lambda: landlock.Support(int(sys.argv[1]))
from holdfast.cli import main
sys.exit(main(sys.argv[2:]))
"""


class Room:
    """A repository with its own folder for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.repo = Repository(folder / "repo")
        self.root = self.repo.root
        self.tmp = folder / "t"
        self.tmp.mkdir()

    @property
    def env(self) -> dict[str, str]:
        """The folder for temporary files."""
        return {"TMPDIR": str(self.tmp)}

    def run(self, *words: object, write: Sequence[str] = ("app/x.rb",)) -> Answer:
        """Run a command in a sandbox, to its end."""
        return self.repo.hold(*self.line(*words, write=write), env=self.env)

    def shell(self, script: str, *options: str, write: Sequence[str] = ("app/x.rb",)) -> Answer:
        """Run a script in a sandbox, to its end."""
        return self.run(*options, "--", "sh", "-c", script, write=write)

    def line(self, *words: object, write: Sequence[str] = ("app/x.rb",)) -> list[str]:
        """The words of such a command."""
        paths = [word for path in write for word in ("--write", path)]
        return ["run", "--sandbox", *paths, *map(str, words)]

    def plainly(self, *command: object) -> Answer:
        """Run any program, with the same environment and without a sandbox."""
        done = subprocess.run(
            [*map(str, command)], cwd=self.root, env=environment(**self.env),
            capture_output=True, text=True, timeout=PATIENCE_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return Answer(done.returncode, done.stdout, done.stderr)

    def text(self, path: str) -> str:
        """The content of a file."""
        return (self.root / path).read_text()

    def set(self, *write: str) -> None:
        """Write the settings."""
        (self.root / "holdfast.toml").write_text(f"[sandbox]\nwrite = {json.dumps(list(write))}\n")

    def held(self) -> list[GrantSnapshot]:
        """The grants that are held."""
        with LockManager.open(self.root) as manager:
            return list(manager.active_grants())

    def left_over(self) -> list[str]:
        """The entries of the folder for temporary files."""
        return sorted(os.listdir(self.tmp))


def without_call(number: int, said: int, *command: str) -> list[str]:
    """A command line under which one system call fails with an error."""
    return [sys.executable, "-c", WITHOUT_CALL, str(number), str(said), *command]
