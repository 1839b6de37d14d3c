"""Heartbeats: a thread that renews the leases of this process, on a ledger that hosts share.

Another host cannot judge whether the owner of a lease is alive. So there a lease without a ttl ends
unless it is renewed, and the process that acquired it renews it, all of its leases in one
transaction after each third of their length. The thread starts with the first such request and ends
when nothing is left to renew, or when its manager is closed. While the store cannot be reached it
tries again every second.

It promises nothing to a process that is stopped, or cut off from the store, for longer than a
lease: a lease that has ended is never revived, and `verify` and `fenced` refuse it.
"""

from __future__ import annotations

from threading import Event, RLock, Thread

from holdfast.core import bulk_rules
from holdfast.core.errors import StoreError
from holdfast.core.model import SECOND
from holdfast.manager import fork_check, transactions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manager.ledger import Ledger

#: How much of a lease may pass between two renewals.
RENEW_PART = 1 / 3
#: How soon a store that could not be reached is tried again; of a short lease, this part.
RETRY_SECONDS = 1.0
RETRY_PART = 1 / 12


class Heartbeat:
    """The heartbeat of one manager. After a fork only the parent's continues: the child is another
    holder."""

    def __init__(self, ledger: Ledger, lease: int) -> None:
        self._ledger = ledger
        self._pause = lease / SECOND * RENEW_PART
        self._retry = min(RETRY_SECONDS, lease / SECOND * RETRY_PART)
        self._begin()

    def _begin(self) -> None:
        self._forks = fork_check.count()
        # A signal handler may acquire something while its thread is in here.
        self._lock = RLock()
        self._over = Event()
        self._thread: Thread | None = None
        self._kept: set[str] = set()
        #: Those that were announced since the last renewal began, and may hold nothing yet.
        self._announced: set[str] = set()

    @property
    def is_running(self) -> bool:
        """Whether the thread runs."""
        return self._forks == fork_check.count() and self._thread is not None

    def keep(self, holder_key: str) -> None:
        """Renew the leases of a holder from now on. To be called before each request."""
        if self._forks != fork_check.count():
            self._begin()
        with self._lock:
            self._announced.add(holder_key)
            self._kept.add(holder_key)
            if self._thread is None and not self._over.is_set():
                self._thread = Thread(target=self._run, name="holdfast-heartbeat", daemon=True)
                self._thread.start()

    def end(self) -> None:
        """Renew nothing any more."""
        if self._forks == fork_check.count():
            self._over.set()

    def renew(self) -> bool:
        """Renew what is due. Whether there is anything left to renew later. Raises StoreError."""
        with self._lock:
            self._announced.clear()
            keys = sorted(self._kept)
        left = transactions.decide(self._ledger, lambda view: bulk_rules.keep(view, keys))
        with self._lock:
            self._kept = {*left, *self._announced}
            if not self._kept:
                self._thread = None
            return bool(self._kept)

    def _run(self) -> None:
        over, pause = self._over, self._pause
        while not over.wait(pause):
            try:
                if not self.renew():
                    return
                pause = self._pause
            except StoreError:
                pause = self._retry
