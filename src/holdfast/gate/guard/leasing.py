"""What a command changed, beside what others hold, belongs to its agent from then on, if free.

Found by asking git what is not committed, and the files when they last changed: since the command
began. So a file that git ignores is nobody's, nor is one that is as it was committed. While several
agents run commands at once, nobody can tell whose a change is: what changed in both their times
is left free.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core import codec, events, rules
from holdfast.core.errors import HoldfastError
from holdfast.core.model import Refusal
from holdfast.gate.guard.aside import TICK_NS
from holdfast.gate.guard.asking import GIT_SECONDS, Git, names_of
from holdfast.gate.guard.caches import is_left_over
from holdfast.gate.leases import CHANGED
from holdfast.manager import services

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.model import Holder, Request
    from holdfast.core.view import View
    from holdfast.gate.guard.aside import Running
    from holdfast.manager.manager import LockManager

#: What changed more files than this was a storm, not somebody's work.
LEASED_MAX = 1000
#: How far back in the history others' leases are looked for.
EVENTS_MAX = 2000
#: New folders that are looked into, and how many new files count.
FOLDERS_MAX = 20
NEW_MAX = 200


def lease(
    manager: LockManager, holder: Holder, one: Running, running: Iterable[Running]
) -> list[str]:
    """Lease what a command changed and nobody holds. The paths."""
    assert manager.tree is not None
    root = manager.tree.root
    others = [(other.at, other.end) for other in running if other.agent != holder.key]
    changed = [path for path in uncommitted(root) if _is_since(f"{root}/{path}", one.at, others)]
    if not changed or len(changed) > LEASED_MAX:
        return []
    theirs = _of_others(manager, holder, one.at)
    changed = [path for path in changed if path not in theirs]
    wanted: list[Request] = []
    for path in changed:
        try:
            wanted += services.requests(manager, holder, [f"{root}/{path}"], CHANGED)
        except HoldfastError:
            continue  # what no lease can name
    return _take(manager, wanted)


def give_back(manager: LockManager, holder: Holder, files: Iterable[str]) -> None:
    """Files that a command made and removed again are nobody's, as they were: others use the same
    names for what they need for a moment."""
    assert manager.tree is not None
    gone = {manager.tree.place(file).path for file in files if not os.path.lexists(file)}
    held = services.held_by(manager, holder) if gone else []
    services.release_each(manager, [grant.id for grant in held if gone.issuperset(grant.paths)])


def uncommitted(root: str) -> list[str]:
    """What git knows of and is not committed, and what is new, relative to the root."""
    git = Git(root, monotonic() + GIT_SECONDS)
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
    new = [path for path in new if not is_left_over(path)]
    return [path for path in known if path] + (new if len(new) <= NEW_MAX else [])


def _is_since(file: str, start: int, others: Sequence[tuple[int, int | None]]) -> bool:
    """Whether a file changed since a moment, and not while others were at work too. When one was
    removed nobody can say, so it is nobody's."""
    try:
        at = os.lstat(file).st_ctime_ns
    except OSError:
        return False
    if at < start - TICK_NS:
        return False
    return not any(begin - TICK_NS <= at and (end is None or at <= end) for begin, end in others)


def _of_others(manager: LockManager, holder: Holder, start: int) -> set[str]:
    """What others held at any time since a moment, by what the ledger says of its last events.

    Their changes are theirs, also if they came to rest meanwhile and nobody holds the file now.
    """
    head = services.look(manager, lambda view: view.head)
    found: set[str] = set()
    for event in manager.events(after=max(0, head - EVENTS_MAX)):
        data = event.data
        if event.type == events.LOCK_ACQUIRED:
            since = data["token"] * 1000 >= start - TICK_NS
            if since and data["holder"].get("key") != holder.key:
                found.update(codec.grant_of(event).paths)
        elif event.type in events.ENDINGS:
            since = event.at * 1000 >= start - TICK_NS
            if since and data["holder"] != holder.id:
                found.update(data["paths"])
    return found


def _take(manager: LockManager, wanted: Sequence[Request]) -> list[str]:
    """Those that are free, in one go; nothing is refused, and nothing written down of the rest."""

    def free(view: View) -> list[Request]:
        return [request for request in wanted if not rules.look(view, request)]

    some = services.look(manager, free)
    if not some:
        return []
    outcome = services.ensure_each(manager, some)
    if isinstance(outcome, Refusal):  # somebody was quicker; it is not worth a second attempt
        return []
    return [grant.paths[0] for grant in outcome]
