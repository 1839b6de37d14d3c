"""Every process below this one: it dies with it, is killed, and is waited for.

A launcher is the reaper of everything that an agent starts, including processes that fork away and
change their session: a process that loses its parent becomes a child of the launcher.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.gate.sandbox.kernel.landlock import prctl
from holdfast.gate.sandbox.starting.fork_server import SET_DEATH_SIGNAL

if TYPE_CHECKING:
    from holdfast.gate.sandbox.starting.fork_client import ForkServer

PR_SET_CHILD_SUBREAPER = 36


def be_reaper() -> None:
    """Processes that our children leave behind become our children."""
    prctl()(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int, number: int) -> None:
    """Get this signal when our parent dies. The caller passes the parent's pid as it was before the
    fork."""
    prctl()(SET_DEATH_SIGNAL, number, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before the kernel had this order
        os._exit(1)


def kill_all(spared: ForkServer | None = None, but_wait_for: int = 0) -> None:
    """Kill everything below us except the fork server, until nothing is left. The status of one of
    them is still returned."""
    while but_wait_for or _has_children(spared):
        for pid in descendants(os.getpid()):
            try:
                if spared is None or pid != spared.pid:
                    os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        if but_wait_for:
            return
        _reap(spared, 0)


def reap(wanted: int, spared: ForkServer | None = None) -> int | None:
    """Collect every process that has ended; the status of one of them, if it has. An agent may
    leave many processes behind, and may itself run for long."""
    found = None
    with suppress(ChildProcessError):
        while True:
            pid, status = _reap(spared, os.WNOHANG)
            if not pid:
                break
            if pid == wanted:
                found = status
    return found


def _reap(spared: ForkServer | None, options: int) -> tuple[int, int]:
    """Collect one process that has ended: its pid, and how it ended. 0 if there is none now."""
    pid, status = os.waitpid(-1, options)
    if spared is not None and pid == spared.pid:
        spared.pid = 0  # killed from outside: a process that gets its pid is not spared
    return pid, status


def _has_children(spared: ForkServer | None) -> bool:
    """Whether a process other than the fork server is left below us; those that have ended do not
    count.

    None is missed: a process that loses its parent becomes our child, and only we collect them. A
    process that was forked by one that has ended since is seen in the next round, for then one has
    ended.
    """
    while True:
        try:
            while _reap(spared, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        if spared is None or not spared.pid:
            return True
        if any(pid != spared.pid for pid in _children()):
            return True
        try:
            if not _reap(spared, os.WNOHANG)[0]:
                return False
        except ChildProcessError:
            return False


def _children() -> list[int]:
    """The children of this process, including those that have ended and were not collected."""
    found: list[int] = []
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    except FileNotFoundError:  # a kernel without this list
        return _families().get(os.getpid(), [])
    return found


def descendants(pid: int) -> list[int]:
    """All processes below one, whatever sessions and groups they have made."""
    children = _families()
    found: list[int] = []
    front = [pid]
    while front:
        front = [child for one in front for child in children.get(one, ())]
        found += front
    return found


def _families() -> dict[int, list[int]]:
    """The children of every process that has any."""
    found: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            found.setdefault(int(fields[1]), []).append(int(entry))
    return found


def signal_group(pid: int, number: int) -> None:
    """Send a signal to a whole group, if there is one that we may signal."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return
