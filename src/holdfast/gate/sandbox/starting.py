"""Start a command that is restricted before its first instruction.

Between fork and exec the child restricts itself; the parent stays as free as it was. What goes
wrong there is told to the parent through a pipe that a successful exec closes.
"""

from __future__ import annotations

import os
import signal

from holdfast.gate.sandbox.landlock import trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_NOT_STARTED = 127
_NOTE_BYTES_MAX = 4096
_RESTRICTING, _EXECUTING = b"r", b"x"


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    restrict: Callable[[], None],
    *,
    mask: Iterable[int] = (),
    default: Iterable[int] = (),
) -> int:
    """The pid of the command. `mask` are the signals that it starts with blocked, `default`
    those that it must not inherit as ignored. Only while this process has a single thread.

    Raises OSError or ValueError if it cannot be executed, SandboxError if it cannot be restricted.
    """
    words, variables = list(command), dict(environment)
    for text in (*words, *variables, *variables.values()):
        if "\0" in text:
            raise ValueError("embedded null byte")
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        _become(words, variables, restrict, told, mask, default)
    os.close(told)
    try:
        note = _read(heard)
    finally:
        os.close(heard)
    if note:
        os.waitpid(child, 0)
        number = int(note[1:])
        error = OSError(number, os.strerror(number))  # becomes the class that fits the number
        if note[:1] == _RESTRICTING:
            raise trouble("the kernel does not restrict the command", error)
        raise error
    return child


def _become(
    words: list[str],
    variables: dict[str, str],
    restrict: Callable[[], None],
    told: int,
    mask: Iterable[int],
    default: Iterable[int],
) -> None:
    """In the child: never returns."""
    stage = _RESTRICTING
    number = 0
    try:
        restrict()
        stage = _EXECUTING
        # First back to the defaults, then let through: what came meanwhile is for the command,
        # and not for handlers of ours.
        _forget_handlers(set(default))
        signal.pthread_sigmask(signal.SIG_SETMASK, set(mask))
        os.execvpe(words[0], words, variables)
    except OSError as error:
        number = error.errno or 0
    finally:
        try:
            os.write(told, stage + str(number).encode())
        finally:
            os._exit(_NOT_STARTED)


def _forget_handlers(default: set[int]) -> None:
    for number in signal.valid_signals():
        is_ours = signal.getsignal(number) not in (signal.SIG_IGN, signal.SIG_DFL, None)
        if is_ours or int(number) in default:
            signal.signal(number, signal.SIG_DFL)


def _read(heard: int) -> bytes:
    found = b""
    while len(found) < _NOTE_BYTES_MAX:
        some = os.read(heard, _NOTE_BYTES_MAX)
        if not some:
            break
        found += some
    return found
