"""Intents: records of operations in progress.

An intent is written before anything else that an operation leaves on the disk, and removed after
everything else. Its file is locked (`flock`) while the operation's process lives: a process that
can lock it knows for certain that the operation was abandoned, whatever machine, container or user
it belonged to.
"""

from __future__ import annotations

import os

from holdfast.core.errors import StoreBusyError
from holdfast.manager.files.replace_file import write_all
from holdfast.manager.ids import new_id
from holdfast.store.sqlite.write_gate import LOCK_EX, LOCK_NB, flock
from holdfast.trees import tree_files
from holdfast.trees.locking.operation_guard import Guard
from holdfast.trees.repository import Repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

SNAPSHOT = "snapshot"
RESTORE_IN_PLACE = "restore_in_place"
CREATE = "create"
REMOVE = "remove"
IMPORT = "import"
IMPORT_ONE = "import_one"
COLLECT = "collect"

_SUFFIX = ".json"


class Intent:
    """One operation, in progress or abandoned. `close` removes the intent."""

    def __init__(self, path: str, descriptor: int, fields: dict[str, Any]) -> None:
        self._path: Final = path
        self._descriptor = descriptor
        self.fields: Final = fields

    @property
    def id(self) -> str:
        """The name of the operation, which is also that of its staging folder."""
        return os.path.basename(self._path).removesuffix(_SUFFIX)

    @property
    def operation(self) -> str:
        """The kind of operation; empty if it cannot be read."""
        return str(self.fields.get("operation", ""))

    def text(self, name: str) -> str:
        """One of its facts."""
        return str(self.fields.get(name) or "")

    def close(self) -> None:
        """Remove the intent: the operation is finished, or has left nothing behind."""
        tree_files.remove(self._path)
        self.let_go()

    def let_go(self) -> None:
        """Leave the intent for the doctor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def begin(repository: Repository, operation: str, *, alone: bool = False, **facts: Any) -> Intent:
    """Write an intent. With `alone`, only one operation of its kind may be in progress."""
    id = facts.pop("id", None) or new_id()
    path = repository.path("intents", f"{id}{_SUFFIX}")
    fields = {"operation": operation, "pid": os.getpid(), "started_at": repository.now, **facts}
    with guard(repository):
        if alone:
            _refuse_second(repository, operation)
        descriptor = os.open(path, tree_files.NEW, 0o666)
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)
            write_all(descriptor, tree_files.pretty(fields))
            os.fsync(descriptor)
            tree_files.flush_folder(repository.path("intents"))
        except BaseException:
            tree_files.remove(path)
            os.close(descriptor)
            raise
    return Intent(path, descriptor, fields)


def abandoned(repository: Repository) -> Iterator[Intent]:
    """The intents that are certainly abandoned. Each is locked for us until it is let go."""
    for path in _paths(repository):
        with guard(repository):
            found = _claim(path)
        if found is not None:
            try:
                yield found
            finally:
                found.let_go()


def ids(repository: Repository) -> set[str]:
    """The names of all recorded operations."""
    return {os.path.basename(path).removesuffix(_SUFFIX) for path in _paths(repository)}


def _claim(path: str) -> Intent | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
        if os.fstat(descriptor).st_nlink == 0:  # closed in the moment between
            raise BlockingIOError
    except BlockingIOError:
        os.close(descriptor)
        return None
    try:
        fields = tree_files.read_json(path)
    except (OSError, ValueError):
        fields = {}
    return Intent(path, descriptor, fields)


def needed(repository: Repository) -> set[str]:
    """The snapshots that running operations take or read; reliable only inside the guard."""
    found = ids(repository)
    for fields in _readable(repository):
        found.add(str(fields.get("snapshot_id") or ""))
        if fields.get("operation") != COLLECT:
            found.update(fields.get("snapshot_ids") or ())
    return found


def guard(repository: Repository) -> Guard:
    """The guard for beginning an operation, and for finding out which snapshots are needed.

    It hides an intent between its creation and its locking, and lets no snapshot become needed
    between the check and its removal.
    """
    repository.check_changeable()
    return Guard(repository.path("intents", "intents.guard"), "the list of intents")


def is_under_way(repository: Repository, operation: str) -> bool:
    """Whether an operation of that kind is recorded, by a living process or a dead one."""
    return any(one.get("operation") == operation for one in _readable(repository))


def _refuse_second(repository: Repository, operation: str) -> None:
    for fields in _readable(repository):
        if fields.get("operation") == operation:
            raise StoreBusyError(
                f"process {fields.get('pid')} is running the same operation in this repository",
                hint="wait until it has finished, then try again",
                pid=fields.get("pid"),
            )


def _readable(repository: Repository) -> Iterator[dict[str, Any]]:
    """The facts of all readable intents. An unreadable one was never flushed: it had not begun."""
    for path in _paths(repository):
        try:
            yield tree_files.read_json(path)
        except (OSError, ValueError):
            continue


def _paths(repository: Repository) -> list[str]:
    folder = repository.path("intents")
    return [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(_SUFFIX)]
