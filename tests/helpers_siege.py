"""A repository in which another holder has files, and programs below `run --lease` attack them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import COMMAND, Answer, Repository, environment
from helpers_processes import PATIENCE_SECONDS, until
from lease_attacks import HELD, make, state

HERE = Path(__file__).parent
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give up something")
X86_64 = pytest.mark.skipif(
    not hasattr(os, "uname") or os.uname().machine != "x86_64", reason="this is for x86_64"
)
#: The holder of the held files.
OTHER = "other"


class Siege:
    """The repository. Call `close` at the end."""

    def __init__(self) -> None:
        # Short, because socket paths have a limit, and accessible to other users.
        self.folder = Path(tempfile.mkdtemp(prefix="hf"))
        self.folder.chmod(0o755)
        self.repo = Repository(self.folder / "repo")
        self.root = self.repo.root
        make(self.root)
        self.hold(*HELD)
        self.before = state(self.root)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def hold(self, *paths: str) -> None:
        """Let the other holder take files."""
        answer = self.repo.hold("lock", "--holder", OTHER, "--ttl", "1h", *paths)
        assert answer.code == 0, answer

    def line(self, *command: object, options: Sequence[str] = ()) -> list[str]:
        return [*COMMAND, "run", "--lease", *options, "--", *map(str, command)]

    def run(
        self,
        *command: object,
        options: Sequence[str] = (),
        env: dict[str, str] | None = None,
        seconds: float = 10 * PATIENCE_SECONDS,
    ) -> Answer:
        """Run a program below `run --lease`, to its end."""
        line = self.line(*command, options=options)
        return self.plainly(*line, env=env, seconds=seconds)

    def plainly(
        self,
        *command: object,
        env: dict[str, str] | None = None,
        seconds: float = 10 * PATIENCE_SECONDS,
    ) -> Answer:
        """Run a program, to its end."""
        done = subprocess.run(
            [str(word) for word in command], cwd=self.root, env=environment(**(env or {})),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds,
        )  # fmt: skip
        return Answer(done.returncode, done.stdout, done.stderr)

    def start(self, *command: object, options: Sequence[str] = (), **more: Any) -> Below:
        """Start a program below `run --lease`."""
        return Below(self, self.line(*command, options=options), more)

    def shell(self, script: str, *words: object, options: Sequence[str] = ()) -> Answer:
        return self.run("sh", "-c", script, "sh", *words, options=options)

    def stands(self) -> None:
        """Assert that the held files are unchanged."""
        assert state(self.root) == self.before

    def text(self, path: str) -> str:
        return (self.root / path).read_text()


class Below:
    """A program that runs below `run --lease`."""

    def __init__(self, siege: Siege, line: list[str], more: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            line, cwd=siege.root, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True, **more,
        )  # fmt: skip

    @property
    def broker(self) -> int:
        """The broker's process, which has the listener."""
        until(lambda: _listening(self.process.pid), "there is a broker")
        return _listening(self.process.pid)[0]

    def says(self, line: str) -> None:
        """Wait for the next line that it prints."""
        assert self.process.stdout is not None
        found = self.process.stdout.readline().strip()
        assert found == line, (found, self.process.poll())

    def tell(self, text: str = "") -> None:
        """Let it continue after a `read`."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def end(self) -> Answer:
        """Wait until it has ended."""
        out, err = self.process.communicate(timeout=10 * PATIENCE_SECONDS)
        return Answer(self.process.returncode, out, err)


def descendants(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and _parent(int(name)) == pid:
            found += [int(name), *descendants(int(name))]
    return found


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _listening(top: int) -> list[int]:
    found = []
    for pid in (top, *descendants(top)):
        try:
            held = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        if "anon_inode:seccomp notify" in held:
            found.append(pid)
    return found


def compiled(folder: Path, name: str, *options: str) -> Path:
    """A program of `tests/siege`, compiled."""
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        pytest.skip("needs a C compiler, for programs that make calls at full speed")
    made = folder / name
    source = HERE / "siege" / f"{name}.c"
    line = [gcc, "-O1", "-Wall", "-o", str(made), str(source), "-pthread", *options]
    subprocess.run(line, check=True, timeout=10 * PATIENCE_SECONDS)
    return made
