"""Intents: what somebody is in the middle of.

An intent is written before anything else that an operation leaves on the disk and removed after
everything else. Its file is locked (`flock`) as long as the operation lives: whoever can lock it
knows for certain that nobody is at it any more, whatever machine, container or user it was.
"""

from __future__ import annotations

import os

from holdfast.core.errors import StoreBusyError
from holdfast.manager.files.replace_file import write_all
from holdfast.manager.ids import new_id
from holdfast.store.write_gate import LOCK_EX, LOCK_NB, flock
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
    """One operation that is under way, or was. `close` removes it."""

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
        """What was to be done; empty if that cannot be read."""
        return str(self.fields.get("operation", ""))

    def text(self, name: str) -> str:
        """One of its facts."""
        return str(self.fields.get(name) or "")

    def close(self) -> None:
        """The operation has left nothing behind, or all of it is finished."""
        tree_files.remove(self._path)
        self.let_go()

    def let_go(self) -> None:
        """Leave it for the doctor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def begin(repository: Repository, operation: str, *, alone: bool = False, **facts: Any) -> Intent:
    """Write down what is about to be done. With `alone`, at most one of its kind is under way."""
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
    """Those of which it is certain that nobody is at them any more. Each is ours until let go."""
    for path in _paths(repository):
        with guard(repository):
            found = _claim(path)
        if found is not None:
            try:
                yield found
            finally:
                found.let_go()


def ids(repository: Repository) -> set[str]:
    """The names of all operations that are written down."""
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
    """The snapshots that operations under way make or read. Only inside the guard is it certain."""
    found = ids(repository)
    for fields in _readable(repository):
        found.add(str(fields.get("snapshot_id") or ""))
        if fields.get("operation") != COLLECT:
            found.update(fields.get("snapshot_ids") or ())
    return found


def guard(repository: Repository) -> Guard:
    """What an operation takes to begin, and whoever asks which snapshots are needed.

    Nobody sees an intent between its making and its locking, and no snapshot goes away between
    the question who needs it and its removal.
    """
    repository.check_changeable()
    return Guard(repository.path("intents", "intents.guard"), "the list of intents")


def is_under_way(repository: Repository, operation: str) -> bool:
    """Whether an operation of that kind is written down, by a living process or a dead one."""
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
    """The facts of all that can be read. What cannot was never flushed, so it had not begun."""
    for path in _paths(repository):
        try:
            yield tree_files.read_json(path)
        except (OSError, ValueError):
            continue


def _paths(repository: Repository) -> list[str]:
    folder = repository.path("intents")
    return [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(_SUFFIX)]
