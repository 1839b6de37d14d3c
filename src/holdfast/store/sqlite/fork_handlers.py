"""Stores and forks: a child keeps none of the parent's open files, and neither side hangs.

All connections of a process share SQLite's memory about a file. If a child kept its copy of the
connection, every connection that it opens would use the parent's descriptor numbers and lock
counts. So the child closes its copies immediately, before the program can do anything else: later
it may have closed all descriptors, as daemons do.

A fork may happen at any moment: another thread may be inside SQLite, in a fenced section, or at the
gate; the forking thread may be inside a view. A fork waits only while another thread is inside
SQLite. The child gets new mutexes; a call in progress belongs to the parent.
A signal handler may fork in the middle of a transaction of its own thread: see `transaction`.
"""

from __future__ import annotations

import os
from _thread import _count, get_ident
from _weakref import ref

from holdfast.store import file_descriptors, import_for_children
from holdfast.store.sqlite import session, write_gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.mutexes import Mutex
    from holdfast.store.sqlite.sqlite_store import SqliteStore

#: How long a fork waits for another thread that is inside SQLite.
WAIT_SECONDS = 10.0

_stores: list[ref[SqliteStore]] = []
#: For each forking thread: the engines that it stopped, and whether there were other threads.
_forks: dict[int, tuple[list[Mutex], bool]] = {}


def watch(store: SqliteStore) -> None:
    """Register a store for the handlers below."""
    _stores.append(ref(store, _stores.remove))


def _before_fork() -> None:
    stores = [store for known in _stores if (store := known()) is not None]
    if not stores:
        return
    import_for_children()
    stopped: list[Mutex] = []
    _forks[get_ident()] = (stopped, _count() > 0)
    for store in stores:
        if store.engine._is_owned():
            store.before_fork()
        elif store.engine.acquire(timeout=WAIT_SECONDS):
            stopped.append(store.engine)


def _after_fork_in_parent() -> None:
    stopped, _ = _forks.pop(get_ident(), ((), False))
    for engine in stopped:
        engine.release()
    for known in list(_stores):
        store = known()
        if store is not None and store.engine._is_owned():
            store.after_fork()


def _after_fork_in_child() -> None:
    stopped, beside_threads = _forks.pop(get_ident(), ((), False))
    _forks.clear()
    for engine in stopped:
        engine.release()
    for known in list(_stores):
        store = known()
        if store is not None:
            store.leave_to_parent()
    session.bequeath_all(beside_threads=beside_threads)
    file_descriptors.forget(True)
    write_gate.close_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
