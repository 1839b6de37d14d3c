"""The ledger's lock: `ledger/ledger.lock`, as every program that appends to the ledger takes it.

The lock is held while the file exists; every program creates it exclusively. Ours appears whole,
because it is a link to a small file of this process (its *seat*): a process that is killed at any
moment leaves either no lock or one that names the process. A folder of that name, as a shell script
creates it, counts as well.

The lock does not expire. If the process of one of our locks is proven dead, exactly one of the
waiting processes removes it: the one that has the `flock` on that very file, and still finds it in
place. The lock of another program is removed only on a person's order (`holdfast proof doctor`).

What this does not promise: that another program, which removes locks only because of their age,
never removes one that is in use. Then two processes may append at once. Our events still replace
nothing, and `release` reports that the lock was lost, so that the caller can check its events.
"""

from __future__ import annotations

import errno
import os
import random
import stat
import time

from holdfast.core.errors import LockTimeoutError
from holdfast.core.model import Witness
from holdfast.manager.owners.liveness import is_dead, own_witness
from holdfast.proof.append_line import Line
from holdfast.proof.dialects import proof_codec
from holdfast.proof.errors import LockBreakRefused, told
from holdfast.proof.proof_folder import NEW, READ, ProofFolder, read
from holdfast.store.sqlite.write_gate import LOCK_EX, LOCK_NB, flock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from holdfast.core.ledger_time import Clock

WAIT_SECONDS = 5.0
POLL_SECONDS = 0.010
#: The first pauses: our processes hold the lock for a tenth of a millisecond.
_PAUSE_SECONDS = 0.0001
#: How often the members of the line check whether it is their turn.
_GLANCE_SECONDS = 0.001
#: How long newcomers may overtake a member of the line.
_GRACE_SECONDS = 0.010
#: If the lock stays free this long, the member whose turn it is must have been stopped.
_PASS_SECONDS = 0.25
_LOOK_SECONDS = 0.05
#: A lock of another program that is younger than this is never broken.
BREAK_SECONDS = 30.0

_MARK = "holdfast"
SEATS = "seats"
LINE = "line"
SEATS_MAX = 64


class LockState:
    """The state of the ledger's lock at one moment."""

    __slots__ = ("acquired_at", "agent", "inode", "is_folder", "modified", "owner")

    def __init__(self, status: os.stat_result, agent: str, acquired_at: int | None) -> None:
        self.inode: Final = (status.st_dev, status.st_ino)
        self.is_folder: Final = stat.S_ISDIR(status.st_mode)
        self.modified: Final = status.st_mtime_ns
        self.agent: Final = agent
        self.acquired_at: Final = acquired_at
        self.owner: Final = witness_in(agent)

    @property
    def is_dead(self) -> bool:
        """Whether it is one of ours, and its process is proven dead."""
        return self.owner is not None and is_dead(self.owner, ()) is True

    def age(self, now: int) -> float:
        """The age of the lock in seconds."""
        since = self.acquired_at
        return (
            now - (self.modified if since is None or since > now else since)
        ) / proof_codec.SECOND

    def holder(self) -> str:
        """The holder, in words."""
        if self.owner is not None:
            return f"process {self.owner.pid} of holdfast"
        if self.agent:
            return repr(self.agent)
        return "a script (the lock is a folder)" if self.is_folder else "another program"


def agent_id() -> str:
    """The id of this process, by which any process on this machine can judge whether it lives."""
    own = own_witness()
    return f"{_MARK}:{own.host}:{own.boot}:{own.namespace}:{own.pid}:{own.start}"


def witness_in(agent: str) -> Witness | None:
    """The process that an `agent_id` of ours names."""
    parts = agent.split(":")
    if len(parts) != 6 or parts[0] != _MARK or not (parts[4].isdigit() and parts[5].isdigit()):
        return None
    return Witness(
        host=parts[1], boot=parts[2], namespace=parts[3], pid=int(parts[4]), start=int(parts[5])
    )


def look(folder: ProofFolder) -> LockState | None:
    """The ledger's lock, if it exists. An unreadable one has no known owner."""
    try:
        status = os.lstat(folder.lock)
        if not stat.S_ISREG(status.st_mode):
            return LockState(status, "", None)
        data, status = read(folder.lock)
    except FileNotFoundError:
        return None
    except PermissionError:
        return LockState(status, "", None)
    return LockState(status, *proof_codec.lock_fields(data))


