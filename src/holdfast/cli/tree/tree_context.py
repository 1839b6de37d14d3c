"""The context of a `tree` command: its repository, its worktree, and its caller."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from holdfast.cli.command_context import CommandContext
from holdfast.cli.parser import Call, UsageError, duration
from holdfast.cli.printing import document, local, out, talk
from holdfast.cli.tree.tree_progress import Bar
from holdfast.core.model import SECOND
from holdfast.manager.owners import variables
from holdfast.trees import worktrees
from holdfast.trees.errors import NoTreeError, TreeAccessError
from holdfast.trees.locking.lock_records import moment
from holdfast.trees.locking.worktree_holders import Caller, caller
from holdfast.trees.progress_reports import SILENT, Progress
from holdfast.trees.repository import LEASE_SECONDS_DEFAULT, Repository
from holdfast.trees.snapshots import references
from holdfast.trees.worktrees import Worktree

TOKEN_VARIABLE = variables.TREE_TOKEN

BY_SIGNAL = 128
#: A deep tree needs two open folders for each level.
_OPEN_FILES_WANTED = 65_536


class TreeContext:
    """One call of one command."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.folder = CommandContext(call).folder
        _refuse_system()
        _allow_open_files()

    @property
    def as_json(self) -> bool:
        """Whether the answer is for other programs."""
        return self.call.flag("json")

    def repository(self) -> Repository:
        """The repository around the caller's folder."""
        return Repository.open(self.folder)

    def worktree(self) -> Worktree:
        """The worktree of `--worktree`, or the one that the caller is in."""
        repository = self.repository()
        name = self.call.text("worktree")
        found = worktrees.find(repository, name) if name else self.around(repository)
        if found is None:
            raise NoTreeError(
                "this folder is not in a worktree",
                hint="change into one, or name it: --worktree NAME; holdfast tree list shows them",
            )
        return found

    def named(self) -> Worktree:
        """The worktree that the command's one word names, or that the caller is in."""
        if len(self.call.words) > 1:
            raise UsageError(
                f"{self.call.command.name} takes one name",
                hint=f"holdfast {self.call.command.name} [NAME]",
            )
        if self.call.words:
            return worktrees.find(self.repository(), self.call.words[0])
        return self.worktree()

    def around(self, repository: Repository) -> Worktree | None:
        """The worktree that the caller is in."""
        return worktrees.around(repository, self.folder)

    def caller(self) -> Caller:
        """The caller."""
        return caller(os.environ, holder=self.call.text("holder"))

    def word(self, what: str) -> str:
        """The one word that the command takes."""
        if len(self.call.words) != 1 or not self.call.words[0]:
            raise UsageError(
                f"{self.call.command.name} needs one {what}",
                hint=f"holdfast {self.call.command.name} --help",
            )
        return self.call.words[0]

    def snapshot_id(self, repository: Repository, text: str) -> str:
        """The snapshot that a text names: its id, the beginning of it, a tag or a note."""
        return references.find(repository, text)

    def lease(self) -> float | None:
        """The length of a lease, in seconds, if one was given."""
        text = self.call.text("lease")
        return None if text is None else duration(text, "--lease")

    def lease_or_default(self) -> float:
        """The length of a lease, in seconds."""
        given = self.lease()
        return LEASE_SECONDS_DEFAULT if given is None else given

    def token(self, worktree: Worktree) -> int | None:
        """The token that the caller expects: from `--token`, or from `tree run` around it."""
        given = self.call.number("token")
        if given is not None:
            return given
        id, _, number = os.environ.get(TOKEN_VARIABLE, "").partition(":")
        return int(number) if id == worktree.id and number.isdigit() else None

    def progress(self) -> Progress:
        """A progress bar for people, nothing for programs."""
        return Bar() if not self.as_json and _is_watched() else SILENT

    def answer(self, data: Any, *lines: str) -> None:
        """Print the answer: as data for programs, as text for people."""
        if self.as_json:
            document(data)
        else:
            for line in lines:
                out(line)


def _is_watched() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _refuse_system() -> None:
    if os.name != "posix":
        raise TreeAccessError(
            "trees need a POSIX system, for locks that end with their process and for folders "
            "that are replaced atomically",
            hint="use them on Linux or macOS, or in WSL",
        )


def _allow_open_files() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < min(wanted, _OPEN_FILES_WANTED):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, _OPEN_FILES_WANTED), hard))


class Ended(BaseException):
    """A signal ends this process, which must leave nothing half done behind."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = BY_SIGNAL + number


@contextmanager
def ending_well() -> Iterator[None]:
    """A section in which a plain `kill` acts like Ctrl-C: unfinished work is rolled back first."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise Ended(number)

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), end) for name in names}
    try:
        yield
    except Ended as ended:
        talk("holdfast: ended by a signal; nothing was left half done")
        raise SystemExit(ended.code) from None
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def when(text: str) -> str:
    """A moment in a file, in local time for people."""
    try:
        return local(moment(text) / SECOND)
    except ValueError:
        return text


def size(count: int) -> str:
    """A number of bytes, with a unit."""
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def counted(count: int, one: str) -> str:
    """A number of things."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"
