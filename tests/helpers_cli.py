"""The real command in real repositories, from a pipe or from a terminal of its own."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pty
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers_processes import PATIENCE_SECONDS, state_of, until

COMMAND = [sys.executable, "-m", "holdfast"]

#: The tests may be run by an agent. None of its variables may reach the commands under test.
_LEAKS = ("HOLDFAST_", "CLAUDE", "CODEX_", "NO_COLOR", "COLUMNS", "LINES", "PYTHON")


def environment(**more: str) -> dict[str, str]:
    """The environment of a command, without the variables that show who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_LEAKS)}
    return {**kept, "LANG": "C.UTF-8", "TERM": "xterm", **more}


#: Runs a command detached from its parent, since the tests may be run by an agent, whose processes
#: may not decide anything. Passes signals on, and exits with the code of the command.
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
    """The output of a command, and its exit code."""

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

    def look(self, *words: object) -> Answer:
        """Run a command that prints the same for every caller."""
        return quickly(words, self.root) or self.hold(*words)

    def grants(self, *words: str) -> list[dict[str, Any]]:
        """The grants that are held."""
        grants: list[dict[str, Any]] = self.look("status", "--json", *words).json["grants"]
        return grants

    def holders(self, path: str) -> list[str]:
        """The holders of a path."""
        return [
            grant["holder"]
            for grant in self.grants()
            if path in grant["write_paths"] + grant["read_paths"]
        ]

    def waiting(self) -> list[dict[str, Any]]:
        """The waiting requests."""
        waiting: list[dict[str, Any]] = self.look("status", "--json").json["waiting"]
        return waiting

    def events(self) -> list[dict[str, Any]]:
        """The events of the ledger."""
        return [json.loads(line) for line in self.look("log", "--json").out.splitlines()]


#: Has imported the modules that most commands need, and forks for each requested command. The child
#: gets the folder, the variables, the words and the streams of the request.
_STARTER = """
import gc, json, os, socket, sys
from holdfast import __main__ as program
from holdfast.cli import help, main
from holdfast.cli.locking import check_commands, lock_commands, log_commands, status
from holdfast.manager import manager
from holdfast.store.sqlite import sqlite_store
gc.collect()
gc.freeze()  # to look at all that would copy its pages, for every command
line = socket.socket(fileno=int(sys.argv[1]))
while True:
    said, streams, _, _ = socket.recv_fds(line, 1 << 17, 3)
    if not said:
        break
    pid = os.fork()
    if pid == 0:
        line.close()
        words, folder, variables = json.loads(said)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        sys.argv = [program.__file__, *words]
        try:
            code = main()
            sys.stdout.flush()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 1
        sys.stderr.flush()
        os._exit(code)
    for stream in streams:
        os.close(stream)
    line.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
_STARTER_BYTES_MAX = 1 << 16


class Starter:
    """Runs commands to their end, one at a time, each in a process that need not import anything
    first: importing takes most of the time of a short command."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        #: Held by the thread whose command runs.
        self.turn = threading.Lock()
        self._line, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _STARTER, str(other.fileno())],
                pass_fds=[other.fileno()], env=environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,  # what it forks has pipes too
            )  # fmt: skip
        atexit.register(self.close)

    def run(self, message: bytes) -> Answer:
        """Run a command, given as JSON: words, folder and variables. Returns its answer."""
        (out, for_out), (err, for_err) = os.pipe(), os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            socket.send_fds(self._line, [message], [nothing, for_out, for_err])
        finally:
            for descriptor in (nothing, for_out, for_err):
                os.close(descriptor)
        said = _read_all(out, err)
        self._line.settimeout(PATIENCE_SECONDS)
        return Answer(int(self._line.recv(100)), said[out], said[err])

    def close(self) -> None:
        """End it, and the command that it waits for: once, and never from a forked child of its
        creator."""
        atexit.unregister(self.close)
        if os.getpid() != self._owner:
            return
        with contextlib.suppress(OSError):
            for pid in children_of(self._process.pid):
                os.kill(pid, signal.SIGKILL)
        self._line.close()
        self._process.kill()
        self._process.communicate()


def _read_all(*descriptors: int) -> dict[int, str]:
    """Everything that arrives on some pipes, which are closed afterwards."""
    found = {descriptor: bytearray() for descriptor in descriptors}
    with selectors.DefaultSelector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(PATIENCE_SECONDS)
            assert ready, "the command neither ended nor printed anything"
            for key, _ in ready:
                some = os.read(key.fd, 1 << 16)
                found[key.fd] += some
                if not some:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return {one: bytes(said).decode("utf-8", "backslashreplace") for one, said in found.items()}


_starter: list[Starter] = []


def quickly(words: Sequence[object], folder: Path) -> Answer | None:
    """Run a command to its end with a starter. None if the starter is busy, or the line is too long
    for it. Not for tests about how a command starts, or about its parent."""
    message = json.dumps([list(map(str, words)), str(folder), environment()]).encode()
    if sys.platform != "linux" or len(message) > _STARTER_BYTES_MAX:
        return None
    if not _starter:
        _starter.append(Starter())
    starter = _starter[0]
    if not starter.turn.acquire(blocking=False):  # another thread's command may wait for this one
        return None
    try:
        answer = starter.run(message)
    except BaseException:
        if starter in _starter:
            _starter.remove(starter)
            starter.close()
        raise
    finally:
        starter.turn.release()
    assert "Traceback" not in answer.err, answer.err
    return answer


class QuickRepository(Repository):
    """A repository whose commands are run by a starter where that makes no difference."""

    def hold(
        self,
        *words: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Answer:
        answer = None if env or more else quickly(words, cwd or self.root)
        return answer or super().hold(*words, cwd=cwd, env=env, **more)


#: Starts an interactive shell on a terminal. Its parent exits immediately, so no ancestor shows who
#: runs the tests.
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
    """A person at a terminal: an interactive shell in a session of its own."""

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
        """Type a text; a command ends with a line break."""
        self.read()
        os.write(self.master, text.encode())

    def read(self) -> bytes:
        """The text on the screen so far."""
        while True:
            try:
                some = os.read(self.master, 65536)
            except OSError:  # no output now, or the shell has ended
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

    def do(self, line: str, answer: str = "") -> Answer:
        """Type a line in the shell, and the given answer to what it asks."""
        self._count += 1
        out, err, code = (self._folder / f"{self._count}.{name}" for name in ("out", "err", "code"))
        self.type(
            f"{{ {line}\n}} >{out} 2>{err}; echo $? >{code}.new; mv {code}.new {code}\n{answer}"
        )
        until(lambda: bool(self.read() or True) and code.exists(), f"{line} ends")
        assert "Traceback" not in err.read_text(), err.read_text()
        return Answer(int(code.read_text()), out.read_text(), err.read_text())

    def close(self) -> None:
        """Hang up, which ends the shell and what it runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.close(self.master)
        until(lambda: state_of(self.pid) == "Z", "the shell is gone")


def children_of(pid: int) -> list[int]:
    """The processes that a process started."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def wait_for_file(path: Path) -> str:
    """Wait until a file has its line break, and return its text."""
    until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path.name} is written")
    return path.read_text().strip()


def is_gone(pid: int) -> bool:
    """Whether a process has ended."""
    return state_of(pid) in "ZX"
