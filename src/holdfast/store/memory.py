"""One table and one mutex, for the threads of one process. Nothing survives the process.

History is bounded: only the latest events are kept. The state is always complete.
"""

from __future__ import annotations

from _thread import LockType, allocate_lock
from os import getpid
from time import monotonic

from holdfast.core.draft import reach
from holdfast.core.errors import StoreBusyError, StoreError
from holdfast.core.ledger_time import Anchor, ledger_time
from holdfast.core.model import Event
from holdfast.core.rules import verify
from holdfast.core.sentences import raise_verdict
from holdfast.core.table import LockTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeVar

    from holdfast.core.ledger_time import Clock
    from holdfast.core.model import Decision, Ticket
    from holdfast.core.view import View
    from holdfast.store.contract import IsDead

    T = TypeVar("T")

HISTORY_EVENTS_MAX = 10_000
#: The prefix of a waiter's address.
ADDRESS = "waiter-"


class TableView:
    """A table and the time. One view serves all transactions, since they never overlap."""

    __slots__ = (
        "_bells", "_table", "count", "dead", "grace_over", "grant", "grants", "has_tickets",
        "head", "held_by", "held_within", "is_free", "last_token", "lease", "note", "notes",
        "now", "queue", "scopes", "slept", "some_grants", "ticket", "waiting", "wall",
    )  # fmt: skip

    def __init__(
        self,
        table: LockTable,
        is_dead: IsDead,
        bells: Mapping[str, LockType] | None = None,
        lease: int | None = None,
    ) -> None:
        self.lease = lease
        self._table = table
        self._bells = {} if bells is None else bells
        self.dead = is_dead
        self.grant = table.grant
        self.scopes = table.scopes
        self.count = table.count
        self.is_free = table.is_free
        self.held_by = table.held_by
        self.held_within = table.held_within
        self.grants = table.grants
        self.some_grants = table.some_grants
        self.note = table.note
        self.notes = table.notes
        self.ticket = table.ticket
        self.waiting = table.waiting
        self.queue = table.queue
        self.at(0, 0, 0)

    def at(self, now: int, slept: int, wall: int) -> TableView:
        """The table as it is at this time."""
        table = self._table
        self.now, self.slept, self.wall = now, slept, wall
        self.head = table.head
        self.last_token = table.last_token
        grace_ends = table.grace_ends
        if grace_ends:
            self.has_tickets, self.grace_over = True, now >= grace_ends[0]
        else:
            self.has_tickets = self.grace_over = False
        return self

    def gave_up(self, address: str) -> bool:
        return address.startswith(ADDRESS) and address not in self._bells

    def tickets(self, at: list[str], below: list[tuple[str, str]]) -> Iterator[Ticket]:
        return iter(self._table.tickets(at, below))

    def ripe(self, at: list[str], below: list[tuple[str, str]]) -> list[Ticket]:
        return [
            ticket
            for ticket in self._table.tickets(at, below)
            if ticket.reserved or ticket.ripe_at <= self.now
        ]


class MemoryWaiter:
    """Waits on its own lock, which a decision releases to wake it."""

    __slots__ = ("_bell", "_bells", "address")

    def __init__(self, bells: dict[str, LockType], address: str) -> None:
        self.address = address
        self._bells = bells
        self._bell = bells[address] = allocate_lock()
        self._bell.acquire()

    @property
    def descriptor(self) -> int:
        """There is none: the waiter is woken by another thread."""
        return -1

    def wait(self, timeout: float) -> bool:
        return self._bell.acquire(timeout=max(0.0, timeout))

    def close(self) -> None:
        self._bells.pop(self.address, None)

    discard = close


