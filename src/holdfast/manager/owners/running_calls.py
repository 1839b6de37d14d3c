"""Which shell commands of an agent are running: from the moment each may begin until it returned.

An agent lives as long as its client's process. A command that was running when the client was
killed goes on writing, so it keeps the agent's files until it ends. Servers and background tasks of
earlier calls carry the same variable in their environment, and keep nothing: they began before the
call was opened, or something above them did that carries the variable too. What the very line of an
open call left in the background counts as that command, and so does what lost everybody above it
and began since.

Small files beside the ledger: one for each open call, with the boot and the tick of the clock in
which it was opened, as in the start times of processes. A client that was killed leaves its own
behind; after the next boot they say nothing. Sub-agents of one session carry the same variable, so
a command of one of them may be taken for that of another which has a call open.

Imported by hooks: nothing but what those need.
"""

from __future__ import annotations

import os
import time

from holdfast.manager.clock import boot_id
from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.files.replace_file import TEMPORARY, replace_file

#: Under the root: a folder for each agent, and in it a file for each call.
FOLDER = f"{LEDGER_FOLDER}/calls"
#: How a mark begins that counts only while a call is open: `call:FOLDER OF THE AGENT:NAME=VALUE`.
MARK = "call:"
_NAME_MAX = 120
_TRIES = 5
_NANOSECONDS = 1_000_000_000


def mark(key: str, variable: str, value: str) -> str:
    """The mark of an agent: processes that carry the variable, begun since a call was opened."""
    return f"{MARK}{named(key)}:{variable}={value}"


def variable_of(mark: str) -> str:
    """What a process carries in its environment that bears a mark of either form."""
    return _parts(mark)[1]


def _parts(mark: str) -> tuple[str, str]:
    """The folder of the agent, if it is such a mark, and the variable."""
    if mark.startswith(MARK):
        agent, between, variable = mark[len(MARK) :].partition(":")
        if between:
            return agent, variable
    return "", mark


def open_call(root: str, key: str, name: str) -> None:
    """A command of an agent may begin now. Never raises: the agent itself lives without it."""
    if not boot_id():
        return
    ticks = time.clock_gettime_ns(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") // _NANOSECONDS
    text = f"{boot_id()} {max(1, ticks - 1)}".encode()
    folder = _folder(root, key)
    try:
        for _ in range(_TRIES):  # whoever closes the last call removes the folder
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
    """It has returned, or never began. Never raises."""
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
    """Clear away what those left who were killed before the last boot. Never raises."""
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
    """Who keeps a dead owner's leases: whoever carries such a variable and began since that tick,
    which is 0 where that does not matter."""
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
    """When a call was opened, if that was since this boot."""
    try:
        with open(file, encoding="ascii", errors="replace") as stream:
            boot, _, ticks = stream.read(100).partition(" ")
    except FileNotFoundError:  # it was closed meanwhile
        return None
    return int(ticks) if boot == boot_id() and ticks.isdecimal() else None


def _folder(root: str, key: str) -> str:
    return f"{root}/{FOLDER}/{named(key)}"


def named(text: str) -> str:
    """A name for a file, and part of a mark: the text itself, if it is as plain as most are."""
    letters = text.replace("/", "").replace("-", "").replace("_", "").replace("@", "")
    if letters.isalnum() and text.isascii() and len(text) <= _NAME_MAX:
        return text.replace("/", "+")
    from _blake2 import blake2b

    return f"~{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
