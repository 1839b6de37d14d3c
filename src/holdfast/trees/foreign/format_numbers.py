"""Whose repository a `.jvs` is, and the number that keeps other programs out of ours.

jvs keeps its repositories in a `.jvs` too, with the format 1, and takes every repository with that
number for its own: its `gc` removes snapshots that it does not know. So ours have a number that no
jvs accepts. Our older repositories have format 1 as well. They are told apart by files that only
one of the two programs writes, and the next command that opens one converts it to the new number.

Nothing is written before the owner is determined. An uncertain case is refused and left unchanged.

    format 1000                                      ours
    format 1, all of our files and none of jvs's     ours: it becomes 1000
    any file of jvs                                  refused, even if it has files of ours
    anything else                                    refused: damaged, or of an unknown version

The number changes by one rename inside a guard, after a second check in there. A process that is
killed leaves the old number or the new one, and a `format_version.tmp` that the next one
overwrites. A repository that cannot be written stays readable with its old number; changing it is
refused, because jvs could remove what we publish.
"""

from __future__ import annotations

import os
import stat

from holdfast.core.errors import HoldfastError, StoreBusyError
from holdfast.trees import tree_files
from holdfast.trees.errors import (
    ForeignTreeError,
    TreeDamagedError,
    TreeVersionError,
    shown,
    translated,
)
from holdfast.trees.locking.operation_guard import Guard

FORMAT = 1000
#: The former format of ours, and the format of every jvs.
SHARED_FORMAT = 1
FILE = "format_version"

ABOUT = "repository.json"
STAGING = "staging"
_ABOUT_FIELDS = ("name", "repository_id", "created_at")
#: Entries that only jvs creates in a `.jvs`: the first two whenever it creates a repository.
_OF_JVS = ("repo_id", "worktrees", "repo_mode", "restore-plans", "recovery-plans")
#: Folders that both programs have, and that are always empty in ours in the shared format.
_FILLED_BY_JVS = ("refs", "gc")
#: The entries in gc/ of our repositories, since they have a format of their own.
_IN_GC = ("settings.json", "plans", "removed")

#: A reader does not wait longer than this for a stopped process.
_GUARD_SECONDS = 2.0


def settle(root: str, control: str) -> tuple[int, HoldfastError | None]:
    """The format of a repository of ours, converted to the present one if possible.

    If that is impossible, also the reason: the repository can then be read, but not changed. Raises
    for everything that is not certainly ours.
    """
    found = judged(root, control)
    if found == FORMAT:
        return FORMAT, None
    try:
        with Guard(f"{control}/intents/intents.guard", root, _GUARD_SECONDS):
            if judged(root, control) == SHARED_FORMAT:
                tree_files.replace(f"{control}/{FILE}", f"{FORMAT}\n".encode())
    except StoreBusyError as error:
        return found, error
    except OSError as error:
        return found, translated(error, f"converting {root} to format {FORMAT}")
    return FORMAT, None


def judged(root: str, control: str) -> int:
    """The format of a repository of ours. Raises for any other repository; only reads."""
    number, trouble = _number(f"{control}/{FILE}")
    if number == FORMAT:
        return number
    theirs, missing = traces_of_jvs(control), _missing(control)
    if theirs:
        raise _foreign(root, theirs, also_ours=ABOUT not in missing)
    if trouble is not None:
        raise trouble
    if number != SHARED_FORMAT:
        raise TreeVersionError(
            f"{root} has the format {number}, which this version does not know; it knows {FORMAT}",
            hint="use the version of holdfast that created it, or a newer one",
            format=number,
        )
    if missing:
        raise TreeDamagedError(
            f"{root} has the format {number}, which jvs uses too, and lacks what tells ours "
            f"from one of jvs: {_listed(missing)}",
            hint="nothing was changed; restore that from a backup, and try again",
        )
    return number


def traces_of_jvs(control: str) -> list[str]:
    """What jvs has left in a control folder, by name."""
    found = [name for name in _OF_JVS if os.path.lexists(f"{control}/{name}")]
    for folder in _FILLED_BY_JVS:
        try:
            found += [f"{folder}/{name}" for name in sorted(os.listdir(f"{control}/{folder}"))]
        except OSError:
            continue  # missing or unreadable: then it tells nothing
    return found


def strangers(control: str, known: tuple[str, ...]) -> list[str]:
    """Entries in the control folder of our repository that no version of ours creates."""
    names = {*os.listdir(control)} - {*known, FILE, ABOUT}
    return sorted({*names, *(one for one in traces_of_jvs(control) if not _may_be_ours(one))})


def _may_be_ours(name: str) -> bool:
    """Whether our repositories may have this entry in folders of both: tags, and gc's files."""
    folder, _slash, rest = name.partition("/")
    if folder == "gc":
        return rest.removesuffix(tree_files.UNFINISHED) in _IN_GC
    return folder == "refs" and rest.removesuffix(tree_files.UNFINISHED).endswith(".json")


def refuse_jvs(folder: str, control: str) -> None:
    """Raise if the `.jvs` of a folder belongs to jvs. For folders that are not our repository."""
    theirs = ["."] if _is_file(control) else traces_of_jvs(control)
    if theirs and not os.path.lexists(f"{control}/{ABOUT}"):
        raise _foreign(folder, theirs, also_ours=False)


def _number(path: str) -> tuple[int, TreeDamagedError | None]:
    try:
        text = tree_files.read(path).decode("ascii", "replace").strip()
    except (OSError, ValueError) as error:
        return 0, TreeDamagedError(
            f"{path} cannot be read: {shown(str(error))}",
            hint="nothing was changed; get permission to read it, or restore it from a backup",
        )
    if 0 < len(text) < 10 and text.isdecimal():
        return int(text), None
    return 0, TreeDamagedError(
        f"{path} says {text[:40]!r}, which is not a format number",
        hint="nothing was changed; restore it from a backup",
    )


def _missing(control: str) -> list[str]:
    """Files of every repository of ours, never created by jvs, that are missing or damaged here."""
    missing = []
    try:
        about = tree_files.read_json(f"{control}/{ABOUT}")
    except (OSError, ValueError):
        about = {}
    if not all(isinstance(about.get(name), str) and about[name] for name in _ABOUT_FIELDS):
        missing.append(ABOUT)
    try:
        status = os.lstat(f"{control}/{STAGING}")
    except OSError:
        missing.append(STAGING)
    else:
        if not stat.S_ISDIR(status.st_mode):
            missing.append(STAGING)
    return missing


def _is_file(control: str) -> bool:
    """Whether it is the file that jvs writes into workspaces outside of their repository."""
    try:
        return stat.S_ISREG(os.lstat(control).st_mode)
    except OSError:
        return False


def _foreign(root: str, theirs: list[str], *, also_ours: bool) -> ForeignTreeError:
    if also_ours:
        return ForeignTreeError(
            f"{root} is a repository of Holdfast into which jvs has written: {_listed(theirs)}",
            hint="nothing was changed; stop using jvs there, move that out of .jvs, and try again",
            traces=theirs,
        )
    return ForeignTreeError(
        f"{root} belongs to jvs, not to Holdfast: it has {_listed(theirs)}",
        hint="nothing was changed; use jvs there, or make a repository elsewhere (holdfast tree "
        "init PATH) and bring its snapshots over (holdfast tree import PATH)",
        traces=theirs,
    )


def _listed(names: list[str]) -> str:
    some = [f".jvs/{shown(name)}" if name != "." else "a file .jvs" for name in names[:5]]
    return ", ".join(some) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