class MemoryStore:
    """The memory store."""

    url = "memory:"

    def __init__(
        self,
        *,
        clock: Clock,
        is_dead: IsDead,
        history_events_max: int = HISTORY_EVENTS_MAX,
        lease: int | None = None,
    ) -> None:
        """With `lease`, in microseconds, a lease without a ttl must be renewed, as on a server's
        ledger, which several hosts use."""
        self.lease = lease
        self._clock = clock
        self._history_events_max = history_events_max
        self._mutex = allocate_lock()
        self._pid = getpid()
        self._closed = False
        self._table = LockTable()
        self._anchor: Anchor | None = None
        self._history: dict[int, Event] = {}
        self._said: dict[str, int] = {}
        self._bells: dict[str, LockType] = {}
        self._table_view = TableView(self._table, is_dead, self._bells, lease)
        self._followers: dict[str, None] = {}
        self._waiters = 0

    def _enter(self, deadline: float) -> None:
        if self._mutex.acquire(False):
            return
        if self._closed:
            raise StoreError("this store is closed", hint="open another one")
        if self._pid != getpid():  # a forked child must not wait for a thread of its parent
            self._pid = getpid()
            self._mutex = allocate_lock()
            self._mutex.acquire()
            return
        if not self._mutex.acquire(timeout=max(0.0, deadline - monotonic())):
            raise StoreBusyError(
                "the store is in use by another thread of this process",
                hint="give more time, or look for a thread that is stuck in a fenced section",
            )

    def _view(self) -> TableView:
        reading = self._clock.read()
        now, slept, anchor = ledger_time(self._anchor, reading, self._table.last_at)
        if anchor is not None:
            self._anchor = anchor
        return self._table_view.at(now, slept, reading.wall)

    def transact(self, decide: Callable[[View], Decision[T]], *, deadline: float) -> T:
        if not self._mutex.acquire(False):
            self._enter(deadline)
        try:
            decision = decide(self._view())
            for event in decision.events:
                if event.once:
                    self._say_once(event)
                else:
                    self._table.apply(event)
                    self._history[event.seq] = event
            if len(self._history) > 2 * self._history_events_max:
                self._trim(self._table.head - self._history_events_max)
        finally:
            self._mutex.release()
        if decision.wake or decision.hint or self._followers:
            self._ring(decision)
        return decision.outcome

    def _say_once(self, event: Event) -> None:
        if not self._repeat(event):
            self._said[event.once] = event.seq
            self._table.apply(event)
            self._history[event.seq] = event

    def _repeat(self, event: Event) -> bool:
        said = self._history.get(self._said.get(event.once, 0))
        if said is None:
            return False
        self._history[said.seq] = Event(
            seq=said.seq, type=said.type, at=said.at, data=said.data, once=said.once,
            repeats=said.repeats + 1,
        )  # fmt: skip
        return True

    def _ring(self, decision: Decision[T]) -> None:
        for address in decision.wake:
            self._open(address)
        if decision.hint:
            for address in self._to_hint(decision.hint):
                self._open(address)
        if decision.events and self._followers:
            for address in list(self._followers):
                self._open(address)

    def _to_hint(self, keys: tuple[str, ...]) -> list[str]:
        self._enter(monotonic() + 60)
        try:
            return [ticket.request.wake for ticket in self._table.tickets(*reach(keys))]
        finally:
            self._mutex.release()

    def _open(self, address: str) -> None:
        bell = self._bells.get(address)
        if bell is not None:
            try:
                bell.release()
            except RuntimeError:  # an earlier wake-up has not been consumed yet
                pass

    def fenced(self, grant_id: str, token: int, *, deadline: float) -> Fence:
        return Fence(self, grant_id, token, deadline)

    def view(self, *, deadline: float) -> Reading:
        return Reading(self, deadline)

    def events(self, after: int = 0, limit: int | None = None) -> Iterator[Event]:
        self._enter(monotonic() + 60)
        try:
            found = [event for seq, event in self._history.items() if seq > after]
        finally:
            self._mutex.release()
        return iter(found if limit is None else found[:limit])

    def wait(self, after: int, timeout: float) -> int:
        waiter = self.waiter()
        self._followers[waiter.address] = None
        try:
            if self._table.head <= after:
                waiter.wait(timeout)
        finally:
            del self._followers[waiter.address]
            waiter.close()
        return self._table.head

    def waiter(self) -> MemoryWaiter:
        self._enter(monotonic() + 60)
        try:
            self._waiters += 1
            return MemoryWaiter(self._bells, f"{ADDRESS}{self._waiters}")
        finally:
            self._mutex.release()

    def trim(self, before: int) -> int:
        self._enter(monotonic() + 60)
        try:
            return self._trim(before)
        finally:
            self._mutex.release()

    def _trim(self, before: int) -> int:
        gone = [seq for seq in self._history if seq < before]
        for seq in gone:
            del self._history[seq]
        self._said = {once: seq for once, seq in self._said.items() if seq >= before}
        self._table.forget(before)
        return len(gone)

    def close(self) -> None:
        """Release all resources."""
        if self._closed:
            return
        self._enter(monotonic() + 60)
        self._closed = True  # the mutex stays locked, so that later calls fail


class Reading:
    """The mutex, held during a read."""

    __slots__ = ("_deadline", "_store")

    def __init__(self, store: MemoryStore, deadline: float) -> None:
        self._store = store
        self._deadline = deadline

    def __enter__(self) -> View:
        self._store._enter(self._deadline)
        return self._store._view()

    def __exit__(self, *_: object) -> None:
        self._store._mutex.release()


class Fence:
    """The mutex, held by a caller with a current token."""

    __slots__ = ("_deadline", "_grant_id", "_store", "_token")

    def __init__(self, store: MemoryStore, grant_id: str, token: int, deadline: float) -> None:
        self._store = store
        self._grant_id = grant_id
        self._token = token
        self._deadline = deadline

    def __enter__(self) -> None:
        self._store._enter(self._deadline)
        try:
            raise_verdict(verify(self._store._view(), self._grant_id, None, self._token))
        except BaseException:
            self._store._mutex.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._store._mutex.release()
