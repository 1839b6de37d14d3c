"""Acquiring and releasing spec locks.

The machine in its file owns a lock. In addition, a note keeps apart the agents of one machine (see
`spec_holders`): no agent releases the lock of another one that is alive. Any readable lock refuses
every request, even from its own machine, and so does a stale one: a person or an agent has to clean
it up first.

A workspace may have two folders of specs, each for a different version of another program. A lock
in either refuses. Ours is written into both, always in the same order, wherever the spec has a
folder. One alone counts as held; the next command of its holder writes the other. If another
program has locked the spec in one of them meanwhile, both locks remain, and each is released by its
own program.

Another program checks for a lock, and some time later renames its own over whatever is there (see
`lockfile`). So after writing a lock we wait for longer than that takes, and check again: if it was
overwritten, the other program has the spec and we do not. What this does not promise: that a
program which is stopped for longer between its check and its rename does not take the spec from us.
Then the lock belongs to that program, every reader sees it, and the gate refuses our holder from
then on.

Refusals are results, not exceptions. Invalid requests raise, and so do unforeseen failures of the
system.
"""

from __future__ import annotations

import os
from time import sleep

from holdfast.core.errors import HoldfastError
from holdfast.core.model import Holder
from holdfast.core.sentences import duration
from holdfast.manager.clock import SystemClock
from holdfast.manager.owners.identity import checked_id
from holdfast.manager.owners.liveness import is_dead
from holdfast.specs import staleness
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
from holdfast.specs.lockfile import LockFile, Patience, lock_in
from holdfast.specs.lockfile_codec import number
from holdfast.specs.machine import MachineIdentifier, WorkspaceMachine, machine_of
from holdfast.specs.results import (
    TIMEOUT_HOURS_DEFAULT,
    CleanedLock,
    CleanupResult,
    FailedLock,
    LockMetadata,
    LockResult,
    LockStatus,
    UnlockResult,
)
from holdfast.specs.spec_files import BYTES_MAX, is_denied
from holdfast.specs.spec_folders import (
    FoundLock,
    Home,
    alone,
    found_locks,
    is_clear,
)
from holdfast.specs.spec_holders import holder_here, is_family
from holdfast.specs.spec_names import SPECS, is_name, specs_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final, Protocol, overload

    from holdfast.core.ledger_time import Clock
    from holdfast.specs.results import MachineId

    class Machine(Protocol):
        """A source of this machine's id."""

        def get_machine_id(self) -> MachineId:
            """The id, which never changes."""


#: However it is escaped in the file, that stays far below the limit for reading.
REASON_CHARACTERS_MAX = BYTES_MAX // 8
#: How long a lock must exist before it counts: another program takes milliseconds from its check to
#: its rename, and more when the machine is busy. So the time is counted in pauses, which then take
#: longer as well.
SETTLE_SECONDS = 0.3
_PAUSES = 20
#: The text for people if a lock's time cannot be parsed.
UNKNOWN_DURATION = "unknown"


