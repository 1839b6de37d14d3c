"""The loop of a scheduler: the one thread that owns the queue, the slots and the items in progress.

It waits for messages (`holdfast.work.engine.loop_messages`) and for the next moment at which
something is due, never for a process, a file or a lock. After each batch of messages it goes round
once: it extends leases, checks what other dispatchers have left behind, handles overdue items, and
dispatches every item that can start. It makes decisions in the ledger, which are quick, and leaves
slow work to threads of the pool, which answer by message.

Other threads read a `Snapshot`, which is made anew after each round. They touch nothing of the loop
itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Semaphore

from holdfast.core.errors import InvalidInput, StoreError
from holdfast.core.model import SECOND, ConflictInfo
from holdfast.core.sentences import conflict_sentences
from holdfast.manager.files.unfinished_edits import settles
from holdfast.manager.grants import LockGrant
from holdfast.work.engine.callbacks import Callback, Handler, Host, Work
from holdfast.work.engine.deadlines import Deadlines
from holdfast.work.engine.item_steps import Performer
from holdfast.work.engine.item_store import LEASE_SECONDS, ItemStore
from holdfast.work.engine.ledger_follower import LOOK_SECONDS
from holdfast.work.engine.loop_messages import (
    Broke,
    CleanedUp,
    Drain,
    Enqueued,
    Finished,
    Freed,
    Look,
    Message,
    Seen,
    StopAgent,
    Swept,
)
from holdfast.work.engine.orphan_cleanup import kill_orphans
from holdfast.work.engine.ready_queue import Lines
from holdfast.work.engine.thread_pool import ThreadPool
from holdfast.work.engine.work_items import HELD, QUEUED, WorkItem

#: How long until a shared semaphore is tried again: it sends no message when it is released.
PERMIT_SECONDS = 0.5
#: How many times in a row a host for an item's locks may fail to start.
HOST_TRIES = 20
#: So many items are held at once; no more are started then, because each of them keeps a process.
HELD_MAX = 32


@dataclass(frozen=True, slots=True)
class Limits:
    """How many items are in progress at once, and how long an item waits; times in microseconds."""

    slots: int
    queue: int
    patience: int
    retries: int
    permits: Semaphore | None = None


@dataclass(frozen=True, slots=True)
class Out:
    """An item in progress here."""

    item: WorkItem
    host: Host
    takes_slot: bool


@dataclass(frozen=True, slots=True)
class Blocked:
    """What was in an item's way when it was last tried, and since when something has been."""

    since: int
    conflicts: list[ConflictInfo]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What other threads may know of a loop. `looks` counts how often it has checked everything
    that is due, and `rounds` how often it went round."""

    queue_depth: int = 0
    active: tuple[WorkItem, ...] = ()
    held: tuple[WorkItem, ...] = ()
    hosts: Mapping[str, Host] = field(default_factory=dict)
    error: str = ""
    is_stopping: bool = False
    looks: int = 0
    rounds: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether no item waits, is held or is in progress."""
        return not (self.queue_depth or self.active or self.held)


