"""Processes that a command left running, and the files that they have open for writing."""

from __future__ import annotations

import os

from holdfast.manager.owners.liveness import read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PARENT_AT = 1
_COMMAND_BYTES = 200


def descendants() -> list[int]:
    """All present descendants of this process, which adopts their orphans, except the side
    processes that it has started: they are not the command's, and outlive it."""
    if not _has_children():
        return []
    from holdfast.gate.side_process import STARTED

    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            found = _stat(name)
            if found is not None and found[0] not in b"ZX":
                children.setdefault(int(found[_PARENT_AT]), []).append(int(name))
    below: list[int] = []
    todo = [os.getpid()]
    while todo:
        some = [one for one in children.get(todo.pop(), []) if one not in STARTED]
        below += some
        todo += some
    return below


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _stat(name: str) -> list[bytes] | None:
    try:
        found = read_stat(name)
    except OSError:
        return None
    return None if found is None else found[1]


def written_by(process: int) -> Iterator[str]:
    """The paths of the files that a process has open or mapped for writing."""
    folder = f"/proc/{process}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        names = []
    for name in names:
        try:
            with open(f"/proc/{process}/fdinfo/{name}", encoding="ascii") as file:
                flags = int(file.read().partition("flags:")[2].split()[0], 8)
            if flags & os.O_ACCMODE and not flags & os.O_PATH:
                yield os.readlink(f"{folder}/{name}")
        except (OSError, IndexError, ValueError):
            continue  # closed by now
    yield from _mapped_by(process)


def _mapped_by(process: int) -> Iterator[str]:
    try:
        with open(f"/proc/{process}/maps", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        parts = line.split(maxsplit=5)
        if len(parts) == 6 and parts[1][1] == "w" and parts[1][3] == "s":
            yield parts[5].replace("\\012", "\n")


def command_of(process: int) -> str:
    """The command line of a process."""
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            words = file.read(_COMMAND_BYTES).rstrip(b"\0").split(b"\0")
    except OSError:
        return "?"
    return " ".join(word.decode("utf-8", "replace") for word in words)
