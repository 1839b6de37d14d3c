"""Holdfast and its rivals behind one interface: open, acquire, release, close.

Each rival is used in the fastest way that its documentation shows: one object, made once, acquired
and released many times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

OURS = "holdfast"
FILELOCK = "filelock.FileLock"
LEASE = "filelock.SoftFileLease"
DISKCACHE = "diskcache.Lock"
FASTENERS = "fasteners.InterProcessLock"
PORTALOCKER = "portalocker.Lock"
FLOCK = "flock(2)"
OURS_MEMORY = "holdfast, memory"
SPECS = "holdfast.specs"
SPECS_UNSYNCED = "holdfast.specs, unsynced"
SOFT = "filelock.SoftFileLock"

#: The path that all contestants lock. It exists, like most files that are edited.
PATH = "app/x.rb"

#: So long that a wait which ends here is a fault, not a slow machine.
WAIT_SECONDS_MAX = 120.0


class Lock(Protocol):
    """One lock, ready to be acquired."""

    def acquire(self) -> object: ...
    def release(self) -> object: ...
    def close(self) -> object: ...


class Plain:
    """A lock made of the rival's own functions, with nothing of ours in between."""

    def __init__(
        self,
        acquire: Callable[[], object],
        release: Callable[[], object],
        close: Callable[[], object] = lambda: None,
    ) -> None:
        self.acquire = acquire
        self.release = release
        self.close = close


class Ours:
    """A manager, used as a program would use it."""

    def __init__(self, manager: Any, who: str, path: str = PATH) -> None:
        self.manager = manager
        self.who = who
        self.path = path
        self.grant_id: Any = None

    def acquire(self) -> None:
        self.grant_id = self.manager.acquire(
            holder=self.who, write_paths=[self.path], timeout=WAIT_SECONDS_MAX
        ).id

    def release(self) -> None:
        self.manager.release(self.grant_id)

    def close(self) -> None:
        self.manager.close()


def _holdfast(folder: Path, who: str) -> Lock:
    from holdfast import LockManager

    return Ours(LockManager.open(str(folder)), who)


def _holdfast_in_memory(folder: Path, who: str) -> Lock:
    from holdfast import LockManager

    return Ours(LockManager(), who)


def _filelock(folder: Path, who: str) -> Lock:
    from filelock import FileLock

    lock = FileLock(str(folder / "filelock"))
    return Plain(lock.acquire, lock.release)


def _specs(folder: Path, who: str) -> Lock:
    from holdfast.specs import SpecLocks

    (folder / ".kiro/specs/demo").mkdir(parents=True)
    specs = SpecLocks(folder, holder=who, owner=who)

    def acquire() -> None:
        assert specs.acquire_lock("demo").success

    def release() -> None:
        assert specs.release_lock("demo").success

    return Plain(acquire, release)


def _specs_unsynced(folder: Path, who: str) -> Lock:
    import os

    os.fsync = lambda fd: None  # of this child alone
    return _specs(folder, who)


def _soft(folder: Path, who: str) -> Lock:
    from filelock import SoftFileLock

    lock = SoftFileLock(str(folder / "soft"))
    return Plain(lock.acquire, lock.release)


def _lease(folder: Path, who: str) -> Lock:
    from filelock import SoftFileLease

    lock = SoftFileLease(str(folder / "lease"))
    return Plain(lock.acquire, lock.release)


def _diskcache(folder: Path, who: str) -> Lock:
    import diskcache  # type: ignore[import-untyped]

    cache = diskcache.Cache(str(folder / "diskcache"), eviction_policy="none")
    lock = diskcache.Lock(cache, PATH)
    return Plain(lock.acquire, lock.release, cache.close)


def _fasteners(folder: Path, who: str) -> Lock:
    import fasteners  # type: ignore[import-untyped]

    lock = fasteners.InterProcessLock(str(folder / "fasteners"))
    return Plain(lock.acquire, lock.release)


def _portalocker(folder: Path, who: str) -> Lock:
    import portalocker

    # Without NON_BLOCKING it waits inside the kernel, which is its fastest way.
    lock = portalocker.Lock(str(folder / "portalocker"), flags=portalocker.LockFlags.EXCLUSIVE)
    return Plain(lock.acquire, lock.release)


def _flock(folder: Path, who: str) -> Lock:
    import fcntl
    import os

    opened = os.open(folder / "flock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return Plain(
        lambda: fcntl.flock(opened, fcntl.LOCK_EX),
        lambda: fcntl.flock(opened, fcntl.LOCK_UN),
        lambda: os.close(opened),
    )


_MAKERS: dict[str, Callable[[Path, str], Lock]] = {
    OURS: _holdfast,
    OURS_MEMORY: _holdfast_in_memory,
    FILELOCK: _filelock,
    LEASE: _lease,
    DISKCACHE: _diskcache,
    FASTENERS: _fasteners,
    PORTALOCKER: _portalocker,
    FLOCK: _flock,
    SPECS: _specs,
    SPECS_UNSYNCED: _specs_unsynced,
    SOFT: _soft,
}

_opened: dict[str, Lock] = {}


def repository(folder: Path) -> Path:
    """A folder that looks like a repository, with the file that all contestants lock."""
    (folder / ".git").mkdir(parents=True, exist_ok=True)
    file = folder / PATH
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return folder


def open_lock(name: str, folder: Path, who: str) -> None:
    """In a child: opens a lock, and acquires it once, so that first-time work is done."""
    keep(name, _MAKERS[name](folder, who))


def keep(name: str, lock: Lock) -> None:
    """In a child: keeps a lock under a name, and acquires it once."""
    _opened[name] = lock
    lock.acquire()
    lock.release()


def close_lock(name: str) -> None:
    _opened.pop(name).close()


def opened(name: str) -> Lock:
    return _opened[name]


def cycles(name: str, seconds: float) -> tuple[float, float]:
    """In a child: acquires and releases as often as it can.

    Returns cycles per second by the clock, and microseconds of processor time for one: the latter
    is stable when other programs use the machine, but excludes time asleep.
    """
    lock = _opened[name]
    acquire, release, clock = lock.acquire, lock.release, time.perf_counter
    count = 0
    worked = time.process_time()
    begun = now = clock()
    end = begun + seconds
    while now < end:
        acquire()
        release()
        count += 1
        now = clock()
    return count / (now - begun), (time.process_time() - worked) / count * 1e6
