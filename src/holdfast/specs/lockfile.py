"""The lock file of each spec: `<specs>/<spec>/.lock`.

Of several programs that publish a lock at the same moment exactly one wins, as long as none of them
overwrites. One program does: it checks, writes `.lock.tmp` and renames that over `.lock`. So a lock
counts only when it has existed for longer than that program needs from its check to its rename (see
`spec_locks`). Nothing blocks that program: earlier versions kept a folder at `.lock.tmp`, on which
its write crashed even after our lock was released. A leftover folder is removed.

Some programs create the file first and write into it afterwards. So bytes that could become a lock
count as being written for half a second. After that they are damaged: not a lock, like everything
else that cannot be read as one, and kept beside the new lock for its user.
"""

from __future__ import annotations

import os
from time import monotonic, sleep

from holdfast.manager.files.replace_file import replace_file
from holdfast.specs import lockfile_codec, spec_files
from holdfast.specs.errors import (
    INVALID_NAME,
    NOT_FOUND,
    PERMISSION_DENIED,
    SpecBusyError,
    SpecNameError,
    SpecNotFoundError,
    SpecPermissionError,
)
from holdfast.specs.spec_names import is_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from holdfast.specs.results import LockMetadata

NAME = ".lock"
#: The file that another program renames over the lock.
DRAFT = ".lock.tmp"
#: The new name of a damaged file, followed by a unique suffix.
DAMAGED = "damaged"

#: How long a file may keep changing before a waiting process gives up.
WAIT_SECONDS = 10.0
_LOOK_SECONDS = 0.01


