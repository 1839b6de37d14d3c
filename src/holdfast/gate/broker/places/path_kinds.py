"""What a path is to the broker: outside, the ledger's, git's own, ignored, or a file to be leased.

Ignored files and the caches of tools belong to every command that runs: they are written without a
lease, unless another holder has locked them. What git tracks is leased whatever it is called.

While a task changes a `.gitignore`, what counts as ignored is what was there and was ignored before
(`freeze`): otherwise the task could say by itself which files it need not lease.

In a large repository git needs long to say which files it tracks. So it is asked first what is
ignored, by a process that stays, for each checkout, and does not read git's index. Only of what is
ignored, or a cache, it is asked what of that it tracks nevertheless: once for each folder.
"""

from __future__ import annotations

import os
import select
from time import monotonic

from holdfast.gate.broker.places.path_zones import LEASED, PASSING
from holdfast.gate.git.git_files import outside
from holdfast.gate.guard.git_queries import GIT_SECONDS, Git
from holdfast.gate.guard.tool_caches import cache_folder, is_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.broker.places.path_zones import Where

_IGNORING = ".gitignore"
_FIELDS = 4  # where the pattern stands, its line, the pattern, the path
_ANSWER_BYTES = 65_536
_SUBMODULE = b"160000 "
_KILLED = 9


class Kinds:
    """Of one repository with all its checkouts. Close it."""

    __slots__ = ("_asked", "_tracked", "_where", "frozen", "rough")

    def __init__(self, where: Where) -> None:
        self._where = where
        #: The same as `of` without asking git: PASSING is LEASED here.
        self.rough = where.of
        #: What git tracks of what is ignored or a cache: by checkout and pattern.
        self._tracked: dict[tuple[str, str], frozenset[str]] = {}
        self._asked: dict[str, _Ignored] = {}
        #: All that counts as ignored from now on, by checkout; a folder has a slash at its end.
        self.frozen: dict[str, frozenset[str]] = {}

    def of(self, path: str) -> str:
        """What a real path is; git is asked for this, so only where it has to be known."""
        found, checkout, inner = self.rough(path)
        if found != LEASED:
            return found
        folder = cache_folder(inner)
        if not folder and not is_cache(inner):
            known = self.frozen.get(checkout)
            ignored = self._ignored(checkout) if known is None else _Frozen(known)
            folder = ignored.folder_of(inner)
            if not folder and not ignored.is_ignored(inner):
                return LEASED
        return LEASED if self._is_tracked(checkout, folder, inner) else PASSING

    def _ignored(self, checkout: str) -> _Ignored:
        asked = self._asked.get(checkout)
        if asked is None:
            asked = self._asked[checkout] = _Ignored(checkout)
        return asked

    def _is_tracked(self, checkout: str, folder: str, inner: str) -> bool:
        """Whether git tracks a file, which is in a folder that passes as a whole, or (if that is
        empty) passes for its own name."""
        above = os.path.dirname(inner)
        pattern = _everything_in(folder) if folder else _files_of(above)
        tracked = self._tracked.get((checkout, pattern))
        if tracked is None:
            git = Git(checkout, monotonic() + GIT_SECONDS)
            names = git.names("ls-files", "-z", "--", pattern)
            tracked = self._tracked[checkout, pattern] = frozenset(names or ())
        return inner in tracked

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

    def freeze(self, path: str) -> None:
        """A task is about to change a file, which may say what is ignored in its checkout."""
        _kind, checkout, _inner = self.rough(path)
        if os.path.basename(path) != _IGNORING or checkout in self.frozen:
            return
        git = Git(checkout, monotonic() + GIT_SECONDS)
        names = git.names("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory") or ()
        ignored = self._ignored(checkout)
        # A folder in which all that is there is ignored need not be ignored itself.
        self.frozen[checkout] = frozenset(
            name for name in names
            if not name.endswith("/") or ignored.has_folder(name[:-1])
        )  # fmt: skip

    def helpers(self) -> set[int]:
        """The processes of git that are asked."""
        return {pid for asked in self._asked.values() if (pid := asked.pid)}

    def close(self) -> None:
        for asked in self._asked.values():
            asked.close()


class _Frozen:
    """What is ignored, where that is known as a whole."""

    __slots__ = ("_known",)

    def __init__(self, known: frozenset[str]) -> None:
        self._known = known

    def folder_of(self, inner: str) -> str:
        """The outermost folder around a path that is ignored; empty if none is."""
        at = inner.find("/")
        while at >= 0:
            if inner[: at + 1] in self._known:
                return inner[:at]
            at = inner.find("/", at + 1)
        return ""

    def is_ignored(self, inner: str) -> bool:
        """Whether a path is ignored that is in no ignored folder."""
        return inner in self._known or f"{inner}/" in self._known


