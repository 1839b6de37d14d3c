"""The kind of a path: outside, the ledger's, git's own, ignored, or a file to lease.

Ignored files and the caches of tools are shared by all commands: they are written without a lease,
unless another holder has locked them. Tracked files are leased whatever their names are.

While a task changes a `.gitignore`, only files that existed and were ignored before count as
ignored (`freeze`): otherwise the task could decide which files it need not lease.

In a large repository, listing the tracked files takes git long. So the first question is whether a
path is ignored; for each checkout a long-running process answers that, without reading git's index.
Only for ignored paths and caches, git is asked which of them it tracks nevertheless: once for each
folder.
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
    from holdfast.gate.broker.places.path_zones import PathZones

_IGNORING = ".gitignore"
_FIELDS = 4  # the file of the pattern, its line, the pattern, the path
_ANSWER_BYTES = 65_536
_SUBMODULE = b"160000 "
_KILLED = 9


class PathKinds:
    """The kinds of paths in one repository with all its checkouts. Close it."""

    __slots__ = ("_asked", "_tracked", "_zones", "frozen", "rough")

    def __init__(self, zones: PathZones) -> None:
        self._zones = zones
        #: The same as `of` without asking git: LEASED instead of PASSING.
        self.rough = zones.of
        #: The tracked files among those that are ignored or caches, by checkout and pattern.
        self._tracked: dict[tuple[str, str], frozenset[str]] = {}
        self._asked: dict[str, _Ignored] = {}
        #: All paths that count as ignored from now on, by checkout; a folder ends with a slash.
        self.frozen: dict[str, frozenset[str]] = {}

    def of(self, path: str) -> str:
        """The kind of a real path. This asks git, so call it only where that matters."""
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
        """Whether git tracks a file. `folder` is the one around it that is ignored as a whole;
        empty if the file is ignored by its own name."""
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
        """A file is about to be written: a `.gitignore` will be read again."""
        if path.endswith(f"/{_IGNORING}"):
            for asked in self._asked.values():
                asked.watch(path)

    def freeze(self, path: str) -> None:
        """A task is about to change a file: if it is a `.gitignore`, freeze the ignored paths."""
        _kind, checkout, _inner = self.rough(path)
        if os.path.basename(path) != _IGNORING or checkout in self.frozen:
            return
        git = Git(checkout, monotonic() + GIT_SECONDS)
        names = git.names("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory") or ()
        ignored = self._ignored(checkout)
        # A folder whose present content is all ignored need not be ignored itself.
        self.frozen[checkout] = frozenset(
            name for name in names
            if not name.endswith("/") or ignored.has_folder(name[:-1])
        )  # fmt: skip

    def helpers(self) -> set[int]:
        """The long-running processes of git."""
        return {pid for asked in self._asked.values() if (pid := asked.pid)}

    def close(self) -> None:
        for asked in self._asked.values():
            asked.close()


class _Frozen:
    """The ignored paths of a checkout, where all are known."""

    __slots__ = ("_known",)

    def __init__(self, known: frozenset[str]) -> None:
        self._known = known

    def folder_of(self, inner: str) -> str:
        """The outermost ignored folder around a path; empty if there is none."""
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
    """The pattern for everything below a folder."""
    return f":(top,literal){folder}"


def _files_of(folder: str) -> str:
    """The pattern for the files directly in a folder."""
    named = "".join(f"\\{mark}" if mark in "\\*?[" else mark for mark in folder)
    return f":(top,glob){named}/*" if folder else ":(top,glob)*"


class _Ignored:
    """A git process that is asked about one path after the other."""

    __slots__ = ("_checkout", "_git", "_known", "_submodules", "_watched")

    def __init__(self, checkout: str) -> None:
        self._checkout = checkout
        self._git: _Process | None = None
        #: Whether each folder is ignored with everything in it.
        self._known: dict[str, bool] = {}
        self._submodules: dict[str, bool] = {}
        #: The `.gitignore` files that were written, as they were when git was started.
        self._watched: dict[str, tuple[int, int] | None] = {}

    @property
    def pid(self) -> int:
        return 0 if self._git is None else self._git.pid

    def watch(self, path: str) -> None:
        self._watched[path] = ()  # type: ignore[assignment]  # equal to no signature

    def folder_of(self, inner: str) -> str:
        """The outermost folder around a path that is ignored with everything in it; empty if there
        is none."""
        self._look_again()
        at = inner.find("/")
        while at >= 0:
            if self._is_folder_ignored(inner[:at]):
                return inner[:at]
            at = inner.find("/", at + 1)
        return ""

    def has_folder(self, folder: str) -> bool:
        """Whether a folder is ignored with everything in it."""
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
        """Whether a folder is a submodule or in one, which has its own ignore rules."""
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
            self.close()  # such as a path on which git gives up
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
    """A program with pipes for questions and answers. Not `subprocess`: the first write of a
    command would wait for its import."""

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
            pass  # it has ended, and was reaped with all other children


def _signature(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
