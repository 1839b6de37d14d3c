"""Holdfast's hooks of git: those before a commit refuse, those after it release.

Each is a small script where git looks for it. There are two such places:

- git's own folder `hooks`, as long as `core.hooksPath` is not set. A hook that was there is kept
  beside ours as `NAME.holdfast-before` and still runs; its exit code counts. Removing ours renames
  that file back: the same bytes, the same mode, the same file. The pre-commit framework and
  lefthook write their hooks there, and would not with `core.hooksPath` set.
- a folder of our own, if it is set (`hook_folder`). The hooks that git would run without Holdfast
  are not touched, because they may be under version control or shared; ours run them.

A hook that cannot be chained is not touched, and the error says what to do instead.

What this does not promise: `git commit --no-verify` runs no hook that refuses. A manager that
writes hooks into git's own folder removes ours, or puts itself in front of ours, until the next
event of an agent (`hook_repair`); `status` shows both, `install` repairs both.
"""

from __future__ import annotations

import os
import sys

from holdfast import gate
from holdfast.core.model import Value
from holdfast.gate.git import hook_folder, hook_scripts
from holdfast.gate.git.commit_check import AFTER_CHECKOUT, CHECKS, RELEASES
from holdfast.gate.git.git_files import GitError
from holdfast.gate.git.hook_folder import folders
from holdfast.gate.git.hook_managers import is_made_by_pre_commit, made_by
from holdfast.gate.git.hook_scripts import BEFORE, LEGACY, quoted, read
from holdfast.manager.files.replace_file import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from holdfast.gate.git.hook_folder import Folders

HOOKS = (*CHECKS, *RELEASES, AFTER_CHECKOUT)
#: Further hooks in which the pre-commit framework may set work aside.
PASSED = (
    "prepare-commit-msg",
    "commit-msg",
    "pre-push",
    "pre-rebase",
    "post-rewrite",
)
#: Further hooks that git may run. In a folder of our own all of them have to exist.
_OTHERS = (
    "applypatch-msg", "pre-auto-gc", "sendemail-validate", "pre-receive", "update", "post-receive",
    "post-update", "p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit",
)  # fmt: skip
#: Hooks whose mere presence changes what git does, or how fast: only if one exists already.
_COSTLY = ("reference-transaction", "post-index-change", "push-to-checkout", "proc-receive")

#: lefthook's suffix for a hook that it found.
_RENAMED = ".old"

# The states of a hook.
ABSENT = "absent"
FOREIGN = "foreign"
INSTALLED = "installed"
OUTDATED = "outdated"
OVERTAKEN = "overtaken"
PASSED_BY = "passed by"
EDITED = "edited"
BLOCKED = "blocked"


class GitHookError(GitError):
    """A hook cannot be installed, or removed, without losing something. Nothing was changed."""

    code = "E_GIT_HOOK"


class Hook(Value):
    """One hook of git: its path, its state, and the reason if the state is a problem.

    `before`: another hook was there and is kept.
    """

    __slots__ = ("before", "name", "path", "state", "why")

    def __init__(
        self, name: str, path: str, state: str, *, before: bool = False, why: str = ""
    ) -> None:
        self.name: Final = name
        self.path: Final = path
        self.state: Final = state
        self.before: Final = before
        self.why: Final = why


def command() -> tuple[str, ...]:
    """The command that a hook runs, without its own words `git NAME`."""
    script = os.path.join(os.path.dirname(gate.__file__), "hook.py")
    return (os.path.abspath(sys.executable), "-I", "-S", script)


def status(repo: str, *, words: Sequence[str] | None = None) -> list[Hook]:
    """The state of each hook. `words` is the command that it should run, if not `command()`."""
    return _status(folders(repo), words or command())


