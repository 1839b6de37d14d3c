"""The real command in real repositories, from a pipe or from a terminal of its own."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers_processes import PATIENCE_SECONDS, state_of, until

COMMAND = [sys.executable, "-m", "holdfast"]

#: Whoever runs the tests may be an agent. Nothing of that may leak into what is tested.
_LEAKS = ("HOLDFAST_", "CLAUDE", "CODEX_", "NO_COLOR", "COLUMNS", "LINES", "PYTHON")


def environment(**more: str) -> dict[str, str]:
    """The environment of a command, without what would tell it who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_LEAKS)}
    return {**kept, "LANG": "C.UTF-8", "TERM": "xterm", **more}


#: Runs a command as nobody's child, for who runs the tests may be an agent, and what an agent
#: starts decides nothing. Passes signals on, and ends as the command does.
_AS_A_PERSON = """
import os, signal, subprocess, sys
heard, told = os.pipe()
middle = os.fork()
if middle == 0:
    if os.fork():
        os._exit(0)
    process = subprocess.Popen(sys.argv[1:])
    os.write(told, b"%d\\n" % process.pid)
    os.write(told, b"%d\\n" % process.wait())
    os._exit(0)
os.waitpid(middle, 0)
os.close(told)
with open(heard) as notes:
    pid = int(notes.readline())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: os.kill(pid, number))
    code = int(notes.readline())
os._exit(code if code >= 0 else 128 - code)
"""


def as_a_person(*command: str) -> list[str]:
    """The same command line, with no agent above it."""
    return [sys.executable, "-c", _AS_A_PERSON, *command]


class Answer:
    """What a command said, and with which code it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        """The one document on its standard output."""
        assert self.out.count("\n") == 1, self
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error in that document."""
        return self.json["error"]

    def __repr__(self) -> str:
        return f"<{self.code}\nout: {self.out}\nerr: {self.err}>"


class Repository:
    """A git repository with some files in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        subprocess.run(["git", "init", "--quiet", root], check=True)
        for file in ("app/x.rb", "app/y.rb", "app/models/user.rb", "lib/z.rb"):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text("old\n")

    def start(
        self,
        *words: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> subprocess.Popen[str]:
        """Start a command and do not wait for it."""
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(
            [*COMMAND, *map(str, words)], cwd=cwd or self.root, env=environment(**(env or {})),
            text=True, encoding="utf-8", errors="backslashreplace", **more,
        )  # fmt: skip

    def hold(
        self,
        *words: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Answer:
        """Run a command to its end."""
        with self.start(*words, cwd=cwd, env=env, **more) as process:
            try:
                out, err = process.communicate(timeout=PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError(f"{words} does not end") from None
        assert "Traceback" not in (err or ""), err
        return Answer(process.returncode, out or "", err or "")

    def grants(self, *words: str) -> list[dict[str, Any]]:
        """What is held."""
        grants: list[dict[str, Any]] = self.hold("status", "--json", *words).json["grants"]
        return grants

    def holders(self, path: str) -> list[str]:
        """Who holds a path."""
        return [
            grant["holder"]
            for grant in self.grants()
            if path in grant["write_paths"] + grant["read_paths"]
        ]

    def waiting(self) -> list[dict[str, Any]]:
        """Who waits."""
        waiting: list[dict[str, Any]] = self.hold("status", "--json").json["waiting"]
        return waiting

    def events(self) -> list[dict[str, Any]]:
        """The history."""
        return [json.loads(line) for line in self.hold("log", "--json").out.splitlines()]


#: Starts an interactive shell on a terminal, as nobody's child: its parent is gone at once, so
#: nothing above it tells who runs the tests.
_LAUNCHER = """
import fcntl, os, sys, termios
terminal, note, *command = sys.argv[1:]
if os.fork():
    os._exit(0)
os.setsid()
fd = os.open(terminal, os.O_RDWR)
fcntl.ioctl(fd, termios.TIOCSCTTY, 0)
for number in (0, 1, 2):
    os.dup2(fd, number)
with open(note + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(note + ".new", note)
os.execvp(command[0], command)
"""


class Terminal:
    """Somebody at a terminal: an interactive shell in a session of its own."""

    def __init__(self, repository: Repository, **more: str) -> None:
        shell = shutil.which("bash")
        assert shell is not None, "these tests need bash"
        self._folder = Path(tempfile.mkdtemp(prefix="terminal-", dir=repository.root.parent))
        self._count = 0
        self.screen = b""
        self.master, slave = pty.openpty()
        os.set_blocking(self.master, False)
        note = self._folder / "pid"
        env = environment(PS1="$ ", HISTFILE="", **more)
        subprocess.run(
            [sys.executable, "-c", _LAUNCHER, os.ttyname(slave), note, shell, "--norc",
             "--noprofile", "--noediting", "-i"],
            check=True, env=env, cwd=repository.root, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(slave)
        until(note.exists, "the terminal has a shell")
        self.pid = int(note.read_text())

    def type(self, text: str) -> None:
        """Type something; a command ends with a line break."""
        self.read()
        os.write(self.master, text.encode())

    def read(self) -> bytes:
        """What is on the screen so far."""
        while True:
            try:
                some = os.read(self.master, 65536)
            except OSError:  # nothing now, or nobody there any more
                return self.screen
            if not some:
                return self.screen
            self.screen += some

    def shows(self, text: str, what: str = "") -> None:
        """Wait until a text is on the screen."""
        until(lambda: text.encode() in self.read(), what or f"the screen shows {text!r}")

    def hold(self, *words: str) -> Answer:
        """Run a command to its end. It writes to files and reads from the terminal."""
        return self.do(" ".join([*COMMAND, *words]))

    def do(self, line: str) -> Answer:
        """Run a line of the shell."""
        self._count += 1
        out, err, code = (self._folder / f"{self._count}.{name}" for name in ("out", "err", "code"))
        self.type(f"{line} >{out} 2>{err}; echo $? >{code}.new; mv {code}.new {code}\n")
        until(lambda: bool(self.read() or True) and code.exists(), f"{line} ends")
        assert "Traceback" not in err.read_text(), err.read_text()
        return Answer(int(code.read_text()), out.read_text(), err.read_text())

    def close(self) -> None:
        """Hang up: the shell and what it runs are gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.close(self.master)
        until(lambda: state_of(self.pid) == "Z", "the shell is gone")


def children_of(pid: int) -> list[int]:
    """The processes that a process started."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def wait_for_file(path: Path) -> str:
    """The text of a file that somebody is about to write, line break included."""
    until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path.name} is written")
    return path.read_text().strip()


def is_gone(pid: int) -> bool:
    """Whether a process has ended."""
    return state_of(pid) in "ZX"
