"""The scheduler: dispatches each item when all its locks and a slot are free.

It tries items in the order of `WorkItem.rank` and continues with the next when one cannot start. An
item that has waited too long comes first, and gets a reservation that no request overtakes. The
scheduler never polls: its loop (`holdfast.work.engine.scheduler_loop`) wakes when something
changes, in this process or another, or at a moment that is known beforehand.

An item runs a callback, called in another thread with the item and its grant. Its result is stored
with the item; `Next` queues the item for another phase with its locks held, `Hold` keeps them until
`go_on`. However the callback ends, one transaction releases the locks and ends the item.

The methods here can be called from any thread. None of them blocks except `stop`, `drain` and those
named wait, and none changes state itself: they write to the ledger where bad input must be refused,
and send the loop a message.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import HoldfastError, InvalidInput, StoreError
from holdfast.core.model import SECOND, ConflictInfo, Event
from holdfast.manager import transactions
from holdfast.manager.files.keepsakes import KeepsakeError
from holdfast.manager.manager import LockManager
from holdfast.work.engine.callbacks import (
    Accepted,
    Again,
    Callback,
    Failed,
    Handler,
    Here,
    Hold,
    Host,
    KeptHere,
    Next,
    NoWork,
    Work,
    accepts_all,
)
from holdfast.work.engine.item_steps import Works
from holdfast.work.engine.item_store import (
    ITEM_EVENTS,
    YIELD,
    ItemStore,
    ended_paths,
)
from holdfast.work.engine.ledger_follower import LedgerFollower
from holdfast.work.engine.loop_messages import (
    Broke,
    Drain,
    Enqueued,
    Freed,
    Look,
    Message,
    Seen,
    StopAgent,
)
from holdfast.work.engine.mailbox import Mailbox
from holdfast.work.engine.scheduler_loop import Limits, Loop, Snapshot
from holdfast.work.engine.thread_pool import ThreadPool
from holdfast.work.engine.work_items import ERROR, LockRequest, Order, WorkItem

if TYPE_CHECKING:
    from holdfast.work.engine.item_store import Together

SLOTS = 4
QUEUE_SECONDS = 300.0
RETRIES_MAX = 12
PATIENCE_SECONDS = 600.0
#: How often grants are searched that have expired or whose owners have died, and that no request
#: wants.
REAP_SECONDS = 60.0
#: The reason why a scheduler broke; every page shows it.
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
        slots: int | None = None,
        claude_semaphore: threading.Semaphore | None = None,
        queue_seconds: float = QUEUE_SECONDS,
        retries: int = RETRIES_MAX,
        patience_seconds: float = PATIENCE_SECONDS,
        reap_seconds: float = REAP_SECONDS,
        host: Callable[[], Host] = Here,
        work: Work | None = None,
    ) -> None:
        """`host` makes a holder for an item's locks. `work` is what the items are part of.
        `claude_semaphore` is a limit that is shared with other parts of the program: an item that
        takes a slot is dispatched with one of its permits. Without `slots` it is the only limit, or
        there are four."""
        if slots is not None and slots < 1:
            raise InvalidInput("a scheduler needs at least one slot", hint="give slots=1 or more")
        if slots is None:
            slots = SLOTS if claude_semaphore is None else sys.maxsize
        self.item_store = ItemStore(lock_manager)
        self.slots = slots
        self._manager = lock_manager
        self._works = Works(work or NoWork())
        self.item_store.beside = self._works.beside
        self._handlers: dict[str, Handler] = {}
        self._pool = ThreadPool("holdfast work")
        self._loop = Loop(
            self.item_store,
            limits=Limits(
                slots, round(queue_seconds * SECOND), round(patience_seconds * SECOND), retries,
                claude_semaphore,
            ),
            work=self._works, handlers=self._handlers, make_host=host, pool=self._pool,
            send=self._send, has_mail=lambda: self._mailbox.has_mail, publish=self._publish,
            broke=self._break,
        )  # fmt: skip
        self._mailbox = Mailbox(self._loop.handle)
        self._snapshot = Snapshot()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._following: LedgerFollower | None = None
        self._reap_seconds = reap_seconds
        self._reaper = ExitStack()

    # For callers that have work

    def enqueue(
        self,
        *,
        workflow: str,
        phase: str,
        lock_request: LockRequest,
        callback: Callback | None = None,
        data: Mapping[str, Any] | None = None,
        priority: int = 0,
    ) -> WorkItem:
        """Queue an item. Raises OverLockError for a folder among its write paths."""
        order = Order(workflow, phase, lock_request, dict(data or {}), priority)
        (item,) = self.enqueue_all([order], callback=callback)
        return item

    def enqueue_all(
        self,
        orders: Sequence[Order],
        together: Together | None = None,
        callback: Callback | None = None,
    ) -> list[WorkItem]:
        """Queue items, together with something else or not at all; see `ItemStore.enqueue_all`."""
        for order in orders:
            if callback is None and order.phase not in self._handlers:
                raise InvalidInput(
                    f"no handler for phase {order.phase!r}",
                    hint="give a callback, or register one with handle()",
                )
        items = self.item_store.enqueue_all(orders, together)
        self._hand_in(Enqueued(tuple(items), callback))
        for item in items:
            self._works.changed(item, here=True)
        return items

    def handle(
        self,
        phase: str,
        callback: Callback,
        *,
        takes_slot: bool = True,
        accepts: Callable[[WorkItem], bool] = accepts_all,
    ) -> None:
        """Register what is run for items of a phase that were queued without a callback: by another
        process, or by this one before a restart. Without `takes_slot` they are dispatched even if
        no slot is free, and use none. Items that `accepts` refuses stay queued for another
        dispatcher. To be called before the start."""
        self._handlers[phase] = Handler(callback, takes_slot, accepts)

    def serve(self, work: Work) -> None:
        """Add something that the items are part of; it is called before those that are there. Its
        files are kept, so this process holds locks until they are restored. To be called before the
        start."""
        self._works.add(work)
        if self._loop.make_host is Here:
            self._loop.make_host = KeptHere

    def cancel(self, id: str, reason: str) -> bool:
        """End an item that waits for its locks. False if it does not, and also if it has them and
        waits for a slot between two phases: then its work is half done."""
        ended = self._mailbox.ask(lambda: self._loop.cancel(id, reason))
        if ended is not None:
            self._works.changed(ended, here=True)
        return ended is not None

    def go_on(self, id: str, phase: str, data: Mapping[str, Any] | None = None) -> bool:
        """Queue a held item for a phase; it keeps its locks. False if it is not held. Works for an
        item that another dispatcher holds, too; that one continues it."""
        item = self.item_store.go_on(id, phase, data)
        if item is None:
            return False
        self._hand_in(Enqueued((item,)))
        self._works.changed(item, here=True)
        return True

    def stop_item(self, id: str, why: str) -> bool:
        """Ask the host of an item in progress to end its agent. False if it is not in progress
        here. Its callback decides what becomes of the item."""
        if all(item.id != id for item in self._snapshot.active):
            return False
        self._send(StopAgent(id, why))
        return True

    @property
    def queue_depth(self) -> int:
        """The number of waiting items."""
        return self._snapshot.queue_depth

    @property
    def active_items(self) -> list[WorkItem]:
        """The items in progress here, in the order in which they were dispatched."""
        return sorted(self._snapshot.active, key=lambda item: item.dispatched)

    @property
    def held_items(self) -> list[WorkItem]:
        """The items that keep their locks here and wait for `go_on`."""
        return list(self._snapshot.held)

    @property
    def error(self) -> str:
        """Why the loop broke; empty if it did not."""
        return self._snapshot.error

    def host_of(self, item: WorkItem) -> Host:
        """The holder of the locks of an item in progress. Raises KeyError if it is not."""
        return self._snapshot.hosts[item.id]

    def waiting_items(self) -> list[tuple[WorkItem, list[ConflictInfo]]]:
        """The waiting items in order, each with what was in its way when it was last tried."""
        return self._mailbox.ask(self._loop.waiting)

    # Start and stop

    def start(self) -> None:
        """Take up the work that the ledger has, and start. Also after a stop, and after the loop
        broke. By one thread at a time."""
        if self.error:
            self.stop()  # a loop that broke may not have ended yet
        if self._thread is not None and self._thread.is_alive():
            return
        self._mailbox.ask(self._loop.begin)
        if transactions.noted(self._manager, TROUBLE) is not None:
            transactions.note(self._manager, MENDED, {}, name=TROUBLE, over=True)
        head = self._take_up()
        self._following = LedgerFollower(self._manager, head, self._hear, self._break)
        self._thread = threading.Thread(target=self._run, name="holdfast scheduler", daemon=True)
        self._thread.start()
        # What is in an item's way ends when the item is tried. This is for every other leak.
        self._reaper.close()
        self._reaper.enter_context(self._manager.reaper(self._reap_seconds))

    def stop(self) -> None:
        """Dispatch no more items, and wait for those in progress. Waiting items stay queued."""
        self.drain()
        if self._thread is None:
            return
        # An item in progress may wait for the files of a held one, which no decision will release
        # now.
        out = {item.id for item in self._snapshot.active}
        for id, host in self._snapshot.hosts.items():
            if id not in out:
                host.abandon()
        # Until then the ledger is followed: an item in progress may have to yield to another.
        self._pool.finish()
        if self._following is not None:
            self._following.end()
        with suppress(StoreError):  # this also wakes the thread that follows the ledger
            transactions.note(self._manager, STOPPED, {"by": self.item_store.name})
        if self._following is not None:
            self._following.join()
        self._reaper.close()

    def drain(self) -> None:
        """Dispatch no more items. Those in progress continue. When this returns, all of them are
        known: none is just being dispatched."""
        self._send(Drain())
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def look(self) -> None:
        """Handle now what is due. The loop knows by itself when that is, as long as its clock is
        right."""
        self._send(Look())

    def wait_for_change(self, timeout: float) -> None:
        """Wait until something has happened, or for this long."""
        with self._change:
            self._change.wait(timeout)

    def wait_until_idle(self, timeout: float | None = None) -> bool:
        """Wait until no item waits, is held or is in progress, or the loop broke. False if that
        took longer."""
        with self._change:
            return self._change.wait_for(
                lambda: bool(self._snapshot.error) or self._snapshot.is_idle, timeout
            )

    # Between the threads

    def _send(self, message: Message) -> None:
        self._mailbox.send(message)

    def _hand_in(self, message: Message) -> None:
        """Send a message and wait until it has been handled: a caller that has just queued an item
        sees it in `queue_depth`, and never takes the scheduler for idle."""
        self._send(message)
        self._mailbox.ask(lambda: None)

    def _publish(self, snapshot: Snapshot) -> None:
        with self._change:
            self._snapshot = snapshot
            self._change.notify_all()

    def _run(self) -> None:
        with self._mailbox.seat():
            try:
                while not self._loop.is_over:
                    self._loop.go_round()
                    self._mailbox.take(self._loop.seconds())
            except BaseException as error:
                self._break(error)

    def _break(self, error: BaseException) -> None:
        """The queue is in the ledger, so nothing is lost; but a person has to investigate."""
        said = f"{type(error).__name__}: {error}"
        self._send(Broke(said))
        if self._following is not None:
            self._following.end()
        with suppress(HoldfastError):  # if the ledger itself has failed, it says so when it is read
            transactions.note(self._manager, BROKEN, {"error": said}, name=TROUBLE)

    # Events of other processes

    def _take_up(self) -> int:
        """Read all items of the ledger, and return the event up to which they are known."""
        head = transactions.look(self._manager, lambda view: view.head)
        for item in self.item_store.items():
            if item.status == ERROR and item.grant_id:
                self._let_go(item)
            self._send(Seen(item))
        return head

    def _let_go(self, item: WorkItem) -> None:
        """Release a failed item whose files could not be restored then. Perhaps they can be
        restored now."""
        if not self.item_store.holds(item) or not self.item_store.is_abandoned(item):
            return
        with suppress(KeepsakeError):
            with suppress(Accepted):
                self._works.undo(item)
            self.item_store.let_go(item)

    def _hear(self, event: Event) -> None:
        """Handle one event: released paths, and items that other dispatchers have changed."""
        paths = ended_paths(event)
        if paths is not None:
            self._send(Freed(paths))
        elif event.type in ITEM_EVENTS and event.data["by"] != self.item_store.name:
            item = WorkItem.from_data(event.data)
            self._send(Seen(item))
            self._works.changed(item, here=False)
        elif event.type == YIELD and not event.data.get("over"):
            why = f"deadlock: {event.data['why']}"
            self._send(StopAgent(str(event.data["item"]), why, once=True))


__all__ = ["Again", "Failed", "Here", "Hold", "Host", "Next", "Scheduler"]
