"""The folders of specs of one workspace, and the locks that stand there.

Two programs may keep their specs side by side. What is done at a spec is done in all folders that
have it, by one process at a time, which enters them in one order.
"""

from __future__ import annotations

from holdfast.specs.lockfile import LockFile, Patience, lock_in
from holdfast.specs.spec_files import AloneAtAll
from holdfast.specs.spec_holders import HolderNotes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from holdfast.core.model import Holder
    from holdfast.specs.results import LockMetadata
    from holdfast.specs.spec_files import Seen


class Home:
    """One folder of specs: its lock files, and the notes on who has them."""

    __slots__ = ("files", "notes")

    def __init__(self, workspace: str, specs: str) -> None:
        self.files: Final = LockFile(specs)
        self.notes: Final = HolderNotes(workspace, specs)

    def put(self, spec_name: str, lock: LockMetadata, holder: Holder) -> bool:
        """Put a lock there, if there is none, noting first who has it."""
        self.notes.write(spec_name, lock, holder)
        if self.files.publish(spec_name, lock):
            return True
        self.notes.forget(spec_name)
        return False

    def take_back(self, spec_name: str, lock: LockMetadata) -> None:
        """Take away exactly this lock."""
        if self.files.has(spec_name, lock):
            self.files.remove(spec_name)
            self.notes.forget(spec_name)


class FoundLock:
    """A lock that is there: in which home, what was seen, and who has it if that was noted."""

    __slots__ = ("home", "lock", "noted", "seen")

    def __init__(self, home: Home, spec_name: str, seen: Seen, lock: LockMetadata) -> None:
        self.home: Final = home
        self.seen: Final = seen
        self.lock: Final = lock
        self.noted: Final = home.notes.read(spec_name, lock)


def alone(homes: Sequence[Home], spec_name: str) -> AloneAtAll:
    """One process at a time at all locks of a spec."""
    return AloneAtAll([home.files.alone(spec_name) for home in homes])


def found_locks(homes: Sequence[Home], spec_name: str) -> list[FoundLock]:
    """The locks of a spec. Raises SpecPermissionError if that may not be known."""
    looks = ((home, home.files.look(spec_name)) for home in homes)
    locks = ((home, seen, lock_in(seen)) for home, seen in looks if seen is not None)
    return [FoundLock(home, spec_name, seen, lock) for home, seen, lock in locks if lock]


def is_clear(home: Home, spec_name: str, patience: Patience) -> bool:
    """Whether a lock can be put there; a damaged file is kept aside for that."""
    seen = home.files.look(spec_name)
    if seen is not None:
        if lock_in(seen) is not None or not patience.is_damaged(seen):
            return False  # it has become a lock since, or may become one
        if not home.files.keep_aside(spec_name, seen):
            return False
    home.files.sweep(spec_name)
    return not home.files.is_being_written(spec_name, patience)
