"""A scene: one ledger, with a clock and processes that a check controls.

It drives a store with the rulebook directly, so nothing here waits and every id comes from the
check. It does not replace a store: the store under test is the real one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeVar

from holdfast.core import rules
from holdfast.core.model import (
    PATIENCE_DEFAULT_SECONDS,
    SECOND,
    TTL_DEFAULT_SECONDS,
    ConflictInfo,
    Decision,
    Ending,
    Event,
    Grant,
    Holder,
    Refusal,
    Request,
    Ticket,
    Verdict,
    Waiting,
    Witness,
)
from holdfast.core.table import LockTable
from holdfast.manager.clock import FakeClock
from holdfast.manager.manager import LockManager

if TYPE_CHECKING:
    from holdfast.core.ledger_time import Clock
    from holdfast.core.view import View
    from holdfast.store.contract import IsDead, Store

T = TypeVar("T")

#: How long one call may take on a busy machine.
PATIENT_SECONDS = 60.0

State = tuple[int, int, list[Grant], list[Ticket]]


class OpenStore(Protocol):
    """Opens the store under test. A new name is an empty ledger; under a known name, a store that
    outlives its process finds its former contents."""

    def __call__(self, name: str, *, clock: Clock, is_dead: IsDead) -> Store: ...


class Processes:
    """A process table that a check controls."""

    def __init__(self) -> None:
        self._started = 0
        self._gone: set[Witness] = set()
        self._carried: set[str] = set()
        self._hidden: set[Witness] = set()

    def start(self) -> Witness:
        """Start a process."""
        self._started += 1
        return Witness(
            host="scene", boot="scene-boot", namespace="scene-pids",
            pid=100 + self._started, start=self._started,
        )  # fmt: skip

    def end(self, *witnesses: Witness | None) -> None:
        """End these processes."""
        self._gone.update(witness for witness in witnesses if witness is not None)

    def hide(self, *witnesses: Witness | None) -> None:
        """Make it unknown whether these processes are alive."""
        self._hidden.update(witness for witness in witnesses if witness is not None)

    def leave_behind(self, mark: str) -> None:
        """Leave a descendant behind that carries a mark."""
        self._carried.add(mark)

    def clear_away(self, mark: str) -> None:
        """End all descendants that carry a mark."""
        self._carried.discard(mark)

    def is_dead(self, witness: Witness, marks: tuple[str, ...]) -> bool | None:
        """The result of the liveness check."""
        if witness in self._hidden:
            return None
        return witness in self._gone and self._carried.isdisjoint(marks)


class Scene:
    """One store, open, and everything that it depends on."""

    def __init__(
        self,
        open_store: OpenStore,
        name: str = "ledger",
        *,
        clock: FakeClock | None = None,
        processes: Processes | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.processes = processes or Processes()
        self.name = name
        self._open_store = open_store
        self._holders: dict[str, Holder] = {}
        self._requests = 0
        self._pid = os.getpid()
        self.store = self.open()

    def open(self) -> Store:
        """Open the same ledger again, as another process would."""
        return self._open_store(self.name, clock=self.clock, is_dead=self.processes.is_dead)

    def reopen(self) -> None:
        """Close the store and open it again."""
        self.store.close()
        self.store = self.open()

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    @property
    def manager(self) -> LockManager:
        """A manager on this store that takes paths literally."""
        return LockManager(self.store, clock=self.clock, is_dead=self.processes.is_dead)

    # Holders and requests

    def holder(self, name: str, *, marks: tuple[str, ...] = ()) -> Holder:
        """A holder with a living process, the same one for the same name."""
        if name not in self._holders:
            witness = self.processes.start()
            key = f"{name}@{witness.pid}"
            self._holders[name] = Holder(id=name, key=key, witness=witness, marks=marks)
        return self._holders[name]

    def kill(self, name: str) -> None:
        """End the process of a holder; the next holder of this name is another one."""
        self.processes.end(self._holders.pop(name).witness)

    def request(
        self,
        who: str | Holder,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
        *,
        id: str | None = None,
        ttl: float | None = TTL_DEFAULT_SECONDS,
        patience: float = PATIENCE_DEFAULT_SECONDS,
        priority: int = 0,
        reason: str = "",
        silent: tuple[str, ...] = (),
        waiter: Witness | None = None,
        wake: str = "",
        grace: float = 0,
    ) -> Request:
        """A request by its keys. A trailing slash is for readers, and not part of the key."""
        self._requests += 1
        paths = (*reads, *writes)
        return Request(
            id=f"{self._family()}-{self._requests:04d}" if id is None else id,
            holder=self.holder(who) if isinstance(who, str) else who,
            keys=tuple(path.rstrip("/") for path in paths),
            modes="r" * len(reads) + "w" * len(writes),
            paths=paths,
            silent=silent,
            ttl=None if ttl is None else round(ttl * SECOND),
            patience=round(patience * SECOND),
            priority=priority,
            reason=reason,
            waiter=waiter,
            wake=wake,
            grace=round(grace * SECOND),
        )

    def _family(self) -> str:
        """Distinguishes the requests of a forked child, which continues to count from the same
        number."""
        return "request" if os.getpid() == self._pid else f"child-{os.getpid()}"

    # Commands

    def do(self, decide: Callable[[View], Decision[T]]) -> T:
        """One transaction, with a distant deadline."""
        return self.store.transact(decide, deadline=monotonic() + PATIENT_SECONDS)

    def put(
        self, request: Request, *, wait: bool = False, again: bool = True
    ) -> Grant | Waiting | Refusal:
        """Present a request to the store: again, unless this is the first time."""
        return self.do(lambda view: rules.acquire(view, request, wait=wait, again=again))

    def ask(
        self,
        who: str | Holder,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
        *,
        ttl: float | None = TTL_DEFAULT_SECONDS,
    ) -> Grant | Refusal:
        """Request keys without waiting."""
        outcome = self.put(self.request(who, reads, writes, ttl=ttl), again=False)
        assert not isinstance(outcome, Waiting), "a request that may not wait was queued"
        return outcome

    def take(
        self,
        who: str | Holder,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
        *,
        ttl: float | None = TTL_DEFAULT_SECONDS,
    ) -> Grant:
        """Acquire keys that must be free."""
        outcome = self.ask(who, reads, writes, ttl=ttl)
        assert isinstance(outcome, Grant), f"refused: {outcome}"
        return outcome

    def queue_up(
        self,
        who: str | Holder,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
        *,
        patience: float = PATIENCE_DEFAULT_SECONDS,
        priority: int = 0,
        waiter: Witness | None = None,
        wake: str = "",
        grace: float = 0,
    ) -> Request:
        """Request keys that are held, and wait in the queue."""
        request = self.request(
            who, reads, writes,
            patience=patience, priority=priority, waiter=waiter, wake=wake, grace=grace,
        )  # fmt: skip
        outcome = self.put(request, wait=True, again=False)
        assert isinstance(outcome, Waiting), f"did not wait: {outcome}"
        return request

    def ensure(self, request: Request) -> Grant | Waiting | Refusal:
        """Reuse a grant or acquire one."""
        return self.do(lambda view: rules.ensure(view, request))

    def release(self, grant: Grant | str, holder_key: str | None = None) -> bool | Refusal:
        """Release a grant."""
        id = grant if isinstance(grant, str) else grant.id
        return self.do(lambda view: rules.release(view, id, holder_key))

    def renew(
        self,
        grant: Grant,
        *,
        by: Holder | None = None,
        ttl: float | None = None,
        rest: float | None = None,
    ) -> Grant | Refusal:
        """Extend a lease as its holder, or as another one."""
        key = (by or grant.holder).key
        lease = None if ttl is None else round(ttl * SECOND)
        pause = None if rest is None else round(rest * SECOND)
        return self.do(
            lambda view: rules.renew(view, grant.id, holder_key=key, ttl=lease, rest=pause)
        )

    def steal(self, request: Request) -> Grant | Waiting | Refusal:
        """Take over an expired grant."""
        return self.do(lambda view: rules.steal(view, request))

    def force(self, grant: Grant, by: Holder, reason: str = "it must go") -> Grant | Refusal:
        """End a grant by force."""
        return self.do(lambda view: rules.force(view, grant.id, by=by, reason=reason))

    def cancel(self, request: Request, why: str = "cancelled") -> Grant | None:
        """Stop waiting."""
        return self.do(lambda view: rules.cancel(view, request.id, why))

    def reap(self, *grants: Grant) -> list[Ending]:
        """End those of these grants that are not live."""
        return self.do(lambda view: rules.reap(view, [grant.id for grant in grants]))

    # Questions

    @contextmanager
    def view(self) -> Iterator[View]:
        """The present state."""
        with self.store.view(deadline=monotonic() + PATIENT_SECONDS) as view:
            yield view

    def verify(self, grant: Grant, key: str | None = None, token: int | None = None) -> Verdict:
        """Whether a write may proceed."""
        with self.view() as view:
            return rules.verify(view, grant.id, key, grant.token if token is None else token)

    def look(self, request: Request) -> list[ConflictInfo]:
        """The conflicts that a request would have."""
        with self.view() as view:
            return rules.look(view, request)

    def now(self) -> int:
        """Ledger time."""
        with self.view() as view:
            return view.now

    def state(self) -> State:
        """The whole state of the store, for comparison."""
        with self.view() as view:
            return view.head, view.last_token, view.grants(), view.queue()

    def history(self, after: int = 0) -> list[Event]:
        """The events after a given one."""
        return list(self.store.events(after))

    def waiting(self) -> list[str]:
        """The ids of the tickets, in order."""
        with self.view() as view:
            return [ticket.id for ticket in view.queue()]

    def holds(self, request: Request | Grant) -> bool:
        """Whether there is a grant of this id that has not ended."""
        with self.view() as view:
            return isinstance(view.grant(request.id), Grant)


def state_of(table: LockTable) -> State:
    """A table in the form of `Scene.state`."""
    return table.head, table.last_token, table.grants(), table.queue()


def refused(outcome: object, code: str = "E_LOCK_CONFLICT") -> Refusal:
    """The outcome, which must be a refusal with this code."""
    assert isinstance(outcome, Refusal), f"not refused: {outcome}"
    assert outcome.code == code, f"refused with {outcome.code}: {outcome}"
    return outcome
