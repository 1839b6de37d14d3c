"""Files that the guard keeps beside the ledger: commands in progress, and contents.

    aside/running/   one file for each command in progress
    aside/kept/      contents by their digest, so unchanged content is kept once
    aside/undo/ID/   contents that can be restored, for a week
    aside/said/      what each agent was told recently

Files older than a day that belong to no damage are removed. No lease depends on these files: to
delete them only loses the contents that could have been restored.
"""

from __future__ import annotations

import os
import stat
from time import time_ns

from holdfast.core import file_times
from holdfast.core.codec import dumps, loads
from holdfast.gate.guard.edit_marks import digest, guard_path
from holdfast.manager.files.replace_file import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    Stamp = list[int]

KEPT_BYTES_MAX = 64 << 20
#: A larger file is not read: then only its size and times are compared.
HASHED_BYTES_MAX = 256 << 20
DAY_SECONDS = 86_400
UNDO_SECONDS = 7 * DAY_SECONDS
_SWEEP_SECONDS = 3_600

FILE, ABSENT, LINK, OTHER = "file", "absent", "link", "other"


def kind_and_stamp(file: str) -> tuple[str, Stamp]:
    """The kind of file, and a stamp that reveals a change without reading it."""
    try:
        status = os.lstat(file)
    except OSError:
        return ABSENT, []
    stamp = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode]
    if stat.S_ISREG(status.st_mode):
        return FILE, stamp
    return (LINK if stat.S_ISLNK(status.st_mode) else OTHER), stamp


def is_settled(stamp: Stamp) -> bool:
    """Whether an equal stamp later proves that nothing has changed."""
    return bool(stamp) and file_times.is_settled(stamp[3], time_ns())


def content_of(file: str, most: int = KEPT_BYTES_MAX) -> bytes | None:
    """The content of a regular file that is not too large; of a link, its target."""
    flags = os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0)
    try:
        if os.path.islink(file):
            return os.fsencode(os.readlink(file))
        with open(os.open(file, flags), "rb") as stream:
            data = stream.read(most + 1)
    except OSError:
        return None
    return data if len(data) <= most else None


class Kept:
    """Records contents, and keeps copies as far as there is room."""

    __slots__ = ("_known", "_new", "_root", "_to_hash", "_to_keep")

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, Any] | None = None
        self._new: dict[str, Any] = {}
        self._to_keep = KEPT_BYTES_MAX
        self._to_hash = HASHED_BYTES_MAX

    def remember(self, path: str, file: str) -> tuple[str, Stamp, str, bool]:
        """A file's kind, stamp and digest (empty if it was not read), and whether its content is
        kept."""
        kind, stamp = kind_and_stamp(file)
        if kind != FILE:
            return kind, stamp, "", False
        settled = is_settled(stamp)
        if self._known is None:
            self._known = loaded(guard_path(self._root, "known.json")) or {}
        before = self._known.get(path)
        if (
            settled
            and before
            and before[0] == stamp
            and (not before[2] or self._is_kept(before[1]))
        ):
            self._new[path] = before
            self._to_keep -= stamp[1] if before[2] else 0
            return kind, stamp, before[1], before[2]
        if stamp[1] > self._to_hash:
            return kind, stamp, "", False
        data = content_of(file, self._to_hash)
        if data is None:
            return kind, stamp, "", False
        self._to_hash -= len(data)
        name = digest(data)
        keeps = len(data) <= self._to_keep
        if keeps:
            self._to_keep -= len(data)
            self._keep(name, data)
        if settled and stamp == kind_and_stamp(file)[1]:
            self._new[path] = [stamp, name, keeps]
        if not settled:
            stamp[3] = 0  # never equal to a real stamp, so the content will be compared
        return kind, stamp, name, keeps

    def done(self) -> None:
        """Save what was recorded, so that the files need not be read the next time."""
        if self._new != self._known:
            save(guard_path(self._root, "known.json"), self._new)

    def _is_kept(self, name: str) -> bool:
        try:
            os.utime(guard_path(self._root, "kept", name))
        except OSError:
            return False
        return True

    def _keep(self, name: str, data: bytes) -> None:
        if not self._is_kept(name):
            put(guard_path(self._root, "kept", name), data)