def _status(at: Folders, words: Sequence[str]) -> list[Hook]:
    if at.is_set:
        return [*_in_our_folder(at, words), *(one for one in _strays(at, words) if _is_ours(one))]
    found = [_hook(at.theirs, name, words) for name in _wanted(at.theirs)]
    if at.now == at.ours:  # core.hooksPath was unset; the chained hooks are the same
        found = [Hook(one.name, one.path, PASSED_BY, before=one.before) for one in found]
    return found


def _wanted(folder: str) -> list[str]:
    """The hooks that have to be Holdfast's in git's own folder."""
    return [*HOOKS, *(name for name in PASSED if _has_framework(f"{folder}/{name}"))]


def _has_framework(path: str) -> bool:
    return any(is_made_by_pre_commit(read(place)) for place in (path, f"{path}{BEFORE}"))


def _strays(at: Folders, words: Sequence[str]) -> list[Hook]:
    """Holdfast's hooks in the wrong place: in the folder that `core.hooksPath` names, or in git's
    own while git does not look there."""
    found = []
    for folder in dict.fromkeys((at.theirs, f"{at.common}/hooks")):
        for name in (*HOOKS, *PASSED):
            hook = _hook(folder, name, words)
            if hook.before or _is_ours(hook):
                state = OUTDATED if hook.state == INSTALLED else hook.state
                found.append(Hook(name, hook.path, state, before=hook.before, why=hook.why))
    return found


def _is_ours(hook: Hook) -> bool:
    return hook.state in (INSTALLED, OUTDATED, OVERTAKEN, EDITED)


def to_install(repo: str, *, words: Sequence[str] | None = None) -> list[Hook]:
    """The hooks that `install` would write, as they are now.

    Raises GitHookError if one of them cannot be installed safely.
    """
    at = folders(repo)
    if os.path.lexists(at.theirs) and not os.path.isdir(at.theirs):
        raise GitHookError(
            f"hooks are switched off here: {at.theirs} is not a folder",
            hint="git config --show-origin core.hooksPath says where that is set",
            folder=at.theirs,
        )
    found = [hook for hook in _status(at, words or command()) if hook.state != INSTALLED]
    for hook in found:
        if hook.state in (BLOCKED, EDITED):
            raise _cannot(hook)
    return found


def install(repo: str, *, words: Sequence[str] | None = None) -> list[Hook]:
    """Install our hooks in front of those that are there; safe to repeat. Returns their new states.

    Raises GitHookError as `to_install` does, and changes nothing then.
    """
    found = to_install(repo, words=words)
    at = folders(repo)
    if at.is_set:
        _install_ours(repo, at, words or command())
        for hook in _strays(at, words or command()):
            if hook.state != BLOCKED:  # a rewritten one, in a place where git no longer looks
                _take_away(hook)
    else:
        made = not os.path.isdir(at.theirs)
        os.makedirs(at.theirs, exist_ok=True)
        for hook in found:
            _put(_hook(at.theirs, hook.name, words or command()), words or command(), made)
        _remove_ours(at)
    at = folders(repo)  # git may look elsewhere now
    _watch(at, words)
    return _status(at, words or command())


def uninstall(repo: str) -> list[Hook]:
    """Restore exactly the hooks that were there. Returns their states."""
    at = folders(repo)
    placed = _strays(at, command())
    for hook in placed:
        if hook.state == EDITED or (hook.state == BLOCKED and hook.before):
            raise _cannot(hook)
    made = {
        os.path.dirname(hook.path)
        for hook in placed
        if hook.state == OUTDATED and hook_scripts.made_its_folder(read(hook.path))
    }
    _remove_ours(at)
    for hook in placed:
        _take_away(hook)
    for folder in made:
        if not os.listdir(folder):
            os.rmdir(folder)
    _watch(at, None, ends=True)
    return status(repo)


def _watch(at: Folders, words: Sequence[str] | None, *, ends: bool = False) -> None:
    """Have agents' events check from now on whether the hooks have changed; or no longer."""
    from holdfast.gate.git import hook_repair

    if ends:
        hook_repair.end(at)
    else:
        hook_repair.begin(at, words or command())


