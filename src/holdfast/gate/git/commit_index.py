"""An index in which a hook manager sees only the changes that are being committed.

Managers that check exactly what will be committed remove unstaged changes from the work tree, and
restore them afterwards. In a work tree of several agents these are mostly the changes of others,
who go on writing. So such a hook runs with a copy of the index (`GIT_INDEX_FILE`) in which every
file that is not staged has the flag skip-worktree: git treats it as unchanged whatever its content,
and never writes it, not by `stash`, not by `checkout -- .`, not by `reset --hard`. Changes that the
hook stages are copied back into the index of the commit. If it fails, that index is as it was.

What this does not promise: if a hook stages a file that was not staged before, `git add` refuses it
unless the file is new. And partly staged files are set aside as without Holdfast.
"""

from __future__ import annotations

import os
from time import monotonic, sleep, time

from holdfast.gate.git.git_files import GitError, call, git, git_folder, inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PREFIX = "index-"
#: The entries of the index when it was copied, as git lists them.
_WAS = ".was"
#: A copy that is older was left by a hook that was killed.
_OLD_SECONDS = 24 * 3600.0
#: How long another process may have the index locked.
_LOCK_SECONDS = 10.0


def copy_index(root: str, staged: Iterable[str]) -> str:
    """Copy the index of the commit that is being made, with all files but the staged ones hidden.
    Returns the path of the copy."""
    env = inside()
    own = git_folder(root)
    folder = f"{own}/holdfast"
    os.makedirs(folder, exist_ok=True)
    _sweep(folder)
    copy = f"{folder}/{_PREFIX}{os.getpid()}-{int(time())}"
    try:
        _copy(env.get("GIT_INDEX_FILE") or f"{own}/index", copy)
        env["GIT_INDEX_FILE"] = copy
        was = _listed(root, env)
        with open(f"{copy}{_WAS}", "wb") as file:
            file.write(was)
        shown = set(map(os.fsencode, staged))
        hidden = [name for name in _entries(was) if name not in shown]
        words = ("update-index", "-z", "--skip-worktree", "--stdin")
        git(root, *words, env=env, input=b"".join(b"%s\0" % name for name in hidden))
    except BaseException:
        forget(copy)
        raise
    return copy


def bring_back(root: str, copy: str) -> None:
    """Stage in the index of the commit the changes that a hook staged in a copy of it."""
    env = inside()
    with open(f"{copy}{_WAS}", "rb") as file:
        before = _entries(file.read())
    after = _entries(_listed(root, {**env, "GIT_INDEX_FILE": copy}))
    some = next(iter({**before, **after}.values()), b"")
    none = b"0 " + b"0" * len(some.partition(b" ")[2])
    changed = [
        b"%s\t%s\0" % (after.get(name, none), name)
        for name in (*after, *before.keys() - after.keys())
        if after.get(name) != before.get(name)
    ]
    if changed:
        _update(root, env, b"".join(changed))


def forget(copy: str) -> None:
    """Remove a copy, and the files that belong to it."""
    for end in ("", _WAS, ".lock"):
        try:
            os.unlink(f"{copy}{end}")
        except FileNotFoundError:
            continue


def _copy(index: str, copy: str) -> None:
    """Copy the index; without one, before the first `git add`, there is nothing to hide."""
    try:
        with open(index, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return
    with open(copy, "wb") as file:
        file.write(data)


def _listed(root: str, env: Mapping[str, str]) -> bytes:
    return git(root, "ls-files", "--stage", "-z", env=env)


def _entries(listed: bytes) -> dict[bytes, bytes]:
    """Mode and content by name. Entries in conflict are in no commit."""
    found = {}
    for entry in filter(None, listed.split(b"\0")):
        what, _, name = entry.partition(b"\t")
        mode, content, stage = what.split(b" ")
        if stage == b"0":
            found[name] = b"%s %s" % (mode, content)
    return found


def _update(root: str, env: Mapping[str, str], info: bytes) -> None:
    """Write into an index that other processes may be writing as well."""
    end = monotonic() + _LOCK_SECONDS
    while True:
        code, _answer, said = call(root, "update-index", "-z", "--index-info", env=env, input=info)
        if code == 0:
            # Without the files' times in it, git's plumbing commands would report them as changed.
            call(root, "update-index", "-q", "--refresh", env=env)
            return
        if monotonic() > end:
            raise GitError(
                f"the changes that the hook staged cannot be added to the commit: {said}",
                hint="commit again",
                folder=root,
            )
        sleep(0.1)


def _sweep(folder: str) -> None:
    """Remove copies that killed hooks left behind."""
    for name in os.listdir(folder):
        if name.startswith(_PREFIX):
            path = f"{folder}/{name}"
            try:
                if os.stat(path).st_mtime < time() - _OLD_SECONDS:
                    os.unlink(path)
            except FileNotFoundError:
                continue
