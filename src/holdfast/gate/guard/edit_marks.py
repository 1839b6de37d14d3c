"""Small marks between agents, as files beside the ledger: it is cheap to find that there are none.

A command in progress watches the owners of the files that it must not touch. Each watched owner has
one file, and appends to it the paths that it writes itself. The watcher only remembers the size of
that file, so no clocks are compared.

Imported by every edit: nothing but what those need.
"""

from __future__ import annotations

import os
from _blake2 import blake2b

from holdfast.core.codec import dumps, loads
from holdfast.manager.files.paths import LEDGER_FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ASIDE = "aside"
#: Instead of a path: the owner may have written any file.
ANYTHING = "*"
_APPEND = os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)


def guard_path(root: str, *names: str) -> str:
    """A path in the folder where the guard of a repository keeps its files."""
    return "/".join((root, LEDGER_FOLDER, ASIDE, *names))


def digest(text: str | bytes) -> str:
    """A short name for a text or for data."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return blake2b(data, digest_size=16).hexdigest()


def _watched(root: str, key: str) -> str:
    return guard_path(root, "watch", digest(key))


def note_writes(root: str, key: str, paths: Iterable[str]) -> None:
    """Note what an owner writes itself, if a command watches it."""
    try:
        file = os.open(_watched(root, key), _APPEND)
    except OSError:
        return
    try:
        lines = "".join(f"{dumps(path)}\n" for path in paths)
        os.write(file, lines.encode("utf-8", "backslashreplace"))
    finally:
        os.close(file)


def watch_owner(root: str, key: str) -> tuple[int, int]:
    """Begin to watch an owner: the inode of its file, and the offset at which new marks begin."""
    name = _watched(root, key)
    flags = _APPEND | os.O_CREAT
    try:
        file = os.open(name, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(name), 0o700, exist_ok=True)
        file = os.open(name, flags, 0o600)
    try:
        status = os.fstat(file)
        os.utime(name)
        return status.st_ino, status.st_size
    finally:
        os.close(file)


def noted_writes(root: str, key: str, inode: int, start: int) -> list[str] | None:
    """The paths that an owner has noted since; None if that is no longer known."""
    try:
        with open(_watched(root, key), "rb") as stream:
            if os.fstat(stream.fileno()).st_ino != inode:
                return None
            stream.seek(start)
            lines = stream.read().decode("utf-8", "replace").splitlines()
        return [str(loads(line)) for line in lines]
    except (OSError, ValueError):
        return None


# Calling an agent to be told something


def _called(root: str, key: str) -> str:
    return guard_path(root, "told", digest(key))


def call_agent(root: str, key: str) -> None:
    """Note that there is something to tell an agent. Each call makes its mark longer."""
    name = _called(root, key)
    os.makedirs(os.path.dirname(name), 0o700, exist_ok=True)
    while True:
        file = os.open(name, _APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, b".")
            if which_call(root, key)[0] == os.fstat(file).st_ino:
                return  # else a process that does not know of this call has just removed the mark
        finally:
            os.close(file)


def is_called(root: str, key: str) -> bool:
    """Whether there is something to tell it."""
    return os.path.exists(_called(root, key))


def which_call(root: str, key: str) -> tuple[int, int]:
    """What distinguishes a call from later ones."""
    try:
        status = os.stat(_called(root, key))
    except OSError:
        return 0, 0
    return status.st_ino, status.st_size


def answer_call(root: str, key: str, which: tuple[int, int]) -> None:
    """Note that the agent has been told, unless there was another call since."""
    name = _called(root, key)
    taken = f"{name}.{os.getpid()}"
    try:
        os.rename(name, taken)
        status = os.stat(taken)
        if (status.st_ino, status.st_size) == which:
            os.unlink(taken)
        else:
            os.rename(taken, name)
    except OSError:
        pass