def _everything_in(folder: str) -> str:
    """The pattern for all that is below a folder."""
    return f":(top,literal){folder}"


def _files_of(folder: str) -> str:
    """The pattern for what is in a folder itself."""
    named = "".join(f"\\{mark}" if mark in "\\*?[" else mark for mark in folder)
    return f":(top,glob){named}/*" if folder else ":(top,glob)*"


class _Ignored:
    """git, which is asked about one path after the other."""

    __slots__ = ("_checkout", "_git", "_known", "_submodules", "_watched")

    def __init__(self, checkout: str) -> None:
        self._checkout = checkout
        self._git: _Process | None = None
        #: Folders, which are ignored with all that is in them, or not.
        self._known: dict[str, bool] = {}
        self._submodules: dict[str, bool] = {}
        #: The files that say what is ignored, as they were when git was started.
        self._watched: dict[str, tuple[int, int] | None] = {}

    @property
    def pid(self) -> int:
        return 0 if self._git is None else self._git.pid

    def watch(self, path: str) -> None:
        self._watched[path] = ()  # type: ignore[assignment]  # like nothing that can be found

    def folder_of(self, inner: str) -> str:
        """The outermost folder around a path that is ignored with all that is in it; empty if none
        is."""
        self._look_again()
        at = inner.find("/")
        while at >= 0:
            if self._is_folder_ignored(inner[:at]):
                return inner[:at]
            at = inner.find("/", at + 1)
        return ""

    def has_folder(self, folder: str) -> bool:
        """Whether a folder is ignored with all that is in it."""
        return bool(self.folder_of(f"{folder}/"))

    def is_ignored(self, inner: str) -> bool:
        """Whether a path is ignored that is in no ignored folder."""
        self._look_again()
        return not self._is_in_submodule(os.path.dirname(inner)) and self._ask(inner)

    def _look_again(self) -> None:
        if any(_signature(path) != known for path, known in self._watched.items()):
            self.close()

    def _is_folder_ignored(self, folder: str) -> bool:
        known = self._known.get(folder)
        if known is None:
            known = not self._is_in_submodule(folder) and self._ask(f"{folder}/")
            self._known[folder] = known
        return known

    def _is_in_submodule(self, folder: str) -> bool:
        """Whether a folder is a submodule or lies in one: what is ignored there, that says."""
        if not folder:
            return False
        known = self._submodules.get(folder)
        if known is None:
            known = self._is_in_submodule(os.path.dirname(folder)) or self._is_submodule(folder)
            self._submodules[folder] = known
        return known

    def _is_submodule(self, folder: str) -> bool:
        if not os.path.lexists(f"{self._checkout}/{folder}/.git"):
            return False
        git = Git(self._checkout, monotonic() + GIT_SECONDS)
        found = git.ask("--literal-pathspecs", "ls-files", "-s", "-z", "--", folder)
        return found is not None and found.startswith(_SUBMODULE)

    def _ask(self, inner: str) -> bool:
        git = self._started()
        if git is None:
            return False
        try:
            os.write(git.asked, os.fsencode(inner) + b"\0")
            answer = b""
            while answer.count(b"\0") < _FIELDS:
                if not select.select([git.answers], [], [], GIT_SECONDS)[0]:
                    raise TimeoutError
                some = os.read(git.answers, _ANSWER_BYTES)
                if not some:
                    raise BrokenPipeError
                answer += some
        except OSError:
            self.close()  # such as a path at which git gives up
            return False
        pattern = answer.split(b"\0")[2]
        return bool(pattern) and not pattern.startswith(b"!")

    def _started(self) -> _Process | None:
        if self._git is None:
            words = ["git", "-C", self._checkout, "check-ignore", "--no-index", "-z", "--stdin",
                     "-v", "-n"]  # fmt: skip
            self._watched = {path: _signature(path) for path in self._watched}
            try:
                self._git = _Process(words)
            except OSError:
                return None
        return self._git

    def close(self) -> None:
        git, self._git = self._git, None
        self._known.clear()
        if git is not None:
            git.close()


class _Process:
    """A program that is asked and answers. Without `subprocess`: the first write of a command would
    have to wait for its import."""

    __slots__ = ("answers", "asked", "pid")

    def __init__(self, words: list[str]) -> None:
        reads, self.asked = os.pipe()
        self.answers, writes = os.pipe()
        try:
            self.pid = os.posix_spawnp(
                words[0], words, outside(), setpgroup=0,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, reads, 0), (os.POSIX_SPAWN_DUP2, writes, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
            )  # fmt: skip
        except OSError:
            os.close(self.asked)
            os.close(self.answers)
            raise
        finally:
            os.close(reads)
            os.close(writes)

    def close(self) -> None:
        os.close(self.asked)
        os.close(self.answers)
        try:
            os.kill(self.pid, _KILLED)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # it has ended, and was waited for with all other children


def _signature(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
