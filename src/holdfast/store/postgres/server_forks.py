"""Forks: a child uses none of the parent's connections, and neither side disturbs the other.

Both would share one stream of bytes to the server. So the child's copies of the descriptors lead
nowhere from the first moment on, and its first call opens a connection of its own. A call that the
fork interrupted belongs to the parent, and fails in the child. What a child may need is imported
before the fork: another thread may be in the middle of importing it.
"""

from __future__ import annotations

import os
from _weakref import ref

from holdfast.store import file_descriptors, import_for_children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.postgres.server_store import PostgresStore

_stores: list[ref[PostgresStore]] = []


def watch(store: PostgresStore) -> None:
    """Register a store for the handler below."""
    _stores.append(ref(store, _stores.remove))


def _before_fork() -> None:
    if _stores:
        import_for_children()


def _after_fork_in_child() -> None:
    for known in list(_stores):
        store = known()
        if store is not None:
            store.leave_to_parent()
    file_descriptors.forget(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
