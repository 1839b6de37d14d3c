"""A throw-away repository in which another live process holds a file.

It has a ledger of its own and the settings of the real one, except that no hook waits before it
refuses. Each program that is started here runs in a session of its own, so that one that does not
end in time can be ended with all that it started.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile

from holdfast.core.errors import StoreError
from holdfast.core.model import Holder, agent_key
from holdfast.gate.doctor.client_rules import Ran
from holdfast.gate.git.git_files import outside
from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.ledger_location import own_store
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import witness_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from holdfast.gate.config.settings import Settings

#: How long anything may take here, even if a client would wait longer.
PATIENCE_SECONDS = 20.0
_KILL_SECONDS = 5.0

HELD, FREE, BOXED = "held.txt", "free.txt", "boxed.txt"
MINE, THEIRS = "the owner's\n", "another agent's\n"
_OWNER = "doctor-owner"
#: The caller may be an agent, or run for one; its variables must not identify what we start.
_LEAKS = ("HOLDFAST_", "CLAUDE", "CODEX_")
_GIT_ENV = {
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "doctor", "GIT_AUTHOR_EMAIL": "doctor@localhost",
    "GIT_COMMITTER_NAME": "doctor", "GIT_COMMITTER_EMAIL": "doctor@localhost",
}  # fmt: skip


class Scene:
    """A context manager: the repository and the owner of its lock are gone afterwards."""

    def __init__(
        self, environ: Mapping[str, str], settings: Settings, patience_seconds: float
    ) -> None:
        self.patience_seconds = patience_seconds
        self.settings = settings
        self.folder = ""
        self._environ = environ
        self._owner: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="holdfast-doctor-"))
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._owner is not None:
            self._owner.kill()
            self._owner.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _build(self) -> None:
        self.root, self.broken = f"{self.folder}/repository", f"{self.folder}/broken"
        for root in (self.root, self.broken):
            os.mkdir(root)
            for name in (HELD, FREE, BOXED):
                self.put(f"{root}/{name}", MINE)
            # No hook waits that long, so each refuses immediately.
            never = "retry_seconds = 86400\nhold_seconds = 0\n"
            shell = f'shell = "{self.settings.shell}"\n'
            self.put(f"{root}/holdfast.toml", f"[gate]\n{never}{shell}")
        os.mkdir(f"{self.folder}/tmp")
        os.mkdir(f"{self.broken}/{LEDGER_FOLDER}")
        self.put(f"{self.broken}/{LEDGER_FOLDER}/ledger.db", "this is no ledger\n" * 500)
        self._owner = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        holder = Holder(
            id=f"claude:{_OWNER}", key=agent_key("claude", _OWNER),
            witness=witness_of(self._owner.pid), client="claude", session=_OWNER,
        )  # fmt: skip
        os.mkdir(f"{self.root}/{LEDGER_FOLDER}")
        with LockManager.open(own_store(self.root)) as manager:
            held = [f"{self.root}/{HELD}"]
            if manager.try_acquire(holder=holder, write_paths=held, ttl=None) is None:
                raise StoreError("a new ledger refused its first lock", hint="try again")

    @staticmethod
    def put(path: str, text: str) -> None:
        """Write a file of the scene."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def text(self, name: str) -> str:
        """The text of a file of the repository; empty if it is gone."""
        try:
            with open(f"{self.root}/{name}", encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of the programs that are started here."""
        kept = {
            name: text for name, text in self._environ.items() if not name.startswith(_LEAKS)
        }  # fmt: skip
        return {**outside(kept), "TMPDIR": f"{self.folder}/tmp", **more}

    def run(
        self,
        words: Sequence[str],
        *,
        told: str = "",
        cwd: str = "",
        seconds: float = 0,
        env: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run a program until it ends or its time is up."""
        most = self.patience_seconds
        limit = min(seconds, most) if seconds > 0 else most
        try:
            process = subprocess.Popen(
                list(words), cwd=cwd or self.root, env=dict(env or self.environment()),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True, encoding="utf-8", errors="replace", start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return Ran(127, "", error.strerror or type(error).__name__)
        try:
            out, err = process.communicate(told, timeout=limit)
            return Ran(process.returncode, out, err)
        except subprocess.TimeoutExpired:
            return Ran(-1, "", "", late=True, seconds=limit)
        finally:
            if process.returncode is None:
                end(process)

    def git(self, *words: str) -> Ran:
        """Run git in the repository, with nothing of the user's settings."""
        return self.run(["git", *words], env=self.environment(**_GIT_ENV))


def end(process: subprocess.Popen[str]) -> None:
    """End a process that was not waited for yet, with its whole session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            try:
                stream.close()
            except OSError:
                continue
    try:
        process.wait(_KILL_SECONDS)
    except subprocess.TimeoutExpired:  # stuck in the kernel, and no concern of ours
        return
