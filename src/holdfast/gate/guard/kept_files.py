"""Files that the guard keeps beside the ledger: commands in progress, and contents.

    aside/running/   one file for each command in progress
    aside/kept/      contents by their digest, so what does not change is kept once
    aside/undo/ID/   the contents that can be put back, for a week
    aside/said/      what each agent was told of lately

What is older than a day and not damage goes away by itself. Nothing here is needed for anybody's
lease: whoever deletes it loses what could have been put back.
"""

from __future__ import annotations

import os
import stat
from time import time_ns

from holdfast.core import file_times
from holdfast.core.codec import dumps, loads
from holdfast.gate.guard.edit_marks import aside, digest
from holdfast.manager.files.replace_file import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    Stamp = list[int]

KEPT_BYTES_MAX = 64 << 20
#: More than this is not even read: then only size and times tell.
HASHED_BYTES_MAX = 256 << 20
DAY_SECONDS = 86_400
UNDO_SECONDS = 7 * DAY_SECONDS
_SWEEP_SECONDS = 3_600

FILE, ABSENT, LINK, OTHER = "file", "absent", "link", "other"


def glimpse(file: str) -> tuple[str, Stamp]:
    """What is there, and by what a change of it can be seen without reading it."""
    try:
        status = os.lstat(file)
    except OSError:
        return ABSENT, []
    stamp = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode]
    if stat.S_ISREG(status.st_mode):
        return FILE, stamp
    return (LINK if stat.S_ISLNK(status.st_mode) else OTHER), stamp


def is_settled(stamp: Stamp) -> bool:
    """Whether the same stamp later means that nothing has changed."""
    return bool(stamp) and file_times.is_settled(stamp[3], time_ns())


def content_of(file: str, most: int = KEPT_BYTES_MAX) -> bytes | None:
    """The content of an ordinary file that is not too large; of a link, where it leads."""
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
    """Remembers contents, and keeps them as far as there is room."""

    __slots__ = ("_known", "_new", "_root", "_to_hash", "_to_keep")

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, Any] | None = None
        self._new: dict[str, Any] = {}
        self._to_keep = KEPT_BYTES_MAX
        self._to_hash = HASHED_BYTES_MAX

    def remember(self, path: str, file: str) -> tuple[str, Stamp, str, bool]:
        """What is there: its kind, its stamp, its digest (empty if it was not read), and whether
        the content is kept."""
        kind, stamp = glimpse(file)
        if kind != FILE:
            return kind, stamp, "", False
        settled = is_settled(stamp)
        if self._known is None:
            self._known = loaded(aside(self._root, "known.json")) or {}
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
        if settled and stamp == glimpse(file)[1]:
            self._new[path] = [stamp, name, keeps]
        if not settled:
            stamp[3] = 0  # as no stamp ever is: the content will be compared
        return kind, stamp, name, keeps

    def done(self) -> None:
        """What was remembered now saves reading it the next time."""
        if self._new != self._known:
            save(aside(self._root, "known.json"), self._new)

    def _is_kept(self, name: str) -> bool:
        try:
            os.utime(aside(self._root, "kept", name))
        except OSError:
            return False
        return True

    def _keep(self, name: str, data: bytes) -> None:
        if not self._is_kept(name):
            put(aside(self._root, "kept", name), data)


def has_changed(file: str, kind: str, stamp: Stamp, name: str) -> bool:
    """Whether something is not any more what was remembered of it."""
    now, seen = glimpse(file)
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
    """The digest of what a file holds now; a word for what is no file."""
    kind, _stamp = glimpse(file)
    if kind in (ABSENT, OTHER):
        return kind
    data = content_of(file, HASHED_BYTES_MAX)
    return digest(data) if data is not None else OTHER


# Files


def put(name: str, data: bytes) -> None:
    """Make a file, whole or not at all."""
    try:
        replace_file(name, data, mode=0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(name), 0o700, exist_ok=True)
        replace_file(name, data, mode=0o600)


def save(name: str, value: Any) -> None:
    put(name, dumps(value).encode("utf-8", "backslashreplace"))


def loaded(name: str) -> dict[str, Any] | None:
    """What was saved; None if it cannot be read."""
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
    """A command begins."""
    save(aside(root, "running", f"{call}-{data['at']}-{os.getpid()}.json"), data)


def all_running(root: str) -> list[Running]:
    """All commands that are written down, oldest first."""
    folder = aside(root, "running")
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
    """Take all files of a folder away."""
    for file in _older(aside(root, folder), float("inf")):
        remove(file)


def sweep(root: str) -> list[str]:
    """Take away what is too old, once an hour. The ids of damage that cannot be undone any more."""
    mark = aside(root, "swept")
    now = time_ns() // 10**9
    try:
        if now - os.stat(mark).st_mtime < _SWEEP_SECONDS:
            return []
    except OSError:
        pass
    put(mark, b"")
    for folder in ("running", "kept", "said", "watch"):
        for file in _older(aside(root, folder), now - DAY_SECONDS):
            remove(file)
    ids = map(os.path.basename, _older(aside(root, "undo"), now - UNDO_SECONDS))
    return [id for id in ids if discard(root, id)]


def discard(root: str, id: str) -> bool:
    """Keep nothing of damage any more. False if that cannot be."""
    folder = aside(root, "undo", id)
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
