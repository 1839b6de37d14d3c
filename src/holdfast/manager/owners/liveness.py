"""Whether an owner is dead. An owner is alive unless its death is proven.

A process is identified by its host, boot, pid namespace, pid and start time, because each of these
alone recurs: pids are reused, and every container has a pid 1. There are three answers: True, it is
dead; False, it is alive, or we could not check this time; None, it can never be determined from
here, because the process is foreign or hidden. None counts as alive; such a lease ends by time.

On one machine's own ledger a process of another boot is dead. On a ledger that several hosts share
it may be alive on a host with the same id (`is_shared`).

A dead owner may have left writers behind: a killed agent's shell goes on. So an owner is dead only
if there is also no process left with one of its marks (`NAME=value`) in its environment. Marks are
searched among the processes that we may read, which are those of the same user. Some marks count
only for processes that began after a call was opened (`holdfast.manager.owners.running_calls`); a
caller that does not know the open calls treats them as plain marks.

This judges processes only. A store asks `holdfast.manager.files.unfinished_edits`, for which an
owner with half-done edits is not dead before these are undone.

A descendant that cleaned its environment is not found. On macOS and other systems without a Linux
/proc, only a missing pid proves death, a reused pid counts as alive, and marks are not searched. On
Windows no owner can be checked.
"""

from __future__ import annotations

import os
import sys
from time import sleep

from holdfast.core.model import Witness
from holdfast.manager.clock import boot_id, read_line, time_namespace
from holdfast.store.file_descriptors import on_forgetting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    #: Variables to search in environments, each with the tick since boot at or after which the
    #: process must have begun.
    Sought = list[tuple[str, int]]

_LINUX = sys.platform == "linux"
_POSIX = os.name == "posix"

#: Positions of the fields of /proc/PID/stat, counted after the name of the program.
STATE, PARENT, SESSION, TERMINAL, THREADS, START = 0, 1, 3, 4, 17, 19
ENVIRON_START, ENVIRON_END = 47, 48

#: How often to repeat the search for processes that appeared meanwhile. If they change faster than
#: we can read them, nothing is proven.
SCAN_ROUNDS_MAX = 8

#: The errors of /proc for a process that is gone. Other errors, such as too many open files,
#: are our own and prove nothing.
_NOT_THERE = (FileNotFoundError, ProcessLookupError)

_EXEC_LOOKS_MAX = 10
_EXEC_LOOK_SECONDS = 0.0005
_ENVIRON_BYTES = 65_536


#: How much of a long random name is kept: a witness is written with every grant.
ENOUGH = 12
#: The number of the machine's own pid namespace: the same on every Linux kernel.
NAMESPACE_FIRST = "4026531836"


class _Here:
    """The parts of a witness that are the same for all processes visible from this one."""

    __slots__ = ("boot", "host", "namespace", "own", "sees")

    def __init__(self) -> None:
        self.host = _host()
        self.boot = boot_id().replace("-", "")[:ENOUGH]
        self.namespace = _namespace()
        self.sees: bool | None = None
        self.own = self.witness(os.getpid(), _own_start())

    def witness(self, pid: int, start: int) -> Witness:
        return Witness(
            host=self.host, boot=self.boot, namespace=self.namespace, pid=pid, start=start
        )


_here: _Here | None = None


def _forget() -> None:
    global _here
    _here = None


if hasattr(os, "register_at_fork"):  # a child in a new pid namespace may have its parent's pid
    os.register_at_fork(after_in_child=_forget)


def _of_this_process() -> _Here:
    global _here
    here = _here
    if here is None or here.own.pid != os.getpid():
        here = _here = _Here()
    return here


def is_outermost(witness: Witness) -> bool:
    """Whether a process is in the machine's own pid namespace, and not in a container."""
    return witness.namespace in ("", NAMESPACE_FIRST)


def own_witness() -> Witness:
    """The witness of this process."""
    return _of_this_process().own


def witness_of(pid: int) -> Witness | None:
    """The witness of another process, or None if it is not alive.

    Its start is 0 where that cannot be read: then a reused pid goes unnoticed.
    """
    here = _of_this_process()
    if pid == here.own.pid:
        return here.own
    if sees_processes():
        try:
            stat = read_stat(pid)
        except OSError:
            pass
        else:
            if stat is not None:
                return None if _ended(stat[1]) else here.witness(pid, int(stat[1][START]))
    return None if pid <= 0 or _absent(pid) else here.witness(pid, 0)


def as_plain_marks(marks: tuple[str, ...]) -> Sought:
    """The variables to search for a caller that does not know the open calls."""
    from holdfast.manager.owners.running_calls import variable_of

    return [(variable_of(mark), 0) for mark in marks]