# In git's own folder


def _hook(folder: str, name: str, words: Sequence[str]) -> Hook:
    path, before = f"{folder}/{name}", f"{folder}/{name}{BEFORE}"
    kept = os.path.lexists(before)

    def hook(state: str, why: str = "") -> Hook:
        return Hook(name, path, state, before=kept, why=why)

    if not os.path.lexists(path):
        return hook(ABSENT)
    if not os.path.isfile(path):
        return hook(BLOCKED, "it is not a file, or is a dangling link")
    text = read(path)
    overtaken = is_made_by_pre_commit(text) and hook_scripts.is_ours(read(f"{path}{LEGACY}"))
    ours = read(f"{path}{LEGACY}") if overtaken else text
    if hook_scripts.is_ours(ours) and not hook_scripts.is_whole(ours):
        return hook(EDITED, "Holdfast's hook was edited")
    if overtaken:
        return hook(OVERTAKEN)
    if hook_scripts.is_ours(text):
        if kept and not os.path.isfile(before):
            return hook(BLOCKED, f"{before} is not a file")
        wanted = _text(name, words, before, made=hook_scripts.made_its_folder(text))
        return hook(INSTALLED if text == wanted and os.access(path, os.X_OK) else OUTDATED)
    if kept and not _same(path, before) and not _is_renewed(path, before):
        return hook(
            BLOCKED, f"it was rewritten after Holdfast kept the previous one as {name}{BEFORE}"
        )
    why = hook_scripts.cannot_be_chained(text)
    return hook(BLOCKED, why) if why else hook(FOREIGN)


def _kind(name: str) -> str:
    if name in CHECKS:
        return hook_scripts.CHECKS
    if name == AFTER_CHECKOUT:
        return hook_scripts.FURNISHES
    return hook_scripts.RELEASES if name in RELEASES else hook_scripts.PASSES


def _text(name: str, words: Sequence[str], before: str, *, made: bool) -> bytes:
    return hook_scripts.render(name, words, read(before), kind=_kind(name), made=made)


def _same(one: str, other: str) -> bool:
    """Whether two hooks are the same as far as git is concerned."""
    if os.path.islink(one) and os.path.islink(other):
        return os.readlink(one) == os.readlink(other)
    if os.path.islink(one) or os.path.islink(other) or not os.path.isfile(other):
        return False
    return read(one) == read(other) and os.stat(one).st_mode == os.stat(other).st_mode


def _is_renewed(path: str, before: str) -> bool:
    """Whether one manager wrote both, because it was installed again: the newer counts."""
    maker = made_by(read(path))
    return bool(maker) and maker == made_by(read(before))


def _cannot(hook: Hook) -> GitHookError:
    return GitHookError(
        f"{hook.path} cannot be handled safely: {hook.why}",
        hint=(
            f"compare it with {hook.name}{BEFORE} beside it, and keep one of them as {hook.name}"
            if hook.state == EDITED or hook.before
            else "remove it, or let it call Holdfast itself as its first step: "
            + " ".join(map(quoted, (*command(), "git", hook.name)))
        ),
        path=hook.path,
    )


def _put(hook: Hook, words: Sequence[str], made: bool) -> None:
    """Write ours after the present hook got its second name: at no moment is there no hook."""
    before, legacy = f"{hook.path}{BEFORE}", f"{hook.path}{LEGACY}"
    if hook.state == OVERTAKEN:
        _step_back(hook.path)
    if hook.state in (FOREIGN, OVERTAKEN):
        _keep(hook.path, before)
    if is_made_by_pre_commit(read(before)) and os.path.lexists(legacy):
        # The framework runs that one, and would overwrite it with ours if it were installed again.
        _keep(legacy, f"{legacy}{BEFORE}")
    _drop_renamed(hook.path)
    made = made or hook_scripts.made_its_folder(read(hook.path))
    _write(hook.path, _text(hook.name, words, before, made=made))