class LockFile:
    """The lock files below one folder of specs. Each method raises SpecNameError for a bad name."""

    __slots__ = ("specs_dir",)

    def __init__(self, specs_dir: str | os.PathLike[str]) -> None:
        self.specs_dir: Final = os.path.abspath(os.fspath(specs_dir))

    def read(self, spec_name: str) -> LockMetadata | None:
        """The lock of a spec; None if there is none, or the file is not a valid lock.

        Raises SpecPermissionError if the file may not be read: then the state is unknown.
        """
        seen = self.look(spec_name)
        return None if seen is None else lock_in(seen)

    def write(self, spec_name: str, metadata: LockMetadata) -> None:
        """Write a lock, replacing any existing one. To acquire a lock exclusively, use `SpecLocks`
        or `publish`."""
        path = self.path(spec_name)
        try:
            with spec_files.FolderLock(os.path.dirname(path)):
                data = lockfile_codec.lock_bytes(metadata)
                replace_file(path, data, mode=0o644, durable=True)
        except OSError as error:
            raise trouble(error, path) from error

    def delete(self, spec_name: str) -> bool:
        """Remove the lock file, whatever it contains. False if there is none."""
        path = self.path(spec_name)
        try:
            with spec_files.FolderLock(os.path.dirname(path)):
                return self.remove(spec_name)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise trouble(error, path) from error

    def exists(self, spec_name: str) -> bool:
        """Whether there is a lock file, whatever it contains."""
        return os.path.lexists(self.path(spec_name))

    def list_locked_specs(self) -> list[str]:
        """The specs with a lock file, whatever it contains, by name."""
        return [name for name in self._specs() if self._has_file(name)]

    def _specs(self) -> list[str]:
        try:
            names = os.listdir(self.specs_dir)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise trouble(error, self.specs_dir) from error
        return sorted(filter(is_name, names))

    def _has_file(self, spec_name: str) -> bool:
        folder = f"{self.specs_dir}/{spec_name}"
        try:
            os.lstat(f"{folder}/{NAME}")
        except (FileNotFoundError, NotADirectoryError):
            return False
        except PermissionError:
            return True  # it may be locked
        return not os.path.islink(folder)

    # For decisions: call these inside `alone`, except `look`

    def path(self, spec_name: str) -> str:
        """Where the lock of a spec is."""
        if not is_name(spec_name):
            raise SpecNameError(
                f"{INVALID_NAME}: {spec_name!r}"[:200],
                hint="give the name of a folder below the specs, without slashes or a leading dot",
            )
        return f"{self.specs_dir}/{spec_name}/{NAME}"

    def alone(self, spec_name: str) -> spec_files.FolderLock:
        """One process at a time at the lock of a spec. Raises SpecNotFoundError if the spec is not
        a folder; a link does not count, because its target has other names too."""
        folder = os.path.dirname(self.path(spec_name))
        if not self.has_spec(spec_name):
            raise SpecNotFoundError(
                f"{NOT_FOUND}: there is no folder {folder}",
                hint="holdfast spec status lists what is locked; a spec is a folder",
                spec=spec_name,
            )
        return spec_files.FolderLock(folder)

    def has_spec(self, spec_name: str) -> bool:
        """Whether the spec has a folder; a link does not count."""
        folder = os.path.dirname(self.path(spec_name))
        return not os.path.islink(folder) and os.path.isdir(folder)

    def look(self, spec_name: str) -> spec_files.Seen | None:
        """The present file. Raises SpecPermissionError if it may not be read."""
        path = self.path(spec_name)
        try:
            return spec_files.look(path)
        except NotADirectoryError:
            return None
        except OSError as error:
            raise trouble(error, path) from error

    def publish(self, spec_name: str, metadata: LockMetadata) -> bool:
        """Create a lock, atomically and never over another one. False if there is one."""
        return spec_files.publish(self.path(spec_name), lockfile_codec.lock_bytes(metadata))

    def is_still(self, spec_name: str, seen: spec_files.Seen) -> bool:
        """Whether the file is still the same."""
        return spec_files.is_same(self.path(spec_name), seen)

    def remove(self, spec_name: str) -> bool:
        """Remove the file."""
        path = self.path(spec_name)
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        except (IsADirectoryError, PermissionError):
            if not os.path.isdir(path) or os.path.islink(path):
                raise
            os.rmdir(path)  # a folder of that name: removed only if it is empty
        return True

    def has(self, spec_name: str, metadata: LockMetadata) -> bool:
        """Whether the file contains exactly this lock."""
        seen = self.look(spec_name)
        return seen is not None and lock_in(seen) == metadata

    def is_being_written(self, spec_name: str, patience: Patience) -> bool:
        """Whether another program is about to rename its own lock over this one."""
        seen = spec_files.look(self._draft(spec_name))
        return seen is not None and seen.data is not None and not patience.is_left(seen)

    def sweep(self, spec_name: str) -> None:
        """Remove a folder on which another program's write would crash."""
        try:
            os.rmdir(self._draft(spec_name))
        except OSError:
            pass  # it does not exist, is another program's file, or is not empty

    def sweep_all(self) -> None:
        """Do the same for all specs."""
        for name in self._specs():
            self.sweep(name)

    def _draft(self, spec_name: str) -> str:
        return f"{self.specs_dir}/{spec_name}/{DRAFT}"

    def keep_aside(self, spec_name: str, seen: spec_files.Seen) -> bool:
        """Rename a damaged file. False if it is another file by now."""
        return spec_files.set_aside(self.path(spec_name), seen, DAMAGED) is not None


class Patience:
    """How long to wait for a file that is being written."""

    __slots__ = ("_end", "_settling")

    def __init__(self) -> None:
        self._end = monotonic() + WAIT_SECONDS
        self._settling = spec_files.Settling()

    def is_damaged(self, seen: spec_files.Seen) -> bool:
        """Whether the file is not a lock, and will not become one."""
        unfinished = seen.data is not None and lockfile_codec.is_unfinished(seen.data)
        return not unfinished or self.is_left(seen)

    def is_left(self, seen: spec_files.Seen) -> bool:
        """Whether no process has written to it for a while."""
        return self._settling.is_over(seen)

    def wait(self, path: str) -> None:
        """Pause. Raises SpecBusyError when the total wait is too long."""
        if monotonic() > self._end:
            raise SpecBusyError(
                f"{path} keeps changing", hint="find out which program writes it", path=path
            )
        sleep(_LOOK_SECONDS)


def lock_in(seen: spec_files.Seen) -> LockMetadata | None:
    """The lock in a file; None if it is not a valid lock."""
    return None if seen.data is None else lockfile_codec.lock_of(seen.data)


def trouble(error: OSError, path: str) -> Exception:
    """An error of the system about a file, as one of ours if it is a permission error."""
    if not spec_files.is_denied(error):
        return error
    return SpecPermissionError(
        f"{PERMISSION_DENIED}: {path}",
        hint="its content is unknown: get permission to read and write it, or ask its owner",
        path=path,
    )
