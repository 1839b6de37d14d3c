"""Where git looks for its hooks: a folder of our own in front of `core.hooksPath`.

Without that setting git looks into its own folder `hooks`, and our hooks are there. With it
(husky, a folder of hooks that a project shares) they must not be: that folder may be under version
control, a package manager may rewrite it, or it may serve other repositories. So git is told to
look into `holdfast/hooks` in its own folder. A hook there runs ours, and then, by its own name, the
one that git would have run without Holdfast.

The setting itself is not changed. Lines at the end of `.git/config` include one more file,
`holdfast/config`, which sets it again: the last value counts. A manager that sets `core.hooksPath`
(husky does at each `npm install`) changes the line that it knows, and ours still counts. The lines
apply only to the folder for which they were written: in a repository that was moved or copied git
runs the hooks that it would run without Holdfast, until Holdfast repairs that.

What this does not promise: `git -c core.hooksPath=…` and git's environment override it.
"""

from __future__ import annotations

import os

from holdfast.core.model import Value
from holdfast.gate.git.git_files import GitError, call, git, outside
from holdfast.manager.files.replace_file import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

#: In the folder of git that all its worktrees share.
FOLDER = "holdfast"
_SETTINGS = f"{FOLDER}/config"
_BEGIN = b"# holdfast init made these lines, holdfast init --undo removes them\n"
_BEGIN_BROKEN = b"# holdfast init made these lines and ended the one before them; --undo\n"
#: Seconds to wait for another process that writes git's settings.
_LOCK_SECONDS = 5.0


class Folders(Value):
    """Where git looks for the hooks of a repository; all paths are absolute, none need exist.

    `root` is the root of the work tree, `git` its folder of git, `common` the one that all
    worktrees share; `now` is where git looks, `ours` our own folder, `theirs` where git would look
    without Holdfast. `is_set`: `theirs` comes from `core.hooksPath`.
    """

    __slots__ = ("common", "git", "is_set", "now", "ours", "root", "theirs")

    def __init__(self, root: str, git: str, common: str, values: list[tuple[str, str]]) -> None:
        """`values` are the files that set `core.hooksPath`, with its values; the last counts."""
        own = f"{common}/hooks"
        settings = f"{common}/{_SETTINGS}"
        others = [value for file, value in values if file != settings]
        self.root: Final = root
        self.git: Final = git
        self.common: Final = common
        self.ours: Final = f"{common}/{FOLDER}/hooks"
        # Relative to the root, because git resolves it from there when it runs a hook.
        self.now: Final = _at(root, values[-1][1]) if values else own
        self.theirs: Final = _at(root, others[-1]) if others else own
        self.is_set: Final = bool(others)


def _at(root: str, value: str) -> str:
    return os.path.normpath(os.path.join(root, value))


def _real(folder: str, path: str) -> str:
    return os.path.realpath(os.path.join(folder, path))


def folders(repo: str) -> Folders:
    """Ask git. Raises GitError if git fails."""
    env = outside()
    asked = ("--absolute-git-dir", "--git-common-dir")
    code, said, _ = call(repo, "rev-parse", "--show-toplevel", *asked, env=env)
    if code != 0:  # a bare repository has no work tree, and its hooks run in its own folder
        said = git(repo, "rev-parse", "--absolute-git-dir", *asked, env=env)
    root, own, common = (os.fsdecode(line) for line in said.removesuffix(b"\n").split(b"\n"))
    words = ("config", "-z", "--show-origin", "--type=path", "--get-all", "core.hooksPath")
    code, answer, said_so = call(root, *words, env=env)
    if code not in (0, 1):
        raise GitError(
            f"git cannot report where its hooks are: {said_so}",
            hint="git config --show-origin --get-all core.hooksPath",
            folder=root,
        )
    fields = iter(os.fsdecode(answer).split("\0")[:-1])
    values = [(_real(root, file.removeprefix("file:")), next(fields)) for file in fields]
    return Folders(root, own, _real(repo, common), values)


