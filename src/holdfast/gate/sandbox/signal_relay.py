"""Signals between a runner and its command.

All of them are blocked and waited for one after the other, so none can hit between two steps.
The command starts with the signals as this process got them. What the terminal sends reaches the
command by itself, because it is in the same process group; everything else is passed on.

Without `sigwaitinfo` (macOS) nobody can tell the two apart, and the command gets the terminal's
signals twice. Without POSIX signals (Windows) there is nothing here to use.
"""

from __future__ import annotations

# Without the names that `signal` has for all of them: to make those takes as long as a process.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

BY_SIGNAL = 128

#: What the kernel says of signals that it sends itself, as it does for the terminal (Linux).
_FROM_KERNEL = 0x80
#: These say that this very process did something wrong; nobody passes them on.
_FAULTS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS")
_NEVER_BLOCKED = ("SIGKILL", "SIGSTOP")
#: Some systems throw these away even while they are blocked, unless somebody catches them.
_DROPPED_IF_NOT_CAUGHT = ("SIGCHLD", "SIGCONT", "SIGWINCH", "SIGURG", "SIGINFO")
_STOPS = ("SIGTSTP", "SIGTTIN", "SIGTTOU")


def can_pass_signals() -> bool:
    """Whether this system has what a runner needs."""
    return hasattr(os, "posix_spawnp") and hasattr(signal, "pthread_sigmask")


def _numbers(names: tuple[str, ...]) -> set[int]:
    return {int(getattr(signal, name)) for name in names if hasattr(signal, name)}


class Signals:
    """A section in which no signal interrupts. Only for the main thread."""

    def __init__(self) -> None:
        known = {int(number) for number in signal.valid_signals()}
        self._waited_for = known - _numbers(_FAULTS) - _numbers(_NEVER_BLOCKED)
        self._handlers: dict[int, Callable[..., Any] | int | None] = {}
        self.as_given: set[int] = set()
        #: A command must not inherit that the interpreter ignores these for itself.
        self.ignored_by_python = _numbers(("SIGPIPE", "SIGXFZ", "SIGXFSZ"))

    def __enter__(self) -> Signals:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._waited_for)
        self.as_given = {int(number) for number in mask}
        for number in _numbers(_DROPPED_IF_NOT_CAUGHT):
            self._handlers[number] = signal.signal(number, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        # What came too late was meant for the command, which has ended.
        while pending := signal.sigpending() & self._waited_for:
            signal.sigwait(pending)
        for number, handler in self._handlers.items():
            if handler is not None:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.as_given)

    def attend(self, child: int, changes: Callable[[], Iterable[int]] | None = None) -> int:
        """Wait for the command, pass signals on, stop and go on with it. Its exit code.

        `changes` are what has become of it since the last look, as `waitpid` tells: for a command
        that is not a child of this process. They are asked for after each SIGCHLD.
        """
        changes = changes or (lambda: _changes_of(child))
        while True:
            number, from_kernel = self._next()
            if number == signal.SIGCHLD:
                code = self._look(changes())
                if code is not None:
                    return code
            elif not (from_kernel and _shares_our_group(child)):
                _send(child, number)

    def _next(self) -> tuple[int, bool]:
        if sys.platform == "darwin" or not hasattr(signal, "sigwaitinfo"):
            return int(signal.sigwait(self._waited_for)), False
        info = signal.sigwaitinfo(self._waited_for)
        return info.si_signo, sys.platform == "linux" and info.si_code == _FROM_KERNEL

    def _look(self, changes: Iterable[int]) -> int | None:
        """What has become of the command: its exit code if it has ended."""
        for status in changes:
            if os.WIFEXITED(status):
                return os.WEXITSTATUS(status)
            if os.WIFSIGNALED(status):
                return BY_SIGNAL + os.WTERMSIG(status)
            if os.WIFSTOPPED(status):
                self._stop_too(os.WSTOPSIG(status))
        return None

    def _stop_too(self, number: int) -> None:
        """Stop as the command did, so that the shell that waits for us gets its terminal back.

        Only where there is a shell that will let both go on. Elsewhere somebody has stopped the
        command alone and will wake it alone, and we must be awake when it ends.
        """
        if number in _numbers(_STOPS) and _has_terminal():
            # First sent, then let through: if the terminal has sent one as well, they are one.
            os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
            signal.pthread_sigmask(signal.SIG_BLOCK, {number})


def _changes_of(child: int) -> Iterator[int]:
    while True:
        found, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if not found:
            return
        yield status


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _shares_our_group(child: int) -> bool:
    try:
        return os.getpgid(child) == os.getpgrp()
    except OSError:
        return False


def _send(child: int, number: int) -> None:
    try:
        os.kill(child, number)
    except OSError:
        return  # it has ended, or runs as somebody else: there is nobody to tell
