"""Processes in /proc: our ancestors, and which of them are agents, shells or wrappers.

Names are guesses, because a program may have any name. Whether a process is alive is decided in
`holdfast.manager.owners.liveness`.
"""

from __future__ import annotations

import os

from holdfast.core.model import Witness
from holdfast.manager.owners.liveness import (
    PARENT,
    SESSION,
    START,
    STATE,
    TERMINAL,
    own_witness,
    read_stat,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: Agent clients: our name for it, its program, where its scripts are installed (for clients that
#: an interpreter runs under a name like index.js), and the variable that marks its children.
CLIENTS = (
    ("claude", "claude", "/@anthropic-ai/claude-code/", "CLAUDE_CODE_SESSION_ID"),
    ("codex", "codex", "/@openai/codex/", "CODEX_SESSION_ID"),
    ("gemini", "gemini", "/@google/gemini-cli/", ""),
    ("opencode", "opencode", "/opencode-ai/", ""),
    ("cursor", "cursor-agent", "/cursor-agent/versions/", ""),
    ("copilot", "copilot", "/@github/copilot/", ""),
    ("qwen", "qwen", "/@qwen-code/qwen-code/", ""),
    ("aider", "aider", "/site-packages/aider/", ""),
)

INTERPRETERS = ("node", "bun", "deno", "python")
SHELLS = ("sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "ash", "csh", "tcsh")
WRAPPERS = (
    "env", "sudo", "su", "doas", "runuser", "setpriv", "timeout", "nice", "ionice", "nohup",
    "setsid", "stdbuf", "xargs", "time", "script", "unshare", "nsenter", "bwrap", "login",
)  # fmt: skip
INITS = ("init", "systemd", "launchd", "tini", "dumb-init", "docker-init", "catatonit")

#: Options of shells whose next argument is their value, and not a script.
_SHELL_OPTIONS_WITH_VALUE = ("--init-file", "--rcfile", "--init-command", "-C", "-O", "+O", "+o")
_SUFFIXES = (".js", ".mjs", ".cjs", ".py", ".sh", ".exe")
_ANCESTORS_MAX = 100
PLAIN_CHARACTERS_MAX = 100


class Process:
    """One process in /proc. Facts that need a further read are read on demand."""

    __slots__ = (
        "_arguments", "_client", "_executable", "name", "parent", "pid", "session", "start",
        "terminal",
    )  # fmt: skip

    def __init__(self, pid: int, name: str, fields: list[bytes]) -> None:
        self.pid: Final = pid
        self.name: Final = plain(name)
        self.parent: Final = int(fields[PARENT])
        self.session: Final = int(fields[SESSION])
        self.terminal: Final = int(fields[TERMINAL])
        self.start: Final = int(fields[START])
        self._arguments: list[str] | None = None
        self._executable: str | None = None
        self._client: str | None = None

    @property
    def witness(self) -> Witness:
        own = own_witness()
        return Witness(
            host=own.host, boot=own.boot, namespace=own.namespace, pid=self.pid, start=self.start
        )

    @property
    def arguments(self) -> list[str]:
        """Its command line; if that is empty, its name."""
        if self._arguments is None:
            self._arguments = _command_line(self.pid) or [self.name]
        return self._arguments

    @property
    def executable(self) -> str:
        """Its executable file; empty if that is not readable."""
        if self._executable is None:
            try:
                self._executable = os.readlink(f"/proc/{self.pid}/exe").removesuffix(" (deleted)")
            except OSError:
                self._executable = ""
        return self._executable

    @property
    def programs(self) -> tuple[str, str]:
        """Its names: from its command line, and from its executable."""
        return _stem(self.arguments[0].removeprefix("-")), _stem(self.executable)

    @property
    def script(self) -> str:
        """The script that an interpreter or a shell runs; empty for other programs."""
        if self.is_shell:
            return "" if self.task == "-c" else self.task
        if any(name.rstrip("0123456789.") in INTERPRETERS for name in self.programs):
            return next((text for text in self.arguments[1:] if not text.startswith("-")), "")
        return ""

    @property
    def client(self) -> str:
        """Its agent client; empty if it is none."""
        if self._client is None:
            script = self.script
            names = (*self.programs, _stem(script))
            paths = (script, self.executable) if script else ()
            self._client = next(
                (
                    client
                    for client, program, folder, _ in CLIENTS
                    if program in names or any(folder in path for path in paths)
                ),
                "",
            )
        return self._client

    @property
    def is_shell(self) -> bool:
        return any(name in SHELLS for name in self.programs)

    @property
    def is_init(self) -> bool:
        return any(name in INITS for name in self.programs)

    @property
    def is_wrapper(self) -> bool:
        """Whether it only starts another program, as `holdfast` does too."""
        if any(name in WRAPPERS or name == "holdfast" for name in self.programs):
            return True
        return _stem(self.script) == "holdfast"  # also for `python -m holdfast`

    @property
    def is_program(self) -> bool:
        return not (self.is_shell or self.is_wrapper or self.is_init)

    @property
    def lasts(self) -> bool:
        """Whether it can own a terminal: a program, or an interactive shell."""
        return self.is_program or (self.is_shell and not self.task)

    @property
    def task(self) -> str:
        """The task of a shell: `-c`, a script, or empty if it is interactive."""
        value = False
        for argument in self.arguments[1:]:
            if value:
                value = False
            elif argument in _SHELL_OPTIONS_WITH_VALUE:
                value = True
            elif argument.startswith("--"):
                if argument.startswith("--command"):
                    return "-c"
            elif argument.startswith(("-", "+")):
                if "c" in argument:
                    return "-c"
                value = argument.endswith("o")
            else:
                return argument
        return ""


def ancestors() -> list[Process]:
    """The processes above this one, nearest first, as far as they are visible."""
    found: list[Process] = []
    process = process_of(os.getppid())
    while process is not None and len(found) < _ANCESTORS_MAX:
        found.append(process)
        process = process_of(process.parent)
    return found


def process_of(pid: int) -> Process | None:
    """One process; None if it is gone or not visible."""
    try:
        stat = read_stat(pid) if pid > 0 else None
    except OSError:
        return None
    if stat is None or stat[1][STATE] in b"ZXx":
        return None
    return Process(pid, *stat)


def _command_line(pid: int) -> list[str]:
    try:
        descriptor = os.open(f"/proc/{pid}/cmdline", os.O_RDONLY)
    except OSError:
        return []
    try:
        text = os.read(descriptor, 4096).rstrip(b"\0")
    except OSError:
        return []
    finally:
        os.close(descriptor)
    return os.fsdecode(text).split("\0") if text else []


def _stem(path: str) -> str:
    name = path[path.rfind("/") + 1 :]
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name[: -len(suffix)]
    return name


def plain(text: str) -> str:
    """The text in a form that is safe in a line of the log."""
    return "".join(c if c.isprintable() else "?" for c in text)[:PLAIN_CHARACTERS_MAX]
