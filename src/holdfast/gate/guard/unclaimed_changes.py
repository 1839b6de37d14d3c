"""Unleased files that changed while a command ran: reported to its agent, and left free.

It is not known what changed them: the command, a person who saved a file, another agent's program.
So no one gets a lease on them. They are found by asking git what is not committed, and each file
when it last changed: since the command began. Files that git ignores or that tools leave behind are
not reported, and no file is reported again to the same agent for a while.
"""

from __future__ import annotations

import os
from time import monotonic, time

from holdfast.core.errors import HoldfastError
from holdfast.core.file_times import tick
from holdfast.gate.guard import edit_marks, kept_files
from holdfast.gate.guard.git_queries import GIT_SECONDS, Git, names_of
from holdfast.gate.guard.tool_caches import is_cache, is_left_over
from holdfast.manager.files.paths import checkout_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.manager.files.paths import Tree

#: How many files are examined at most.
FILES_MAX = 5000
#: How many new folders are listed at most.
FOLDERS_MAX = 20
#: Files that are named, the others are counted.
NAMED_MAX = 5
#: How long a file is not reported again to the same agent.
AGAIN_SECONDS = 3600


def changed_since(
    tree: Tree, folder: str, start: int, seconds: float = GIT_SECONDS
) -> dict[str, str]:
    """Uncommitted files in the checkout around a folder that changed since `start`: paths by
    their keys. Removed files are left out, because the time of removal is unknown."""
    found: dict[str, str] = {}
    checkout = checkout_of(tree.root, os.path.realpath(folder)) if folder else tree.root
    for path in uncommitted(checkout, seconds)[:FILES_MAX]:
        file = f"{checkout}/{path}"
        try:
            changed = os.lstat(file).st_ctime_ns
            if changed >= start - tick(changed):
                place = tree.place(file)
                found[place.key] = place.path
        except (OSError, HoldfastError):
            continue  # it is gone, or has a name that cannot be locked
    return found


def uncommitted(root: str, seconds: float = GIT_SECONDS) -> list[str]:
    """Tracked files with uncommitted changes, and new files, relative to the root."""
    git = Git(root, monotonic() + seconds)
    prefix = git.ask("rev-parse", "--show-prefix")
    answer = git.ask(
        "status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal",
        "--ignore-submodules=all", "--", ".",
    )  # fmt: skip
    if answer is None or prefix is None:
        return []
    above = len(os.fsdecode(prefix.rstrip(b"\n")))
    known: list[str] = []
    new: list[str] = []
    folders: list[str] = []
    for entry in answer.split(b"\0"):
        path = os.fsdecode(entry[3:])[above:]
        if not entry.startswith(b"??"):
            known.append(path)
        elif path.endswith("/"):
            folders.append(path)
        else:
            new.append(path)
    folders = [path for path in folders if not is_left_over(path.rstrip("/"))]
    if folders and len(folders) <= FOLDERS_MAX:
        found = git.ask("ls-files", "--others", "--exclude-standard", "-z", "--", *folders)
        new += sorted(names_of(found or b""))
    known = [path for path in known if path and not is_cache(path)]
    return known + [path for path in new if not is_left_over(path)]


def news(root: str, key: str, paths: Sequence[str]) -> list[str]:
    """Those of some paths that were not reported to an agent recently; marks them as reported."""
    name = edit_marks.guard_path(root, "said", edit_marks.digest(key))
    now = int(time())
    said = {
        path: at for path, at in (kept_files.loaded(name) or {}).items() if now - at < AGAIN_SECONDS
    }
    new = [path for path in paths if path not in said]
    if new:
        try:
            kept_files.save(name, {**said, **dict.fromkeys(new, now)})
        except OSError:
            pass  # at worst they are reported twice
    return new


def told(paths: Sequence[str]) -> str:
    """For the agent whose command ran."""
    more = len(paths) - NAMED_MAX
    names = ", ".join(paths[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    one = len(paths) == 1
    count, them = ("1 unleased file", "it") if one else (f"{len(paths)} unleased files", "them")
    return (
        f"While your command ran, {count} changed: {names}. If you changed "
        f"{them} and are still working on {them}, your next edit leases {them}; if you did not, "
        f"leave {them} alone."
    )
