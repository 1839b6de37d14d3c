"""The scheduler: sends each item out when all it needs is free, and a slot is.

It tries items in the order of `WorkItem.rank` and goes on to the next when one cannot start. An
item that has waited too long comes first, and gets a reservation that nobody passes. It never
polls: its loop (`holdfast.work.engine.scheduler_loop`) wakes when something changes, also in
another process, or when a moment has come that it knows beforehand.

What an item is for is a callback, called in another thread with the item and its grant. What it
returns is kept with the item; `Next` sends the item back into the line for another phase with its
locks held, `Hold` keeps them until `go_on`. On every way out the locks are free and the item is
over, in one transaction.

The methods here are for any thread. None of them blocks but `stop`, `drain` and those that are
called wait, and none changes anything itself: they write to the ledger where bad input must be
refused, and send the loop a message.
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
    Desk,
    ended_paths,
)
from holdfast.work.engine.ledger_follower import Following
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
from holdfast.work.engine.thread_pool import Hands
from holdfast.work.engine.work_items import ERROR, LockRequest, Order, WorkItem

if TYPE_CHECKING:
    from holdfast.work.engine.item_store import Together

SLOTS = 4
QUEUE_SECONDS = 300.0
RETRIES_MAX = 12
PATIENCE_SECONDS = 600.0
#: How often grants are looked for that have run out, or whose owners died, and nobody wants.
REAP_SECONDS = 60.0
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
        slots: int | None = None,
        claude_semaphore: threading.Semaphore | None = None,
        queue_seconds: float = QUEUE_SECONDS,
        retries: int = RETRIES_MAX,
        patience_seconds: float = PATIENCE_SECONDS,
        reap_seconds: float = REAP_SECONDS,
        host: Callable[[], Host] = Here,
        work: Work | None = None,
    ) -> None:
        """`host` makes one who holds an item's locks. `work` is what the items are part of.
        `claude_semaphore` is a limit that is shared with other parts of the program: an item that
        takes a slot is sent out with one of its permits. Without `slots` it is the only limit, or
        there are four."""
        if slots is not None and slots < 1:
            raise InvalidInput("a scheduler needs at least one slot", hint="give slots=1 or more")
        if slots is None:
            slots = SLOTS if claude_semaphore is None else sys.maxsize
        self.desk = Desk(lock_manager)
        self.slots = slots
        self._manager = lock_manager
        self._works = Works(work or NoWork())
        self.desk.beside = self._works.beside
        self._handlers: dict[str, Handler] = {}
        self._pool = Hands("holdfast work")
        self._loop = Loop(
            self.desk,
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
        self._following: Following | None = None
        self._reap_seconds = reap_seconds
        self._reaper = ExitStack()

    # For those who have work

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
        """Put an item in line. Raises OverLockError for a folder among its write paths."""
        order = Order(workflow, phase, lock_request, dict(data or {}), priority)
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
                    f"no handler for phase {order.phase!r}",
                    hint="give a callback, or register one with handle()",
                )
        items = self.desk.enqueue_all(orders, together)
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
        """What to do for items of a phase that came without a callback: those that another process
        queued, or this one before it was started again. Without `takes_slot` they are sent out
        although no slot is free, and use up none. Those that `accepts` refuses are left in line for
        another dispatcher. To be called before the start."""
        self._handlers[phase] = Handler(callback, takes_slot, accepts)

    def serve(self, work: Work) -> None:
        """Have one more that the items are part of; it is asked before those that are there. Its
        files are kept, so this process holds locks until they were put back. To be called before
        the start."""
        self._works.add(work)
        if self._loop.make_host is Here:
            self._loop.make_host = KeptHere

    def cancel(self, id: str, reason: str) -> bool:
        """End an item that waits for its locks. False if it does not, also if it has them and waits
        for a slot between two phases: then something is half done."""
        ended = self._mailbox.ask(lambda: self._loop.cancel(id, reason))
        if ended is not None:
            self._works.changed(ended, here=True)
        return ended is not None

    def go_on(self, id: str, phase: str, data: Mapping[str, Any] | None = None) -> bool:
        """Put an item that is held back into the line for a phase, with its locks held on. False if
        it is not held. Also for an item that another dispatcher holds, which does it then."""
        item = self.desk.go_on(id, phase, data)
        if item is None:
            return False
        self._hand_in(Enqueued((item,)))
        self._works.changed(item, here=True)
        return True

    def stop_item(self, id: str, why: str) -> bool:
        """Ask the host of an item that is out to end its agent. False if it is not out here. Its
        callback decides what becomes of the item."""
        if all(item.id != id for item in self._snapshot.active):
            return False
        self._send(StopAgent(id, why))
        return True

    @property
    def queue_depth(self) -> int:
        """How many wait."""
        return self._snapshot.queue_depth

    @property
    def active_items(self) -> list[WorkItem]:
        """Those that are worked on here, in the order in which they were sent out."""
        return sorted(self._snapshot.active, key=lambda item: item.dispatched)

    @property
    def held_items(self) -> list[WorkItem]:
        """Those that keep their locks here and wait for `go_on`."""
        return list(self._snapshot.held)

    @property
    def error(self) -> str:
        """Why the loop broke; empty as long as it did not."""
        return self._snapshot.error

    def host_of(self, item: WorkItem) -> Host:
        """Who holds the locks of an item that is worked on. Raises KeyError if it is not."""
        return self._snapshot.hosts[item.id]

    def waiting_items(self) -> list[tuple[WorkItem, list[ConflictInfo]]]:
        """Those that wait, as they come, with what was in their way when they were tried last."""
        return self._mailbox.ask(self._loop.waiting)

    # Start and stop

    def start(self) -> None:
        """Take up what the ledger has, and begin. Also after a stop, and after it broke. By one
        thread at a time."""
        if self.error:
            self.stop()  # one that broke may not be gone yet
        if self._thread is not None and self._thread.is_alive():
            return
        self._mailbox.ask(self._loop.begin)
        if transactions.noted(self._manager, TROUBLE) is not None:
            transactions.note(self._manager, MENDED, {}, name=TROUBLE, over=True)
        head = self._take_up()
        self._following = Following(self._manager, head, self._hear, self._break)
        self._thread = threading.Thread(target=self._run, name="holdfast scheduler", daemon=True)
        self._thread.start()
        # What is in an item's way ends when the item is tried. This is for all else that leaked.
        self._reaper.close()
        self._reaper.enter_context(self._manager.reaper(self._reap_seconds))

    def stop(self) -> None:
        """Send nothing more out, and wait for those that are out. What waits stays in line."""
        self.drain()
        if self._thread is None:
            return
        # One that is out may wait for the files of one that is held, and now by no one's decision.
        out = {item.id for item in self._snapshot.active}
        for id, host in self._snapshot.hosts.items():
            if id not in out:
                host.abandon()
        # Until then the ledger is followed: one of those that are out may have to yield to another.
        self._pool.finish()
        if self._following is not None:
            self._following.end()
        with suppress(StoreError):  # which also wakes the one who follows the ledger
            transactions.note(self._manager, STOPPED, {"by": self.desk.name})
        if self._following is not None:
            self._following.join()
        self._reaper.close()

    def drain(self) -> None:
        """Send nothing more out. Those that are out go on. When this returns, all of them are
        known: nobody is just about to be."""
        self._send(Drain())
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def look(self) -> None:
        """See now to what is due. It knows by itself when that is, as long as its clock does."""
        self._send(Look())

    def wait_for_change(self, timeout: float) -> None:
        """Wait until something happened, or for so long."""
        with self._change:
            self._change.wait(timeout)

    def wait_until_idle(self, timeout: float | None = None) -> bool:
        """Wait until nothing waits, is held or is worked on, or the loop broke. False if it took
        longer."""
        with self._change:
            return self._change.wait_for(
                lambda: bool(self._snapshot.error) or self._snapshot.is_idle, timeout
            )

    # Between the threads

    def _send(self, message: Message) -> None:
        self._mailbox.send(message)

    def _hand_in(self, message: Message) -> None:
        """Send a message and wait until it has been handled: who has just queued an item sees it
        in `queue_depth`, and never takes the scheduler for idle."""
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
        """The queue is in the ledger, so nothing is lost; but a person has to look."""
        said = f"{type(error).__name__}: {error}"
        self._send(Broke(said))
        if self._following is not None:
            self._following.end()
        with suppress(HoldfastError):  # if the ledger itself is the trouble, it says so when asked
            transactions.note(self._manager, BROKEN, {"error": said}, name=TROUBLE)

    # What others do

    def _take_up(self) -> int:
        """What the ledger has to do, and up to which event that is."""
        head = transactions.look(self._manager, lambda view: view.head)
        for item in self.desk.items():
            if item.status == ERROR and item.grant_id:
                self._let_go(item)
            self._send(Seen(item))
        return head

    def _let_go(self, item: WorkItem) -> None:
        """One that failed, and whose files could not be put back then. Perhaps they can now."""
        if not self.desk.holds(item) or not self.desk.is_abandoned(item):
            return
        with suppress(KeepsakeError):
            with suppress(Accepted):
                self._works.undo(item)
            self.desk.let_go(item)

    def _hear(self, event: Event) -> None:
        """What came free, and which items came and went elsewhere."""
        paths = ended_paths(event)
        if paths is not None:
            self._send(Freed(paths))
        elif event.type in ITEM_EVENTS and event.data["by"] != self.desk.name:
            item = WorkItem.from_data(event.data)
            self._send(Seen(item))
            self._works.changed(item, here=False)
        elif event.type == YIELD and not event.data.get("over"):
            why = f"deadlock: {event.data['why']}"
            self._send(StopAgent(str(event.data["item"]), why, once=True))


__all__ = ["Again", "Failed", "Here", "Hold", "Host", "Next", "Scheduler"]
