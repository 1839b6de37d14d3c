"""The scheduler: sends each item out when all it needs is free, and a slot is.

Its loop wakes when something changes: an item came, one ended, a lock came free (also in another
process), or a moment is due that it knows beforehand. It tries items in order of their phase, then
first come first served, and goes on to the next when one cannot start. Who has waited too long
comes first, and gets a reservation that nobody passes.

What an item is for is a callback, called in another thread with the item and its grant. What
it returns is kept with the item; `Next` sends the item back into the line for another phase, with
its locks held on. On every way out the locks are free and the item is over, in one step; before
that, the files of one that failed are as they were (`recover`). If they cannot be put back, the
locks stay.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.core.model import SECOND, ConflictInfo, Event
from holdfast.core.words import conflict_sentences
from holdfast.manager import services
from holdfast.manager.grants import LockGrant
from holdfast.manager.keepsakes import KeepsakeError
from holdfast.manager.manager import LockManager
from holdfast.manager.settling import settles
from holdfast.work.callbacks import Again, Callback, Failed, Here, Host, KeptHere, Next
from holdfast.work.cleaning import Unsettled, kill_orphans, settled
from holdfast.work.desk import ITEM_EVENTS, LEASE_SECONDS, Desk, ended_paths
from holdfast.work.following import LOOK_SECONDS, Following
from holdfast.work.hands import Hands
from holdfast.work.items import DISPATCHED, ERROR, QUEUED, LockRequest, Order, WorkItem
from holdfast.work.moments import Moments
from holdfast.work.waiting import Queue

if TYPE_CHECKING:
    from holdfast.work.desk import Together

QUEUE_SECONDS = 300.0
RETRIES_MAX = 12
PATIENCE_SECONDS = 600.0
#: The last word on a scheduler that broke; every page shows it.
TROUBLE = "work:trouble"
BROKEN = "work_broken"
MENDED = "work_mended"
STOPPED = "work_stopped"


class Scheduler:
    """The queue of a repository, its slots, and the loop between them."""

    def __init__(
        self,
        *,
        lock_manager: LockManager,
        slots: int = 4,
        queue_seconds: float = QUEUE_SECONDS,
        retries: int = RETRIES_MAX,
        patience_seconds: float = PATIENCE_SECONDS,
        host: Callable[[], Host] = Here,
        recover: Callable[[WorkItem], None] | None = None,
        finishing: Callable[[WorkItem], AbstractContextManager[None]] | None = None,
        changed: Callable[[WorkItem], None] | None = None,
        heard: Callable[[WorkItem], None] | None = None,
    ) -> None:
        """`host` makes one who holds an item's locks. `recover` puts the files of an item back that
        was abandoned, is tried again or has failed, while its locks are still held. An item that
        is done is ended within `finishing`, which may say `Again`. `changed` hears of every item
        that changed here, `heard` of those that another dispatcher changed."""
        if slots < 1:
            raise InvalidInput("a scheduler needs at least one slot", hint="give slots=1 or more")
        self.desk = Desk(lock_manager)
        self.slots = slots
        #: Why the loop broke; empty as long as it did not.
        self.error = ""
        self._manager = lock_manager
        self._queue_limit = round(queue_seconds * SECOND)
        self._retries = retries
        self._patience = round(patience_seconds * SECOND)
        self._make_host = host
        self._recover = recover or _nothing
        self._finishing = finishing or _simply
        self._changed = changed or _nothing
        self._heard = heard or _nothing
        self._callbacks: dict[str, Callback] = {}
        self._handlers: dict[str, Callback] = {}
        self._queue = Queue()
        self._active: dict[str, WorkItem] = {}
        self._hosts: dict[str, Host] = {}
        self._foreign: dict[str, WorkItem] = {}
        self._blocked: dict[str, tuple[int, list[ConflictInfo]]] = {}
        self._freed: set[str] = set()
        self._hands = Hands("holdfast work")
        self._loop: threading.Thread | None = None
        self._following: Following | None = None
        self._stirred = False
        self._stopping = False
        self._moments = Moments(lock_manager)
        self._renew_at = 0.0
        self._look_at = 0.0
        self._lock = threading.RLock()
        self._change = threading.Condition(self._lock)

    # For those who have work

    def enqueue(
        self,
        *,
        workflow: str,
        phase: str,
        lock_request: LockRequest,
        callback: Callback | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> WorkItem:
        """Put an item in line. Raises OverLockError for a folder among its write paths."""
        order = Order(workflow, phase, lock_request, dict(data or {}))
        (item,) = self.enqueue_all([order], callback=callback)
        return item

    def enqueue_all(
        self,
        orders: Sequence[Order],
        together: Together | None = None,
        callback: Callback | None = None,
    ) -> list[WorkItem]:
        """Put items in line, together with something else or not at all; see
        `Desk.enqueue_all`."""
        for order in orders:
            if callback is None and order.phase not in self._handlers:
                raise InvalidInput(
                    f"nobody knows what to do for phase {order.phase!r}",
                    hint="give a callback, or register one with handle()",
                )
        items = self.desk.enqueue_all(orders, together)
        with self._lock:
            for item in items:
                if callback is not None:
                    self._callbacks[item.id] = callback
                self._line_up(item)
            self._stir()
        for item in items:
            self._changed(item)
        return items

    def handle(self, phase: str, callback: Callback) -> None:
        """What to do for items of a phase that came without a callback: those that another
        process queued, or this one before it was started again."""
        self._handlers[phase] = callback

    def serve(
        self,
        *,
        changed: Callable[[WorkItem], None],
        recover: Callable[[WorkItem], None],
        finishing: Callable[[WorkItem], AbstractContextManager[None]],
    ) -> None:
        """Tell one more of every item that changes, here or elsewhere, before those who were named
        first; and let it keep and put back files, unless another does that already."""
        self._changed = _both(changed, self._changed)
        self._heard = _both(changed, self._heard)
        if self._recover is _nothing:
            self._recover, self._finishing = recover, finishing
            if self._make_host is Here:
                self._make_host = KeptHere

    def cancel(self, id: str, reason: str) -> bool:
        """End an item that waits for its locks. False if it does not, also if it has them and waits
        for a slot between two phases: then something is half done."""
        with self._lock:
            item = self._queue.get(id)
        if item is None or item.grant_id:
            return False
        self.desk.leave_line(item)
        ended = self.desk.end(item, reason=reason)
        with self._lock:
            self._drop(item)
        if ended is not None:
            self._changed(ended)
        return ended is not None

    @property
    def queue_depth(self) -> int:
        """How many wait."""
        with self._lock:
            return len(self._queue)

    @property
    def active_items(self) -> list[WorkItem]:
        """Those that are worked on here, in the order in which they were sent out."""
        with self._lock:
            return sorted(self._active.values(), key=lambda item: item.dispatched)

    def host_of(self, item: WorkItem) -> Host:
        """Who holds the locks of an item that is worked on."""
        with self._lock:
            return self._hosts[item.id]

    def waiting_items(self) -> list[tuple[WorkItem, list[ConflictInfo]]]:
        """Those that wait, as they come, with what was in their way when they were tried last."""
        with self._lock:
            return [(item, self._blocked.get(item.id, (0, []))[1]) for item in self._queue]

    # Start and stop

    def start(self) -> None:
        """Take up what the ledger has, and begin. Also after a stop, and after it broke."""
        if self.error:
            self.stop()  # one that broke may not be gone yet
        with self._lock:
            if self._loop is not None and self._loop.is_alive():
                return
            self._stopping = False
            self.error = ""
            self._loop = threading.Thread(target=self._run, name="holdfast scheduler", daemon=True)
        if services.noted(self._manager, TROUBLE) is not None:
            services.note(self._manager, MENDED, {}, name=TROUBLE, over=True)
        head = self._take_up()
        self._following = Following(self._manager, head, self._hear, self._break)
        self._loop.start()

    def stop(self) -> None:
        """Send nothing more out, and wait for those that are out. What waits stays in line."""
        self.drain()
        with self._lock:
            loop, following = self._loop, self._following
        if loop is None:
            return
        # which also wakes the one who follows the ledger
        services.note(self._manager, STOPPED, {"by": self.desk.name})
        if following is not None:
            following.join()
        if loop is not threading.current_thread():
            loop.join()
        self._hands.finish()  # last: until now the loop may have sent something out

    def drain(self) -> None:
        """Send nothing more out. Those that are out go on. When this returns, all of them are
        known: nobody is just about to be."""
        with self._lock:
            self._stopping = True
            self._stir()
            if self._following is not None:
                self._following.end()
            loop = self._loop
        if loop is not None and loop.is_alive() and loop is not threading.current_thread():
            loop.join()

    def look(self) -> None:
        """See now to what is due. It knows by itself when that is, as long as its clock does."""
        with self._lock:
            self._look_at = 0.0
            self._moments.doubt()
            self._stir()

    def wait_for_change(self, timeout: float) -> None:
        """Wait until something happened, or for so long."""
        with self._change:
            self._change.wait(timeout)

    def wait_until_idle(self, timeout: float | None = None) -> bool:
        """Wait until nothing waits and nothing is worked on, or the loop broke. False if it took
        longer."""
        with self._change:
            return self._change.wait_for(
                lambda: bool(self.error) or not (self._queue or self._active), timeout
            )

    # The loop

    def _run(self) -> None:
        try:
            while True:
                with self._change:
                    if not self._stirred:
                        self._change.wait(self._nap())
                    self._stirred = False
                    if self._stopping:
                        return
                    freed, self._freed = self._freed, set()
                    self._queue.wake(freed)
                self._keep_alive()
                self._see_to_abandoned()
                self._see_to_overdue()
                self._dispatch()
        except BaseException as error:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        """The queue is in the ledger, so nothing is lost; but somebody has to look."""
        with self._change:
            self.error = f"{type(error).__name__}: {error}"
            if self._following is not None:
                self._following.end()
            self._change.notify_all()
        try:
            services.note(self._manager, BROKEN, {"error": self.error}, name=TROUBLE)
        except HoldfastError:
            return  # the ledger itself is the trouble, and says so to whoever asks

    def _nap(self) -> float:
        """Until something is due that nobody will tell us of."""
        moments = [self._renew_at - time.monotonic(), self._moments.seconds]
        if self._foreign or self._blocked:
            moments.append(self._look_at - time.monotonic())
        return max(0.0, min(moments))

    def _line_up(self, item: WorkItem) -> None:
        """Put an item in line, to be tried."""
        self._queue.add(item)
        if not item.escalated:
            self._moments.note(item.queued + self._patience, item.id)

    def _dispatch(self) -> None:
        while True:
            with self._lock:
                if self._stopping or len(self._active) >= self.slots:
                    return
                item = self._queue.next()
            if item is None:
                return
            self._try(item)

    def _try(self, item: WorkItem) -> None:
        if self._callback(item) is None:
            with self._lock:
                self._queue.remove(item.id)  # somebody else's work
            return
        host = self._hosts.get(item.id) or self._make_host()
        claimed = self.desk.claim(item, host.holder(item))
        if isinstance(claimed, tuple):
            self._send_out(*claimed, host)
            return
        if item.id not in self._hosts:
            host.leave()
        if claimed:
            self._block(item, claimed)
        else:
            self._lost_sight(item)

    def _block(self, item: WorkItem, conflicts: list[ConflictInfo]) -> None:
        with self._lock:
            now = self._manager.now()
            since = self._blocked.get(item.id, (now, []))[0]
            self._blocked[item.id] = (since, conflicts)
            self._queue.block(item, conflicts)
            self._moments.note(since + self._queue_limit, item.id)

    def _lost_sight(self, item: WorkItem) -> None:
        """Somebody else has it, or had it: look what has become of it."""
        with self._lock:
            self._foreign.pop(item.id, None)
            self._drop(item)
        now = self.desk.item(item.id)
        if now is not None:
            self._learn(now)

    def _drop(self, item: WorkItem) -> None:
        self._queue.remove(item.id)
        self._blocked.pop(item.id, None)
        host = self._hosts.pop(item.id, None)
        if host is not None:
            host.leave()
        self._change.notify_all()

    def _send_out(self, item: WorkItem, grant: LockGrant, host: Host) -> None:
        with self._lock:
            self._queue.remove(item.id)
            self._blocked.pop(item.id, None)
            self._hosts[item.id] = host
            self._active[item.id] = item
        self._changed(item)
        self._hands.do(lambda: self._work(item, grant))

    # One item's work

    def _work(self, item: WorkItem, grant: LockGrant) -> None:
        try:
            after = self._outcome(item, grant)
            if after is not None:
                self._changed(after)  # first, so that nobody thinks that all is done meanwhile
        except BaseException as error:  # the ledger could not be told: the loop must not go on
            self._break(error)
            after = None
        with self._change:
            self._active.pop(item.id, None)
            if after is not None and after.status == QUEUED:
                self._line_up(after)
            else:
                self._callbacks.pop(item.id, None)
            if after is None or not after.grant_id or after.is_over:
                host = self._hosts.pop(item.id, None)
                if host is not None:
                    host.leave()
                self._freed.update(grant.read_paths)
                self._freed.update(grant.write_paths)
            self._stir()
        if after is None and not self.error:
            self._lost_sight(item)

    def _outcome(self, item: WorkItem, grant: LockGrant) -> WorkItem | None:
        callback = self._callback(item)
        assert callback is not None
        try:
            result = callback(item, grant)
        except Again as again:
            return self._once_more(item, str(again))
        except Failed as failed:
            return self._failed(item, str(failed) or "failed", failed.data)
        except BaseException as error:
            return self._failed(item, f"{type(error).__name__}: {error}")
        if isinstance(result, Next):
            return self.desk.keep(item, result.phase, result.data)
        try:
            with self._finishing(item):
                return self.desk.end(item, data=result if isinstance(result, Mapping) else None)
        except Again as again:
            return self._once_more(item, str(again))

    def _once_more(self, item: WorkItem, reason: str) -> WorkItem | None:
        if item.retries >= self._retries:
            return self._failed(item, f"given up after {item.retries} retries: {reason}")
        return self._retried(item, reason)

    def _retried(self, item: WorkItem, reason: str) -> WorkItem | None:
        return self._after_settling(item, reason, lambda mine: self.desk.retry(mine, reason))

    def _failed(
        self, item: WorkItem, reason: str, data: Mapping[str, Any] | None = None
    ) -> WorkItem | None:
        """It has failed for good: its files are as they were before its locks come free."""
        return self._after_settling(
            item, reason, lambda mine: self.desk.end(mine, reason=reason, data=data)
        )

    def _after_settling(
        self, item: WorkItem, reason: str, then: Callable[[WorkItem], WorkItem | None]
    ) -> WorkItem | None:
        try:
            mine = self._settled(item)
        except Unsettled as left:
            return self.desk.end(left.item, reason=f"{reason}; {left}", hold=True)
        return None if mine is None else then(mine)

    def _settled(self, item: WorkItem) -> WorkItem | None:
        return settled(self.desk, item, self._hosts.get(item.id), self._recover)

    def _callback(self, item: WorkItem) -> Callback | None:
        return self._callbacks.get(item.id) or self._handlers.get(item.phase)

    # What is due

    def _keep_alive(self) -> None:
        """Extend the leases of all that is worked on, or keeps its locks between two phases."""
        if time.monotonic() < self._renew_at:
            return
        self._renew_at = time.monotonic() + LEASE_SECONDS / 3
        with self._lock:
            held = [*self._active.values(), *(item for item in self._queue if item.grant_id)]
        for item in held:
            self.desk.renew(item)

    def _see_to_overdue(self) -> None:
        now, ids = self._moments.due()
        try:
            while ids:
                self._see_to(ids[0], now)
                del ids[0]
        finally:
            for id in ids:  # we broke, and may be started again
                self._moments.note(now, id)

    def _see_to(self, id: str, now: int) -> None:
        with self._lock:
            item = self._queue.get(id)
            since, conflicts = self._blocked.get(id, (now, []))
        if item is None:
            return
        if conflicts and now - since >= self._queue_limit:
            self._time_out(item, conflicts)
        elif not item.escalated and now - item.queued >= self._patience:
            self._escalate(item, conflicts)

    def _time_out(self, item: WorkItem, conflicts: list[ConflictInfo]) -> None:
        """One try more on its account; its place in line stays. Too many, and it is for the
        operator to see what holds it up."""
        seconds = self._queue_limit / SECOND
        why = conflict_sentences(conflicts, self._manager.now())
        if item.retries >= self._retries:
            self.cancel(item.id, f"not free in {item.retries + 1} times {seconds:g} s: {why}")
            return
        self.desk.leave_line(item)
        after = self.desk.retry(item, f"not free for {seconds:g} s: {why}")
        with self._lock:
            self._drop(item)
            if after is not None:
                self._line_up(after)
        if after is not None:
            self._changed(after)

    def _escalate(self, item: WorkItem, conflicts: list[ConflictInfo]) -> None:
        """It comes first from now on. If it is locks that it waits for, it also gets a reservation;
        but no more get one than there are slots, for each keeps others from what it waits for."""
        host = self._hosts.get(item.id)
        if host is None and conflicts and len(self._hosts) - len(self._active) < self.slots:
            host = self._hosts[item.id] = self._make_host()
        after = self.desk.escalate(item, host.holder(item) if host is not None else None)
        with self._lock:
            if after is None:
                self._drop(item)
            else:
                self._line_up(after)

    # What others do

    def _take_up(self) -> int:
        """What the ledger has to do, and up to which event that is."""
        head = services.look(self._manager, lambda view: view.head)
        for item in self.desk.items():
            if item.status == ERROR and item.grant_id:
                self._let_go(item)
            self._learn(item)
        return head

    def _let_go(self, item: WorkItem) -> None:
        """One that failed, and whose files could not be put back then. Perhaps they can now."""
        if not self.desk.holds(item) or not self.desk.is_abandoned(item):
            return
        with suppress(KeepsakeError):
            self._recover(item)
            self.desk.let_go(item)

    def _learn(self, item: WorkItem) -> None:
        """An item that may be new to us, or was changed by somebody else."""
        with self._lock:
            if item.id in self._active:
                return
            if item.status == QUEUED and not item.grant_id:
                self._foreign.pop(item.id, None)
                if self._callback(item) is not None and item.id not in self._queue:
                    self._line_up(item)
            elif item.status in (QUEUED, DISPATCHED):
                if item.id not in self._hosts:
                    self._queue.remove(item.id)
                    self._foreign[item.id] = item
            else:
                self._foreign.pop(item.id, None)
                self._queue.remove(item.id)
                self._blocked.pop(item.id, None)
            self._stir()

    def _see_to_abandoned(self) -> None:
        """Items whose dispatcher is gone, with all that it had started, are everybody's again. And
        an owner that died in silence holds nothing up any more."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_SECONDS
        with self._lock:
            ours = {item.grant_id for item in self._active.values()}
            conflicts = (one for _since, found in self._blocked.values() for one in found)
            others = [one for one in conflicts if one.grant_id not in ours]
            self._queue.wake([one.held_path for one in others])
            foreign = list(self._foreign.values())
        settles(self._manager, others)
        for item in foreign:
            if self._callback(item) is None:
                continue
            kill_orphans(self.desk, item)
            if not self.desk.is_abandoned(item):
                continue
            after = self._retried(item, "its dispatcher is gone")
            if after is None:
                self._lost_sight(item)
                continue
            with self._lock:
                self._foreign.pop(item.id, None)
                if not after.is_over:
                    self._line_up(after)
            self._changed(after)

    def _hear(self, event: Event) -> None:
        """What came free, and which items came and went elsewhere."""
        paths = ended_paths(event)
        if paths is not None:
            with self._lock:
                self._freed.update(paths)
                self._stir()
        elif event.type in ITEM_EVENTS and event.data["by"] != self.desk.name:
            item = WorkItem.from_data(event.data)
            self._learn(item)
            self._heard(item)

    def _stir(self) -> None:
        self._stirred = True
        self._change.notify_all()


def _nothing(item: WorkItem) -> None:
    """What is done about an item by default."""


def _simply(item: WorkItem) -> AbstractContextManager[None]:
    """How an item is ended by default."""
    return nullcontext()


def _both(
    first: Callable[[WorkItem], None], then: Callable[[WorkItem], None]
) -> Callable[[WorkItem], None]:
    def tell(item: WorkItem) -> None:
        first(item)
        then(item)

    return tell


__all__ = ["Again", "Failed", "Here", "Host", "Next", "Scheduler"]
