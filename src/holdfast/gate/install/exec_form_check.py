"""Whether the installed Claude Code supports the form in which our hooks are written.

This is tested, not derived from the version: the program runs once in an empty folder with a hook
in exec form that leaves a mark and fails, with `onFailure: block`. If the form is supported the
mark is there; if the failure blocks, the client ends without calling its model. The model is a
local socket, and the client reads none of the user's files: home and settings are empty.

This shows that a failing hook blocks a prompt. That it blocks an edit in the same way is shown by
the tests with the real client.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from select import select
from socket import create_server
from time import monotonic

from holdfast.core.model import Value
from holdfast.gate.install import hook_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from socket import socket
    from typing import Final

PROGRAM = "claude"
#: It takes a second; a machine may have other things to do.
PATIENCE_SECONDS = 30.0
_MODEL = b"POST /v1/messages"
_UPDATE = "update Claude Code: claude update"


class Obeyed(Value):
    """The result of the test. `why` is the reason if there is no result."""

    __slots__ = ("blocks", "exec_form", "program", "why")

    def __init__(
        self, program: str, *, exec_form: bool = False, blocks: bool = False, why: str = ""
    ) -> None:
        self.program: Final = program
        self.exec_form: Final = exec_form
        self.blocks: Final = blocks
        self.why: Final = why

    @property
    def problem(self) -> str:
        """The problem as a sentence for the user; empty if there is none."""
        if self.why:
            return ""
        if not self.exec_form:
            return f'{self.program} does not know hooks in exec form ("args"), so none would run'
        if not self.blocks:
            return (
                f'{self.program} does not obey "onFailure", so edits pass if their hook is '
                "missing, is killed or is late"
            )
        return ""

    @property
    def fix(self) -> str:
        """The step that solves the problem."""
        return _UPDATE


def tried(environ: Mapping[str, str]) -> Obeyed | None:
    """The result for the Claude Code on the path; None if there is none."""
    program = shutil.which(PROGRAM, path=environ.get("PATH"))
    if program is None:
        return None
    folder = tempfile.mkdtemp(prefix="holdfast-try-")
    try:
        with create_server(("127.0.0.1", 0)) as model:
            return _tried(os.path.abspath(program), os.path.realpath(folder), model, environ)
    except OSError as error:
        return Obeyed(program, why=f"it could not be tested: {error.strerror or error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tried(program: str, folder: str, model: socket, environ: Mapping[str, str]) -> Obeyed:
    mark = f"{folder}/mark"
    hook = {
        "type": "command",
        "command": "/bin/sh",
        hook_entries.ARGUMENTS: ["-c", 'echo > "$0"; exit 1', mark],
        hook_entries.ON_FAILURE: hook_entries.BLOCK,
    }
    os.mkdir(f"{folder}/.claude")
    with open(f"{folder}/.claude/settings.json", "w", encoding="utf-8") as file:
        json.dump({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}, file)
    process = subprocess.Popen(
        [program, "-p", "holdfast tries whether a failing hook blocks this prompt"],
        cwd=folder, env=_environment(folder, model.getsockname()[1], environ),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        asked = _asks_model(process, model)
    finally:
        _end(process)
    left_mark = os.path.exists(mark)
    if asked is None:
        return Obeyed(program, why=f"{program} -p did not end within {PATIENCE_SECONDS:g} s")
    if not asked and not left_mark:
        return Obeyed(program, why=f"{program} -p ended with {process.returncode} and ran no hook")
    return Obeyed(program, exec_form=left_mark, blocks=left_mark and not asked)


def _environment(folder: str, port: int, environ: Mapping[str, str]) -> dict[str, str]:
    return {
        "PATH": environ.get("PATH", os.defpath),
        "HOME": folder,
        "TMPDIR": folder,
        "CLAUDE_CONFIG_DIR": f"{folder}/config",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": "none",
        "NO_PROXY": "127.0.0.1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }


def _asks_model(process: subprocess.Popen[bytes], model: socket) -> bool | None:
    """Whether a client calls its model before it ends; None if it does neither in time."""
    deadline = monotonic() + PATIENCE_SECONDS
    while monotonic() < deadline:
        ended = process.poll() is not None
        if select([model], [], [], 0 if ended else 0.05)[0]:
            connection, _address = model.accept()
            with connection:
                connection.settimeout(1.0)
                try:
                    if connection.recv(len(_MODEL)).startswith(_MODEL):
                        return True
                    connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                except OSError:  # the client only probed the port
                    continue
        elif ended:
            return False
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
