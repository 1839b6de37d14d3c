"""Processes that are inside a folder: their working directory or open files are in it.

A restore in place exchanges the folder under them. They are listed before it, and afterwards a
line is written to their terminals, as `write` does: a terminal that refuses messages (`mesg n`)
gets none.

What this does not promise: only root can see the processes of other users, and without /proc no
processes can be seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

_PROC = "/proc"
_FILES_NAMED_MAX = 10
_TERMINALS = ("/dev/pts/", "/dev/tty")
_GONE = " (deleted)"
#: The bit of a terminal's mode that lets other users write to it.
_TAKES_MESSAGES = 0o020


class Occupant:
    """One process, its working directory, and its open files."""

    __slots__ = ("files", "files_count", "folder", "name", "pid", "terminal")

    def __init__(
        self, pid: int, name: str, folder: str, files: list[str], files_count: int, terminal: str
    ) -> None:
        self.pid: Final = pid
        self.name: Final = name
        self.folder: Final = folder
        self.files: Final = files
        self.files_count: Final = files_count
        self.terminal: Final = terminal

    def to_dict(self) -> dict[str, Any]:
        """For other programs."""
        return {
            "pid": self.pid, "name": self.name, "folder": self.folder or None,
            "files": self.files, "files_count": self.files_count,
            "terminal": self.terminal or None,
        }  # fmt: skip


def can_look() -> bool:
    """Whether this system shows the folders and files of processes."""
    return os.path.isdir(f"{_PROC}/self/fd")


def inside(path: str) -> list[Occupant]:
    """The visible processes that are inside a folder, except this one."""
    if not can_look():
        return []
    found = []
    for name in sorted(filter(str.isdecimal, os.listdir(_PROC)), key=int):
        if int(name) == os.getpid():
            continue
        one = _look(int(name), path)
        if one is not None:
            found.append(one)
    return found


def tell(occupants: list[Occupant], text: str, *, but: str = "") -> set[str]:
    """Write a line to the terminals of processes, once to each; returns those that accepted it.

    `but` is the terminal of the caller, which shows the message anyway.
    """
    told = {but} if but else set()
    for terminal in sorted({one.terminal for one in occupants if one.terminal} - told):
        try:
            if not os.stat(terminal).st_mode & _TAKES_MESSAGES:
                continue
            descriptor = os.open(terminal, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            continue  # another user's, or gone
        try:
            os.write(descriptor, f"\r\n{text}\r\n".encode("utf-8", "replace"))
            told.add(terminal)
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return told


def _look(pid: int, path: str) -> Occupant | None:
    stands = _link(f"{_PROC}/{pid}/cwd")
    folder = stands if _is_in(stands, path) else ""
    opened = {one for one in _open(pid) if _is_in(one, path)}
    if not folder and not opened:
        return None
    return Occupant(
        pid, _name(pid), folder, sorted(opened)[:_FILES_NAMED_MAX], len(opened), _terminal(pid)
    )


def _open(pid: int) -> Iterator[str]:
    """The files that a process has open, runs or has mapped."""
    try:
        names = os.listdir(f"{_PROC}/{pid}/fd")
    except OSError:
        names = []
    for name in names:
        yield _link(f"{_PROC}/{pid}/fd/{name}")
    try:
        with open(f"{_PROC}/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                parts = line.rstrip("\n").split(None, 5)
                if len(parts) == 6:
                    yield parts[5]
    except OSError:
        return


def _terminal(pid: int) -> str:
    for number in (0, 1, 2):
        found = _link(f"{_PROC}/{pid}/fd/{number}")
        if found.startswith(_TERMINALS):
            return found
    return ""


def _name(pid: int) -> str:
    try:
        with open(f"{_PROC}/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _is_in(found: str, path: str) -> bool:
    return (found == path or found.startswith(f"{path}/")) and not found.endswith(_GONE)
