"""Questions to git with a time limit: no answer means that the result is unknown, not an error."""

from __future__ import annotations

import os
import sys
from time import monotonic

from holdfast.gate.git.git_files import outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: All questions around one command together take no longer than this.
GIT_SECONDS = 10.0
#: More than this is not read: so long an answer is not a list of files that agents hold.
ANSWER_BYTES_MAX = 64 << 20
#: Input up to this size is sure to fit into a pipe.
INPUT_BYTES_MAX = 1 << 16

DIFF = (
    "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
    "--ignore-submodules=all",
)  # fmt: skip


class Git:
    """git in one folder, up to a deadline."""

    __slots__ = ("_end", "_env", "folder")

    def __init__(self, folder: str, end: float) -> None:
        self.folder = folder
        self._end = end
        self._env = {**outside(), "GIT_TERMINAL_PROMPT": "0"}

    def at(self, folder: str) -> Git:
        """The same for another folder."""
        return Git(folder, self._end)

    def ask(self, *words: str, input: bytes = b"", codes: tuple[int, ...] = (0,)) -> bytes | None:
        """Its answer, or None if it fails, takes too long, or is not installed."""
        argv = ["git", "-C", self.folder, "-c", "core.quotePath=false", *words]
        try:
            code, answer = _run(argv, self._env, input, self._end)
        except OSError:
            return None
        return answer if code in codes else None

    def line(self, *words: str) -> str | None:
        """An answer of one line."""
        answer = self.ask(*words)
        return os.fsdecode(answer.removesuffix(b"\n")) or None if answer else None

    def names(self, *words: str) -> set[str] | None:
        """An answer of names with zero bytes between them."""
        answer = self.ask(*words)
        return None if answer is None else names_of(answer)

    def commit(self, name: str) -> str | None:
        """The commit that a name means, or None."""
        if not name or name.startswith("-"):
            return None
        return self.line("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")


def names_of(answer: bytes) -> set[str]:
    return {os.fsdecode(name) for name in answer.split(b"\0") if name}


def ignored(git: Git, paths: Iterable[str]) -> set[str]:
    """Those of some paths that git ignores; none if that is unknown."""
    given = b"".join(os.fsencode(path) + b"\0" for path in paths)
    answer = git.ask("check-ignore", "-z", "--stdin", input=given, codes=(0, 1))
    return names_of(answer) if answer else set()


def _run(argv: list[str], env: dict[str, str], input: bytes, end: float) -> tuple[int, bytes]:
    """Exit code and output. Avoids the standard library's `subprocess` where possible: importing
    it takes longer than git."""
    if end <= monotonic():
        return -1, b""
    if sys.platform == "win32" or not hasattr(os, "posix_spawnp"):
        import subprocess

        try:
            done = subprocess.run(
                argv, env=env, input=input, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                check=False, timeout=end - monotonic(),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return -1, b""
        return done.returncode, done.stdout
    return _spawned(argv, env, input, end)


def _spawned(argv: list[str], env: dict[str, str], input: bytes, end: float) -> tuple[int, bytes]:
    given = _fed(input)
    out, into = os.pipe()
    try:
        pid = os.posix_spawnp(
            argv[0], argv, env, setpgroup=0,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, given, 0),
                (os.POSIX_SPAWN_DUP2, into, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
        )  # fmt: skip
    except OSError:
        os.close(out)
        raise
    finally:
        os.close(into)
        os.close(given)
    try:
        answer = _read(out, end)
    finally:
        os.close(out)
    if answer is None:
        try:
            os.killpg(pid, 9)
        except OSError:
            pass
    _pid, status = os.waitpid(pid, 0)
    return (-1, b"") if answer is None else (os.waitstatus_to_exitcode(status), answer)


def _fed(input: bytes) -> int:
    """A descriptor from which the input can be read. The input must fit into a pipe."""
    if not input:
        return os.open(os.devnull, os.O_RDONLY)
    source, into = os.pipe()
    try:
        os.set_blocking(into, False)
        if len(input) > INPUT_BYTES_MAX or os.write(into, input) < len(input):
            raise BlockingIOError
    except OSError:
        os.close(source)
        raise
    finally:
        os.close(into)
    return source


def _read(descriptor: int, end: float) -> bytes | None:
    """Everything up to the end of the pipe; None if that takes too long or is too much."""
    from select import POLLIN, poll

    ready = poll()
    ready.register(descriptor, POLLIN)
    parts: list[bytes] = []
    size = 0
    while (left := end - monotonic()) > 0 and size <= ANSWER_BYTES_MAX:
        if not ready.poll(left * 1000):
            return None
        part = os.read(descriptor, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    return None
