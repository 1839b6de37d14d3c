"""Leases that are taken before the write, many in one decision: for a git that changes a tree.

`git checkout BRANCH` of thousands of files would cost a decision in the ledger for each of them.
But the files that it changes are known: its verb is on its command line, and git lists what that
changes. So when a git process has taken some leases singly, the broker asks git once for the list;
from then on each lease that the process takes singly also takes those of the next files on the list
that are free. A file that another holder has is skipped, and refused or awaited at its write.

Nothing else changes: such a lease counts as taken at its write, and one whose write has not come is
released when the process ends. The list may be wrong: a file that is not on it is leased singly,
and one that is on it needlessly is held as long as that git process runs. A command that waits in
line (`--wait`) takes none ahead, because a lease that it holds needlessly could cause a deadlock.

The broker starts git without any restrictions. So it does that only in a checkout whose settings
are checked (`control_writes`), and never with options of the caller.
"""

from __future__ import annotations

import os
import stat
from _functools import partial  # type: ignore[import-not-found]  # functools takes longer

from holdfast.core.errors import HoldfastError
from holdfast.gate.broker.calling_thread import CallerGone
from holdfast.gate.broker.places.path_zones import LEASED
from holdfast.gate.git.git_files import LOCAL
from holdfast.gate.guard.git_queries import Git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.gate.broker.calling_thread import Caller
    from holdfast.gate.broker.leasing.command_leases import Leases
    from holdfast.gate.broker.places.path_kinds import PathKinds
    from holdfast.gate.shell.line_writes import TreeVerb

#: How many leases a process takes singly before git is asked, which costs about as much.
SINGLY = 32
#: How many leases one decision takes ahead. It bounds how long other processes wait for the ledger,
#: and how many files they are refused early.
AT_ONCE = 500
#: git must answer within this time; otherwise all leases are taken singly.
ASK_SECONDS = 2.0
_PROCESSES_MAX = 1024
#: The verbs that change files in their own process. `clean` would be asked with its own options.
_VERBS = frozenset(
    ["checkout", "cherry-pick", "merge", "rebase", "reset", "restore", "revert", "stash", "switch"]
)
#: Variables that lead git to another repository, or to another index.
_LEADING = frozenset(name for name in LOCAL if not name.startswith("GIT_CONFIG"))
#: Options of git before its verb that do not change which repository it works in.
_HARMLESS = frozenset(
    ["--no-pager", "-P", "-p", "--paginate", "--no-optional-locks", "--no-replace-objects",
     "--literal-pathspecs", "--no-advice"]
)  # fmt: skip


class _Way:
    """The files that one process changes, in git's order."""

    __slots__ = ("at", "paths", "taken")

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self.at = {path: number for number, path in enumerate(paths)}
        self.taken: list[str] = []


