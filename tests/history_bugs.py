"""Bugs in the programs of a fight, which show that the check of its history finds them.

Each is a function that breaks this process during its `with` block. The bugs of rules are in
`mutants.sim_mutants`; here are those of a store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from holdfast import LockManager
from holdfast.manager import fork_check
from holdfast.store.file_descriptors import identity
from holdfast.store.sqlite import lock_bytes
from holdfast.store.sqlite.session import Session
from mutants.sim_mutants import MUTANTS, patched


def droppable_locks() -> AbstractContextManager[None]:
    """The ledger's files are protected only by SQLite's own record locks, which the kernel drops
    when the process closes any descriptor of them. Another process then takes itself for the last
    one, and removes a log that is in use; afterwards only the database itself is checked."""

    def is_at_its_path(self: Session) -> bool:
        return (identity(self.gate.path), identity(self.path)) == (self.gate.inode, self.files[0])

    return patched([(lock_bytes, "HAS_LOCKS", False), (Session, "is_at_its_path", is_at_its_path)])


def answer_before_commit() -> AbstractContextManager[None]:
    """A release answers immediately, and is committed a moment later."""
    release = LockManager.release

    def early(self: LockManager, grant_id: str, **rest: Any) -> bool:
        thread = threading.Thread(target=release, args=(self, grant_id), daemon=True)
        threading.Timer(0.002, thread.start).start()
        return True

    return patched([(LockManager, "release", early)])


def blind_to_forks() -> AbstractContextManager[None]:
    """A child that was forked in the middle of a call makes its parent's request once more."""
    return patched([(fork_check, "refuse_in_child", lambda of_caller: None)])


BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "droppable_locks": droppable_locks,
    "answer_before_commit": answer_before_commit,
    "blind_to_forks": blind_to_forks,
    **{name: mutant.applied for name, mutant in MUTANTS.items()},
}
