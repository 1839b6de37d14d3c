"""Taking spec locks and giving them back.

Whose a lock is says the machine in its file. Beside that the agents of one machine are kept apart
by a note (see `holders`): what one of them has, another does not give back while the first lives.
Any lock that can be read refuses everybody who wants to take it, its own machine too, and so does a
stale one: it is cleared away first, by whoever decides to.

Refusals are results, not exceptions. What raises is a request that cannot be right, and a system
that fails in a way nobody foresaw.
"""

from __future__ import annotations

import os

from holdfast.core.errors import HoldfastError
from holdfast.core.model import Holder
from holdfast.core.words import duration
from holdfast.manager.clock import SystemClock
from holdfast.manager.identity import checked_id
from holdfast.manager.liveness import is_dead
from holdfast.specs import moments
from holdfast.specs.codec import number
from holdfast.specs.errors import (
    ALREADY_LOCKED,
    INVALID_NAME,
    NOT_FOUND,
    NOT_LOCKED,
    NOT_REMOVED,
    OTHER_HOLDER,
    OTHER_MACHINE,
    PERMISSION_DENIED,
    SpecNotFoundError,
    SpecPermissionError,
    SpecReasonError,
    SpecTimeoutError,
)
from holdfast.specs.files import BYTES_MAX, is_denied
from holdfast.specs.holders import HolderNotes, holder_here, is_family
from holdfast.specs.lockfile import LockFile, Patience, lock_in
from holdfast.specs.machine import MachineIdentifier, machine_of
from holdfast.specs.names import SPECS, is_name, specs_folder
from holdfast.specs.shapes import (
    TIMEOUT_HOURS_DEFAULT,
    CleanedLock,
    CleanupResult,
    FailedLock,
    LockMetadata,
    LockResult,
    LockStatus,
    UnlockResult,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Protocol, overload

    from holdfast.core.time import Clock
    from holdfast.specs.shapes import MachineId

    class Machine(Protocol):
        """Who says which machine this is."""

        def get_machine_id(self) -> MachineId:
            """The same at all times."""


#: However it is spelled in the file, that stays far below what is read.
REASON_CHARACTERS_MAX = BYTES_MAX // 8
#: What people read where a lock's moment cannot be read.
UNKNOWN_DURATION = "unknown"


class SpecLocks:
    """The locks on the specs of one workspace."""

    __slots__ = ("_clock", "_holder", "_machine", "_notes", "_owner", "files", "workspace_root")

    def __init__(
        self,
        workspace_root: str | os.PathLike[str],
        machine: Machine | None = None,
        *,
        holder: str | Holder | None = None,
        owner: str | None = None,
        home: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`machine` says which machine this is, `holder` who on it; without them both are found
        out. `owner` is the name in the lock. `home` is `.kiro` or `.sce`, if it must be one."""
        root = os.path.realpath(os.fspath(workspace_root))
        specs = f"{root}/{home}/{SPECS}" if home else specs_folder(root)
        self.workspace_root: Final = root
        self.files: Final = LockFile(specs)
        self._machine = machine or machine_of(root, os.environ)
        self._holder = (
            Holder(id=checked_id(holder, "holder")) if isinstance(holder, str) else holder
        )
        self._owner = owner
        self._notes = HolderNotes(root, specs)
        self._clock = clock or SystemClock()

    # What the lock says

    @property
    def holder(self) -> Holder:
        """Who it is, on this machine, that takes and gives back."""
        if self._holder is None:
            self._holder = holder_here(os.environ)
        return self._holder

    @property
    def owner(self) -> str:
        """The name that is put into locks."""
        if self._owner is None:
            from holdfast.specs.owners import owner_name

            self._owner = owner_name(self.workspace_root, os.environ)
        return self._owner

    @property
    def machine(self) -> Machine:
        """Which machine this is."""
        return self._machine

    def _now(self) -> int:
        return self._clock.read().wall // 1000

    def _made(self, machine: MachineId, reason: str | None, hours: float) -> LockMetadata:
        return LockMetadata(
            owner=self.owner,
            machine_id=machine.id,
            hostname=machine.hostname,
            timestamp=moments.written(self._now()),
            reason=reason,
            timeout=hours,
        )

    # Taking

    def acquire_lock(
        self, spec_name: str, *, reason: str | None = None, timeout: float = TIMEOUT_HOURS_DEFAULT
    ) -> LockResult:
        """Lock a spec for so many hours. They only say when it is stale: it does not end by itself.

        Raises SpecTimeoutError or SpecReasonError for what cannot stand in a lock.
        """
        _check(timeout, reason)
        if not is_name(spec_name):
            return LockResult(False, error=INVALID_NAME)
        patience = Patience()
        try:
            while (result := self._taken(spec_name, reason, timeout, patience)) is None:
                patience.wait(self.files.path(spec_name))
        except SpecNotFoundError:
            return LockResult(False, error=NOT_FOUND)
        except SpecPermissionError:
            return LockResult(False, error=PERMISSION_DENIED)
        except OSError as error:
            if not is_denied(error):
                raise
            return LockResult(False, error=PERMISSION_DENIED)
        return result

    def _taken(
        self, spec_name: str, reason: str | None, hours: float, patience: Patience
    ) -> LockResult | None:
        """One attempt; None if somebody is writing there just now."""
        files = self.files
        alone = files.alone(spec_name)
        # What may take long, the first time, does not keep others waiting.
        machine, holder, _owner = self._machine.get_machine_id(), self.holder, self.owner
        with alone:
            seen = files.look(spec_name)
            if seen is not None:
                lock = lock_in(seen)
                if lock is not None:
                    return LockResult(False, error=ALREADY_LOCKED, existing_lock=lock)
                if not patience.is_damaged(seen) or not files.keep_aside(spec_name, seen):
                    return None
            if not files.keep_out(spec_name, patience):
                return None
            lock = self._made(machine, reason, hours)
            self._notes.write(spec_name, lock, holder)
            if files.publish(spec_name, lock):
                return LockResult(True, lock=lock)
            self._notes.forget(spec_name)
            return None

    # Giving back

    def release_lock(self, spec_name: str, *, force: bool = False) -> UnlockResult:
        """Give a spec back; with `force`, whoever has locked it."""
        if not is_name(spec_name):
            return UnlockResult(False, error=INVALID_NAME)
        try:
            with self.files.alone(spec_name):
                while (result := self._given_back(spec_name, force)) is None:
                    pass
                return result
        except SpecNotFoundError:
            return UnlockResult(True, message=NOT_LOCKED)
        except OSError:
            return UnlockResult(False, error=NOT_REMOVED)

    def _given_back(self, spec_name: str, force: bool) -> UnlockResult | None:
        """One attempt; None if it was another lock by then: some programs do not ask us."""
        files = self.files
        files.sweep(spec_name)
        try:
            seen = files.look(spec_name)
        except SpecPermissionError:
            if not force:
                return UnlockResult(False, error=NOT_REMOVED)
            files.remove(spec_name)
            return UnlockResult(True, forced=True)
        lock = None if seen is None else lock_in(seen)
        if seen is None or lock is None:
            return UnlockResult(True, message=NOT_LOCKED)
        refused = "" if force else self._refusal(spec_name, lock)
        if refused:
            return UnlockResult(False, error=refused, previous_lock=lock)
        if not files.is_still(spec_name, seen):
            return None
        files.remove(spec_name)
        self._notes.forget(spec_name)
        return UnlockResult(True, forced=force, previous_lock=lock)

    def _refusal(self, spec_name: str, lock: LockMetadata) -> str:
        """Why it is not ours to give back; empty if it is."""
        if not self.is_owned(lock):
            return OTHER_MACHINE
        noted = self._notes.read(spec_name, lock)
        if noted is None or is_family(noted, self.holder) or is_gone(noted):
            return ""
        return OTHER_HOLDER

    def cleanup_stale_locks(self) -> CleanupResult:
        """Remove the locks that are older than their timeouts, and no others."""
        cleaned: list[CleanedLock] = []
        errors: list[FailedLock] = []
        self.files.sweep_all()
        for name in self.files.list_locked_specs():
            try:
                with self.files.alone(name):
                    lock = self._cleaned(name)
            except SpecNotFoundError:
                continue
            except SpecPermissionError:
                errors.append(FailedLock(name, PERMISSION_DENIED))
            except (OSError, HoldfastError):
                errors.append(FailedLock(name, NOT_REMOVED))
            else:
                if lock is not None:
                    cleaned.append(CleanedLock(name, lock))
        return CleanupResult(cleaned, errors)

    def _cleaned(self, spec_name: str) -> LockMetadata | None:
        seen = self.files.look(spec_name)
        lock = None if seen is None else lock_in(seen)
        if seen is None or lock is None or not moments.is_stale(lock, self._now()):
            return None
        if not self.files.is_still(spec_name, seen) or not self.files.remove(spec_name):
            return None
        self._notes.forget(spec_name)
        return lock

    # Looking

    if TYPE_CHECKING:

        @overload
        def get_lock_status(self, spec_name: str) -> LockStatus: ...
        @overload
        def get_lock_status(self, spec_name: None = None) -> list[LockStatus]: ...

    def get_lock_status(self, spec_name: str | None = None) -> LockStatus | list[LockStatus]:
        """How a spec stands; without a name, how all stand that are locked."""
        if spec_name is not None:
            return self._looked(spec_name)[0]
        found = (self._looked(name)[0] for name in self.files.list_locked_specs())
        return [status for status in found if status.locked]

    def _looked(self, spec_name: str) -> tuple[LockStatus, Holder | None]:
        """How a spec stands, and who has it if that was noted."""
        if not is_name(spec_name):
            return LockStatus(spec_name, False, error=INVALID_NAME), None
        try:
            seen = self.files.look(spec_name)
        except SpecPermissionError:
            return LockStatus(spec_name, True, error=PERMISSION_DENIED), None
        lock = None if seen is None else lock_in(seen)
        if lock is None:
            return LockStatus(spec_name, False), None
        now = self._now()
        noted = self._notes.read(spec_name, lock)
        status = LockStatus(
            spec_name,
            True,
            lock=lock,
            is_stale=moments.is_stale(lock, now),
            is_owned_by_me=self.is_owned(lock),
            duration=_held_for(lock, now),
            holder=None if noted is None else noted.id,
        )
        return status, noted

    def is_locked(self, spec_name: str) -> bool:
        """Whether a spec is locked, or nobody can say that it is not."""
        return self._looked(spec_name)[0].locked

    def is_locked_by_me(self, spec_name: str) -> bool:
        """Whether a spec is locked by this machine."""
        return bool(self._looked(spec_name)[0].is_owned_by_me)

    def is_owned(self, lock: LockMetadata) -> bool:
        """Whether a lock is this machine's. One that has no id yet has no locks, and looking is no
        reason to make one."""
        machine = self._machine
        if isinstance(machine, MachineIdentifier):
            known = machine.known()
            return known is not None and known.id == lock.machine_id
        return machine.get_machine_id().id == lock.machine_id

    def in_the_way(self, spec_name: str) -> Obstacle | None:
        """What keeps our holder from changing what is in a spec."""
        status, noted = self._looked(spec_name)
        if not status.locked:
            return None
        if not status.is_owned_by_me:
            return Obstacle(status, None)
        if noted is None or is_family(noted, self.holder):
            return None
        return Obstacle(status, noted)


class Obstacle:
    """A lock that is another's: another machine's, or that of another holder on this one."""

    __slots__ = ("holder", "status")

    def __init__(self, status: LockStatus, holder: Holder | None) -> None:
        self.status: Final = status
        self.holder: Final = holder


def is_gone(holder: Holder) -> bool:
    """Whether a holder is proven to have ended."""
    return holder.witness is not None and is_dead(holder.witness, holder.marks) is True


def _held_for(lock: LockMetadata, now: int) -> str:
    taken = moments.read(lock.timestamp)
    return UNKNOWN_DURATION if taken is None else duration((now - taken) * 1000)


def _check(timeout: float, reason: str | None) -> None:
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not timeout > 0 or number(timeout) == "null":
        raise SpecTimeoutError(
            f"{timeout!r} cannot be the timeout of a lock",
            hint="give a number of hours above 0, such as 24 or 0.5",
        )
    if reason is not None and (not isinstance(reason, str) or len(reason) > REASON_CHARACTERS_MAX):
        raise SpecReasonError(
            "this cannot be the reason of a lock",
            hint=f"give a text of at most {REASON_CHARACTERS_MAX:,} characters",
        )
