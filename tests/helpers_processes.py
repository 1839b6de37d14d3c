"""Real processes for tests, which start, read, stop and kill them; all are ended in any case.

A child is a piece of Python text that runs in an interpreter of its own. Its output goes to a file,
line by line, so that nothing is lost when it is killed in the middle of a word. Every child has
`say(...)`, which writes one line, and `go()`, which waits for one from us.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import pytest

from holdfast import LockManager
from holdfast.core.table import LockTable

#: For whole files: `pytestmark = LINUX_ONLY`.
LINUX_ONLY = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux's /proc, to see that processes stop and die"
)

#: How long anything that should happen immediately may take on a busy machine.
PATIENCE_SECONDS = 30.0

#: The functions that every child can use.
PRELUDE = """\
import os, signal, sys, time
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def go():
    line = sys.stdin.readline()
    if not line:
        os._exit(0)
    return line.strip()
"""


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until a condition holds; fail if it does not hold in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"in {seconds:g} s it did not happen that {what}"
        time.sleep(0.001)


class Child:
    """One process. Its lines are in a file that outlives it."""

    def __init__(
        self, folder: Path, name: str, text: str, arguments: Sequence[object], prefix: Sequence[str]
    ) -> None:
        self.name = name
        self.said = folder / f"{name}.said"
        self.trouble = folder / f"{name}.trouble"
        # If the tests themselves are killed, no process would be left to end their children.
        guard = [shutil.which("setpriv") or "", "--pdeathsig", "KILL"]
        with self.said.open("wb") as said, self.trouble.open("wb") as trouble:
            self.process = subprocess.Popen(
                [
                    *(guard if guard[0] else []),
                    *prefix,
                    sys.executable,
                    "-c",
                    PRELUDE + text,
                    *map(str, arguments),
                ],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=trouble,
                start_new_session=True,
            )
        self.pid = self.process.pid

    # Its output

    def lines(self) -> list[str]:
        """The complete lines that it has printed so far."""
        return self.said.read_text().split("\n")[:-1]

    def words(self, first: str) -> list[list[str]]:
        """Its lines that begin with the given words, each as the list of the words after them."""
        start = f"{first} "
        return [line[len(start) :].split() for line in self.lines() if f"{line} ".startswith(start)]

    def wait_for(self, first: str, count: int = 1, seconds: float = PATIENCE_SECONDS) -> list[str]:
        """Wait until it has printed this many lines that begin with the given words; the last of
        them."""
        end = time.monotonic() + seconds
        while True:
            over = self.process.poll() is not None
            found = self.words(first)
            if len(found) >= count:
                return found[count - 1]
            assert not over, f"{self.name} ended without saying {first!r}: {self.story()}"
            assert time.monotonic() < end, f"{self.name} did not say {first!r}: {self.story()}"
            time.sleep(0.001)

    def story(self) -> str:
        """Its whole output, for the message of a test that fails."""
        return f"{self.lines()[-20:]} {self.trouble.read_text()[-3000:]}"

    # Control

    def tell(self, line: str = "go") -> None:
        """Let it continue from its `go()`, which returns this line."""
        pipe: IO[bytes] | None = self.process.stdin
        assert pipe is not None
        pipe.write(f"{line}\n".encode())
        pipe.flush()

    def stop(self) -> None:
        """Stop it, and wait until it has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        self.wait_until_stopped()

    def wait_until_stopped(self) -> None:
        """Wait until it has stopped."""
        until(lambda: state_of(self.pid) in "TtZ", f"{self.name} stands still")

    def resume(self) -> None:
        """Let it run again."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it as `kill -9` does, and wait until it has ended."""
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_SECONDS)

    def join(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait until it ends by itself; its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end: {self.story()}") from None

    def done(self, seconds: float = PATIENCE_SECONDS) -> Child:
        """Wait until it has ended with exit code 0."""
        code = self.join(seconds)
        assert code == 0, f"{self.name} ended with {code}: {self.story()}"
        return self

    def end(self) -> None:
        """End it and all processes that it started, whatever they are doing."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(PATIENCE_SECONDS)
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass


class Crowd:
    """All children of one test. Leaving it ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "children"
        self.folder.mkdir(parents=True)
        self.children: list[Child] = []

    def start(
        self, text: str, *arguments: object, name: str = "child", prefix: Sequence[str] = ()
    ) -> Child:
        """Start a child."""
        name = f"{name}-{len(self.children)}"
        child = Child(self.folder, name, text, arguments, prefix)
        self.children.append(child)
        return child

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.children:
            if child.process.poll() is None:
                child.process.kill()
        for child in self.children:
            child.end()


def state_of(pid: int) -> str:
    """The letter that /proc shows for a process; Z when there is none any more."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


class Auditor:
    """Folds the history as it grows and compares it with the state that the store answers from."""

    def __init__(self) -> None:
        self.table = LockTable()

    def check(self, manager: LockManager) -> None:
        """Fail unless history and state agree at this moment."""
        table = self.table
        with manager.store.view(deadline=time.monotonic() + PATIENCE_SECONDS) as view:
            head, grants, queue = view.head, view.grants(), view.queue()
            scopes = {
                (key, mode, id)
                for grant in grants
                for key, mode, id in view.scopes(list(grant.keys), [])
            }
        tokens = [table.last_token]
        for event in manager.events(after=table.head):
            if event.seq > head:
                break
            assert event.seq == table.head + 1, "history has a gap"
            if event.type == "lock_acquired":
                tokens.append(event.data["token"])
            table.apply(event)
        assert tokens == sorted(set(tokens)), "a token was issued twice, or one that is smaller"
        assert table.head == head
        known = {grant.id: grant for grant in table.grants()}
        assert known == {grant.id: grant for grant in grants}
        assert table.queue() == queue
        held = {row for grant in grants for row in table.scopes(list(grant.keys), [])}
        assert scopes == held
