"""Repairs git's hooks if they were changed after `init`, and finds commits made without them.

Hook managers rewrite git's hooks (husky at each `npm install`, `pre-commit install`, lefthook,
simple-git-hooks), and so may a person or a program. The next event of any agent notices that
(`hook_watch`), puts ours in front again and tells the user; a problem that cannot be repaired is
reported.

A commit that no hook of ours saw is found in the log of HEAD. It frees the files in it that their
owner had changed and that are clean now. The committer is unknown, and does not matter for these:
that work is committed.

What this does not promise: to find commits of a git that keeps no such log
(`core.logAllRefUpdates=false`, reftable).
"""

from __future__ import annotations

import os
from time import sleep, time_ns

from holdfast.core.file_times import TICK_NS, is_settled
from holdfast.core.model import Value
from holdfast.gate.git import hook_folder, hook_watch
from holdfast.gate.git.git_files import GitError, changed_by
from holdfast.manager.files.replace_file import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

    from holdfast.gate.git.hook_folder import Folders

#: Longer than any log between two events; of a longer one only the end is read.
_LOG_BYTES_MAX = 256 * 1024
#: The log's words for moves of HEAD that are not commits made here.
_MOVES = ("checkout", "reset", "clone", "branch", "fetch", "Branch", "switch")
#: The folder in which git keeps its linked worktrees' data.
_WORKTREES = "worktrees"
_PHASES = ("(start)", "(finish)", "(abort)")


class Known(Value):
    """The recorded state: the length of each log of HEAD, the command that the hooks run, and a
    problem that could not be repaired."""

    __slots__ = ("logs", "problem", "words")

    def __init__(self, logs: Mapping[str, str], words: Sequence[str], problem: str = "") -> None:
        self.logs: Final = dict(logs)
        self.words: Final = tuple(words)
        self.problem: Final = problem


def begin(at: Folders, words: Sequence[str]) -> None:
    """Watch the hooks from their present state, and the logs from their ends. Only if the
    repository has a ledger of its own."""
    root = _ledger(at)
    if root:
        known = _known(root)
        _write(root, at, Known({**_logs(at), **(known.logs if known else {})}, words))


def end(at: Folders) -> None:
    """Stop watching."""
    root = _ledger(at)
    if root:
        try:
            os.unlink(f"{root}/{hook_watch.FILE}")
        except FileNotFoundError:
            return


def look(root: str) -> str:
    """Repair what changed, and note commits; the message to the user, if any."""
    with _Alone(root) as is_alone:
        known = _known(root)
        if not is_alone or known is None:
            return ""
        words = _words(known)
        try:
            logs = _logs(hook_folder.folders(root))
            told, problem = _repair(root, words)
            for log in logs:
                _free_committed(_checkout(root, log), log, known)
            _write(root, hook_folder.folders(root), Known(logs, words, problem))
        except (GitError, OSError) as error:
            what = error.message if isinstance(error, GitError) else str(error)
            return f"holdfast: git's hooks cannot be checked: {what}"
    return f"holdfast: {told or problem}" if told or problem else ""


def commit_was_seen(root: str) -> None:
    """After a hook of ours has freed the files of the last commit: free those of earlier commits
    that no hook saw, and mark this one as handled."""
    from holdfast.manager.files.paths import find_root

    ledger = find_root(root)
    known = _known(ledger) if ledger else None
    log = f"{hook_folder.folders(root).git}{hook_watch.LOG}"
    if ledger is None or known is None or log not in known.logs:
        return
    seen = hook_watch.stamps(log)
    _free_committed(root, log, known, but_last=True)
    paths, stamps, rest = hook_watch.read(ledger).split("\n", 2)
    now = dict(zip(paths.split("\t"), stamps.split("\t"), strict=True)) | {log: seen}
    _replace(ledger, "\n".join(("\t".join(now), "\t".join(now.values()), rest)))


# The hooks


def _repair(root: str, words: Sequence[str]) -> tuple[str, str]:
    """What was repaired, in words, or why it could not be."""
    from holdfast.gate.git import git_hooks
    from holdfast.gate.install import git_part

    try:
        wrong = git_part.problems(root, words)
        if not wrong:
            return "", ""
        git_hooks.install(root, words=words)
    except (GitError, OSError) as error:
        what, then = str(error), ""
        if isinstance(error, GitError):
            what, then = error.message, f" -> {error.hint}." if error.hint else ""
        why = f"git's hooks were changed, and cannot be repaired: {what}.{then}"
        return "", f"{why} Until then commits are not checked."
    listed = "; ".join(wrong[:3]) + (f"; and {len(wrong) - 3} more" if len(wrong) > 3 else "")
    return f"git's hooks were changed, and are in place again: {listed}", ""


def _words(known: Known) -> Sequence[str]:
    """The command that `init` gave the hooks; the present one if that is gone."""
    from holdfast.gate.git import git_hooks

    words = known.words
    is_there = len(words) > 1 and os.access(words[0], os.X_OK) and os.path.isfile(words[-1])
    return words if is_there else git_hooks.command()


def _hooks(at: Folders) -> list[str]:
    """The files that reveal a change of git's hooks. The folder stands for those that pass on."""
    from holdfast.gate.git.git_hooks import HOOKS

    hooks = (f"{at.now}/{name}" for name in HOOKS)
    own = [hook_folder.settings(at)] if at.now == at.ours else []
    places = [_users_settings(), f"{at.common}/config", f"{at.common}/{_WORKTREES}", *own]
    return [*places, at.now, *hooks]