class Loop:
    """The state, and what each message changes in it. For one thread at a time."""

    def __init__(
        self,
        item_store: ItemStore,
        *,
        limits: Limits,
        work: Work,
        handlers: Mapping[str, Handler],
        make_host: Callable[[], Host],
        pool: ThreadPool,
        send: Callable[[Message], None],
        has_mail: Callable[[], bool],
        publish: Callable[[Snapshot], None],
        broke: Callable[[BaseException], None],
    ) -> None:
        self._item_store = item_store
        self._limits = limits
        self._work = work
        self._handlers = handlers
        self.make_host = make_host
        self._pool = pool
        self._send = send
        self._has_mail = has_mail
        self._publish_to = publish
        self._broke = broke
        self._performer = Performer(item_store, work, limits.retries)
        self._lines = Lines()
        #: Items that are not to be tried yet.
        self._later: dict[str, WorkItem] = {}
        self._out: dict[str, Out] = {}
        self._held: dict[str, WorkItem] = {}
        #: Items that continued before the end of their callback was reported.
        self._early: dict[str, WorkItem] = {}
        self._hosts: dict[str, Host] = {}
        self._callbacks: dict[str, Callback] = {}
        self._foreign: dict[str, WorkItem] = {}
        self._blocked: dict[str, Blocked] = {}
        self._stopped: set[tuple[str, str]] = set()
        self._deadlines = Deadlines(item_store.manager)
        self._renew_at = 0.0
        self._look_at = 0.0
        self._lacks_permit = False
        #: How many times in a row no host could be started.
        self._hostless = 0
        #: Whether more items may start, after messages that must be handled first.
        self._is_interrupted = False
        self._is_sweeping = False
        self._has_swept = False
        self._error = ""
        self._is_stopping = False
        self._looks = 0
        self._rounds = 0

    # Questions, asked by the thread that handles messages

    def waiting(self) -> list[tuple[WorkItem, list[ConflictInfo]]]:
        """The waiting items in order, each with what was in its way when it was last tried."""
        items = sorted([*self._lines, *self._later.values()], key=lambda item: item.rank)
        return [(item, self._conflicts(item.id)) for item in items]

    def begin(self) -> None:
        """Forget that it was stopped, or broke."""
        self._is_stopping = self._is_sweeping = self._is_interrupted = False
        self._renew_at = self._look_at = 0.0
        self._error = ""
        self._publish()

    def cancel(self, id: str, reason: str) -> WorkItem | None:
        """End an item that waits and has no locks. None if there is none."""
        item = self._lines.get(id) or self._later.get(id)
        if item is None or item.grant_id:
            return None
        self._item_store.leave_line(item)
        ended = self._item_store.end(item, reason=reason)
        self._drop(id)
        self._publish()
        return ended

    # Messages

    def handle(self, message: Message) -> None:
        """Apply a message to the state. The next round handles the consequences."""
        match message:
            case Enqueued(items, callback):
                for item in items:
                    if callback is not None:
                        self._callbacks[item.id] = callback
                    self._learn(item)
            case Seen(item):
                self._learn(item)
            case Freed(paths):
                self._lines.wake(paths)
            case StopAgent(id, why, once):
                self._stop_agent(id, why, once)
            case Finished():
                self._finished(message)
            case CleanedUp(id, after, current):
                self._cleaned_up(id, after, current)
            case Swept(paths):
                self._is_sweeping, self._has_swept = False, True
                self._lines.wake(paths)
            case Look():
                self._look_at = 0.0
                self._deadlines.doubt()
            case Drain():
                self._is_stopping = True
            case Broke(error):
                self._error = error
        self._publish()

    @property
    def is_over(self) -> bool:
        """Whether it goes round no more."""
        return self._is_stopping or bool(self._error)

    def seconds(self) -> float | None:
        """Seconds until something is due that no message will report; None if nothing is."""
        if self._is_interrupted:
            return 0.0
        moments = [self._renew_at - time.monotonic(), self._deadlines.seconds]
        is_looked_after = self._foreign or self._blocked or self._performer.has_unsettled
        if not self._is_sweeping and is_looked_after:
            moments.append(self._look_at - time.monotonic())
        if self._lacks_permit:
            moments.append(PERMIT_SECONDS)
        found = min(moments)
        return None if found == math.inf else max(0.0, found)

    def go_round(self) -> None:
        """Handle everything that is due, and dispatch every item that can start; or only one, if
        there are messages."""
        self._keep_alive()
        self._sweep()
        self._see_to_overdue()
        self._dispatch()
        self._rounds += 1
        if self._has_swept and not self._is_interrupted:
            self._has_swept = False
            self._looks += 1
        self._publish()

    def _publish(self) -> None:
        self._publish_to(
            Snapshot(
                queue_depth=len(self._lines) + len(self._later),
                active=tuple([out.item for out in self._out.values()]),
                held=tuple(self._held.values()), hosts=dict(self._hosts), error=self._error,
                is_stopping=self._is_stopping, looks=self._looks, rounds=self._rounds,
            )
        )  # fmt: skip

    # Where an item is

    def _handler(self, item: WorkItem) -> Handler | None:
        """The handler of an item; None if it is another dispatcher's."""
        own = self._callbacks.get(item.id)
        if own is not None:
            return Handler(own)
        found = self._handlers.get(item.phase)
        return found if found is not None and found.accepts(item) else None

    def _line_up(self, item: WorkItem) -> None:
        """Queue an item to be tried; or put it aside, if its time has not come."""
        handler = self._handler(item)
        if handler is None:
            return
        if item.not_before:
            self._later[item.id] = item
            self._deadlines.note(item.not_before, item.id)
            return
        self._lines.add(item, takes_slot=handler.takes_slot)
        if not item.escalated:
            self._deadlines.note(item.queued + self._limits.patience, item.id)

    def _drop(self, id: str) -> None:
        """Forget an item."""
        self._lines.remove(id)
        self._later.pop(id, None)
        self._held.pop(id, None)
        self._blocked.pop(id, None)
        host = self._hosts.pop(id, None)
        if host is not None:
            host.leave()

    def _learn(self, item: WorkItem) -> None:
        """Learn the state of an item from the ledger: one that may be new here, or was changed
        elsewhere."""
        id = item.id
        out = self._out.get(id)
        if out is not None:
            is_newer = item.queued >= out.item.dispatched
            if item.status == QUEUED and item.grant_id == out.item.grant_id and is_newer:
                self._early[id] = item
            return
        if item.is_over:
            self._foreign.pop(id, None)
            self._callbacks.pop(id, None)
            self._drop(id)
        elif item.status == QUEUED and not item.grant_id:
            self._foreign.pop(id, None)
            if id in self._held:  # cleaned up by another dispatcher, which took us for dead
                self._drop(id)
            if id not in self._lines and id not in self._later:
                self._line_up(item)
        elif id not in self._hosts:
            self._drop(id)
            self._foreign[id] = item
        elif id in self._held:
            self._went_on(item)

    def _went_on(self, item: WorkItem) -> None:
        """An item that is held here was changed."""
        if item.grant_id != self._held[item.id].grant_id:
            self._drop(item.id)
            self._foreign[item.id] = item
        elif item.status == QUEUED:
            del self._held[item.id]
            self._line_up(item)

    def _finished(self, message: Finished) -> None:
        id = message.id
        self._stopped.discard((id, self._out[id].item.grant_id))
        if self._out.pop(id).takes_slot and self._limits.permits is not None:
            self._limits.permits.release()
        after, early = message.after, self._early.pop(id, None)
        if after is not None and after.status == HELD:
            after = early or after
        if after is None or after.is_over:
            self._callbacks.pop(id, None)
        if after is None or after.is_over or not after.grant_id:
            self._drop(id)
            self._lines.wake(message.freed)
        if after is None:
            if message.current is not None:
                self._learn(message.current)
        elif after.status == QUEUED:
            self._line_up(after)
        elif after.status == HELD:
            self._held[id] = after

    def _cleaned_up(self, id: str, after: WorkItem | None, current: WorkItem | None) -> None:
        self._foreign.pop(id, None)
        if after is None and current is not None:
            self._learn(current)
        elif after is not None and not after.is_over:
            self._line_up(after)

    def _stop_agent(self, id: str, why: str, once: bool) -> None:
        out = self._out.get(id)
        if out is None or (once and (id, out.item.grant_id) in self._stopped):
            return
        self._stopped.add((id, out.item.grant_id))
        host = out.host
        self._aside(lambda: host.stop(why))

    # Dispatching

    def _dispatch(self) -> None:
        has_permit = self._limits.permits is None
        self._lacks_permit = self._is_interrupted = False
        while not self._is_interrupted:
            used = sum(out.takes_slot for out in self._out.values())
            has_room = used < self._limits.slots and len(self._held) < HELD_MAX
            is_free = has_room and not self._lacks_permit
            item = self._lines.next(slot_is_free=is_free)
            if item is None:
                break
            handler = self._handler(item)
            if handler is None:
                self._drop(item.id)  # another dispatcher's work
                continue
            if handler.takes_slot and not has_permit:
                has_permit = self._takes_permit()
                if not has_permit:
                    continue
            if self._try(item, handler) and handler.takes_slot:
                has_permit = self._limits.permits is None
            self._is_interrupted = self._has_mail()
        if has_permit and self._limits.permits is not None:
            self._limits.permits.release()

    def _takes_permit(self) -> bool:
        assert self._limits.permits is not None
        found = self._limits.permits.acquire(blocking=False)
        self._lacks_permit = not found
        return found

    def _try(self, item: WorkItem, handler: Handler) -> bool:
        """Take an item's locks and dispatch it. False if that is impossible now."""
        host = self._hosts.get(item.id) or self._new_host()
        if host is None:
            return False
        try:
            claimed = self._item_store.claim(item, host.holder(item))
        except InvalidInput as error:
            if item.id not in self._hosts:
                host.leave()
            self._amend(item, error)
            return False
        if isinstance(claimed, tuple):
            self._send_out(*claimed, host, handler)
            return True
        if item.id not in self._hosts:
            host.leave()
        if claimed:
            self._block(item, claimed)
        else:
            self._lost_sight(item.id)
        return False

    def _new_host(self) -> Host | None:
        """A host for the locks of an item. None if the machine has no room for it right now: then
        all items that take a slot are tried again later. Raises if that lasts."""
        try:
            host = self.make_host()
        except (OSError, StoreError):
            self._hostless += 1
            if self._hostless > HOST_TRIES:
                raise
            self._lacks_permit = True
            return None
        self._hostless = 0
        return host

    def _amend(self, item: WorkItem, error: InvalidInput) -> None:
        """Something that a queued item needs can no longer be locked, such as a file that has
        become a folder. That is an error of this item, not of the loop."""
        request = self._work.amended(item)
        why = f"{error.code}: {error.message}"
        after: WorkItem | None
        if request is None:
            after = self.cancel(item.id, why)
        else:
            self._item_store.leave_line(item)
            after = self._item_store.retry(item, why, request=request, counts=False)
            self._drop(item.id)
            if after is not None:
                self._line_up(after)
        self._tell_changed(after)

    def _tell_changed(self, item: WorkItem | None) -> None:
        if item is not None:
            self._aside(lambda: self._work.changed(item, here=True))

    def _block(self, item: WorkItem, conflicts: list[ConflictInfo]) -> None:
        known = self._blocked.get(item.id)
        since = known.since if known is not None else self._item_store.manager.now()
        self._blocked[item.id] = Blocked(since, conflicts)
        self._lines.block(item, conflicts)
        self._deadlines.note(since + self._limits.queue, item.id)

    def _conflicts(self, id: str) -> list[ConflictInfo]:
        found = self._blocked.get(id)
        return found.conflicts if found is not None else []

    def _lost_sight(self, id: str) -> None:
        """Another dispatcher has it, or had it: find out what has become of it."""
        self._drop(id)
        current = self._item_store.item(id)
        if current is not None:
            self._learn(current)

    def _send_out(self, item: WorkItem, grant: LockGrant, host: Host, handler: Handler) -> None:
        self._lines.remove(item.id)
        self._blocked.pop(item.id, None)
        self._hosts[item.id] = host
        self._out[item.id] = Out(item, host, handler.takes_slot)
        self._publish()  # first: its callback may ask for its host
        self._pool.do(lambda: self._perform(item, grant, host, handler.callback))

    # In other threads: nothing here touches the state

    def _perform(self, item: WorkItem, grant: LockGrant, host: Host, callback: Callback) -> None:
        after = current = None
        try:
            self._work.changed(item, here=True)
            after = self._performer.perform(item, grant, host, callback)
            if after is not None:  # first, or everything would seem to be done meanwhile
                self._work.changed(after, here=True)
            else:
                current = self._item_store.item(item.id)
        except BaseException as error:  # the ledger was not written: the loop must not continue
            self._broke(error)
        freed = (*grant.read_paths, *grant.write_paths)
        self._send(Finished(item.id, freed, after, current))

    def _clean_up(self, item: WorkItem) -> None:
        kill_orphans(self._item_store, item)
        if not self._item_store.is_abandoned(item):
            return
        after = self._performer.clean_up(item)
        if after is not None:
            self._work.changed(after, here=True)
        current = self._item_store.item(item.id) if after is None else None
        self._send(CleanedUp(item.id, after, current))

    def _aside(self, task: Callable[[], None]) -> None:
        """Run something in a thread of the pool; if it raises, the loop breaks."""

        def guarded() -> None:
            try:
                task()
            except BaseException as error:
                self._broke(error)

        self._pool.do(guarded)

    # What is due

    def _keep_alive(self) -> None:
        """Extend the leases of every item that is in progress, held, or keeps its locks between
        phases."""
        if time.monotonic() < self._renew_at:
            return
        self._renew_at = time.monotonic() + LEASE_SECONDS / 3
        between = (item for item in self._lines if item.grant_id)
        kept = [*(out.item for out in self._out.values()), *self._held.values(), *between]

        def renew() -> None:
            for item in kept:
                self._item_store.renew(item)

        if kept:
            self._aside(renew)

    def _sweep(self) -> None:
        """Find the items whose dispatcher is dead, with everything that it had started: any
        dispatcher may have them now. And remove grants of owners that died unnoticed."""
        if self._is_sweeping or time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_SECONDS
        ours = {out.item.grant_id for out in self._out.values()}
        conflicts = (one for found in self._blocked.values() for one in found.conflicts)
        others = [one for one in conflicts if one.grant_id not in ours]
        foreign = [one for one in self._foreign.values() if self._handler(one) is not None]
        if not others and not foreign and not self._performer.has_unsettled:
            self._has_swept = True
            return
        self._is_sweeping = True

        def sweep() -> None:
            self._performer.settle_again()
            settles(self._item_store.manager, others)
            for item in foreign:
                self._clean_up(item)
            self._send(Swept(tuple([one.held_path for one in others])))

        self._aside(sweep)

    def _see_to_overdue(self) -> None:
        now, ids = self._deadlines.due()
        try:
            while ids:
                self._see_to(ids[0], now)
                del ids[0]
        finally:
            for id in ids:  # the loop broke, and may be started again
                self._deadlines.note(now, id)

    def _see_to(self, id: str, now: int) -> None:
        later = self._later.get(id)
        if later is not None and now >= later.not_before:
            del self._later[id]
            self._line_up(later.but(not_before=0))
        item = self._lines.get(id)
        if item is None:
            return
        blocked = self._blocked.get(id)
        if blocked is not None and now - blocked.since >= self._limits.queue:
            self._time_out(item, blocked.conflicts)
        elif not item.escalated and now - item.queued >= self._limits.patience:
            self._escalate(item)

    def _time_out(self, item: WorkItem, conflicts: list[ConflictInfo]) -> None:
        """Count one more retry; the item keeps its place. After too many it ends in an error that
        names what holds it up."""
        seconds = self._limits.queue / SECOND
        why = conflict_sentences(conflicts, self._item_store.manager.now())
        after: WorkItem | None
        if item.retries >= self._limits.retries:
            tries = item.retries + 1
            after = self.cancel(item.id, f"not free in {tries} attempts of {seconds:g} s: {why}")
        else:
            self._item_store.leave_line(item)
            after = self._item_store.retry(item, f"not free for {seconds:g} s: {why}")
            self._drop(item.id)
            if after is not None:
                self._line_up(after)
        self._tell_changed(after)

    def _escalate(self, item: WorkItem) -> None:
        """From now on the item comes first. If it waits for locks, it also gets a reservation; but
        there are no more reservations than slots, because each keeps other requests from what it
        waits for."""
        host = self._hosts.get(item.id)
        if host is None and self._conflicts(item.id) and self._reserved() < self._limits.slots:
            host = self._new_host()
            if host is not None:
                self._hosts[item.id] = host
        try:
            after = self._item_store.escalate(item, host.holder(item) if host is not None else None)
        except InvalidInput as error:
            self._amend(item, error)
            return
        if after is None:
            self._lost_sight(item.id)
        else:
            self._line_up(after)

    def _reserved(self) -> int:
        waiting = [self._lines.get(id) for id in self._hosts]
        return sum(item is not None and not item.grant_id for item in waiting)
