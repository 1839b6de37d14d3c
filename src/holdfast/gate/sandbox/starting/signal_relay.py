"""Signals between a runner and its command.

All signals are blocked and waited for one after the other, so none can arrive between two steps.
The command starts with the signal mask that this process was given. The terminal's signals reach
the command directly, because it is in the same process group; all others are passed on.

Without `sigwaitinfo` (macOS) the two cannot be distinguished, and the command gets the terminal's
signals twice. Without POSIX signals (Windows) this module cannot be used.
"""

from __future__ import annotations

# Not `signal`: creating its enums takes as long as starting a process.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

BY_SIGNAL = 128

#: `si_code` of signals that the kernel sends itself, as it does for the terminal (Linux).
_FROM_KERNEL = 0x80
#: These are faults of this process itself, so they are not passed on.
_FAULTS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS")
_NEVER_BLOCKED = ("SIGKILL", "SIGSTOP")
#: Some systems drop these even while they are blocked, unless there is a handler.
_DROPPED_IF_NOT_CAUGHT = ("SIGCHLD", "SIGCONT", "SIGWINCH", "SIGURG", "SIGINFO")
_STOPS = ("SIGTSTP", "SIGTTIN", "SIGTTOU")


def can_pass_signals() -> bool:
    """Whether this system has what a runner needs."""
    return hasattr(os, "posix_spawnp") and hasattr(signal, "pthread_sigmask")


def _numbers(names: tuple[str, ...]) -> set[int]:
    return {int(getattr(signal, name)) for name in names if hasattr(signal, name)}


class SignalRelay:
    """A section in which no signal interrupts. Only for the main thread."""

    def __init__(self) -> None:
        known = {int(number) for number in signal.valid_signals()}
        self._waited_for = known - _numbers(_FAULTS) - _numbers(_NEVER_BLOCKED)
        self._handlers: dict[int, Callable[..., Any] | int | None] = {}
        self.as_given: set[int] = set()
        #: The interpreter ignores these for itself; a command must not inherit that.
        self.ignored_by_python = _numbers(("SIGPIPE", "SIGXFZ", "SIGXFSZ"))

    def __enter__(self) -> SignalRelay:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._waited_for)
        self.as_given = {int(number) for number in mask}
        for number in _numbers(_DROPPED_IF_NOT_CAUGHT):
            self._handlers[number] = signal.signal(number, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        # Signals that arrived too late were meant for the command, which has ended.
        while pending := signal.sigpending() & self._waited_for:
            signal.sigwait(pending)
        for number, handler in self._handlers.items():
            if handler is not None:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.as_given)

    def attend(self, child: int, changes: Callable[[], Iterable[int]] | None = None) -> int:
        """Wait for the command, pass signals on, stop and continue with it. Its exit code.

        `changes` returns the command's state changes since the last call, as `waitpid` reports
        them, if the command is not a child of this process. It is called after each SIGCHLD.
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
        """Handle the command's state changes. Its exit code if it has ended."""
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

        Only where a shell will continue both. Otherwise another process stopped the command alone
        and will continue it alone, and we must be running when it ends.
        """
        if number in _numbers(_STOPS) and _has_terminal():
            # Send first, then unblock: a pending one from the terminal merges with it.
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
        return  # it has ended, or runs as another user