class GitLookahead:
    """The leases taken ahead for one command."""

    def __init__(self, kinds: PathKinds, leases: Leases) -> None:
        #: Descriptors that the broker's loop waits for, each with its handler.
        self.ears: dict[int, Callable[[], None]] = {}
        self._kinds = kinds
        self._leases = leases
        self._counts: dict[int, int] = {}
        self._ways: dict[int, _Way] = {}

    def follow(self, caller: Caller, path: str) -> None:
        """A process has taken a lease at the write: take the next ones ahead."""
        process = caller.process
        way = self._ways.get(process)
        if way is None:
            if len(self._counts) >= _PROCESSES_MAX:
                self._counts.clear()
            count = self._counts[process] = self._counts.get(process, 0) + 1
            if count != SINGLY:
                return
            way = self._begun(caller)
            if way is None:
                return
        at = way.at.get(path)
        if at is None:
            return
        try:
            wanted = self._wanted(way.paths[at + 1 : at + 1 + AT_ONCE])
            way.taken += self._leases.take_ahead(caller, wanted)
        except (HoldfastError, OSError):
            pass  # the error is reported when the next one is taken singly

    def _wanted(self, paths: Sequence[str]) -> Iterator[tuple[str, os.stat_result | None, int]]:
        known: dict[str, int] = {}
        for path in paths:
            if path in self._leases.mine or self._kinds.of(path) != LEASED:
                continue
            there = _there(os.path.dirname(path), known)
            if there < 0:
                continue
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                yield path, None, there
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield path, status, len(path)

    def _begun(self, caller: Caller) -> _Way | None:
        """The list of a process, if it is a git whose verb tells which files it changes."""
        try:
            verb = _verb(caller)
            checkout = None if verb is None else self._checkout(verb.folder)
            if verb is None or checkout is None:
                return None
            ear = os.pidfd_open(caller.process)
        except OSError:
            return None
        try:
            caller.demand_waiting()
        except CallerGone:
            os.close(ear)
            return None
        way = self._ways[caller.process] = _Way(_changed(verb, checkout))
        self.ears[ear] = partial(self._ended, ear, caller.process)
        return way

    def _checkout(self, folder: str) -> str | None:
        """The checkout of a git that was started in a folder; None if it may be another
        repository, whose settings are not checked."""
        kind, checkout, inner = self._kinds.rough(folder)
        if kind != LEASED or not os.path.lexists(f"{checkout}/.git"):
            return None
        while inner:
            below = f"{checkout}/{inner}"
            if any(os.path.lexists(f"{below}/{name}") for name in (".git", "HEAD")):
                return None
            inner = os.path.dirname(inner)
        return checkout

    def _ended(self, ear: int, process: int) -> None:
        del self.ears[ear]
        os.close(ear)
        self._counts.pop(process, None)
        way = self._ways.pop(process)
        self._leases.drop_ahead(way.taken)


def _verb(caller: Caller) -> TreeVerb | None:
    """The verb with which a process was started, if it is a git that changes a tree."""
    from holdfast.gate.shell.line_writes import TreeVerb

    if os.path.basename(os.readlink(f"{caller.folder}/exe")) != "git":
        return None
    with open(f"{caller.folder}/environ", "rb") as file:
        names = {os.fsdecode(one.partition(b"=")[0]) for one in file.read().split(b"\0")}
    if not names.isdisjoint(_LEADING):
        return None
    with open(f"{caller.folder}/cmdline", "rb") as file:
        words = [os.fsdecode(word) for word in file.read().split(b"\0")[1:-1]]
    folder = os.readlink(f"{caller.folder}/cwd")
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in ("-C", "-c") and words:
            value = words.pop(0)
            folder = os.path.join(folder, value) if option == "-C" else folder
        elif option not in _HARMLESS:
            return None
    if not words or words[0] not in _VERBS:
        return None
    return TreeVerb(words[0], tuple(words[1:]), os.path.realpath(folder))


def _changed(verb: TreeVerb, checkout: str) -> list[str]:
    """The files that a verb changes in a checkout, in git's own order."""
    from time import monotonic

    from holdfast.gate.guard.tree_verbs import VERBS, Tree, Verb

    tree = Tree(Git(checkout, monotonic() + ASK_SECONDS))
    names = VERBS[verb.verb](Verb(verb, tree)) or ()
    return [f"{checkout}/{name}" for name in sorted(names, key=os.fsencode) if name[-1:] != "/"]


def _there(folder: str, known: dict[str, int]) -> int:
    """The length of the part of a folder's path that exists; -1 if a link or a file is in it."""
    found = known.get(folder)
    if found is None:
        try:
            is_folder = stat.S_ISDIR(os.lstat(folder).st_mode)
        except FileNotFoundError:
            found = _there(os.path.dirname(folder), known)
        except NotADirectoryError:
            found = -1
        else:
            above = 0 if folder == "/" else _there(os.path.dirname(folder), known)
            found = len(folder) if is_folder and above >= 0 else -1
        known[folder] = found
    return found
