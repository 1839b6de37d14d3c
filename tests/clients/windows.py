"""The real clients in a terminal, as a person has them, against the same scripted servers.

They draw in pieces, and leave out what is already on the screen: a test can search only for text
that was not there before, and whitespace does not count.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from helpers_processes import PATIENCE_SECONDS, until

from . import drive
from .install import program
from .servers import AnthropicServer, OpenAIServer

ENTER, ESCAPE = "\r", "\x1b"
#: Clears the line that is being typed.
CLEAR = "\x15"

_CONTROL = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b.|\s")
#: Requests to a terminal, and its answers.
_ANSWERS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;c"}
ROWS, COLUMNS = 50, 160
#: Within this time after other keys Codex takes an Enter for a line break.
PASTE_SECONDS = 0.5
#: After this time, typed text that is not shown is typed once more.
TYPED_SECONDS = 8.0


class Window:
    """A client in a terminal of its own."""

    def __init__(
        self, words: Sequence[str], repo: Path, env: Mapping[str, str], ready: str
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            [shutil.which("setsid") or "", "--ctty", *words],  # setsid executes the client
            cwd=repo,
            env={**env, "TERM": "xterm-256color"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self._drawn = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._ready = ready

    def __enter__(self) -> Self:
        try:
            self.shows(self._ready)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *trouble: object) -> None:
        self.close()

    def close(self) -> None:
        """End it immediately."""
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                some = os.read(self._master, 1 << 16)
            except OSError:  # the client has ended
                return
            for question, answer in _ANSWERS.items():
                if question in some:
                    os.write(self._master, answer)
            self._drawn += some

    def press(self, keys: str) -> None:
        """Press keys, all in one write."""
        os.write(self._master, keys.encode())

    def enter(self, prompt: str) -> None:
        """Type a prompt, and send it a moment later: an Enter right after it counts as pasted. A
        client that is drawing itself for the first time may discard what was typed."""
        for is_last in (False, False, True):
            seen = len(self._drawn)
            self.press(prompt)
            try:
                self.shows(prompt, seen, PATIENCE_SECONDS if is_last else TYPED_SECONDS)
                break
            except AssertionError:
                if is_last:
                    raise
                self.press(CLEAR)
        time.sleep(PASTE_SECONDS)
        self.press(ENTER)

    def shows(self, text: str, since: int = 0, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until a text was drawn."""
        wanted = "".join(text.split()).encode()
        until(
            lambda: wanted in _CONTROL.sub(b"", self._drawn[since:]),
            f"the client shows {text!r}",
            seconds,
        )


def open_claude(
    repo: Path,
    server: AnthropicServer,
    home: Path,
    settings: Mapping[str, Any] | None = None,
    before: Sequence[str] = (),
) -> Window:
    """Claude Code, past all the questions of its first start; `settings` goes to the project's
    settings file, `before` is the command line of another program that starts it."""
    if settings is not None:
        drive.write_json(repo / ".claude" / "settings.json", settings)
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
        "projects": {str(repo): {"hasTrustDialogAccepted": True}},
    }
    drive.write_json(home / "claude" / ".claude.json", known)
    words = [*before, str(program("claude")), "--permission-mode", "acceptEdits"]
    return Window(words, repo, drive.claude_environment(home, server), "shift+tab to cycle")


def open_codex(
    repo: Path,
    server: OpenAIServer,
    home: Path,
    hooks: Mapping[str, Any] | None = None,
    before: Sequence[str] = (),
) -> Window:
    """Codex, whose hooks run without the user's trust; `hooks` goes to the project's hooks file,
    `before` is the command line of another program that starts it."""
    home.mkdir()
    if hooks is not None:
        drive.write_json(repo / ".codex" / "hooks.json", hooks)
    drive.write_codex_config(home, repo)
    options = drive.codex_options(server, drive.CODEX_CODE_MODEL)
    words = [*before, str(program("codex")), *options, "--ask-for-approval", "never"]
    return Window(words, repo, drive.codex_environment(home), "permissions: YOLO mode")
