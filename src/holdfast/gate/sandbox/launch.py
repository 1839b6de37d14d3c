"""The program that a line with a sandboxed command starts: `python -I -S launch.py COMMAND ROOT
PATH…`. It closes what others hold, for itself and all that it starts, and becomes the shell.

The client's own shell has started us: the command runs in another one of the same kind, prepared
in the same way, so that aliases and functions are there, and the client learns where it ended.
What cannot be closed is not run: then the exit code is 126, as for any program that cannot be
executed.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: How Claude Code hands a line to its shell: after its preparations, and before it asks where that
#: has ended up.
_GIVEN = " && eval "
_CANNOT = 126
#: Where temporary files go if the usual place has a closed file in it.
_OTHER_TEMPORARY = "/var/tmp"


def main(arguments: Sequence[str]) -> None:
    """Never returns."""
    from holdfast.core.errors import HoldfastError
    from holdfast.gate.sandbox.closing import real

    command, root, *paths = arguments
    closed = [real(f"{root}/{path}" if path != "." else root) for path in paths]
    try:
        shell, words = _shell(command)
        _restrict([*closed, *_switches(root)], root)
    except HoldfastError as error:
        sys.stderr.write(f"holdfast: not run: {error.message}\n  -> {error.hint}\n")
        sys.stderr.flush()
        os._exit(_CANNOT)
    _become(shell, words, _environment(closed))


def _switches(root: str) -> list[str]:
    """The clients' settings, in which a script could switch the gate off."""
    from holdfast.gate.sandbox.closing import real
    from holdfast.gate.seals import SETTINGS

    files = (f"{root}/{name}" for name in SETTINGS)
    return [real(file) for file in files if os.path.isdir(os.path.dirname(file))]


def _restrict(closed: Sequence[str], root: str) -> None:
    from holdfast.gate.sandbox import SandboxError, closing
    from holdfast.gate.sandbox.landlock import MUTATING, Ruleset, support, trouble
    from holdfast.manager.paths import LEDGER_FOLDER

    found = support()
    if not found.is_enough:
        raise SandboxError(f"no sandbox here: {found.lacks}", hint="set gate.shell to guard")
    rules = Ruleset(found.abi)
    closing.open_all_but(closed, rules.open)
    # git and the gate itself keep on working, also if somebody reads the whole tree
    for folder in (f"{root}/.git", f"{root}/{LEDGER_FOLDER}"):
        if os.path.isdir(folder) and not os.path.islink(folder):
            fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            rules.open(fd, MUTATING)
            os.close(fd)
    try:
        rules.enforce()
    except OSError as error:
        raise trouble("the kernel does not restrict the command", error) from error
    rules.close()
    closing.prove(closed)


def _shell(command: str) -> tuple[str, list[str]]:
    """The shell that started us, and the words to start it with."""
    parent = os.getppid()
    try:
        program = os.readlink(f"/proc/{parent}/exe")
        with open(f"/proc/{parent}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")[:-1]
    except OSError:
        program, words = "", []
    words = words or [""]
    return program, [words[0], "-c", _prepared(words[-1], command)]


def _prepared(given: str, command: str) -> str:
    """The command with what the client does in its shell before and after it.

    Raises SandboxError if the shell was not given one of our lines: the client would not have seen
    the command, and what its user has forbidden could be run through us.
    """
    from holdfast.gate.sandbox import SandboxError
    from holdfast.gate.sandbox.line import command_of, first_word, quoted

    if command_of(given) == command:
        return command
    head, found, rest = given.partition(_GIVEN)
    ours, tail = first_word(rest)
    if not found or command_of(ours) != command:
        raise SandboxError(
            "this program is for the lines that a hook of Holdfast writes",
            hint="run the command itself; if a hook has written this, set gate.shell to guard",
        )
    between, then, last = tail.rpartition(" && ")
    # Where the client wants to be told may be closed: that is not the command's failure.
    end = f" && {{ {last} || :; }} 2>/dev/null" if then else ""
    return f"{head}{_GIVEN}{quoted(command)}{between if then else tail}{end}"


def _environment(closed: Sequence[str]) -> dict[str, str]:
    found = dict(os.environ)
    usual = os.path.realpath(found.get("TMPDIR") or "/tmp")
    if any(f"{path}/".startswith(f"{usual.rstrip('/')}/") for path in closed):
        found["TMPDIR"] = _OTHER_TEMPORARY
    if "LC_CTYPE" in found and not _is_given("LC_CTYPE"):
        del found["LC_CTYPE"]  # our interpreter's own idea
    return found


def _is_given(name: str) -> bool:
    try:
        with open("/proc/self/environ", "rb") as file:
            return any(entry.startswith(f"{name}=".encode()) for entry in file.read().split(b"\0"))
    except OSError:
        return True


def _become(program: str, words: list[str], environment: dict[str, str]) -> None:
    import signal

    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # an interpreter starts with them ignored
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, words, environment)
    except OSError as error:
        sys.stderr.write(f"holdfast: cannot start {program}: {error.strerror}\n")
        sys.stderr.flush()
    os._exit(_CANNOT)


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [here.removesuffix("/holdfast/gate/sandbox"), *sys.path[:]]
    main(sys.argv[1:])
