"""git's own hooks: `pre-commit` refuses, `post-commit` releases.

A hook of ours is a small script where git looks for it (`core.hooksPath`, or `hooks` in the folder
that all linked worktrees share). What was there is kept beside it as `NAME.holdfast-before` and
runs first; its exit code counts. Taking ours away renames that file back: the same bytes, the same
mode, the same file.

Some hooks find out by their own name what to do. Of those, shell scripts are run under the name
that they had; others are not touched, and the error says what to do instead.

What this does not promise: `git commit --no-verify` runs no hook, and `git merge` runs another one.
A manager that writes its hooks anew (husky, at each install) takes ours away; `status` shows it.
"""

from __future__ import annotations

import os
import sys

from holdfast.core.model import Value
from holdfast.gate.gitfiles import (
    GitError,
    call,
    committed,
    dirty,
    hooks_folder,
    outside,
    staged,
    top,
)
from holdfast.gate.stashing import is_made_by_pre_commit, stashing_managers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

__all__ = [
    "HOOKS", "GitError", "GitHookError", "Hook", "command", "committed", "dirty", "hooks_folder",
    "install", "staged", "stashing_managers", "status", "uninstall",
]  # fmt: skip

HOOKS = ("pre-commit", "post-commit")
#: What was there before has this behind its name.
BEFORE = ".holdfast-before"
#: What the pre-commit framework puts behind the name of a hook that it found.
LEGACY = ".legacy"

# The states of a hook.
ABSENT = "absent"
FOREIGN = "foreign"
INSTALLED = "installed"
OUTDATED = "outdated"
EDITED = "edited"
BLOCKED = "blocked"

_BEGIN = b"#!/bin/sh\n# holdfast hook 1 "
_MADE = b"\n# The folder was made for it.\n"
#: Not zsh: what it reads in gets a name of its own.
_SHELLS = ("sh", "bash", "dash", "ksh", "ash")
_TEXT_BYTES_MAX = 1 << 20


class GitHookError(GitError):
    """A hook that cannot be put there, or taken away, without losing something. Nothing was."""

    code = "E_GIT_HOOK"


class Hook(Value):
    """One hook of git: where it is, in which state, and why if that is a problem.

    `before`: something was there and is kept. `tracked`: git has the file under version control,
    so the absolute command in it would be committed.
    """

    __slots__ = ("before", "name", "path", "state", "tracked", "why")

    def __init__(
        self,
        name: str,
        path: str,
        state: str,
        *,
        before: bool = False,
        tracked: bool = False,
        why: str = "",
    ) -> None:
        self.name: Final = name
        self.path: Final = path
        self.state: Final = state
        self.before: Final = before
        self.tracked: Final = tracked
        self.why: Final = why


