"""What a task has changed: the files, and a patch for `git apply`.

Both are read from the task's keepsake, which has every file as it was before the first write, and
from the present files. No other task changes them meanwhile, because this one holds their leases.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.gate.git.git_files import outside
from holdfast.manager.files.file_restore import FILE, FOLDER, LINK, NONE, OTHER
from holdfast.manager.files.replace_file import replace_file

if TYPE_CHECKING:
    from holdfast.manager.files.keepsakes import IsHeld, Keepsake
    from holdfast.work.launching.run_folders import Run

PATCH = "changes.patch"
#: A larger patch is of no use to a reader; the files are compared, but not shown.
PATCH_BYTES_MAX = 64 << 20
GIT_SECONDS = 60.0
_DIFF = (
    "diff", "--no-index", "--no-prefix", "--binary", "--no-color", "--no-ext-diff", "--no-textconv",
    "--no-renames", "a", "b",
)  # fmt: skip
#: How git names a file that is on one side only: `b/x b/x`, or `"b/x" "b/x"`. No line of a file's
#: content begins like this.
_SAME_SIDE = re.compile(rb'^diff --git ("?)([ab])/(.*) \1\2/\3$', re.MULTILINE)


def changed_files(run: Run, is_held: IsHeld | None = None) -> list[str]:
    """The files that have changed, relative to the root, in order. Raises KeepsakeError."""
    keepsake = run.keepsake
    return sorted(
        at for at, was in keepsake.entries()
        if was["kind"] not in (FOLDER, OTHER)
        and (is_held is None or "key" not in was or is_held(was["key"]))
        and _differs(keepsake, os.path.join(run.root, at), was)
    )  # fmt: skip


def _differs(keepsake: Keepsake, path: str, was: dict[str, Any]) -> bool:
    try:
        now = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return bool(was["kind"] != NONE)
    if stat.S_ISDIR(now.st_mode):
        return bool(was["kind"] != NONE)  # a folder in the place of a file; its files are listed
    if was["kind"] == LINK:
        return not stat.S_ISLNK(now.st_mode) or os.readlink(path) != was["to"]
    if was["kind"] == NONE or not stat.S_ISREG(now.st_mode):
        return True
    if stat.S_IMODE(now.st_mode) != was["mode"]:
        return True
    with open(path, "rb") as one, open(keepsake.copy_of(was), "rb") as other:
        while True:
            left, right = one.read(1 << 20), other.read(1 << 20)
            if left != right:
                return True
            if not left:
                return False


def write_patch(run: Run) -> str:
    """Write the changes of the task so far; the file. Empty if that is impossible, which is no
    reason to fail: the patch is for people."""
    target = f"{run.folder}/{PATCH}"
    room = f"{run.folder}/compared"
    try:
        found = _compared(room) if _lay_out(run, room) else b""
        replace_file(target, found)
    except (OSError, subprocess.SubprocessError):
        return ""
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return target


def _lay_out(run: Run, room: str) -> bool:
    """Two folders, with the files as they were and as they are. False if no file has changed."""
    changed = changed_files(run)
    if not changed:
        return False
    shutil.rmtree(room, ignore_errors=True)
    for side in ("a", "b"):
        os.makedirs(f"{room}/{side}")
    left = PATCH_BYTES_MAX
    kept = dict(run.keepsake.entries())
    for at in changed:
        was, inner = kept[at], at.lstrip("/")
        if was["kind"] == FILE:
            left -= _copied(run.keepsake.copy_of(was), f"{room}/a/{inner}", was["mode"], left)
        elif was["kind"] == LINK:
            _linked(was["to"], f"{room}/a/{inner}")
        path = os.path.join(run.root, at)
        with suppress(FileNotFoundError, NotADirectoryError):
            now = os.lstat(path)
            if stat.S_ISLNK(now.st_mode):
                _linked(os.readlink(path), f"{room}/b/{inner}")
            elif stat.S_ISREG(now.st_mode):
                left -= _copied(path, f"{room}/b/{inner}", stat.S_IMODE(now.st_mode), left)
    return True


def _copied(source: str, target: str, mode: int, left: int) -> int:
    size = os.path.getsize(source)
    if size > left:
        raise OSError(27, "the patch would be too large", source)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)
    os.chmod(target, mode | 0o600)
    return size


def _linked(to: str, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(to, path)


def _compared(room: str) -> bytes:
    done = subprocess.run(
        ["git", *_DIFF], cwd=room, env=outside(), capture_output=True, timeout=GIT_SECONDS,
        check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise subprocess.SubprocessError(done.stderr.decode(errors="replace"))
    return _SAME_SIDE.sub(rb"diff --git \1a/\3 \1b/\3", done.stdout)