def is_dead(
    witness: Witness,
    marks: tuple[str, ...],
    sought: Callable[[tuple[str, ...]], Sought] = as_plain_marks,
    *,
    is_shared: bool = False,
) -> bool | None:
    """Whether the process, and every process with one of its marks, is known to be dead; None if
    that cannot be determined from here.

    `is_shared`: several hosts use the ledger that names the process. Two of them may have the same
    id, copied with the image of a machine, so there another boot is another host."""
    here = _of_this_process()
    if witness is here.own:
        return False
    if witness.host != here.host:
        return None
    if is_shared and (witness.boot != here.boot or not here.boot):
        return None
    if not _LINUX:
        if witness == here.own:
            return False
        return _absent(witness.pid) if witness.boot == here.boot else None
    if witness.boot != here.boot:
        return True if witness.boot and here.boot else None
    if witness.namespace != here.namespace:
        return None
    if witness.pid == here.own.pid and witness.start == here.own.start:
        return False
    if not here.boot or not sees_processes():
        return None
    if _is_watched_and_lives(witness):
        return False
    try:
        gone = _gone(witness)
        if not gone:
            if gone is False:
                _watch(witness)
            return gone
        return not (marks and _carried(sought(marks)))
    except PermissionError:
        return None
    except OSError:
        return False


class _Watch:
    """Refers to one process, and never to a later one with the same pid.

    It is closed when no thread uses it any more, so never while another thread does.
    """

    __slots__ = ("_descriptor", "_poll")

    def __init__(self, pid: int) -> None:
        from select import POLLIN, poll

        self._descriptor = os.pidfd_open(pid)
        self._poll = poll()
        self._poll.register(self._descriptor, POLLIN)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            os.close(self._descriptor)

    def forget(self) -> None:
        """Never use the descriptor again: its number may belong to another file."""
        self._descriptor = -1

    def lives(self) -> bool:
        return not self._poll.poll(0)


# Owners that are checked repeatedly are watched: reading them in /proc takes ten times as long.
_watched: dict[Witness, _Watch | None] = {}
WATCHED_MAX = 32


def _forget_watches(still_ours: bool) -> None:
    for watch in list(_watched.values()):
        if watch is not None and not still_ours:
            watch.forget()
    _watched.clear()


on_forgetting(_forget_watches)


def _is_watched_and_lives(witness: Witness) -> bool:
    watch = _watched.get(witness)
    if watch is None:
        return False
    try:
        if watch.lives():
            return True
    except RuntimeError:  # another thread is using it at this moment
        return False
    _watched.pop(witness, None)
    return False


def _watch(witness: Witness) -> None:
    if not hasattr(os, "pidfd_open"):
        return
    if witness not in _watched:  # the first check: most owners are never checked again
        if len(_watched) >= WATCHED_MAX:
            _watched.clear()
        _watched[witness] = None
        return
    try:
        watch = _Watch(witness.pid)
    except OSError:
        return
    # The process may have ended, and its pid been reused, before we had the descriptor: only if it
    # is still alive now does the descriptor refer to it.
    if _gone(witness) is False:
        _watched[witness] = watch


def _gone(witness: Witness) -> bool | None:
    stat = read_stat(witness.pid)
    if stat is None:  # a hidden process with its pid may be another one
        return _absent(witness.pid) or None
    fields = stat[1]
    return _ended(fields) or (witness.start != 0 and int(fields[START]) != witness.start)


def _ended(fields: list[bytes]) -> bool:
    # A program may end its first thread and continue with the others: then it looks like a zombie,
    # but still has more threads than the one that every zombie has.
    return fields[STATE] in b"ZXx" and int(fields[THREADS]) <= 1


def _absent(pid: int) -> bool | None:
    # Where /proc hides other users' processes, only the kernel can tell that one is gone. This must
    # not run on Windows, where signal 0 is Ctrl-C.
    if not _POSIX or pid <= 0:
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OverflowError:
        return None
    except OSError:
        return False
    return False


def sees_processes() -> bool:
    """Whether /proc is mounted and shows the pids of our own pid namespace.

    In a new pid namespace with the old /proc, its numbers belong to other processes.
    """
    here = _of_this_process()
    if here.sees is None:
        here.sees = _LINUX and _shows_us()
    return here.sees


def _shows_us() -> bool:
    try:
        status = _read("/proc/self/status")
    except OSError:
        return False
    at = status.find(b"\nNSpid:")
    if at < 0:
        return False
    # One number per namespace, from that of /proc down to our own.
    numbers = status[at + 7 : status.index(b"\n", at + 7)].split()
    return numbers == [b"%d" % os.getpid()]