def command() -> tuple[str, ...]:
    """What a hook runs, before its own words `git NAME`."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook.py")
    return (os.path.abspath(sys.executable), "-I", "-S", script)


def status(repo: str, *, words: Sequence[str] | None = None) -> list[Hook]:
    """How each hook is now. `words` is the command that it should run, if not our own."""
    folder = hooks_folder(repo)
    tracked = _tracked(repo, folder)
    return [_hook(folder, name, words or command(), tracked) for name in HOOKS]


def install(repo: str, *, words: Sequence[str] | None = None, shared: bool = False) -> list[Hook]:
    """Put our hooks in front of what is there; again is no harm. Returns how they are then.

    Raises GitHookError, and changes nothing, if one of them cannot be put there safely. With
    `shared` also into a folder that serves all repositories of a user.
    """
    folder = hooks_folder(repo)
    if not shared:
        _refuse_shared(repo)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise GitHookError(
            f"hooks are switched off here: {folder} is no folder",
            hint="git config --show-origin core.hooksPath says where that is set",
            folder=folder,
        )
    found = status(repo, words=words)
    for hook in found:
        if hook.state in (BLOCKED, EDITED):
            raise _cannot(hook)
    made = not os.path.isdir(folder)
    os.makedirs(folder, exist_ok=True)
    for hook in found:
        if hook.state != INSTALLED:
            _put(folder, hook, words or command(), made)
    return status(repo, words=words)


def uninstall(repo: str) -> list[Hook]:
    """Put back exactly what was there. Returns how it is then."""
    folder = hooks_folder(repo)
    found = status(repo)
    for hook in found:
        if hook.state == EDITED or (hook.state == BLOCKED and hook.before):
            raise _cannot(hook)
    made = any(_MADE in _text(hook.path) for hook in found if hook.state in (INSTALLED, OUTDATED))
    for hook in found:
        _take_away(folder, hook)
    if made and not os.listdir(folder):
        os.rmdir(folder)
    return status(repo)


def _refuse_shared(repo: str) -> None:
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
            folder=hooks_folder(repo),
        )


# How it is


def _hook(folder: str, name: str, words: Sequence[str], tracked: set[str]) -> Hook:
    path = _home(folder, name)
    before = f"{folder}/{name}{BEFORE}"
    kept = os.path.lexists(before)

    def hook(state: str, why: str = "") -> Hook:
        return Hook(name, path, state, before=kept, tracked=path in tracked, why=why)

    if not os.path.lexists(path):
        return hook(ABSENT)
    if not os.path.isfile(path):
        return hook(BLOCKED, "it is no file, or a link that leads nowhere")
    text = _text(path)
    if text.startswith(_BEGIN):
        if not _is_whole(text):
            return hook(EDITED, "somebody has changed Holdfast's hook")
        if kept and not os.path.isfile(before):
            return hook(BLOCKED, f"{before} is no file")
        ours = _render(name, words, before, made=_MADE in text)
        runs = os.access(path, os.X_OK)
        return hook(INSTALLED if text == ours and runs else OUTDATED)
    if kept and not _same(path, before):
        return hook(
            BLOCKED, f"it was written anew since Holdfast kept the one before as {name}{BEFORE}"
        )
    why = _cannot_be_chained(path)
    return hook(BLOCKED, why) if why else hook(FOREIGN)


def _home(folder: str, name: str) -> str:
    """Where ours is, or should be: the pre-commit framework moves what it finds, and runs it."""
    path, moved = f"{folder}/{name}", f"{folder}/{name}{LEGACY}"
    if _text(moved).startswith(_BEGIN) and is_made_by_pre_commit(_text(path)):
        return moved
    return path


def _text(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_TEXT_BYTES_MAX)
    except OSError:
        return b""


def _same(one: str, other: str) -> bool:
    """Whether two hooks are the same, as far as it matters to git."""
    if os.path.islink(one) or os.path.islink(other):
        return (
            os.path.islink(one)
            and os.path.islink(other)
            and (os.readlink(one) == os.readlink(other))
        )
    return (
        os.path.isfile(other)
        and _text(one) == _text(other)
        and (os.stat(one).st_mode == os.stat(other).st_mode)
    )


def _tracked(repo: str, folder: str) -> set[str]:
    env = outside()
    root = top(repo, env)
    paths = [f"{folder}/{name}" for name in HOOKS]
    if not folder.startswith(f"{root}/"):
        return set()
    code, answer, _said = call(root, "ls-files", "-z", "--", *paths, env=env)
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
            + " ".join(map(_quoted, (*command(), "git", hook.name)))
        ),
        path=hook.path,
    )


# What is chained


def _cannot_be_chained(path: str) -> str:
    """Why a hook cannot run under another name, if it cannot."""
    text = _text(path)
    if _interpreter(text) is None and _reads_its_name(text):
        return "it decides by its own file name what to run, and cannot run under another one"
    return ""


def _interpreter(text: bytes) -> list[str] | None:
    """The words of the first line that run a shell, if they do."""
    if not text.startswith(b"#!"):
        return ["sh"]  # as git does, and every shell
    words = os.fsdecode(text[2:].split(b"\n", 1)[0]).split()
    names = [os.path.basename(word) for word in words if not word.startswith("-")]
    return words if any(name in _SHELLS for name in names[:2]) else None


def _reads_its_name(text: bytes) -> bool:
    """Whether a hook finds out what to do by how it was called."""
    if b"\0" in text:  # a program: nobody can say, and they are rare
        return False
    import re

    return bool(
        re.search(
            rb"basename\b[^\n]{0,20}(?:\$0|\$PROGRAM_NAME|argv\[0\]|__FILE__|__file__)"
            rb"|\$\{0##"  # the same in the shell's own words
            rb"|\$\(dirname [^)\n]*\$0[^)\n]*\)/h\"",  # husky's, which leaves it to another file
            text,
        )
    )


# Our own


def _render(name: str, words: Sequence[str], before: str, *, made: bool) -> bytes:
    """The whole script. Its second line has a sum of the rest, to tell if somebody changed it."""
    python, script = _quoted(words[0]), _quoted(words[-1])
    run = " ".join(map(_quoted, (*words, "git", name)))
    failed = "exit $?" if name == "pre-commit" else "code=$?"
    lines = [
        f"# What was here before is {name}{BEFORE} beside it, and runs first.",
        *([_MADE.decode().strip()] if made else []),
        "folder=${0%/*}",
        '[ "$folder" != "$0" ] || folder=.',
        f"before=$folder/{name}{BEFORE}",
        "code=0",
        *_run_before(before, failed),
        f"if [ ! -x {python} ] || [ ! -f {script} ]; then",
        f'    echo "holdfast: the {name} hook cannot run: its program is gone" >&2',
        f"    echo {_quoted(f'  -> holdfast init writes it anew (it was {words[0]})')} >&2",
        "    exit 1",
        "fi",
        *(
            [f'exec {run} "$@"']
            if name == "pre-commit"
            else [f'{run} "$@" || code=$?', "exit $code"]
        ),
        "",
    ]
    rest = os.fsencode("\n".join(lines))
    return _BEGIN + _sum(rest) + b": holdfast init made it, holdfast init --undo undoes it\n" + rest


def _run_before(before: str, failed: str) -> list[str]:
    text = _text(before)
    # If the pre-commit framework came once more after us, it runs us, and has had its own turn.
    once = '[ -n "${PRE_COMMIT_RUNNING_LEGACY-}" ] || ' if is_made_by_pre_commit(text) else ""
    shell = _interpreter(text)
    if shell is None or not _reads_its_name(text):
        return [f'[ ! -x "$before" ] || {once}"$before" "$@" || {failed}']
    # Read by a shell that has our name, which was its own. If it starts itself once more, that is
    # us: then it gets its turn by the name that it has now.
    run = " ".join(map(_quoted, (*shell, "-c", '. "$HOLDFAST_GIT_BEFORE"')))
    return [
        '[ "${HOLDFAST_GIT_BEFORE-}" != "$before" ] || exec "$before" "$@"',
        f'[ ! -x "$before" ] || HOLDFAST_GIT_BEFORE=$before {run} "$0" "$@" || {failed}',
    ]


def _is_whole(text: bytes) -> bool:
    said, _, rest = text[len(_BEGIN) :].partition(b"\n")
    return said.startswith(_sum(rest) + b":")


def _sum(rest: bytes) -> bytes:
    from binascii import crc32

    return b"%08x" % crc32(rest)


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _put(folder: str, hook: Hook, words: Sequence[str], made: bool) -> None:
    """Write ours, after what is there got its second name: at no moment is there no hook."""
    before = f"{folder}/{hook.name}{BEFORE}"
    if hook.state == FOREIGN and not hook.before:
        try:
            os.link(hook.path, before, follow_symlinks=False)
        except (OSError, NotImplementedError):  # a file system without hard links
            os.rename(hook.path, before)
    made = made or _MADE in _text(hook.path)
    temporary = f"{hook.path}.holdfast-new"
    text = _render(hook.name, words, before, made=made)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o777)
    with open(descriptor, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    os.chmod(temporary, os.stat(temporary).st_mode & 0o777 | 0o500)
    os.replace(temporary, hook.path)


def _take_away(folder: str, hook: Hook) -> None:
    before = f"{folder}/{hook.name}{BEFORE}"
    if hook.path.endswith(LEGACY) and is_made_by_pre_commit(_text(before)):
        os.unlink(hook.path)  # it has put itself in front again: this is the same once more
        os.unlink(before)
    elif hook.state in (INSTALLED, OUTDATED, ABSENT):
        if hook.before:
            os.replace(before, hook.path)
        elif hook.state != ABSENT:
            os.unlink(hook.path)
    elif hook.before:  # written anew, and the same as it was
        os.unlink(before)