def _drop_renamed(path: str) -> None:
    """Remove our hook under lefthook's name for it: as long as it exists, lefthook does nothing."""
    if hook_scripts.is_ours(read(f"{path}{_RENAMED}")):
        os.unlink(f"{path}{_RENAMED}")


def _write(path: str, text: bytes) -> None:
    """Write an executable script atomically."""
    replace_file(path, text, mode=0o777, mode_at_least=0o500, durable=True)


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
    """Restore for the pre-commit framework, which is in front, the hook that it had found."""
    before, legacy = f"{path}{BEFORE}", f"{path}{LEGACY}"
    theirs = f"{legacy}{BEFORE}"
    if is_made_by_pre_commit(read(before)):  # it was there before, and was installed again
        os.unlink(before)
        before = theirs
    if os.path.lexists(before):
        os.replace(before, legacy)
    else:
        os.unlink(legacy)


def _take_away(hook: Hook) -> None:
    before, theirs = f"{hook.path}{BEFORE}", f"{hook.path}{LEGACY}{BEFORE}"
    _drop_renamed(hook.path)
    if hook.state == OVERTAKEN:
        _step_back(hook.path)
    elif hook.state == FOREIGN:
        if hook.before:  # rewritten by the same manager
            os.unlink(before)
    elif hook.before:
        os.replace(before, hook.path)
    elif hook.state in (INSTALLED, OUTDATED):
        os.unlink(hook.path)
    if os.path.lexists(theirs):
        os.unlink(theirs)


# In the folder of our own


def _in_our_folder(at: Folders, words: Sequence[str]) -> list[Hook]:
    """The hooks there that concern agents. The others only pass on, and count together with the
    first of these."""
    others = [name for name in _all_names(at) if name not in HOOKS]
    passed = {_own_state(at, name, words) for name in others} - {INSTALLED}
    is_turned = hook_folder.is_turned(at)
    found = []
    for name in HOOKS:
        state = _own_state(at, name, words)
        if (state == INSTALLED and passed) or (state == ABSENT and is_turned):
            state = OUTDATED
        if state == INSTALLED and at.now != at.ours:
            state = PASSED_BY
        found.append(Hook(name, f"{at.ours}/{name}", state))
    return found


def _all_names(at: Folders) -> list[str]:
    costly = (name for name in _COSTLY if os.access(f"{at.theirs}/{name}", os.X_OK))
    return [*HOOKS, *PASSED, *_OTHERS, *costly]


def _own_state(at: Folders, name: str, words: Sequence[str]) -> str:
    path = f"{at.ours}/{name}"
    text = read(path)
    if not text:
        return ABSENT
    runs = os.access(path, os.X_OK)
    return INSTALLED if runs and text == _own_text(name, words) else OUTDATED


def _own_text(name: str, words: Sequence[str]) -> bytes:
    return hook_scripts.render_own(name, words, kind=_kind(name))


def _install_ours(repo: str, at: Folders, words: Sequence[str]) -> None:
    os.makedirs(at.ours, exist_ok=True)
    names = _all_names(at)
    for name in names:
        if _own_state(at, name, words) != INSTALLED:
            _write(f"{at.ours}/{name}", _own_text(name, words))
    for name in os.listdir(at.ours):
        if name not in names:
            os.unlink(f"{at.ours}/{name}")
    hook_folder.turn_to_ours(repo)


def _remove_ours(at: Folders) -> None:
    """Remove the folder of our own, after git no longer looks there."""
    if hook_folder.is_turned(at):
        hook_folder.turn_back(at)
    if os.path.isdir(at.ours):
        for name in os.listdir(at.ours):
            os.unlink(f"{at.ours}/{name}")
        os.rmdir(at.ours)
    parent = os.path.dirname(at.ours)
    if os.path.isdir(parent) and not os.listdir(parent):
        os.rmdir(parent)
