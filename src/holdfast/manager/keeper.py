"""A thread that renews a grant, and an optional reaper thread.

A renewed grant has three states: `held`; `suspect` while the store cannot be reached, or shortly
before the lease ends; `lost` when the store has reported that, or when the lease must have expired
meanwhile. Write only while the grant is held.
"""

from __future__ import annotations

import threading
from time import monotonic, sleep

from holdfast.core.errors import HoldfastError, LockExpiredError, Lost, StoreError
from holdfast.core.model import SECOND
from holdfast.manager.grants import LockGrant

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from holdfast.core.model import Grant, Holder
    from holdfast.manager.manager import LockManager

HELD = "held"
SUSPECT = "suspect"
LOST = "lost"

#: Renew after this part of the lease; the grant is suspect when only this part is left.
RENEW_PART = 1 / 3
MARGIN_PART = 1 / 10


class HeldGrant(LockGrant):
    """A grant that a thread renews."""

    __slots__ = ("_state",)

    def __init__(
        self, grant: Grant, has_ended: Callable[[str], bool], state: Callable[[], str]
    ) -> None:
        super().__init__(grant, has_ended)
        self._state = state

    @property
    def state(self) -> str:
        """`held`, `suspect` or `lost`."""
        return self._state()


class Hold:
    """`with manager.hold(...)`. It releases the grant at the end, and raises if it was lost."""

    def __init__(
        self,
        manager: LockManager,
        holder: str | Holder,
        read_paths: tuple[str | os.PathLike[str], ...],
        write_paths: tuple[str | os.PathLike[str], ...],
        *,
        timeout: float,
        ttl: float | None,
        reason: str,
    ) -> None:
        self._manager = manager
        self._holder = manager.holder(holder)
        self._wanted = (read_paths, write_paths)
        self._timeout = timeout
        self._ttl = ttl
        #: How long the grant lasts unless it is renewed; None if as long as its owner.
        self._lease = ttl
        self._reason = reason
        self._stop = threading.Event()
        self._loss: HoldfastError | None = None
        self._doubt = False
        self._good_until = 0.0
        self._thread: threading.Thread | None = None
        self._id = ""

    def __enter__(self) -> HeldGrant:
        grant = self._manager.acquire(
            holder=self._holder,
            read_paths=self._wanted[0],
            write_paths=self._wanted[1],
            timeout=self._timeout,
            ttl=self._ttl,
            reason=self._reason,
        )
        self._id = grant._grant.id
        lease = self._manager.store.lease
        if self._ttl is None and lease is not None and grant._grant.expires_at is not None:
            self._lease = lease / SECOND
        try:
            if self._lease is not None:
                # The lease may have begun long ago, if this process was stopped while waiting.
                asked = monotonic()
                ends_in = (grant._grant.expires_at or 0) - self._manager.now()
                self._good_until = asked + ends_in / SECOND
                self._thread = threading.Thread(
                    target=self._keep, name="holdfast-keeper", daemon=True
                )
                self._thread.start()
            return HeldGrant(grant._grant, self._manager._has_ended, self.state)
        except BaseException:
            self._stop.set()
            self._manager.release(self._id)
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._stop.set()
            if self._thread is not None:
                self._thread.join()
            self.state()
        finally:
            try:
                self._manager.release(self._id, holder=self._holder)
            except BaseException:  # perhaps an interrupt: retry once
                self._manager.release(self._id, holder=self._holder)
                raise
        if self._loss is not None and kind is None:
            raise self._loss

    def state(self) -> str:
        """`held`, `suspect` or `lost`. A lost grant stays lost."""
        if self._loss is None and self._lease is not None:
            left = self._good_until - monotonic()
            if left <= 0:
                self._loss = LockExpiredError(
                    f"grant {self._id} expired while the store could not be reached",
                    hint="another holder may have written the same files since",
                )
            elif left <= self._lease * MARGIN_PART:
                return SUSPECT
        if self._loss is not None:
            return LOST
        return SUSPECT if self._doubt else HELD

    def _keep(self) -> None:
        assert self._lease is not None
        passed = self._lease - (self._good_until - monotonic())
        pause = max(0.0, self._lease * RENEW_PART - passed)
        while not self._stop.wait(pause):
            asked = monotonic()
            try:
                self._manager.renew(self._id, holder=self._holder)
            except Lost as loss:
                self._loss = loss
                return
            except StoreError:
                self._doubt = True
                pause = min(1.0, self._lease * RENEW_PART / 4)
            else:
                self._doubt = False
                self._good_until = asked + self._lease
                pause = self._lease * RENEW_PART


class Reaper:
    """A thread that reaps dead grants. A convenience: nothing depends on it."""

    def __init__(self, manager: LockManager, interval: float) -> None:
        self._manager = manager
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-reaper", daemon=True)

    def __enter__(self) -> Reaper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self._manager.reap()
            except StoreError:
                continue  # the next round retries


#: How long a cancelled request may stay in the ledger once the ledger is reachable again.
TRY_AGAIN_SECONDS = 0.2


def keep_trying(done: Callable[[], bool]) -> None:
    """Retry in a separate thread until it is done."""

    def run() -> None:
        while not done():
            sleep(TRY_AGAIN_SECONDS)

    threading.Thread(target=run, name="holdfast-cancelling", daemon=True).start()
