"""Stores and forks: a child must not inherit somebody who is inside.

A child inherits what SQLite keeps in memory about its own locks. If another thread were in a
transaction at that moment, the child would believe for ever that somebody of its own is. So a
fork waits until nobody is, and the child begins with a mutex of its own.
"""

from __future__ import annotations

import os
from _thread import RLock
from _weakref import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.sqlite import SqliteStore

_stores: list[ref[SqliteStore]] = []


class Mutex(RLock):  # type: ignore[misc]
    """One thread at a time, and it can be asked whether that is us."""

    if TYPE_CHECKING:

        def _is_owned(self) -> bool: ...


def watch(store: SqliteStore) -> None:
    """Look after a store when this process forks."""
    _stores.append(ref(store, _stores.remove))


def _before_fork() -> None:
    # A child inherits what the database keeps in memory about its own locks: if another thread
    # were inside, the child would believe for ever that somebody of its own is.
    for store in [known() for known in _stores]:
        if store is not None and not store.mutex._is_owned():
            store.mutex.acquire(timeout=1.0)


def _after_fork_in_parent() -> None:
    for store in [known() for known in _stores]:
        if store is not None and store.mutex._is_owned() and not store.in_fence:
            store.mutex.release()


def _after_fork_in_child() -> None:
    for store in [known() for known in _stores]:
        if store is not None:
            store.mutex = Mutex()
            store.in_fence = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