def has_changed(file: str, kind: str, stamp: Stamp, name: str) -> bool:
    """Whether a file is no longer as it was recorded."""
    now, seen = kind_and_stamp(file)
    if now != kind:
        return True
    if kind == ABSENT or (stamp and seen == stamp):
        return False
    if kind == OTHER:
        return bool(stamp) and seen[0] != stamp[0]
    if not name:
        return seen[1:3] != stamp[1:3]
    return name_of(file) != name


def name_of(file: str) -> str:
    """The digest of a file's present content; its kind if it is not a file."""
    kind, _stamp = kind_and_stamp(file)
    if kind in (ABSENT, OTHER):
        return kind
    data = content_of(file, HASHED_BYTES_MAX)
    return digest(data) if data is not None else OTHER


# Files


def put(name: str, data: bytes) -> None:
    """Write a file atomically, and its folder if it is missing."""
    try:
        replace_file(name, data, mode=0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(name), 0o700, exist_ok=True)
        replace_file(name, data, mode=0o600)


def save(name: str, value: Any) -> None:
    put(name, dumps(value).encode("utf-8", "backslashreplace"))


def loaded(name: str) -> dict[str, Any] | None:
    """What `save` wrote; None if it cannot be read."""
    try:
        with open(name, "rb") as stream:
            found = loads(stream.read().decode())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


# Commands in progress


class Running:
    """A command in progress."""

    __slots__ = ("agent", "at", "data", "file")

    def __init__(self, file: str, data: dict[str, Any]) -> None:
        self.file: Final = file
        self.data: Final = data
        self.agent: Final[str] = data["agent"]
        self.at: Final[int] = data["at"]


def begin(root: str, call: str, data: dict[str, Any]) -> None:
    """Record a command that begins."""
    save(guard_path(root, "running", f"{call}-{data['at']}-{os.getpid()}.json"), data)


def all_running(root: str) -> list[Running]:
    """All recorded commands, oldest first."""
    folder = guard_path(root, "running")
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".json")]
    except OSError:
        return []
    found = []
    for name in names:
        data = loaded(f"{folder}/{name}")
        if data is not None and isinstance(data.get("at"), int) and "agent" in data:
            found.append(Running(f"{folder}/{name}", data))
    return sorted(found, key=lambda one: one.at)


def remove(file: str) -> None:
    try:
        os.unlink(file)
    except OSError:
        pass


def clear(root: str, folder: str) -> None:
    """Remove all files of a folder."""
    for file in _older(guard_path(root, folder), float("inf")):
        remove(file)


def sweep(root: str) -> list[str]:
    """Remove old files, once an hour. The ids of damage that can no longer be undone."""
    mark = guard_path(root, "swept")
    now = time_ns() // 10**9
    try:
        if now - os.stat(mark).st_mtime < _SWEEP_SECONDS:
            return []
    except OSError:
        pass
    put(mark, b"")
    for folder in ("running", "kept", "said", "watch"):
        for file in _older(guard_path(root, folder), now - DAY_SECONDS):
            remove(file)
    ids = map(os.path.basename, _older(guard_path(root, "undo"), now - UNDO_SECONDS))
    return [id for id in ids if discard(root, id)]


def discard(root: str, id: str) -> bool:
    """Remove what is kept for one damage. False if that fails."""
    folder = guard_path(root, "undo", id)
    for file in _older(folder, float("inf")):
        remove(file)
    try:
        os.rmdir(folder)
    except OSError:
        return False
    return True


def _older(folder: str, moment: float) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [
                entry.path
                for entry in entries
                if entry.stat(follow_symlinks=False).st_mtime < moment
            ]
    except OSError:
        return []
