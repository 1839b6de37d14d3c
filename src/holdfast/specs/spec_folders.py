"""The folders of specs of one workspace, and the locks in them.

Two programs may keep their specs side by side. A change of a spec's lock is made in all folders
that have the spec, by one process at a time, which enters them in a fixed order.
"""

from __future__ import annotations

from holdfast.specs.lockfile import LockFile, Patience, lock_in
from holdfast.specs.spec_files import FolderLocks
from holdfast.specs.spec_holders import HolderNotes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from holdfast.core.model import Holder
    from holdfast.specs.results import LockMetadata
    from holdfast.specs.spec_files import Seen


class Home:
    """One folder of specs: its lock files, and the notes on their holders."""

    __slots__ = ("files", "notes")

    def __init__(self, workspace: str, specs: str) -> None:
        self.files: Final = LockFile(specs)
        self.notes: Final = HolderNotes(workspace, specs)

    def put(self, spec_name: str, lock: LockMetadata, holder: Holder) -> bool:
        """Create a lock if there is none, after writing the note on its holder."""
        self.notes.write(spec_name, lock, holder)
        if self.files.publish(spec_name, lock):
            return True
        self.notes.forget(spec_name)
        return False

    def withdraw(self, spec_name: str, lock: LockMetadata) -> None:
        """Remove exactly this lock."""
        if self.files.has(spec_name, lock):
            self.files.remove(spec_name)
            self.notes.forget(spec_name)


class FoundLock:
    """An existing lock: its home, its file, and its holder if a note names one."""

    __slots__ = ("home", "lock", "noted", "seen")

    def __init__(self, home: Home, spec_name: str, seen: Seen, lock: LockMetadata) -> None:
        self.home: Final = home
        self.seen: Final = seen
        self.lock: Final = lock
        self.noted: Final = home.notes.read(spec_name, lock)


def alone(homes: Sequence[Home], spec_name: str) -> FolderLocks:
    """One process at a time at all locks of a spec."""
    return FolderLocks([home.files.alone(spec_name) for home in homes])


def found_locks(homes: Sequence[Home], spec_name: str) -> list[FoundLock]:
    """The locks of a spec. Raises SpecPermissionError if one may not be read."""
    looks = ((home, home.files.look(spec_name)) for home in homes)
    locks = ((home, seen, lock_in(seen)) for home, seen in looks if seen is not None)
    return [FoundLock(home, spec_name, seen, lock) for home, seen, lock in locks if lock]


def is_clear(home: Home, spec_name: str, patience: Patience) -> bool:
    """Whether a lock can be created there; a damaged file is moved aside first."""
    seen = home.files.look(spec_name)
    if seen is not None:
        if lock_in(seen) is not None or not patience.is_damaged(seen):
            return False  # it has become a lock meanwhile, or may become one
        if not home.files.keep_aside(spec_name, seen):
            return False
    home.files.sweep(spec_name)
    return not home.files.is_being_written(spec_name, patience)
