"""Starts a command that is restricted before its first instruction.

Between fork and exec the child restricts itself; the parent stays unrestricted. The child reports
errors to the parent through a pipe that a successful exec closes.
"""

from __future__ import annotations

import os

# Not `signal`: creating its enums takes as long as starting a process.
from _signal import (  # type: ignore[import-not-found]
    NSIG,
    SIG_DFL,
    SIG_IGN,
    SIG_SETMASK,
    getsignal,
    pthread_sigmask,
    signal,
)

from holdfast.gate.sandbox.kernel.landlock import sandbox_error
from holdfast.manager.owners.variables import for_agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

NOT_STARTED = 127
_NOTE_BYTES_MAX = 4096
#: The stage at which a child failed.
RESTRICTING, EXECUTING = b"r", b"x"


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    restrict: Callable[[], None],
    *,
    mask: Iterable[int] = (),
    default: Iterable[int] = (),
) -> int:
    """Start a command; its pid. `mask` are the signals that are blocked at its start, `default`
    those that it must not inherit as ignored. Only while this process has a single thread. It gets
    the part of the environment that agents may have.

    Raises OSError or ValueError if it cannot be executed, SandboxError if it cannot be restricted.
    """
    words, variables = list(command), for_agents(environment)
    refuse_null(words, variables)
    # As much as possible before the fork: every page that the child touches is copied first.
    program = likely_program(words[0], variables)
    handled = handled_signals(set(default))
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        _become(program, words, variables, restrict, told, mask, handled)
    os.close(told)
    try:
        note = read_note(heard)
    finally:
        os.close(heard)
    if note:
        os.waitpid(child, 0)
        raise start_error(note)
    return child


def refuse_null(words: Iterable[str], variables: Mapping[str, str]) -> None:
    """Raises ValueError for words and variables that cannot be passed to a command."""
    for text in (*words, *variables, *variables.values()):
        if "\0" in text:
            raise ValueError("embedded null byte")


def start_error(note: bytes) -> Exception:
    """The exception for a child's report: the stage at which it failed, and the error number."""
    number = int(note[1:])
    error = OSError(number, os.strerror(number))  # Python chooses the subclass for the number
    if note[:1] == RESTRICTING:
        return sandbox_error("cannot restrict the command", error)
    return error


def _become(
    program: str,
    words: list[str],
    variables: dict[str, str],
    restrict: Callable[[], None],
    told: int,
    mask: Iterable[int],
    handled: list[int],
) -> None:
    """In the child: never returns."""
    stage = RESTRICTING
    number = 0
    try:
        restrict()
        stage = EXECUTING
        # Reset the handlers first, then unblock: signals that arrived meanwhile are for the
        # command, not for our handlers.
        for one in handled:
            signal(one, SIG_DFL)
        pthread_sigmask(SIG_SETMASK, set(mask))
        execute(program, words, variables)
    except OSError as error:
        number = error.errno or 0
    finally:
        try:
            os.write(told, stage + str(number).encode())
        finally:
            os._exit(NOT_STARTED)


def likely_program(word: str, variables: Mapping[str, str]) -> str:
    """The file that a word most likely means; empty if that depends on the folder in which the
    command starts."""
    if "/" in word:
        return word
    for folder in variables.get("PATH", os.defpath).split(os.pathsep):
        path = f"{folder}/{word}"
        if not folder.startswith("/"):
            return ""
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def execute(program: str, words: list[str], variables: dict[str, str]) -> None:
    """Become a program. `program` is the file that is most likely meant, or empty."""
    if program:
        try:
            os.execve(program, words, variables)
        except OSError:
            pass  # PATH may have another file of that name; if not, this error is raised again
    os.execvpe(words[0], words, variables)


def handled_signals(default: set[int]) -> list[int]:
    """The signals whose handling the command must not inherit."""
    usual = (SIG_IGN, SIG_DFL, None)
    return [one for one in range(1, NSIG) if one in default or getsignal(one) not in usual]


def read_note(heard: int) -> bytes:
    """A child's report: everything that it writes until it becomes the command or ends."""
    found = b""
    while len(found) < _NOTE_BYTES_MAX:
        some = os.read(heard, _NOTE_BYTES_MAX)
        if not some:
            break
        found += some
    return found
