"""Bugs in the programs of a fight, which show that the check of its history finds them.

Each is a function that breaks this process during its `with` block. The bugs of rules are in
`mutants.sim_mutants`; here are those of a store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from holdfast import LockManager
from holdfast.core.rules import verify
from holdfast.core.sentences import raise_verdict
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


# Of the store on a server. Its modules are imported where there is one.


def commits_without_waiting_for_the_disk() -> AbstractContextManager[None]:
    """A commit is answered before it is durable."""
    from holdfast.store.postgres import statements

    text = statements.ALL["connect"]
    quick = text.replace("'on', false)", "'off', false)").replace("= 'off';", "= 'on';")
    assert quick.count("'off'") == text.count("'on'") == 1
    return patched([(statements, "ALL", {**statements.ALL, "connect": quick})])


def takes_every_lost_commit_for_done() -> AbstractContextManager[None]:
    """If the answer to a commit is lost, the decision counts as committed."""
    from holdfast.store.postgres.server_store import PostgresStore

    return patched([(PostgresStore, "_was_committed", lambda self, first, deadline: True)])


def fences_without_a_lock() -> AbstractContextManager[None]:
    """A fenced section does not keep the others from deciding."""
    from holdfast.store.postgres.server_sections import ServerFence
    from holdfast.store.postgres.server_store import PostgresStore

    def begin(self: ServerFence, store: PostgresStore) -> None:
        raise_verdict(
            verify(store.begin_reading(self._deadline), self._grant_id, None, self._token)
        )

    return patched([(ServerFence, "_begin", begin)])


def believes_the_clock_of_its_host() -> AbstractContextManager[None]:
    """The time of the ledger is that of whichever host decides."""
    from holdfast.store.postgres.server_store import PostgresStore

    def set_time(self: PostgresStore, view: Any, last_at: int, server_now: int) -> None:
        self._new_anchor = None
        view.wall = view.now = time.time_ns() // 1000
        view.slept = 0

    return patched([(PostgresStore, "_set_time", set_time)])


SERVER_BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    bug.__name__: bug
    for bug in (
        commits_without_waiting_for_the_disk, takes_every_lost_commit_for_done,
        fences_without_a_lock, believes_the_clock_of_its_host,
    )
}  # fmt: skip

BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "droppable_locks": droppable_locks,
    "answer_before_commit": answer_before_commit,
    "blind_to_forks": blind_to_forks,
    **{name: mutant.applied for name, mutant in MUTANTS.items()},
    **SERVER_BUGS,
}