def turn_to_ours(repo: str) -> None:
    """Make git look into our own folder. Safe to repeat."""
    at = folders(repo)
    if at.now == at.ours:
        return
    _remove_lines(at.common)  # other settings may have been added after them
    _write(settings(at), b"[core]\n\thooksPath = %s\n" % _quoted(at.ours))
    _rewrite(f"{at.common}/config", lambda text: text + _lines(at.common, text))
    if folders(repo).now != at.ours:
        turn_back(at)
        raise GitError(
            "core.hooksPath is set in a place that overrides the repository's own settings",
            hint="git config --show-origin --get-all core.hooksPath says where",
            folder=at.root,
        )


def turn_back(at: Folders) -> None:
    """Make git look where it would without Holdfast. Safe to repeat."""
    _remove_lines(at.common)
    try:
        os.unlink(settings(at))
    except FileNotFoundError:
        return


def settings(at: Folders) -> str:
    """The file whose setting makes git look into our own folder."""
    return f"{at.common}/{_SETTINGS}"


def is_turned(at: Folders) -> bool:
    """Whether git's settings have anything of ours."""
    return os.path.lexists(settings(at)) or _lines_at(_text(f"{at.common}/config"))[1] > 0


# The lines in git's settings


def _lines(folder: str, before: bytes) -> bytes:
    """The lines to append to a text: for git's own folder, and for those of its worktrees."""
    begin = _BEGIN if not before or before.endswith(b"\n") else b"\n" + _BEGIN_BROKEN
    conditions = [_quoted(f"gitdir:{_as_pattern(folder)}{end}") for end in ("", "/")]
    return begin + b"".join(
        b"[includeIf %s]\n\tpath = %s\n" % (condition, _SETTINGS.encode())
        for condition in conditions
    )


def _lines_at(text: bytes) -> tuple[int, int]:
    """Start and end of our lines in git's settings; equal if there are none."""
    for begin in (b"\n" + _BEGIN_BROKEN, _BEGIN):
        start = text.find(begin)
        if start < 0:
            continue
        end = start + len(begin)
        while text.startswith(b"[includeIf ", end):
            follows = text.find(b"\n", text.find(b"\n", end) + 1) + 1
            if text[end:follows].endswith(b"\n\tpath = %s\n" % _SETTINGS.encode()) and follows:
                end = follows
            else:
                break
        return start, end
    return 0, 0


def _remove_lines(folder: str) -> None:
    start, end = _lines_at(_text(f"{folder}/config"))
    while end > start:
        _rewrite(f"{folder}/config", _without_lines)
        start, end = _lines_at(_text(f"{folder}/config"))


def _without_lines(text: bytes) -> bytes:
    start, end = _lines_at(text)
    if text[start : start + 1] == b"\n" and end < len(text):
        start += 1  # other lines follow ours, and need the line break before them
    return text[:start] + text[end:]


def _as_pattern(path: str) -> str:
    """A path as a pattern that matches only that path."""
    return "".join(f"\\{one}" if one in "\\*?[" else one for one in path)


def _quoted(text: str) -> bytes:
    """A text quoted for git's settings."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"')
    return os.fsencode(f'"{inner}"')


# Files


def _text(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _write(path: str, text: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if _text(path) != text:
        replace_file(path, text, durable=True)


def _rewrite(path: str, change: Callable[[bytes], bytes]) -> None:
    """Change git's settings as git does: under its lock file, atomically."""
    path = os.path.realpath(path)
    lock = f"{path}.lock"
    descriptor = _locked(lock)
    try:
        with open(descriptor, "wb") as file:
            file.write(change(_text(path)))
            file.flush()
            os.fsync(descriptor)
        os.chmod(lock, os.stat(path).st_mode & 0o777)
        os.replace(lock, path)
    except BaseException:
        os.unlink(lock)
        raise


def _locked(lock: str) -> int:
    from time import monotonic, sleep

    end = monotonic() + _LOCK_SECONDS
    while True:
        try:
            return os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            if monotonic() > end:
                raise GitError(
                    f"another process is writing git's settings: {lock} exists",
                    hint="remove it if no git is running",
                    path=lock,
                ) from None
        sleep(0.05)
