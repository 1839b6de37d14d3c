"""Ledger: the store of a repository, and the tree that it covers.

Services decide with it (see `holdfast.manager.transactions`), and a hook needs nothing more. A
LockManager is a ledger that also acquires locks.
"""

from __future__ import annotations

from time import monotonic

from holdfast.core.root_errors import StoreError
from holdfast.manager.clock import SystemClock
from holdfast.manager.files.paths import Tree, Words
from holdfast.manager.files.unfinished_edits import dead_in
from holdfast.manager.ledger_location import store_of
from holdfast.store import open_store
from holdfast.store.store_url import is_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import Self, TypeVar

    from holdfast.core.view import View
    from holdfast.manager.files.paths import Place
    from holdfast.store.contract import Store

    T = TypeVar("T")

#: How long one call to the store may take, whatever other processes do.
DEADLINE_SECONDS = 10.0


class Ledger:
    """The ledger of one repository, or of this process alone."""

    def __init__(self, store: Store, *, tree: Tree | None = None) -> None:
        """Without a tree, paths are compared as text."""
        if store.lease is not None and tree is not None:
            from holdfast.manager.files.ended_edits import careful

            store = careful(store, tree)
        self.store = store
        self.tree = tree
        self._places = tree or Words()
        #: No call to the store lasts beyond this time of `time.monotonic()`.
        self.end = float("inf")

    @classmethod
    def at(cls, root: str, *, end: float = float("inf")) -> Self:
        """The ledger of a repository whose root is already resolved. Neither opening it nor a call
        to its store lasts beyond `end`, a time of `time.monotonic()`."""
        url = store_of(root)
        is_shared = is_server(url)
        dead = dead_in(root, is_shared=is_shared)
        store = open_store(url, clock=SystemClock(), is_dead=dead, end=end)
        made = cls(store, tree=Tree(root, is_real=True, is_shared=is_shared))
        made.end = end
        return made

    def close(self) -> None:
        """Close the store. Grants stay."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def now(self) -> int:
        """Ledger time in microseconds."""
        return self._look(lambda view: view.now)

    def place(self, path: str | os.PathLike[str]) -> Place:
        """The place that a text names. Raises if it cannot be locked."""
        return self._places.place(path)

    def _look(self, question: Callable[[View], T]) -> T:
        return look_at(self.store, question, self._deadline())

    def _deadline(self) -> float:
        return call_deadline(self.end)


def look_at(store: Store, question: Callable[[View], T], deadline: float) -> T:
    """The answer to a question about the current state. It is asked again if the connection to a
    server is lost meanwhile."""
    while True:
        try:
            with store.view(deadline=deadline) as view:
                return question(view)
        except StoreError as error:
            if not error.is_away or monotonic() >= deadline:
                raise


def call_deadline(end: float) -> float:
    """The moment by which a call to the store that begins now must be over."""
    return min(monotonic() + DEADLINE_SECONDS, end)
