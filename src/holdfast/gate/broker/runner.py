"""The runner and its broker: two processes and the connection between them.

The runner is the process that was called. It waits for the command, passes signals on, and exits
with the command's code. Its child is the broker, in a process group of its own, so that signals of
the terminal do not reach it. The broker starts the command, serves it, and reports the command's
state changes to the runner. It outlives the runner as long as processes of the command are running.

Until the command has started, the broker's own exit code is the runner's.
"""

from __future__ import annotations

# Not `signal` and `socket`: the command's start would wait for both imports.
import _signal as signal  # type: ignore[import-not-found]
import _socket
import errno
import os

from holdfast.core import codec
from holdfast.gate.broker.heard_calls import adopt_orphans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.gate.broker.broker_loop import Broker
    from holdfast.gate.sandbox.starting.signal_relay import SignalRelay

    #: Prints a line for people.
    Say = Callable[[str], None]

_MESSAGE_BYTES_MAX = 65_536


def run_below(signals: SignalRelay, say: Say, serve: Callable[[Link], int]) -> int:
    """Fork a broker, which calls `serve`, and attend to the command that it starts. The exit code.

    In the broker's process this returns too, with the result of `serve`.
    """
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
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

    def __init__(self, broker: int, line: _socket.socket, signals: SignalRelay, say: Say) -> None:
        self._broker = broker
        self._line = line
        self._signals = signals
        self._say = say
        self._command = 0
        self._is_alone = False

    def attend(self) -> int:
        started = self._hear()
        if started is not None and "joined" in started:
            os.write(self._line.fileno(), b"{}")
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
        return codec.loads(said.decode()) if said else None

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
        self._say("the broker was killed: the command can no longer open anything for writing")
        self._say("  -> stop it; its leases stay until all of its processes have ended")
        os.kill(os.getpid(), signal.SIGCHLD)  # it may have ended before it became our child


# In the broker's process


class Link:
    """The broker's end of the connection to the runner."""

    def __init__(self, line: _socket.socket, runner: int, group: int) -> None:
        self._line = line
        self._runner = runner
        #: The process group that the command belongs to.
        self.group = group

    def join(self) -> None:
        """In the command's process: join the runner's group. If the runner was killed with its
        group, the command would have been killed too, so it is not started: a process that is about
        to die from a signal does not answer. Raises OSError."""
        os.setpgid(0, self.group)
        self._write({"joined": os.getpid()})
        if not os.read(self._line.fileno(), _MESSAGE_BYTES_MAX):
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))

    def started(self, command: int) -> None:
        """The command is running; from now on its exit code counts."""
        try:
            self._write({"started": command})
        except OSError:
            pass  # the runner was killed, but not its group

    def tell(self, status: int, say: list[str]) -> None:
        """Report a state change of the command, as from `waitpid`, with lines for people."""
        try:
            self._write({"status": status, "say": say})
            os.kill(self._runner, signal.SIGCHLD)
        except OSError:
            pass  # the runner was killed

    def _write(self, message: dict[str, Any]) -> None:
        # Not by `send`: the sandbox of Codex refuses that call for every socket.
        os.write(self._line.fileno(), codec.dumps(message).encode())

    def close(self) -> None:
        self._line.close()


class Watch:
    """Reports the command's state changes to the runner: from its start, whether or not the broker
    is ready, so that a command which writes nothing does not wait for the ledger."""

    def __init__(self, link: Link, command: int) -> None:
        self._link = link
        self._command = command
        self._broker: Broker | None = None
        self._status: int | None = None
        self._heard, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, self._reap_early)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        self._reap_early()

    def _reap_early(self, *_: object) -> None:
        """Before the broker is ready, only the command's own state changes are reported."""
        for status in self._changes():
            self._link.tell(status, [])
            if _is_end(status):
                self._status = status

    def serve_with(self, broker: Broker) -> None:
        """From now on the broker takes part."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._broker = broker
        broker.ears[self._heard] = self.hear
        if self._status is not None:
            broker.end()
            self._settle()
        self.hear()

    def hear(self) -> None:
        """A child has changed state."""
        try:
            while os.read(self._heard, 4096):
                pass
        except BlockingIOError:
            pass
        for status in self._changes():
            self._note(status)

    def _changes(self) -> Iterator[int]:
        while True:
            try:
                found, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return
            if not found:
                return
            if found == self._command:
                yield status

    def _note(self, status: int) -> None:
        assert self._broker is not None
        if not _is_end(status):
            self._link.tell(status, [])
            return
        self._status = status
        self._link.tell(status, self._broker.end())
        self._settle()

    def _settle(self) -> None:
        assert self._broker is not None
        _be_quiet()
        self._broker.settle_git()

    def finish(self) -> None:
        """No process is left that could make a call: the command has ended, or is about to."""
        if self._status is not None:
            return
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            status = os.waitpid(self._command, 0)[1]
        except ChildProcessError:
            if self._broker is not None:
                self.hear()
            return
        if self._broker is not None:
            self._note(status)
        else:
            self._link.tell(status, [])


def _is_end(status: int) -> bool:
    return not (os.WIFSTOPPED(status) or os.WIFCONTINUED(status))


def _be_quiet() -> None:
    """Close the output: the runner is about to end, and readers must not wait for the broker."""
    fd = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(fd, number)
    os.close(fd)
