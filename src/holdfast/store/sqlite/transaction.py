"""A writing transaction: all or nothing, and repeated if a fork interrupts it.

A signal handler may fork while its own thread is in the middle of a transaction. The child must not
inherit it: closing the child's copy of the connection would roll it back, and SQLite would then
clean up the log's index, which is memory shared with the parent, with frames that the parent may
have committed by then. So the transaction is rolled back before the fork. The parent's remaining
writes go into a second transaction, which is discarded, and then the whole function runs again.
"""

from __future__ import annotations

from time import monotonic, sleep

from holdfast.store.sqlite.schema import translated, trouble
from holdfast.store.sqlite.sqlite_driver import driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final, TypeVar

    from holdfast.store.sqlite.session import Session

    T = TypeVar("T")

_PAUSE_SECONDS = 0.005


class Transaction:
    """The transactions of one session. At most one thread is in one, inside the gate."""

    __slots__ = ("_ask", "_connection", "_engine", "_interrupted", "_path", "_torn", "_writing")

    def __init__(self, session: Session) -> None:
        self._ask: Final = session.cursor.execute
        self._connection: Final = session.connection
        self._engine: Final = session.engine
        self._path: Final = session.path
        self._writing = self._torn = self._interrupted = False

    def run(self, write: Callable[[], T], forget: Callable[[], None], deadline: float) -> T:
        """Run a function and commit its writes. The function may run more than once; `forget` is
        called after each rollback."""
        try:
            with self._engine:
                while True:
                    self._writing, self._torn = True, False
                    try:
                        try:
                            self._ask("begin immediate")
                        except driver.OperationalError:
                            self._begin(deadline)
                        done = write()
                        if not self._torn:
                            self._ask("commit")
                        if not self._torn:
                            return done
                        self._roll_back(forget)
                    except BaseException as error:
                        self._roll_back(forget)
                        if not self._torn or not isinstance(error, Exception):
                            raise
                    finally:
                        self._writing = False
        except driver.Error as error:
            raise translated(error, self._path) from error
        except OSError as error:  # of the gate's file
            raise trouble(error, self._path) from error

    def tear(self) -> None:
        """Roll back before a fork by the thread that has the engine."""
        if self._writing and self._connection.in_transaction:
            self._torn = self._interrupted = True
            self._ask("rollback")

    def go_on(self) -> None:
        """After that fork, in the parent: begin again, but only if this fork rolled back. A
        transaction that an earlier fork interrupted may have been discarded already."""
        if self._interrupted:
            self._interrupted = False
            self._ask("begin immediate")

    def _begin(self, deadline: float) -> None:
        """Retry: no process of ours is in the gate, but another program may have a lock."""
        while True:
            try:
                self._ask("begin immediate")
                return
            except driver.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != driver.SQLITE_BUSY or monotonic() >= deadline:
                    raise
            sleep(_PAUSE_SECONDS)

    def _roll_back(self, forget: Callable[[], None]) -> None:
        forget()
        if self._connection.in_transaction:
            self._ask("rollback")