class SpecLocks:
    """The locks on the specs of one workspace."""

    __slots__ = (
        "_clock", "_holder", "_homes", "_machine", "_owner", "_settle_seconds", "workspace_root",
    )  # fmt: skip

    def __init__(
        self,
        workspace_root: str | os.PathLike[str],
        machine: Machine | None = None,
        *,
        holder: str | Holder | None = None,
        owner: str | None = None,
        home: str | None = None,
        clock: Clock | None = None,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        """`machine` is this machine, `holder` the caller on it; by default both are detected.
        `owner` is the name in the lock. `home` is `.kiro` or `.sce`, to use only that one. A lock
        counts after `settle_seconds`."""
        root = os.path.realpath(os.fspath(workspace_root))
        folders = [f"{root}/{home}/{SPECS}"] if home else specs_folders(root)
        self.workspace_root: Final = root
        self._homes: Final = tuple(Home(root, folder) for folder in folders)
        self._machine = machine or machine_of(root, os.environ)
        self._holder = (
            Holder(id=checked_id(holder, "holder")) if isinstance(holder, str) else holder
        )
        self._owner = owner
        self._clock = clock or SystemClock()
        self._settle_seconds: Final = settle_seconds

    # Folders

    @property
    def files(self) -> LockFile:
        """The lock files of the workspace, in the later program's folder if it has two folders."""
        return self._homes[0].files

    def has_spec(self, spec_name: str) -> bool:
        """Whether there is a spec of that name."""
        return any(home.files.has_spec(spec_name) for home in self._homes)

    def locked_specs(self) -> list[str]:
        """The specs with a lock file, whatever it contains, by name."""
        return sorted({name for home in self._homes for name in home.files.list_locked_specs()})

    def _places(self, spec_name: str) -> list[Home]:
        """The homes with a folder of the spec. Raises SpecNotFoundError if there is none."""
        found = [home for home in self._homes if home.files.has_spec(spec_name)]
        if not found:
            self.files.alone(spec_name)
        return found

    # The content of locks

    @property
    def holder(self) -> Holder:
        """The caller on this machine, who acquires and releases."""
        if self._holder is None:
            self._holder = holder_here(os.environ)
        return self._holder

    @property
    def owner(self) -> str:
        """The name that is written into locks."""
        if self._owner is None:
            from holdfast.specs.owner_names import owner_name

            self._owner = owner_name(self.workspace_root, os.environ)
        return self._owner

    @property
    def machine(self) -> Machine:
        """This machine."""
        return self._machine

    def _now(self) -> int:
        return self._clock.read().wall // 1000

    def _made(self, machine: MachineId, reason: str | None, hours: float) -> LockMetadata:
        return LockMetadata(
            owner=self.owner,
            machine_id=machine.id,
            hostname=machine.hostname,
            timestamp=staleness.written(self._now()),
            reason=reason,
            timeout=hours,
        )

    # Acquiring

    def acquire_lock(
        self, spec_name: str, *, reason: str | None = None, timeout: float = TIMEOUT_HOURS_DEFAULT
    ) -> LockResult:
        """Lock a spec. After `timeout` hours the lock is stale, but it does not end.

        Raises SpecTimeoutError or SpecReasonError for invalid arguments.
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
        """One attempt; None if another program is writing the lock, or was quicker."""
        places = self._places(spec_name)
        # Slow work, the first time, does not make other processes wait.
        machine, holder, _owner = self._machine.get_machine_id(), self.holder, self.owner
        with alone(places, spec_name):
            found = found_locks(places, spec_name)
            if found:
                self._complete(places, spec_name, found)
                shown = next((one for one in found if not self._is_held(one)), found[0])
                return LockResult(False, error=ALREADY_LOCKED, existing_lock=shown.lock)
            if not all(is_clear(home, spec_name, patience) for home in places):
                return None
            lock = self._made(machine, reason, hours)
            for at, home in enumerate(places):
                if not home.put(spec_name, lock, holder):
                    for before in places[:at]:
                        before.withdraw(spec_name, lock)
                    return None
        return LockResult(True, lock=lock) if self._settled(places, spec_name, lock) else None

    def _settled(self, places: Sequence[Home], spec_name: str, lock: LockMetadata) -> bool:
        """Whether a new lock still exists when no program that checked before it can overwrite it
        any more. If one did, or we are interrupted, the rest of ours is removed."""
        stands = False
        try:
            stands = self._stands(places, spec_name, lock)
        finally:
            if not stands:
                with alone(places, spec_name):
                    for home in places:
                        home.withdraw(spec_name, lock)
        return stands

    def _stands(self, places: Sequence[Home], spec_name: str, lock: LockMetadata) -> bool:
        patience, pauses = Patience(), _PAUSES if self._settle_seconds else 0
        while pauses > 0:
            sleep(self._settle_seconds / _PAUSES)
            writing = any(home.files.is_being_written(spec_name, patience) for home in places)
            pauses = max(pauses - 1, 1) if writing else pauses - 1
            if not all(home.files.has(spec_name, lock) for home in places):
                return False
        return True

    def complete_locks(self) -> None:
        """Write each lock that our holder has in only one folder of specs into the other too."""
        if len(self._homes) == 1:
            return
        for name in self.locked_specs():
            try:
                places = self._places(name)
                with alone(places, name):
                    self._complete(places, name, found_locks(places, name))
            except (OSError, HoldfastError):
                continue  # it still counts as held

    def _complete(self, places: Sequence[Home], spec_name: str, found: list[FoundLock]) -> None:
        """Write a lock of our holder into the homes that have none."""
        for one in found:
            if one.noted is not None and self._is_held(one):
                for home in places:
                    if home.files.look(spec_name) is None:
                        home.put(spec_name, one.lock, one.noted)
                return

    # Releasing

    def release_lock(self, spec_name: str, *, force: bool = False) -> UnlockResult:
        """Release a spec; with `force`, even if another holder has locked it."""
        if not is_name(spec_name):
            return UnlockResult(False, error=INVALID_NAME)
        try:
            places = self._places(spec_name)
            with alone(places, spec_name):
                while (result := self._given_back(places, spec_name, force)) is None:
                    pass
                return result
        except SpecNotFoundError:
            return UnlockResult(True, message=NOT_LOCKED)
        except OSError:
            return UnlockResult(False, error=NOT_REMOVED)

    def _given_back(
        self, places: Sequence[Home], spec_name: str, force: bool
    ) -> UnlockResult | None:
        """One attempt; None if it was another lock by then: some programs do not use our guard."""
        for home in places:
            home.files.sweep(spec_name)
        try:
            found = found_locks(places, spec_name)
        except SpecPermissionError:
            if not force:
                return UnlockResult(False, error=NOT_REMOVED)
            for home in places:
                home.files.remove(spec_name)
            return UnlockResult(True, forced=True)
        if not found:
            return UnlockResult(True, message=NOT_LOCKED)
        given = found if force else self._ours(found)
        if not given:
            return UnlockResult(False, error=self._refusal(found[0]), previous_lock=found[0].lock)
        if not all(one.home.files.is_still(spec_name, one.seen) for one in given):
            return None
        for one in given:
            one.home.files.remove(spec_name)
            one.home.notes.forget(spec_name)
        return UnlockResult(True, forced=force, previous_lock=given[0].lock)

    def _ours(self, found: list[FoundLock]) -> list[FoundLock]:
        """The locks that our holder may release: its own, or else those of the machine."""
        mine = [one for one in found if not self._refusal(one)]
        return [one for one in mine if one.noted and is_family(one.noted, self.holder)] or mine

    def _refusal(self, found: FoundLock) -> str:
        """Why our holder may not release the lock; empty if it may."""
        if not self.is_owned(found.lock):
            return OTHER_MACHINE
        noted = found.noted
        return "" if noted is None or self._is_held(found) or is_gone(noted) else OTHER_HOLDER

    def _is_held(self, found: FoundLock) -> bool:
        """Whether a lock belongs to this machine, and to our holder if a note names one."""
        if not self.is_owned(found.lock):
            return False
        return found.noted is None or is_family(found.noted, self.holder)

    def cleanup_stale_locks(self) -> CleanupResult:
        """Remove the locks that have outlived their timeouts, and no others."""
        cleaned: dict[str, CleanedLock] = {}
        errors: dict[str, FailedLock] = {}
        for home in self._homes:
            home.files.sweep_all()
            for name in home.files.list_locked_specs():
                try:
                    with home.files.alone(name):
                        lock = self._cleaned(home, name)
                except SpecNotFoundError:
                    continue
                except SpecPermissionError:
                    errors[name] = FailedLock(name, PERMISSION_DENIED)
                except (OSError, HoldfastError):
                    errors[name] = FailedLock(name, NOT_REMOVED)
                else:
                    if lock is not None:
                        cleaned.setdefault(name, CleanedLock(name, lock))
        return CleanupResult(
            [cleaned[name] for name in sorted(cleaned)], [errors[name] for name in sorted(errors)]
        )

    def _cleaned(self, home: Home, spec_name: str) -> LockMetadata | None:
        seen = home.files.look(spec_name)
        lock = None if seen is None else lock_in(seen)
        if seen is None or lock is None or not staleness.is_stale(lock, self._now()):
            return None
        if not home.files.is_still(spec_name, seen) or not home.files.remove(spec_name):
            return None
        home.notes.forget(spec_name)
        return lock

    # Reading

    if TYPE_CHECKING:

        @overload
        def get_lock_status(self, spec_name: str) -> LockStatus: ...
        @overload
        def get_lock_status(self, spec_name: None = None) -> list[LockStatus]: ...

    def get_lock_status(self, spec_name: str | None = None) -> LockStatus | list[LockStatus]:
        """The status of a spec; without a name, of all locked specs."""
        if spec_name is not None:
            return self._looked(spec_name)[0]
        found = (self._looked(name)[0] for name in self.locked_specs())
        return [status for status in found if status.locked]

    def _looked(self, spec_name: str) -> tuple[LockStatus, Holder | None]:
        """The status of a spec, and its holder if a note names one. Of two locks, the one that is
        not our holder's."""
        if not is_name(spec_name):
            return LockStatus(spec_name, False, error=INVALID_NAME), None
        try:
            found = found_locks(self._homes, spec_name)
        except SpecPermissionError:
            return LockStatus(spec_name, True, error=PERMISSION_DENIED), None
        if not found:
            return LockStatus(spec_name, False), None
        shown = next((one for one in found if not self._is_held(one)), found[0])
        now, lock, noted = self._now(), shown.lock, shown.noted
        status = LockStatus(
            spec_name,
            True,
            lock=lock,
            is_stale=staleness.is_stale(lock, now),
            is_owned_by_me=self.is_owned(lock),
            is_held_by_me=self._is_held(shown),
            duration=_held_for(lock, now),
            holder=None if noted is None else noted.id,
        )
        return status, noted

    def is_locked(self, spec_name: str) -> bool:
        """Whether a spec is locked, or its state is unknown."""
        return self._looked(spec_name)[0].locked

    def is_locked_by_me(self, spec_name: str) -> bool:
        """Whether a spec is locked by this machine."""
        return bool(self._looked(spec_name)[0].is_owned_by_me)

    def is_owned(self, lock: LockMetadata) -> bool:
        """Whether a lock belongs to this machine. A machine without an id has no locks, and a check
        does not create an id."""
        machine = self._machine
        if isinstance(machine, WorkspaceMachine):
            return lock.machine_id in machine.known_ids()
        if isinstance(machine, MachineIdentifier):
            known = machine.known()
            return known is not None and known.id == lock.machine_id
        return machine.get_machine_id().id == lock.machine_id

    def in_the_way(self, spec_name: str) -> Obstacle | None:
        """The lock that keeps our holder from changing the content of a spec."""
        status, noted = self._looked(spec_name)
        if not status.locked:
            return None
        if status.is_held_by_me:
            return None
        return Obstacle(status, noted if status.is_owned_by_me else None)


class Obstacle:
    """A lock of another machine, or of another holder on this one."""

    __slots__ = ("holder", "status")

    def __init__(self, status: LockStatus, holder: Holder | None) -> None:
        self.status: Final = status
        self.holder: Final = holder


def is_gone(holder: Holder) -> bool:
    """Whether a holder is proven to have ended."""
    return holder.witness is not None and is_dead(holder.witness, holder.marks) is True


def _held_for(lock: LockMetadata, now: int) -> str:
    taken = staleness.read(lock.timestamp)
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
            "this cannot be the reason for a lock",
            hint=f"give a text of at most {REASON_CHARACTERS_MAX:,} characters",
        )
