"""The ledger's lock: `ledger/ledger.lock`, as every program that appends to the ledger takes it.

It is there or it is not; making it is exclusive, whoever makes it. Ours appears whole, because it
is a link to a small file of this process (its *seat*): a process that is killed at any moment
leaves either no lock or one that says whose it was. A folder of that name, as a shell script
makes it, counts just the same.

It does not expire. One of ours whose process is proven dead is taken away by exactly one of those
who wait for it: whoever has the `flock` on that very file, and still finds it in its place. One
of another program is taken away only when a person says so (`holdfast proof doctor`).

What this does not promise: that another program which removes locks for their age alone does not
remove one that is still in use. Then two may append at once. What we append still replaces
nothing, and `release` tells that the lock was lost, so that the caller can look again.
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
from holdfast.store.write_gate import LOCK_EX, LOCK_NB, flock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from holdfast.core.ledger_time import Clock

WAIT_SECONDS = 5.0
POLL_SECONDS = 0.010
#: The first pauses: ours is held for a tenth of a millisecond.
_PAUSE_SECONDS = 0.0001
#: How often those in the line look whether it is their turn.
_GLANCE_SECONDS = 0.001
#: So long newcomers may pass those in the line.
_GRACE_SECONDS = 0.010
#: A lock that is free for so long although it is somebody's turn: that one must have been stopped.
_PASS_SECONDS = 0.25
_LOOK_SECONDS = 0.05
#: Younger than this, a lock of another program is not broken, whoever asks.
BREAK_SECONDS = 30.0

_MARK = "holdfast"
SEATS = "seats"
LINE = "line"
SEATS_MAX = 64


class LockState:
    """What is known about the ledger's lock at one moment."""

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
        """Whether it is one of ours whose process is proven to be gone."""
        return self.owner is not None and is_dead(self.owner, ()) is True

    def age(self, now: int) -> float:
        """For how many seconds it has been there."""
        since = self.acquired_at
        return (
            now - (self.modified if since is None or since > now else since)
        ) / proof_codec.SECOND

    def holder(self) -> str:
        """Who has it, in words."""
        if self.owner is not None:
            return f"process {self.owner.pid} of holdfast"
        if self.agent:
            return repr(self.agent)
        return "a script (the lock is a folder)" if self.is_folder else "another program"


def agent_id() -> str:
    """This process, as it can be judged by everybody on this machine."""
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
    """The ledger's lock, if it is there. What may not be read has no known owner."""
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
    """Takes and gives back the ledger's lock. Not for several threads at once."""

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
        """Take it. Raises LockTimeoutError when it does not come free in time."""
        try:
            if self._pid != os.getpid():
                self._sit_down()
            if not (self._line.may_pass() and self._try()):
                self._wait()
        except OSError as error:
            self._give_back()
            raise told(error, "acquiring the ledger's lock") from error
        except BaseException:
            self._give_back()
            raise

    def release(self) -> bool:
        """Give it back. False if somebody had taken it away meanwhile."""
        return self._give_back()

    def close(self) -> None:
        """Let go of the seat."""
        self._line.close()
        if self._seat and self._pid == os.getpid():
            os.close(self._file)
            _remove(self._seat)
        self._seat, self._pid = "", 0

    # Taking it

    def _try(self) -> bool:
        now = self._clock.read().wall * 1000
        for _ in range(2):
            self._note(proof_codec.lock_bytes(agent_id(), now))
            try:
                os.link(self._seat, self._folder.lock)
            except FileExistsError:
                return False
            except FileNotFoundError:  # somebody deleted what is ours: it is deletable
                self._sit_down()
                continue
            return True
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._folder.ledger)

    def _wait(self) -> None:
        """Stand in line, and try when it is our turn."""
        self._give_back()  # an interrupt at the wrong moment may have left it to us
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
                    self._line.come_of_age()
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

    def _give_back(self) -> bool:
        """Remove the lock if it is the one that we made."""
        try:
            if os.lstat(self._folder.lock).st_ino != self._inode:
                return False
            os.unlink(self._folder.lock)
        except FileNotFoundError:
            return False
        return True

    def _sit_down(self) -> None:
        """Make the file that the lock will be a link to."""
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
        """Let the seat say who we are, and since when; nobody reads it before it is linked."""
        if content != self._content:
            os.lseek(self._file, 0, os.SEEK_SET)
            os.ftruncate(self._file, os.write(self._file, content))
            self._content = content

    # Breaking one

    def _break_dead(self) -> bool:
        """Take away a lock of ours whose process is proven dead."""
        found = look(self._folder)
        return found is not None and found.is_dead and _remove_lock(self._folder, found)


def break_lock(folder: ProofFolder, now: int) -> LockState | None:
    """Take the lock away because a person says so; None if there was none."""
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
    """Remove exactly the lock that was looked at; False if it is gone or somebody else is at it."""
    try:
        descriptor = os.open(folder.lock, READ)
    except FileNotFoundError:
        return False
    try:
        # One at a time holds the lock on this very file, and only it removes the name, so the
        # name cannot come to mean another file between the look and the removal.
        flock(descriptor, LOCK_EX | LOCK_NB)
        here, there = os.fstat(descriptor), os.lstat(folder.lock)
        same = found.inode == (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
        # The number of an inode comes back, so it must also say the same.
        same = same and proof_codec.lock_fields(os.read(descriptor, 4096))[0] == found.agent
        if same:
            os.unlink(folder.lock)
        return same
    except (BlockingIOError, FileNotFoundError):
        return False
    finally:
        os.close(descriptor)


def sweep(folder: ProofFolder, most: int = 0) -> list[str]:
    """Remove the seats of processes that are gone, once there are more than some."""
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
