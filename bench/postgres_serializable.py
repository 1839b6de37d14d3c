"""The store on a server, with decisions that are serialized in the other way that it has.

Holdfast's store takes an advisory lock for each decision. Here a decision is a serializable
transaction without that lock: the server lets decisions run side by side, refuses those that cannot
have happened one after the other, and these are repeated. All else is the store as it is.
"""

from __future__ import annotations

import logging
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast import LockManager
from holdfast.core.root_errors import StoreError
from holdfast.manager.files.paths import Tree
from holdfast.store.postgres.server_session import ServerSession
from holdfast.store.postgres.server_store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.model import Decision
    from holdfast.core.view import View

T = TypeVar("T")

ENTER = "begin isolation level serializable; select * from look(:repository)"
#: The server's refusals of what ran beside it: of the order, of the same number, of a deadlock.
REFUSALS = ("40001", "23505", "40P01")
#: A pause of up to so long before the first repetition, and twice as long before each other. With
#: shorter ones there are more refusals, and fewer decisions.
FIRST_PAUSE_SECONDS = 0.008
LAST_PAUSE_SECONDS = 0.128
#: How much longer a decision may take after each refusal.
MORE_SECONDS = 10.0


class SerializableStore(PostgresStore):
    """The store; `repeats` is how many decisions were refused by the server and repeated."""

    repeats = 0

    def connected(self, deadline: float) -> ServerSession:
        session = super().connected(deadline)
        statements = session.statements
        text = ENTER.replace(":repository", str(session.repository))
        for name in ("enter", "enter_within"):
            statements._made[name] = text.encode()
        return session

    def _transact(self, decide: Callable[[View], Decision[T]], deadline: float) -> T:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return super()._transact(decide, deadline)
            except StoreError as error:
                if getattr(error.__cause__, "sqlstate", None) not in REFUSALS:
                    raise
            self.repeats += 1
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, LAST_PAUSE_SECONDS)
            deadline = max(deadline, time.monotonic() + MORE_SECONDS)


def repeating_manager(folder: Path, store: str) -> LockManager:
    """The locks of a repository, in such a store."""
    from holdfast.manager.owners.liveness import is_dead

    logging.getLogger("psycopg").setLevel(logging.ERROR)  # or it reports each refusal
    return LockManager(SerializableStore(store, is_dead=is_dead), tree=Tree(str(folder)))
