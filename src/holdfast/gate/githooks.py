"""git's own hooks: those before a commit refuse, those after it release.

A hook of ours is a small script where git looks for it (`core.hooksPath`, or `hooks` in the folder
that all linked worktrees share). What was there is kept beside it as `NAME.holdfast-before` and
still runs; its exit code counts. Taking ours away renames that file back: the same bytes, the same
mode, the same file.

What cannot be chained is not touched, and the error says what to do instead.

What this does not promise: `git commit --no-verify` runs no hook that refuses. A manager that
writes its hooks anew (husky, at each install) takes ours away, and the pre-commit framework puts
itself in front of ours when it is installed later; `status` shows both, `install` mends both.
"""

from __future__ import annotations

import os
import sys

from holdfast.core.model import Value
from holdfast.gate import hookscript
from holdfast.gate.committing import CHECKS, RELEASES
from holdfast.gate.gitfiles import GitError, call, hooks_folder, outside, top
from holdfast.gate.hookscript import BEFORE, LEGACY, quoted, read
from holdfast.gate.stashing import is_made_by_pre_commit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

HOOKS = (*CHECKS, *RELEASES)

# The states of a hook.
ABSENT = "absent"
FOREIGN = "foreign"
INSTALLED = "installed"
OUTDATED = "outdated"
OVERTAKEN = "overtaken"
EDITED = "edited"
BLOCKED = "blocked"


class GitHookError(GitError):
    """A hook that cannot be put there, or taken away, without losing something. Nothing was."""

    code = "E_GIT_HOOK"


class Hook(Value):
    """One hook of git: where it is, in which state, and why if that is a problem.

    `before`: something was there and is kept. `seen`: git has the file under version control, or
    takes it with the next `git add`, so the absolute command in it would be committed.
    """

    __slots__ = ("before", "name", "path", "seen", "state", "why")

    def __init__(
        self,
        name: str,
        path: str,
        state: str,
        *,
        before: bool = False,
        seen: bool = False,
        why: str = "",
    ) -> None:
        self.name: Final = name
        self.path: Final = path
        self.state: Final = state
        self.before: Final = before
        self.seen: Final = seen
        self.why: Final = why


def command() -> tuple[str, ...]:
    """What a hook runs, before its own words `git NAME`."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook.py")
    return (os.path.abspath(sys.executable), "-I", "-S", script)


def status(repo: str, *, words: Sequence[str] | None = None) -> list[Hook]:
    """How each hook is now. `words` is the command that it should run, if not our own."""
    folder = hooks_folder(repo)
    seen = _seen(repo, folder)
    return [_hook(folder, name, words or command(), seen) for name in HOOKS]


def to_install(
    repo: str, *, words: Sequence[str] | None = None, shared: bool = False
) -> list[Hook]:
    """The hooks that `install` would write, as they are now.

    Raises GitHookError if one of them cannot be put there safely, or, without `shared`, if the
    folder serves all repositories of a user.
    """
    folder = hooks_folder(repo)
    if not shared:
        _refuse_shared(repo, folder)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise GitHookError(
            f"hooks are switched off here: {folder} is no folder",
            hint="git config --show-origin core.hooksPath says where that is set",
            folder=folder,
        )
    found = [hook for hook in status(repo, words=words) if hook.state != INSTALLED]
    for hook in found:
        if hook.state in (BLOCKED, EDITED):
            raise _cannot(hook)
    return found


def install(repo: str, *, words: Sequence[str] | None = None, shared: bool = False) -> list[Hook]:
    """Put our hooks in front of what is there; again is no harm. Returns how they are then.

    Raises GitHookError as `to_install` does, and changes nothing then.
    """
    found = to_install(repo, words=words, shared=shared)
    folder = hooks_folder(repo)
    made = not os.path.isdir(folder)
    os.makedirs(folder, exist_ok=True)
    for hook in found:
        _put(hook, words or command(), made)
    return status(repo, words=words)


def uninstall(repo: str) -> list[Hook]:
    """Put back exactly what was there. Returns how it is then."""
    folder = hooks_folder(repo)
    found = status(repo)
    for hook in found:
        if hook.state == EDITED or (hook.state == BLOCKED and hook.before):
            raise _cannot(hook)
    made = any(
        hookscript.made_its_folder(read(hook.path))
        for hook in found
        if hook.state in (INSTALLED, OUTDATED)
    )
    for hook in found:
        _take_away(hook)
    if made and not os.listdir(folder):
        os.rmdir(folder)
    return status(repo)


def _refuse_shared(repo: str, folder: str) -> None:
    """Refuse a folder that serves other repositories too."""
    env = outside()
    code, answer, _said = call(
        top(repo, env), "config", "--show-scope", "--get", "core.hooksPath", env=env
    )
    scope = os.fsdecode(answer).split("\t")[0].strip()
    if code == 0 and scope in ("global", "system"):
        raise GitHookError(
            f"core.hooksPath is a {scope} setting: a hook there would run in every repository",
            hint="give this one a folder of its own, with hooks that call the others: "
            "git config --local core.hooksPath .git/hooks",
            folder=folder,
        )


# How it is


def _hook(folder: str, name: str, words: Sequence[str], seen: set[str]) -> Hook:
    path, before = f"{folder}/{name}", f"{folder}/{name}{BEFORE}"
    kept = os.path.lexists(before)

    def hook(state: str, why: str = "") -> Hook:
        return Hook(name, path, state, before=kept, seen=path in seen, why=why)

    if not os.path.lexists(path):
        return hook(ABSENT)
    if not os.path.isfile(path):
        return hook(BLOCKED, "it is no file, or a link that leads nowhere")
    text = read(path)
    overtaken = is_made_by_pre_commit(text) and hookscript.is_ours(read(f"{path}{LEGACY}"))
    ours = read(f"{path}{LEGACY}") if overtaken else text
    if hookscript.is_ours(ours) and not hookscript.is_whole(ours):
        return hook(EDITED, "somebody has changed Holdfast's hook")
    if overtaken:
        return hook(OVERTAKEN)
    if hookscript.is_ours(text):
        if kept and not os.path.isfile(before):
            return hook(BLOCKED, f"{before} is no file")
        wanted = _text(name, words, before, made=hookscript.made_its_folder(text))
        runs = os.access(path, os.X_OK)
        return hook(INSTALLED if text == wanted and runs else OUTDATED)
    if kept and not _same(path, before) and not _is_renewed(path, before):
        return hook(
            BLOCKED, f"it was written anew since Holdfast kept the one before as {name}{BEFORE}"
        )
    why = hookscript.cannot_be_chained(text)
    return hook(BLOCKED, why) if why else hook(FOREIGN)


def _text(name: str, words: Sequence[str], before: str, *, made: bool) -> bytes:
    return hookscript.render(name, words, read(before), may_refuse=name in CHECKS, made=made)


def _same(one: str, other: str) -> bool:
    """Whether two hooks are the same, as far as it matters to git."""
    if os.path.islink(one) and os.path.islink(other):
        return os.readlink(one) == os.readlink(other)
    if os.path.islink(one) or os.path.islink(other) or not os.path.isfile(other):
        return False
    return read(one) == read(other) and os.stat(one).st_mode == os.stat(other).st_mode


def _is_renewed(path: str, before: str) -> bool:
    """Whether both are the pre-commit framework's own, which was installed once more."""
    return is_made_by_pre_commit(read(path)) and is_made_by_pre_commit(read(before))