def read_stat(pid: int | str) -> tuple[str, list[bytes]] | None:
    """The name of a process and its other fields in /proc; None if it does not exist.

    Raises OSError if it exists and is not readable.
    """
    try:
        data = _read(f"/proc/{pid}/stat")
    except _NOT_THERE:
        return None
    end = data.rfind(b")")  # the name itself may contain spaces and parentheses
    if end < 0:
        return None
    return data[data.find(b"(") + 1 : end].decode("utf-8", "replace"), data[end + 2 :].split()


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _carried(sought: Sought) -> bool:
    """Whether any readable process has one of these variables, or may have had one just now."""
    if not sought:
        return False
    wanted = [(os.fsencode(mark), since) for mark, since in sought]
    seen: set[str] = set()
    for _ in range(SCAN_ROUNDS_MAX):
        new = [name for name in os.listdir("/proc") if name.isdigit() and name not in seen]
        missed = False
        for name in new:
            environ = _environ(name)
            if environ is None:
                missed = True
                continue
            for mark, since in wanted:
                if mark in environ and mark in environ.split(b"\0"):
                    begun = _began_since(name, mark, since)
                    if begun:
                        return True
                    missed = missed or begun is None
        # A process that ended before we read it may have started another one after the listing.
        if not missed:
            return False
        seen.update(new)
    return True


def _began_since(name: str, mark: bytes, since: int) -> bool | None:
    """Whether a process, and all its ancestors with the same mark, began at this tick or later;
    None if it has ended meanwhile."""
    if not since:
        return True
    stat = read_stat(name)
    if stat is None or _ended(stat[1]):
        return None
    while stat is not None and int(stat[1][START]) >= since:
        above = stat[1][PARENT].decode()
        if mark not in (_environ(above) or b"").split(b"\0"):
            return True
        stat = read_stat(above)
    return stat is None  # a dead process is no ancestor any more


def carriers(mark: str, since: int = 0) -> list[int]:
    """The readable processes with a mark in their environment."""
    wanted = os.fsencode(mark)
    found = []
    for name in os.listdir("/proc"):
        try:
            environ = _environ(name) if name.isdigit() else None
            if environ and wanted in environ.split(b"\0") and _began_since(name, wanted, since):
                found.append(int(name))
        except OSError:
            continue
    return found


def environment_of(pid: int) -> dict[str, str]:
    """The variables that a process was started with; empty if they cannot be read."""
    try:
        text = os.fsdecode(_environ(str(pid)) or b"")
    except OSError:
        return {}
    pairs = (pair.partition("=") for pair in text.split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def _environ(name: str) -> bytes | None:
    """The environment of a process; empty if we may not read it; None if it has none.

    Kernel threads, zombies, and processes that ended during the read have none.
    """
    path = f"/proc/{name}/environ"
    try:
        found = _read_all(path)
        if not found and _is_program(name):
            return _environ_after_exec(path, name)
    except _NOT_THERE:
        return None
    except PermissionError:
        return None if _is_ours(name) else b""
    return found or None


def _environ_after_exec(path: str, name: str) -> bytes | None:
    # While a process executes a new program, its environment reads as empty, for milliseconds on a
    # busy machine. It is really empty if its end is known and equals its start.
    for _ in range(_EXEC_LOOKS_MAX):
        stat = read_stat(name)
        if stat is None or _ended(stat[1]):
            return None
        starts, ends = stat[1][ENVIRON_START], stat[1][ENVIRON_END]
        if ends != b"0":
            found = _read_all(path)
            if found or starts == ends:
                return found
        sleep(_EXEC_LOOK_SECONDS)
    raise TimeoutError(f"process {name} has been starting for too long")


def _is_program(name: str) -> bool:
    # Kernel threads and zombies have no executable.
    try:
        os.readlink(f"/proc/{name}/exe")
    except (*_NOT_THERE, PermissionError):
        return False
    return True


def _is_ours(name: str) -> bool:
    # Not even its own user can read a process that has ended.
    try:
        return os.stat(f"/proc/{name}").st_uid == os.geteuid()
    except _NOT_THERE:
        return True


def _read_all(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        found = chunk = os.read(descriptor, _ENVIRON_BYTES)
        while chunk:
            chunk = os.read(descriptor, _ENVIRON_BYTES)
            found += chunk
        return found
    finally:
        os.close(descriptor)


def _own_start() -> int:
    if not _LINUX:
        return 0
    try:
        stat = read_stat("self")
    except PermissionError:
        return 0
    return int(stat[1][START]) if stat else 0


def _host() -> str:
    machine = read_line("/etc/machine-id")
    if machine and machine != "uninitialized":  # its content during the very first boot
        return machine[:ENOUGH]
    return os.uname().nodename if _POSIX else os.environ.get("COMPUTERNAME", "")


def _namespace() -> str:
    try:
        link = os.readlink("/proc/self/ns/pid")[len("pid:[") : -len("]")]
    except OSError:
        return ""
    # The start time of a process reads differently in another time namespace.
    other_time = time_namespace()
    return f"{link} {other_time}" if other_time else link
