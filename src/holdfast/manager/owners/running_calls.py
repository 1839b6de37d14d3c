"""The running shell commands of an agent: each from its earliest start until it has returned.

An agent lives as long as its client's process. A command that is running when the client is killed
goes on writing, so it keeps the agent's files until it ends. Servers and background tasks of
earlier calls have the same variable in their environment, and keep nothing: they began before the
call was opened, or an ancestor with the variable did. A background process of an open call counts
as that command, and so does a process that has lost its ancestors and began since.

There is a small file next to the ledger for each open call, with the boot and the clock tick in
which it was opened, in the unit of process start times. A killed client leaves its files behind;
they are ignored after the next boot. Sub-agents of one session share a variable, so a command of
one of them may be attributed to another that has an open call.

Hooks import this module, so it imports only what they need.
"""

from __future__ import annotations

import os
import time

from holdfast.manager.clock import boot_id
from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.files.replace_file import TEMPORARY, replace_file

#: Under the root: a folder for each agent, and in it a file for each call.
FOLDER = f"{LEDGER_FOLDER}/calls"
#: The prefix of a mark that counts only while a call is open: `call:AGENT'S FOLDER:NAME=VALUE`.
MARK = "call:"
_NAME_MAX = 120
_TRIES = 5
_NANOSECONDS = 1_000_000_000


def mark(key: str, variable: str, value: str) -> str:
    """The mark of an agent: processes with the variable that began after a call was opened."""
    return f"{MARK}{named(key)}:{variable}={value}"


def variable_of(mark: str) -> str:
    """The variable for a mark of either form."""
    return _parts(mark)[1]


def _parts(mark: str) -> tuple[str, str]:
    """The folder of the agent, if it is a mark for calls, and the variable."""
    if mark.startswith(MARK):
        agent, between, variable = mark[len(MARK) :].partition(":")
        if between:
            return agent, variable
    return "", mark


def open_call(root: str, key: str, name: str) -> None:
    """A command of an agent may begin now. Never raises: the agent's life does not depend on it."""
    if not boot_id():
        return
    ticks = time.clock_gettime_ns(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") // _NANOSECONDS
    text = f"{boot_id()} {max(1, ticks - 1)}".encode()
    folder = _folder(root, key)
    try:
        for _ in range(_TRIES):  # closing the last call removes the folder
            try:
                replace_file(f"{folder}/{named(name)}", text)
                return
            except FileNotFoundError:
                _make(f"{root}/{FOLDER}")
                _make(folder)
    except OSError:
        pass


def _make(folder: str) -> None:
    try:
        os.mkdir(folder)
    except FileExistsError:
        pass


def close_call(root: str, key: str, name: str) -> None:
    """The command has returned, or never began. Never raises."""
    folder = _folder(root, key)
    try:
        os.unlink(f"{folder}/{named(name)}")
        os.rmdir(folder)
    except OSError:
        pass


def close_all(root: str, key: str) -> None:
    """None of an agent's commands is running. Never raises."""
    folder = _folder(root, key)
    try:
        for name in os.listdir(folder):
            try:
                os.unlink(f"{folder}/{name}")
            except OSError:
                pass
        os.rmdir(folder)
    except OSError:
        pass


def sweep(root: str) -> None:
    """Remove the files of clients that were killed before the last boot. Never raises."""
    try:
        for agent in os.listdir(f"{root}/{FOLDER}"):
            folder = f"{root}/{FOLDER}/{agent}"
            for name in os.listdir(folder):
                if not name.endswith(TEMPORARY) and _moment(f"{folder}/{name}") is None:
                    os.unlink(f"{folder}/{name}")
            if not os.listdir(folder):
                os.rmdir(folder)
    except OSError:
        pass


def sought(root: str, marks: tuple[str, ...]) -> list[tuple[str, int]]:
    """Which processes keep a dead owner's leases: those with such a variable that began at or after
    that tick, which is 0 if any start counts."""
    found = []
    for mark in marks:
        agent, variable = _parts(mark)
        since = _opened(f"{root}/{FOLDER}/{agent}") if agent else 0
        if since is not None:
            found.append((variable, since))
    return found


def _opened(folder: str) -> int | None:
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    moments = [_moment(f"{folder}/{name}") for name in names if not name.endswith(TEMPORARY)]
    return min((moment for moment in moments if moment is not None), default=None)


def _moment(file: str) -> int | None:
    """When a call was opened, if that was in this boot."""
    try:
        with open(file, encoding="ascii", errors="replace") as stream:
            boot, _, ticks = stream.read(100).partition(" ")
    except FileNotFoundError:  # the call was closed meanwhile
        return None
    return int(ticks) if boot == boot_id() and ticks.isdecimal() else None


def _folder(root: str, key: str) -> str:
    return f"{root}/{FOLDER}/{named(key)}"


def named(text: str) -> str:
    """A name for a file, and for part of a mark: the text itself if it is plain, else a hash."""
    letters = text.replace("/", "").replace("-", "").replace("_", "").replace("@", "")
    if letters.isalnum() and text.isascii() and len(text) <= _NAME_MAX:
        return text.replace("/", "+")
    from _blake2 import blake2b

    return f"~{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