def _seen(repo: str, folder: str) -> set[str]:
    """Those of the hooks that git takes for a part of the work tree."""
    env = outside()
    root = top(repo, env)
    if not folder.startswith(f"{root}/"):
        return set()
    paths = [f"{folder}/{name}" for name in HOOKS]
    code, answer, _said = call(
        root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths, env=env
    )
    if code != 0:
        return set()
    return {os.path.join(root, os.fsdecode(name)) for name in answer.split(b"\0") if name}


def _cannot(hook: Hook) -> GitHookError:
    return GitHookError(
        f"{hook.path} cannot be handled safely: {hook.why}",
        hint=(
            f"look at it and at {hook.name}{BEFORE} beside it; keep one of them as {hook.name}"
            if hook.state == EDITED or hook.before
            else "remove it, or let it call Holdfast itself as its first step: "
            + " ".join(map(quoted, (*command(), "git", hook.name)))
        ),
        path=hook.path,
    )


# Putting there and taking away


def _put(hook: Hook, words: Sequence[str], made: bool) -> None:
    """Write ours, after what is there got its second name: at no moment is there no hook."""
    before, legacy = f"{hook.path}{BEFORE}", f"{hook.path}{LEGACY}"
    if hook.state == OVERTAKEN:
        _step_back(hook.path)
    if hook.state in (FOREIGN, OVERTAKEN):
        _keep(hook.path, before)
    if is_made_by_pre_commit(read(before)) and os.path.lexists(legacy):
        # It runs that one, and would move ours over it if it were installed once more.
        _keep(legacy, f"{legacy}{BEFORE}")
    made = made or hookscript.made_its_folder(read(hook.path))
    temporary = f"{hook.path}.holdfast-new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o777)
    with open(descriptor, "wb") as file:
        file.write(_text(hook.name, words, before, made=made))
        file.flush()
        os.fsync(descriptor)
    os.chmod(temporary, os.stat(temporary).st_mode & 0o777 | 0o500)
    os.replace(temporary, hook.path)


def _keep(path: str, kept: str) -> None:
    """Give a hook a second name."""
    if os.path.lexists(kept):
        os.unlink(kept)
    try:
        os.link(path, kept, follow_symlinks=False)
    except (OSError, NotImplementedError):  # a file system without hard links
        import shutil

        shutil.copy2(path, kept, follow_symlinks=False)


def _step_back(path: str) -> None:
    """Leave to the pre-commit framework, which is in front, what it would have found without us."""
    before, legacy = f"{path}{BEFORE}", f"{path}{LEGACY}"
    theirs = f"{legacy}{BEFORE}"
    if is_made_by_pre_commit(read(before)):  # it was there already, and is there anew
        os.unlink(before)
        before = theirs
    if os.path.lexists(before):
        os.replace(before, legacy)
    else:
        os.unlink(legacy)


def _take_away(hook: Hook) -> None:
    before, theirs = f"{hook.path}{BEFORE}", f"{hook.path}{LEGACY}{BEFORE}"
    if hook.state == OVERTAKEN:
        _step_back(hook.path)
    elif hook.state == FOREIGN:
        if hook.before:  # written anew, and the same as it was
            os.unlink(before)
    elif hook.before:
        os.replace(before, hook.path)
    elif hook.state in (INSTALLED, OUTDATED):
        os.unlink(hook.path)
    if os.path.lexists(theirs):
        os.unlink(theirs)
