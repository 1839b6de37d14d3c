"""Start a command that is restricted before its first instruction.

Between fork and exec the child restricts itself; the parent stays as free as it was. What goes
wrong there is told to the parent through a pipe that a successful exec closes.
"""

from __future__ import annotations

import os

# Without the names that `signal` has for all of them: to make those takes as long as a process.
from _signal import (  # type: ignore[import-not-found]
    NSIG,
    SIG_DFL,
    SIG_IGN,
    SIG_SETMASK,
    getsignal,
    pthread_sigmask,
    signal,
)

from holdfast.gate.sandbox.landlock import trouble
from holdfast.manager.owners.variables import for_agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

NOT_STARTED = 127
_NOTE_BYTES_MAX = 4096
#: Where a child came to grief.
RESTRICTING, EXECUTING = b"r", b"x"


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    restrict: Callable[[], None],
    *,
    mask: Iterable[int] = (),
    default: Iterable[int] = (),
) -> int:
    """The pid of the command. `mask` are the signals that it starts with blocked, `default`
    those that it must not inherit as ignored. Only while this process has a single thread. Of the
    environment it gets what is for agents.

    Raises OSError or ValueError if it cannot be executed, SandboxError if it cannot be restricted.
    """
    words, variables = list(command), for_agents(environment)
    refuse_null(words, variables)
    # As much as possible before the fork: whatever a child touches is copied for it first.
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
        raise grief(note)
    return child


def refuse_null(words: Iterable[str], variables: Mapping[str, str]) -> None:
    """Raises ValueError for what no command can be given."""
    for text in (*words, *variables, *variables.values()):
        if "\0" in text:
            raise ValueError("embedded null byte")


def grief(note: bytes) -> Exception:
    """What a child has told of its end: at what, and the number of the error."""
    number = int(note[1:])
    error = OSError(number, os.strerror(number))  # becomes the class that fits the number
    if note[:1] == RESTRICTING:
        return trouble("cannot restrict the command", error)
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
        # First back to the defaults, then let through: what came meanwhile is for the command,
        # and not for handlers of ours.
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
    """The file that a word most likely means; empty if it has to be looked for in the folder in
    which the command starts."""
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
            pass  # there may be another of that name; if not, this is what we hear once more
    os.execvpe(words[0], words, variables)


def handled_signals(default: set[int]) -> list[int]:
    """The signals that the command must not get as we have them."""
    usual = (SIG_IGN, SIG_DFL, None)
    return [one for one in range(1, NSIG) if one in default or getsignal(one) not in usual]


def read_note(heard: int) -> bytes:
    """What a child tells, until it has become the command or is gone."""
    found = b""
    while len(found) < _NOTE_BYTES_MAX:
        some = os.read(heard, _NOTE_BYTES_MAX)
        if not some:
            break
        found += some
    return found
