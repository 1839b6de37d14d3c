"""The runner and its broker: two processes and the line between them.

The runner is the process that was called. It waits for the command, passes signals on, and exits
with the command's code. Its child is the broker, in a process group of its own, so that signals of
the terminal do not reach it. The broker starts the command, serves it, and tells the runner what
becomes of it. It outlives the runner as long as the command has left something running.

Until the command has started, the broker's own exit code is the runner's.
"""

from __future__ import annotations

import json
import os
import signal
import socket

from holdfast.gate.broker.system import adopt_orphans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.gate.broker.serving import Broker
    from holdfast.gate.sandbox.signals import Signals

    #: Says a line to people.
    Say = Callable[[str], None]

_MESSAGE_BYTES_MAX = 65_536


def run_below(signals: Signals, say: Say, serve: Callable[[Link], int]) -> int:
    """Fork a broker, which calls `serve`, and attend to the command that it starts. The exit code.

    In the broker's process this returns too, with what `serve` returned.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    adopt_orphans()  # if the broker is killed, the command becomes a child of this process
    me, group = os.getpid(), os.getpgrp()
    broker = os.fork()
    if broker == 0:
        ours.close()
        os.setpgid(0, 0)
        adopt_orphans()
        return serve(Link(theirs, me, group))
    theirs.close()
    return _Runner(broker, ours, signals, say).attend()


class _Runner:
    """The process that was called, while the broker serves."""

    def __init__(self, broker: int, line: socket.socket, signals: Signals, say: Say) -> None:
        self._broker = broker
        self._line = line
        self._signals = signals
        self._say = say
        self._command = 0
        self._is_alone = False

    def attend(self) -> int:
        started = self._hear()
        if started is None or "started" not in started:
            _pid, status = os.waitpid(self._broker, 0)
            return os.waitstatus_to_exitcode(status)
        self._command = started["started"]
        self._line.setblocking(False)
        return self._signals.attend(self._command, self._changes)

    def _hear(self) -> dict[str, Any] | None:
        try:
            said = self._line.recv(_MESSAGE_BYTES_MAX)
        except BlockingIOError:
            return {}
        except OSError:
            said = b""
        return json.loads(said) if said else None

    def _changes(self) -> Iterator[int]:
        while not self._is_alone:
            said = self._hear()
            if said is None:
                self._lose_broker()
            elif not said:
                return
            else:
                for line in said.get("say", ()):
                    self._say(line)
                yield said["status"]
        while True:
            try:
                found, status = os.waitpid(self._command, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if not found:
                return
            yield status

    def _lose_broker(self) -> None:
        self._is_alone = True
        os.waitpid(self._broker, 0)
        self._say("the broker was killed: the command can open nothing for writing any more")
        self._say("  -> stop it; its leases stay until all of its processes have ended")
        os.kill(os.getpid(), signal.SIGCHLD)  # it may have ended before it became our child


# In the broker's process


class Link:
    """The broker's end of the line to the runner."""

    def __init__(self, line: socket.socket, runner: int, group: int) -> None:
        self._line = line
        self._runner = runner
        #: The process group that the command belongs to.
        self.group = group

    def started(self, command: int) -> None:
        """The command runs; from now on its exit code counts."""
        self._line.send(json.dumps({"started": command}).encode())

    def tell(self, status: int, say: list[str]) -> None:
        """What has become of the command, as `waitpid` puts it, with lines for people."""
        try:
            self._line.send(json.dumps({"status": status, "say": say}).encode())
            os.kill(self._runner, signal.SIGCHLD)
        except OSError:
            pass  # the runner was killed

    def close(self) -> None:
        self._line.close()


class Watch:
    """What becomes of the command while the broker serves it."""

    def __init__(self, broker: Broker, link: Link, command: int) -> None:
        self._broker = broker
        self._link = link
        self._command = command
        self._status: int | None = None
        heard, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._heard = heard
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        broker.ears[heard] = self.hear
        self.hear()

    def hear(self) -> None:
        """Something has become of a child."""
        try:
            while os.read(self._heard, 4096):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                found, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return
            if not found:
                return
            if found == self._command:
                self._note(status)

    def _note(self, status: int) -> None:
        if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
            self._link.tell(status, [])
            return
        self._status = status
        self._link.tell(status, self._broker.end())
        _be_quiet()
        self._broker.settle_git()

    def finish(self) -> None:
        """Nothing is left that could call: the command has ended, or is about to."""
        if self._status is None:
            try:
                self._note(os.waitpid(self._command, 0)[1])
            except ChildProcessError:
                self.hear()


def _be_quiet() -> None:
    """The runner is about to end: what reads its output must not wait for the broker."""
    fd = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(fd, number)
    os.close(fd)