def _users_settings() -> str:
    """The file that `git config --global` writes."""
    named = os.environ.get("GIT_CONFIG_GLOBAL")
    usual = os.path.expanduser("~/.gitconfig")
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    other = f"{folder}/git/config"
    return named or (other if os.path.exists(other) and not os.path.exists(usual) else usual)


def _ledger(at: Folders) -> str:
    """The ledger of the repository itself, not one of an enclosing repository."""
    from holdfast.manager.files.paths import find_root

    root = find_root(at.root)
    if root is None:
        return ""
    try:
        return root if root == at.root or hook_folder.folders(root).common == at.common else ""
    except GitError:
        return ""


# Commits


def _logs(at: Folders) -> dict[str, str]:
    """The logs of HEAD of all checkouts, each with its stamp."""
    try:
        names = sorted(os.listdir(f"{at.common}/{_WORKTREES}"))
    except OSError:
        names = []
    folders = [at.common, *(f"{at.common}/{_WORKTREES}/{name}" for name in names)]
    logs = [f"{folder}{hook_watch.LOG}" for folder in folders]
    return {log: hook_watch.stamps(log) for log in logs}


def _checkout(root: str, log: str) -> str:
    """The checkout that a log belongs to; empty if it does not exist."""
    folder = log.removesuffix(hook_watch.LOG)
    if os.path.basename(os.path.dirname(folder)) != _WORKTREES:
        return root
    try:
        with open(f"{folder}/gitdir", encoding="utf-8", errors="surrogateescape") as file:
            return os.path.dirname(os.path.join(folder, file.readline().rstrip("\n")))
    except OSError:
        return ""


def _free_committed(root: str, log: str, known: Known, *, but_last: bool = False) -> None:
    """Free the files of commits in a checkout that no hook of ours has seen."""
    commits = _commits_since(known.logs.get(log, hook_watch.ABSENT), log)
    if but_last and commits:
        commits.pop()  # the commit for which the hook runs
    if commits and os.path.isdir(root):
        from holdfast.gate.git.commit_check import free_unseen

        free_unseen(root, changed_by(root, list(dict.fromkeys(commits))))


def _commits_since(seen: str, log: str) -> list[str]:
    """The hashes of the commits made here since the log had a stamp. If the log was rewritten since
    then (`git gc`), only its last line counts."""
    inode, _, size = seen.partition(".")
    try:
        with open(log, "rb") as file:
            status = os.fstat(file.fileno())
            is_same = str(status.st_ino) == inode and status.st_size >= int(size)
            start = int(size) if is_same else 0
            file.seek(max(start, status.st_size - _LOG_BYTES_MAX))
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return []
    if not is_same and seen != hook_watch.ABSENT:
        lines = lines[-1:]
    return [line.split(b" ", 2)[1].decode() for line in lines if _is_commit(line)]


def _is_commit(line: bytes) -> bool:
    """Whether a line of the log is about a commit that was made here: `old new who\\twhat`."""
    who, tab, what = line.partition(b"\t")
    verb, _, how = what.decode("utf-8", "replace").partition(":")
    return (
        bool(tab and verb)
        and who.count(b" ") > 2
        and not verb.startswith(_MOVES)
        and not any(phase in verb for phase in _PHASES)
        and how.strip().lower() != "fast-forward"
    )


# The file


def _known(root: str) -> Known | None:
    text = hook_watch.read(root)
    if not text:
        return None
    paths, stamps, *lines = text.split("\n")
    fields = [line.partition("\t") for line in lines]
    words = [rest for name, _, rest in fields if name == "word"]
    problem = "".join(rest for name, _, rest in fields if name == "problem")
    files = zip(paths.split("\t"), stamps.split("\t"), strict=False)
    logs = {file: stamp for file, stamp in files if file.endswith(hook_watch.LOG)}
    return Known(logs, words, problem)


def _write(root: str, at: Folders, known: Known) -> None:
    hooks = _hooks(at)
    stamps = _settled(hooks)
    if "" in stamps:  # just written: without the wait it would have to be checked again
        sleep(TICK_NS / 1e9)
        stamps = _settled(hooks)
    paths = "\t".join([*hooks, *known.logs])
    first = "\t".join([*stamps, *known.logs.values()])
    problem = [f"problem\t{known.problem.replace(chr(10), ' ')}"] if known.problem else []
    lines = [paths, first, *problem, *(f"word\t{word}" for word in known.words), ""]
    if "\n" not in paths and paths.count("\t") == first.count("\t"):  # else nothing is watched
        _replace(root, "\n".join(lines))


def _settled(paths: list[str]) -> list[str]:
    """The stamps of files. A file that could still change without a new stamp gets none, and is
    checked again."""
    now = time_ns()
    return [
        stamp if stamp == hook_watch.ABSENT or is_settled(int(stamp), now) else ""
        for stamp in hook_watch.stamps("\t".join(paths)).split("\t")
    ]


def _replace(root: str, text: str) -> None:
    replace_file(f"{root}/{hook_watch.FILE}", text.encode("utf-8", "surrogateescape"))


class _Alone:
    """Whether no other process is doing the same: if one is, it does the work."""

    def __init__(self, root: str) -> None:
        self._file = f"{root}/{hook_watch.FILE}"
        self._descriptor = -1

    def __enter__(self) -> bool:
        import fcntl

        try:
            self._descriptor = os.open(self._file, os.O_RDONLY)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def __exit__(self, *_error: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
