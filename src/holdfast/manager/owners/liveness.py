"""Is the owner still alive? Dead only if it is proven.

A process is named by its host, its boot, its pid namespace, its pid and its start time, because
each of these alone comes back: pids are reused, and every container has a pid 1. There are three
answers: True, it is gone; False, it lives, or we were kept from looking this time; None, from here
nobody can ever tell, because it is foreign or hidden. None counts as alive; a lease like that ends
by time.

A dead owner may have left writers behind: a killed agent's shell goes on. So dead means also
that no process which carries one of the owner's marks (`NAME=value`) in its environment is left.
The marks are looked for among the processes that we may read, which are those of the same user.
Some marks count only for processes begun since a call was opened
(`holdfast.manager.owners.running_calls`); who
does not know which calls are open takes them for plain ones.

What this does not promise: that a descendant which cleaned its environment is found. On macOS
and other systems without a Linux /proc, only the absence of the pid is seen, a reused pid counts
as alive, and marks are not looked for. On Windows nobody can be judged.
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

    #: What those carry in their environment whom marks stand for, and the tick since the boot in
    #: which they must have begun, or later.
    Sought = list[tuple[str, int]]

_LINUX = sys.platform == "linux"
_POSIX = os.name == "posix"

#: Positions of the fields of /proc/PID/stat, counted after the name of the program.
STATE, PARENT, SESSION, TERMINAL, THREADS, START = 0, 1, 3, 4, 17, 19
ENVIRON_START, ENVIRON_END = 47, 48

#: How often to look for those that appeared while we looked. Where they change faster than we
#: can look, nothing is proven.
SCAN_ROUNDS_MAX = 8

#: What /proc answers about a process that is gone. Other errors, such as too many open files,
#: are our own trouble and prove nothing.
_NOT_THERE = (FileNotFoundError, ProcessLookupError)

_EXEC_LOOKS_MAX = 10
_EXEC_LOOK_SECONDS = 0.0005
_ENVIRON_BYTES = 65_536


#: How much of a long random name is kept: a witness is written with every grant.
ENOUGH = 12
#: The number of the machine's own pid namespace: the same on every Linux kernel.
NAMESPACE_FIRST = "4026531836"


class _Here:
    """What is the same for every process that we could name from this one."""

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
    """The witness of another process, or None when there is none that lives.

    Its start is 0 where that cannot be read: then nobody will notice that the pid was reused.
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


def plainly(marks: tuple[str, ...]) -> Sought:
    """Whom to look for where nobody knows of open calls."""
    from holdfast.manager.owners.running_calls import variable_of

    return [(variable_of(mark), 0) for mark in marks]


def is_dead(
    witness: Witness,
    marks: tuple[str, ...],
    sought: Callable[[tuple[str, ...]], Sought] = plainly,
) -> bool | None:
    """Whether the process is proven to be gone, and with it all that carry one of its marks; None
    if that cannot be judged from here."""
    here = _of_this_process()
    if witness is here.own:
        return False
    if witness.host != here.host:
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
    """The very process that had a pid, and nobody who comes after it with the same one.

    Closed when nobody uses it any more, so never under the hands of another thread.
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
        """Never use the descriptor again: its number may mean another file."""
        self._descriptor = -1

    def lives(self) -> bool:
        return not self._poll.poll(0)


# Whoever is asked for again and again is watched: reading it in /proc takes ten times as long.
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
    except RuntimeError:  # another thread asks it at this very moment
        return False
    _watched.pop(witness, None)
    return False


def _watch(witness: Witness) -> None:
    if not hasattr(os, "pidfd_open"):
        return
    if witness not in _watched:  # the first time: most are never asked for again
        if len(_watched) >= WATCHED_MAX:
            _watched.clear()
        _watched[witness] = None
        return
    try:
        watch = _Watch(witness.pid)
    except OSError:
        return
    # It may have ended, and its pid have gone to another, before we had the descriptor: only if
    # it was there all the time is it the one that was meant.
    if _gone(witness) is False:
        _watched[witness] = watch


def _gone(witness: Witness) -> bool | None:
    stat = read_stat(witness.pid)
    if stat is None:  # whoever has its pid and is hidden may be another one
        return _absent(witness.pid) or None
    fields = stat[1]
    return _ended(fields) or (witness.start != 0 and int(fields[START]) != witness.start)


def _ended(fields: list[bytes]) -> bool:
    # A program may end its first thread and go on with the others: then it looks like a zombie,
    # but still has more threads than the one that every zombie is counted with.
    return fields[STATE] in b"ZXx" and int(fields[THREADS]) <= 1


def _absent(pid: int) -> bool | None:
    # Where /proc hides the processes of others, only the kernel itself can say that one is gone.
    # Windows must not come here: there signal 0 is Ctrl-C.
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

    In a new pid namespace that kept the old /proc, its numbers mean other processes.
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
    # One number for each namespace from that of /proc down to our own.
    numbers = status[at + 7 : status.index(b"\n", at + 7)].split()
    return numbers == [b"%d" % os.getpid()]


def read_stat(pid: int | str) -> tuple[str, list[bytes]] | None:
    """The name of a process and its other facts from /proc, or None when it is not there.

    Raises OSError when it is there and may not be read.
    """
    try:
        data = _read(f"/proc/{pid}/stat")
    except _NOT_THERE:
        return None
    end = data.rfind(b")")  # the name may contain blanks and parentheses itself
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
    """Whether any process that we may read is one of these, or might have been just now."""
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
        # One that ended before we read it may have started another one after we listed them.
        if not missed:
            return False
        seen.update(new)
    return True


def _began_since(name: str, mark: bytes, since: int) -> bool | None:
    """Whether a process began at this tick or later, and so did those above it that carry the same
    mark; None if it has ended meanwhile."""
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
    return stat is None  # whoever is gone now is above nobody


def carriers(mark: str, since: int = 0) -> list[int]:
    """The processes that carry a mark, of those that we may read; for whoever put it there."""
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


def _environ(name: str) -> bytes | None:
    """The environment of a process; empty when it is not ours to read; None when it has none.

    The threads of the kernel have none, nor do zombies and those who ended while we looked.
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
    # While a process executes a new program its environment reads empty, on a busy machine for
    # milliseconds. It is really empty if its end is known and is where it starts.
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
    # Threads of the kernel and zombies run no file.
    try:
        os.readlink(f"/proc/{name}/exe")
    except (*_NOT_THERE, PermissionError):
        return False
    return True


def _is_ours(name: str) -> bool:
    # What has ended no longer lets even its own user read it.
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
    if machine and machine != "uninitialized":  # so it says during the very first boot
        return machine[:ENOUGH]
    return os.uname().nodename if _POSIX else os.environ.get("COMPUTERNAME", "")


def _namespace() -> str:
    try:
        link = os.readlink("/proc/self/ns/pid")[len("pid:[") : -len("]")]
    except OSError:
        return ""
    # Start times of the same process read differently in another time namespace.
    other_time = time_namespace()
    return f"{link} {other_time}" if other_time else link
