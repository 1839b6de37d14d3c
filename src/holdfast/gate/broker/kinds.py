"""What a path is to the broker: outside, the ledger's, git's own, ignored, or a file to be leased.

Ignored files and the caches of tools belong to every command that runs: they are written without a
lease, unless another holder has locked them. What git tracks is leased whatever it is called. Git
is asked once which files it tracks; about all others it is asked one by one, by a process that
stays, for each checkout.
"""

from __future__ import annotations

import os
import select
import subprocess
from time import monotonic

from holdfast.gate.broker.where import LEASED, PASSING
from holdfast.gate.gitfiles import outside
from holdfast.gate.guard.asking import GIT_SECONDS, Git
from holdfast.gate.guard.caches import is_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.broker.where import Where

_IGNORING = ".gitignore"
_FIELDS = 4  # where the pattern stands, its line, the pattern, the path
_ANSWER_BYTES = 65_536


class Kinds:
    """Of one repository with all its checkouts. Close it."""

    __slots__ = ("_asked", "_tracked", "_where", "rough")

    def __init__(self, where: Where) -> None:
        self._where = where
        #: The same as `of` without asking git: PASSING is LEASED here.
        self.rough = where.of
        self._tracked: dict[str, frozenset[str]] = {}
        self._asked: dict[str, _Ignored] = {}

    def of(self, path: str) -> str:
        """What a real path is; git is asked for this, so only where it has to be known."""
        found, checkout, inner = self.rough(path)
        if found != LEASED:
            return found
        tracked = self._tracked.get(checkout)
        if tracked is None:
            tracked = self._tracked[checkout] = _tracked(checkout)
        if inner in tracked:
            return LEASED
        return PASSING if is_cache(inner) or self._is_ignored(checkout, inner) else LEASED

    def _is_ignored(self, checkout: str, inner: str) -> bool:
        asked = self._asked.get(checkout)
        if asked is None:
            asked = self._asked[checkout] = _Ignored(checkout)
        return asked.is_ignored(inner)

    def is_in_git(self, path: str) -> bool:
        """Whether git's index, or the last commit, has a file now."""
        _kind, checkout, inner = self.rough(path)
        git = Git(checkout, monotonic() + GIT_SECONDS)
        return bool(
            git.ask("--literal-pathspecs", "ls-files", "-z", "--", inner)
            or git.ask("--literal-pathspecs", "ls-tree", "-z", "HEAD", "--", inner)
        )

    def note_changed(self, path: str) -> None:
        """A file is about to be written: one that says what is ignored is looked at again."""
        if path.endswith(f"/{_IGNORING}"):
            for asked in self._asked.values():
                asked.watch(path)

    def helpers(self) -> set[int]:
        """The processes of git that are asked."""
        return {pid for asked in self._asked.values() if (pid := asked.pid)}

    def close(self) -> None:
        for asked in self._asked.values():
            asked.close()


def _tracked(checkout: str) -> frozenset[str]:
    names = Git(checkout, monotonic() + GIT_SECONDS).names("ls-files", "-z")
    return frozenset(names or ())


class _Ignored:
    """git, which is asked about one path after the other."""

    __slots__ = ("_checkout", "_git", "_known", "_watched")

    def __init__(self, checkout: str) -> None:
        self._checkout = checkout
        self._git: subprocess.Popen[bytes] | None = None
        #: Folders, which are ignored with all that is in them, or not.
        self._known: dict[str, bool] = {}
        #: The files that say what is ignored, as they were when git was started.
        self._watched: dict[str, tuple[int, int] | None] = {}

    @property
    def pid(self) -> int:
        return 0 if self._git is None else self._git.pid

    def watch(self, path: str) -> None:
        self._watched[path] = ()  # type: ignore[assignment]  # like nothing that can be found

    def is_ignored(self, inner: str) -> bool:
        if any(_signature(path) != known for path, known in self._watched.items()):
            self.close()
        folder = os.path.dirname(inner)
        if folder and self._is_folder_ignored(folder):
            return True
        return self._ask(inner)

    def _is_folder_ignored(self, folder: str) -> bool:
        known = self._known.get(folder)
        if known is None:
            above = os.path.dirname(folder)  # what is in an ignored one is ignored whatever it is
            known = bool(above) and self._is_folder_ignored(above)
            known = self._known[folder] = known or self._ask(f"{folder}/")
        return known

    def _ask(self, inner: str) -> bool:
        git = self._started()
        if git is None or git.stdin is None or git.stdout is None:
            return False
        try:
            os.write(git.stdin.fileno(), os.fsencode(inner) + b"\0")
            answer = b""
            while answer.count(b"\0") < _FIELDS:
                if not select.select([git.stdout], [], [], GIT_SECONDS)[0]:
                    raise TimeoutError
                some = os.read(git.stdout.fileno(), _ANSWER_BYTES)
                if not some:
                    raise BrokenPipeError
                answer += some
        except OSError:
            self.close()  # such as a path in a submodule, at which git gives up
            return False
        pattern = answer.split(b"\0")[2]
        return bool(pattern) and not pattern.startswith(b"!")

    def _started(self) -> subprocess.Popen[bytes] | None:
        if self._git is None:
            words = ["git", "-C", self._checkout, "check-ignore", "-z", "--stdin", "-v", "-n"]
            self._watched = {path: _signature(path) for path in self._watched}
            try:
                self._git = subprocess.Popen(
                    words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL, env=outside(), bufsize=0, start_new_session=True,
                )  # fmt: skip
            except OSError:
                return None
        return self._git

    def close(self) -> None:
        git, self._git = self._git, None
        self._known.clear()
        if git is not None:
            if git.stdin is not None:
                git.stdin.close()
            if git.stdout is not None:
                git.stdout.close()
            git.kill()
            git.wait()


def _signature(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