class WriteLock:
    """Acquires and releases the ledger's lock. Not for use by several threads at once."""

    def __init__(self, folder: ProofFolder, clock: Clock, wait_seconds: float) -> None:
        self._folder: Final = folder
        self._clock: Final = clock
        self._wait_seconds: Final = wait_seconds
        self._line: Final = Line(os.path.join(folder.own, LINE))
        self._seat = ""
        self._file = -1
        self._content = b""
        self._inode = 0
        self._pid = 0

    def acquire(self) -> None:
        """Acquire the lock. Raises LockTimeoutError when it does not come free in time."""
        try:
            if self._pid != os.getpid():
                self._make_seat()
            if not (self._line.may_pass() and self._try()):
                self._wait()
        except OSError as error:
            self._remove_own()
            raise told(error, "acquiring the ledger's lock") from error
        except BaseException:
            self._remove_own()
            raise

    def release(self) -> bool:
        """Release the lock. False if another process had removed it meanwhile."""
        return self._remove_own()

    def close(self) -> None:
        """Remove the seat."""
        self._line.close()
        if self._seat and self._pid == os.getpid():
            os.close(self._file)
            _remove(self._seat)
        self._seat, self._pid = "", 0

    # Acquiring

    def _try(self) -> bool:
        now = self._clock.read().wall * 1000
        for _ in range(2):
            self._note(proof_codec.lock_bytes(agent_id(), now))
            try:
                os.link(self._seat, self._folder.lock)
            except FileExistsError:
                return False
            except FileNotFoundError:  # our folder was deleted, which is allowed
                self._make_seat()
                continue
            return True
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._folder.ledger)

    def _wait(self) -> None:
        """Queue in the line, and try when it is our turn."""
        self._remove_own()  # an interrupt may have left it with us
        began = turn_since = time.monotonic()
        free_since: float | None = None
        look_at, turn = began, False
        self._line.join()
        try:
            while True:
                now = time.monotonic()
                if not turn and self._line.is_my_turn():
                    turn, turn_since = True, now
                if os.path.lexists(self._folder.lock):
                    free_since = None
                    if now >= look_at:
                        look_at = now + _LOOK_SECONDS
                        if self._break_dead():
                            continue
                else:
                    free_since = now if free_since is None else free_since
                    if (turn or now - free_since > _PASS_SECONDS) and self._try():
                        return
                if now - began >= self._wait_seconds:
                    raise self._timeout()
                if now - began >= _GRACE_SECONDS:
                    self._line.stop_overtaking()
                pause = min(_PAUSE_SECONDS + (now - turn_since) / 8, POLL_SECONDS)
                time.sleep((pause if turn else _GLANCE_SECONDS) * random.uniform(0.5, 1))
        finally:
            self._line.leave()

    def _timeout(self) -> LockTimeoutError:
        found = look(self._folder)
        if found is None:
            return LockTimeoutError("timeout waiting for lock", hint="try again in a moment")
        age = found.age(self._clock.read().wall * 1000)
        return LockTimeoutError(
            f"timeout waiting for lock: {found.holder()} has held {self._folder.lock} "
            f"for {age:.0f} s",
            hint="try again in a moment; if its holder is gone, see holdfast proof doctor",
            agent_id=found.agent,
        )

    def _remove_own(self) -> bool:
        """Remove the lock if it is the one that we created."""
        try:
            if os.lstat(self._folder.lock).st_ino != self._inode:
                return False
            os.unlink(self._folder.lock)
        except FileNotFoundError:
            return False
        return True

    def _make_seat(self) -> None:
        """Create the file that the lock will be a link to."""
        seats = self._folder.make_own(SEATS)
        own = own_witness()
        if self._seat and self._pid == own.pid:
            os.close(self._file)
        self._seat = os.path.join(seats, f"{own.pid}-{own.start}-{os.urandom(4).hex()}")
        self._file = os.open(self._seat, NEW, 0o600)
        self._inode = os.fstat(self._file).st_ino
        self._pid = own.pid
        self._content = b""
        self._note(proof_codec.lock_bytes(agent_id(), 0))
        sweep(self._folder, SEATS_MAX)

    def _note(self, content: bytes) -> None:
        """Write our id and the time into the seat; no process reads it before it is linked."""
        if content != self._content:
            os.lseek(self._file, 0, os.SEEK_SET)
            os.ftruncate(self._file, os.write(self._file, content))
            self._content = content

    # Breaking

    def _break_dead(self) -> bool:
        """Remove a lock of ours whose process is proven dead."""
        found = look(self._folder)
        return found is not None and found.is_dead and _remove_lock(self._folder, found)


def break_lock(folder: ProofFolder, now: int) -> LockState | None:
    """Remove the lock on a person's order; None if there was none."""
    found = look(folder)
    if found is None:
        return None
    if found.owner is not None and found.owner.host == own_witness().host and not found.is_dead:
        raise LockBreakRefused(
            f"process {found.owner.pid} of holdfast holds the lock and is not proven dead",
            hint=f"let it finish, or end it (kill {found.owner.pid}); then there is nothing "
            "to break",
            agent_id=found.agent,
        )
    age = found.age(now)
    if not found.is_dead and age < BREAK_SECONDS:
        raise LockBreakRefused(
            f"{found.holder()} has held the lock for only {age:.0f} s",
            hint=f"make sure that its holder is gone, and retry when it is {BREAK_SECONDS:.0f} s "
            "old",
            agent_id=found.agent,
        )
    try:
        if found.is_folder:
            os.rmdir(folder.lock)
        else:
            _remove_lock(folder, found)
    except OSError as error:
        raise told(error, "breaking the ledger's lock") from error
    return found


def _remove_lock(folder: ProofFolder, found: LockState) -> bool:
    """Remove exactly this lock; False if it is gone or another process is removing it."""
    try:
        descriptor = os.open(folder.lock, READ)
    except FileNotFoundError:
        return False
    try:
        # Only the process with the flock on this very file removes the name, so the name cannot
        # refer to another file between the check and the removal.
        flock(descriptor, LOCK_EX | LOCK_NB)
        here, there = os.fstat(descriptor), os.lstat(folder.lock)
        same = found.inode == (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
        # Inode numbers are reused, so the content must be the same as well.
        same = same and proof_codec.lock_fields(os.read(descriptor, 4096))[0] == found.agent
        if same:
            os.unlink(folder.lock)
        return same
    except (BlockingIOError, FileNotFoundError):
        return False
    finally:
        os.close(descriptor)


def sweep(folder: ProofFolder, most: int = 0) -> list[str]:
    """Remove the seats of processes that have ended, if there are more than `most`."""
    seats = os.path.join(folder.own, SEATS)
    try:
        names = os.listdir(seats)
    except FileNotFoundError:
        return []
    if len(names) <= most:
        return []
    gone = []
    for name in names:
        path = os.path.join(seats, name)
        try:
            owner = witness_in(proof_codec.lock_fields(read(path)[0])[0])
        except OSError:
            continue
        if owner is not None and is_dead(owner, ()):
            _remove(path)
            gone.append(name)
    return gone


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
