"""The program in front of an agent's shell command: `python -I -S prefixed.py CLIENT FOLDER …`.

    claude FOLDER CHAINED LINE   started by the prefix script; CHAINED is the user's own prefix
    codex FOLDER COMMAND         started by the line that the hook wrote for Codex

FOLDER is the ledger's, with the slips. With a slip, the command runs below a broker in the agent's
name. Without one, the line runs unchanged, except for an MCP server, which runs below a broker in
the session's name. If there is a slip and no broker is possible, the command is not run: the exit
code is 126, as for a program that cannot be executed.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.gate.commands.slips import Slip

_CANNOT = 126
_SOCKET_VARIABLE = "HOLDFAST_SOCKET"
_GRANT_VARIABLE = "HOLDFAST_GRANT"
_SESSION_VARIABLE = "CLAUDE_CODE_SESSION_ID"
_CLAUDE_SANDBOX = "SANDBOX_RUNTIME"
_GUARD = 'a person can set gate.shell = "guard" in holdfast.toml'


def main(arguments: Sequence[str]) -> int:
    """Run the line, in most cases by replacing this process. The exit code."""
    client, folder, *rest = arguments
    if client == "codex":
        return _for_codex(folder, rest[0])
    chained, line = rest
    return _for_claude(folder, chained, line)


# Claude Code


def _for_claude(folder: str, chained: str, line: str) -> int:
    is_server = not os.environ.get("CLAUDE_PID")
    words = _words(chained, line, is_server=is_server)
    if os.environ.get(_GRANT_VARIABLE):
        return _become(words)  # dispatched with a grant, in the sandbox of its runner
    from holdfast.gate.commands import slips
    from holdfast.gate.commands.shell_lines import evaluated

    if os.environ.get(_SOCKET_VARIABLE):
        if not is_server:
            _introduce(slips.digest(evaluated(line)))
        return _become(words)
    session = os.environ.get(_SESSION_VARIABLE, "")
    slip = _server_slip(session) if is_server else slips.claim(folder, session, evaluated(line))
    if slip is None:
        return _become(words)
    if os.environ.get(_CLAUDE_SANDBOX):
        _complain("a broker cannot work in Claude Code's own sandbox", _GUARD)
        return _CANNOT
    return _run(slip, words, is_server=is_server)


def _words(chained: str, line: str, *, is_server: bool) -> list[str]:
    """The words with which Claude Code would have run a line without us: in the shell that it uses
    for commands, or as the argument of the prefix that its user has set."""
    if chained:
        return ["/bin/sh", "-c", f'exec {chained} "$1"', "sh", line]
    shell = "/bin/sh" if is_server else os.environ.get("SHELL") or "/bin/sh"
    return [shell, "-c", line]


def _server_slip(session: str) -> Slip | None:
    """A slip for an MCP server, which no hook announces: it belongs to the session."""
    from holdfast.gate.agents import holder_of
    from holdfast.gate.commands.lease_mode import can_lease, is_leased
    from holdfast.gate.commands.slips import Slip
    from holdfast.gate.intent import OTHER, Intent
    from holdfast.manager.files.paths import find_root

    home = os.environ.get("CLAUDE_PROJECT_DIR", "")
    root = find_root(home) if home else None
    if not session or root is None or not is_leased(root) or can_lease():
        return None
    return Slip(holder_of(Intent("claude", OTHER, session, cwd=home)), root, "", home)


# Codex


def _for_codex(folder: str, command: str) -> int:
    shell, words = _codex_shell(command)
    from holdfast.gate.commands import slips

    if not words:
        _complain(
            "this program runs only lines that a hook of Holdfast wrote",
            "run the command itself",
        )
        return _CANNOT
    if os.environ.get(_SOCKET_VARIABLE):
        _introduce(slips.digest(command))
        return _become([shell, *words])
    slip = slips.claim(folder, "", command)
    if slip is None:  # the hook wrote this line, and writes it only for a command with a slip
        _complain("no hook announced this command", "run the command again")
        return _CANNOT
    return _run(slip, [shell, *words])


def _codex_shell(command: str) -> tuple[str, list[str]]:
    """The shell that started us, and the words to start another one like it; none if it did not
    run one of our lines: then Codex has not seen the command, and a command that its user has
    forbidden could run through us."""
    from holdfast.gate.commands.codex_lines import command_of

    parent = os.getppid()
    try:
        program = os.readlink(f"/proc/{parent}/exe")
        with open(f"/proc/{parent}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")[:-1]
    except OSError:
        return "", []
    if not words or command_of(words[-1]) != command:
        return "", []
    return program, ["-c", command]


# Both


def _run(slip: Slip, words: Sequence[str], *, is_server: bool = False) -> int:
    from holdfast.core.errors import HoldfastError
    from holdfast.gate.commands.agent_run import run_for

    _forget_python_s_locale()
    try:
        return run_for(slip, words, is_server=is_server)
    except HoldfastError as error:
        _complain(error.message, _GUARD)
        return _CANNOT


def _introduce(digest: str) -> None:
    """Identify this process to the broker of a whole client, which leases the files it writes. The
    hook announced for which agent the command runs."""
    from holdfast.gate.sandbox import SandboxError, runner_client

    try:
        runner_client.introduce(digest, os.getpid())
    except SandboxError:
        pass  # the leases then name only the program


def _become(words: Sequence[str]) -> int:
    """Replace this process by the shell. Returns only if that fails."""
    import signal

    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # the interpreter ignores them
        signal.signal(number, signal.SIG_DFL)
    _forget_python_s_locale()
    try:
        os.execv(words[0], list(words))
    except OSError as error:
        _complain(f"cannot start {words[0]}: {error.strerror}", "check SHELL")
    return _CANNOT


def _forget_python_s_locale() -> None:
    """Remove the variable that the interpreter itself added to the environment."""
    try:
        with open("/proc/self/environ", "rb") as file:
            given = file.read().split(b"\0")
    except OSError:
        return
    if "LC_CTYPE" in os.environ and not any(one.startswith(b"LC_CTYPE=") for one in given):
        del os.environ["LC_CTYPE"]


def _complain(what: str, hint: str) -> None:
    sys.stderr.write(f"holdfast: not run: {what}\n  -> {hint}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    import gc
    from marshal import loads

    gc.disable()  # it would search the modules for garbage a dozen times

    # As `gate.hook` does: load all modules from one file, if it exists and is current.
    gate = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path.insert(0, gate.removesuffix("/holdfast/gate"))
    try:
        name = f"{gate}/__pycache__/prefixed.{sys.implementation.cache_tag}.bundle"
        file = open(name, "rb", 0)  # noqa: SIM115 - it stays open: more may be read later
        code, *parts = loads(file.read(int(file.read(8))))
        names: dict = {"__name__": "holdfast.gate.door.unbundle"}  # type: ignore[type-arg]
        exec(code, names)
        names["use"](file, gate, *parts)
    except Exception:  # then the modules are imported as usual
        pass
    sys.exit(main(sys.argv[1:]))
