"""The items in the ledger: queued, dispatched together with their locks, and ended exactly once.

Each item is a note that holds its latest state. Every change replaces the note in one transaction
with everything that belongs to the change: taking the locks and dispatching the item is one step,
and so are releasing them and ending it. A reader sees the state before or after. So a dispatcher
may die at any moment, and any number of dispatchers may serve one repository: an item that two of
them want goes to one.

The holder of an item's grant may take further grants while the item is in progress (files that are
leased at the write). They are released, kept and taken over in the same transaction as the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core import bulk_rules, rules
from holdfast.core.conflicts import EXPIRED, IDLE, fate
from holdfast.core.draft import Draft, reach
from holdfast.core.model import (
    SECOND,
    WRITE,
    ConflictInfo,
    Decision,
    Event,
    Grant,
    Holder,
    Refusal,
    Request,
)
from holdfast.manager import transactions
from holdfast.manager.files.ended_edits import entrust, settle_ended
from holdfast.manager.files.keepsakes import is_marked
from holdfast.manager.files.unfinished_edits import MARK
from holdfast.manager.grants import LockGrant
from holdfast.manager.ids import new_id
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import carriers, is_dead
from holdfast.work.engine.work_items import (
    DISPATCHED,
    DONE,
    FAILED,
    HELD,
    NEXT_PHASE,
    PUT_ON_HOLD,
    QUEUED,
    RETRIED,
    SENT_OUT,
    TAKEN_OVER,
    WENT_ON,
    LockRequest,
    Order,
    WorkItem,
    after,
)

if TYPE_CHECKING:
    from holdfast.core.model import Ending, Witness
    from holdfast.core.view import View

    #: Decided in the same transaction as the queueing of items; None if they must not be queued.
    Together = Callable[[View, list[WorkItem]], Decision[Any] | None]
    #: Extends a decision that changes an item.
    Beside = Callable[[View, WorkItem, Decision[Any]], Decision[Any]]

#: The prefix of the notes' names.
NOTES = "work:item:"

ITEM_QUEUED = "work_queued"
ITEM_DISPATCHED = "work_dispatched"
ITEM_WAITS = "work_waits"
ITEM_ENDED = "work_ended"
ITEM_RETRIED = "work_retried"
ITEM_FORGOTTEN = "work_forgotten"
#: The events that record the state of an item.
ITEM_EVENTS = (ITEM_QUEUED, ITEM_DISPATCHED, ITEM_WAITS, ITEM_ENDED, ITEM_RETRIED)

#: A note that asks the dispatcher of an item to end its agent, because it is the youngest of a
#: deadlock: `{"item": ID, "why": TEXT}` under YIELD_NOTES + ID. It is over when the item ends or is
#: retried.
YIELD = "work_yield"
YIELD_NOTES = "work:yield:"

#: How much of a workflow's name is part of its items' ids.
NAME_MAX = 80
#: A safety net below the regular releases, renewed while the work continues.
LEASE_SECONDS = 1800.0
LEASE = round(LEASE_SECONDS * SECOND)


class ItemStore:
    """The items of one repository. The events that it writes carry its name, which tells them from
    those of other dispatchers."""

    def __init__(self, manager: LockManager) -> None:
        self.manager = manager
        self.name = new_id()
        #: Extends every change of an item, in the same transaction.
        self.beside: Beside = lambda _view, _item, decision: decision

    # Reading

    def items(self) -> list[WorkItem]:
        """All items that are not forgotten, oldest first."""
        found = [_item(event) for event in transactions.notes(self.manager, NOTES)]
        return sorted(found, key=lambda item: item.arrival)

    def item(self, id: str) -> WorkItem | None:
        """The present state of one item."""
        event = transactions.noted(self.manager, f"{NOTES}{id}")
        return _item(event) if event is not None else None

    def question(self, item: WorkItem) -> Callable[[View], list[ConflictInfo]]:
        """A query for what is in an item's way, which several callers can run on one view, any
        number of times. Nothing is written."""
        request = self._request(item, Holder(id=item.id, key=f"work/{item.id}"))
        return lambda view: _unsettled(view, request) or rules.look(view, request)

    def is_abandoned(self, item: WorkItem) -> bool:
        """Whether the process that dispatched the item is dead, with everything that it had
        started."""
        return transactions.look(self.manager, lambda view: is_abandoned_in(view, item))

    def orphans(self, item: WorkItem) -> list[int]:
        """Processes that an item's launcher had started and that outlived it."""
        grant = self._grant(item)
        if not isinstance(grant, Grant) or grant.holder.witness is None:
            return []
        is_shared = self.manager.store.lease is not None
        if not is_dead(grant.holder.witness, (), is_shared=is_shared):
            return []
        marks = [mark for mark in grant.holder.marks if not mark.startswith(MARK)]
        return [pid for mark in marks for pid in carriers(mark)]

    def holds(self, item: WorkItem) -> bool:
        """Whether the ledger still has the locks of an item, ended or not."""
        return isinstance(self._grant(item), Grant)

    def is_current(self, item: WorkItem) -> bool:
        """Whether an item's grant still belongs to its present or last attempt."""
        return transactions.look(self.manager, lambda view: is_current_in(view, item))

    def owner(self, item: WorkItem) -> Witness | None:
        """The process that holds an item's locks."""
        found = self._grant(item)
        return found.holder.witness if isinstance(found, Grant) else None

    def _grant(self, item: WorkItem) -> Grant | Ending | None:
        return transactions.look(self.manager, lambda view: view.grant(item.grant_id))

    # Changing

    def enqueue(
        self,
        workflow: str,
        phase: str,
        request: LockRequest,
        data: Mapping[str, Any] | None = None,
    ) -> WorkItem:
        """Queue a new item. Raises for paths that cannot be locked."""
        (item,) = self.enqueue_all([Order(workflow, phase, request, dict(data or {}))])
        return item

    def check(self, wanted: LockRequest) -> None:
        """Raises for paths that cannot be locked."""
        self.manager.request("work", wanted.read_paths, wanted.write_paths)

    def enqueue_all(
        self, orders: Sequence[Order], together: Together | None = None
    ) -> list[WorkItem]:
        """Queue several, all in one transaction. `together` is decided in the same transaction: if
        it returns None, nothing is queued."""
        for order in orders:
            self.check(order.lock_request)

        def put(view: View) -> Decision[list[WorkItem]]:
            items = [_new(view, order, number) for number, order in enumerate(orders, 1)]
            done = Decision(None) if together is None else together(view, items)
            if done is None:
                return Decision([])
            for item in items:
                one: Decision[Any] = Decision(item, done.events, done.wake, done.hint)
                done = self._changed(view, one, ITEM_QUEUED)
            return Decision(items, done.events, done.wake, done.hint)

        return transactions.decide(self.manager, put)

    def claim(
        self, item: WorkItem, holder: Holder
    ) -> tuple[WorkItem, LockGrant] | list[ConflictInfo] | None:
        """Take the locks and dispatch the item, in one step; or return what is in its way. None if
        the item is no longer queued: another dispatcher has it, or it was ended."""
        # An item that has its locks already needs them as they were granted, whatever has become of
        # these paths.
        request = None if item.grant_id else self._request(item, holder)

        def decide(view: View) -> Decision[tuple[WorkItem, Grant] | list[ConflictInfo] | None]:
            known = known_item(view, item.id)
            if known is None or known.status != QUEUED or known.not_before > view.now:
                return Decision(None)
            if known.grant_id:
                return self._again(view, known)
            if request is None or known.lock_request != item.lock_request:
                return Decision(None)  # it has changed meanwhile
            if unsettled := _unsettled(view, request):
                return Decision(unsettled)
            wanted = request.named(known.ticket) if known.ticket else request
            # Only a query at first: a refusal would be recorded, and an item that has a ticket
            # would lose it by a request that does not wait.
            if conflicts := rules.look(view, wanted):
                return Decision(conflicts)
            taken = rules.acquire(view, wanted, wait=False)
            if not isinstance(taken.outcome, Grant):
                refused = list(getattr(taken.outcome, "conflicts", ()))
                return Decision(refused, taken.events, taken.wake, taken.hint)
            return self._sent_out(view, known, taken.outcome, taken)

        found = transactions.decide(self.manager, decide)
        if isinstance(found, tuple):
            made, grant = found
            self._keep_alive(grant.holder)
            if item.ticket:  # another host may have served it
                entrust(self.manager, grant)
            return made, self._lock_grant(grant)
        return found

    def _keep_alive(self, holder: Holder) -> None:
        """On a server's ledger, have leases that last as long as their owner renewed: by this
        process, and by a keeper beside the owner, which goes on as long as files of a killed owner
        have yet to be restored."""
        lease = self.manager.store.lease
        if lease is None or holder.witness is None or not is_marked(holder):
            return
        self.manager.keep_alive(holder)
        assert self.manager.tree is not None
        from holdfast.gate import client_keeper

        client_keeper.start(
            self.manager.tree.root, holder.key, holder.witness, lease / SECOND, self.manager.store
        )

    def keep(self, item: WorkItem, phase: str, data: Mapping[str, Any] | None = None) -> WorkItem:
        """Queue the item for its next phase; it keeps its locks."""

        def decide(view: View) -> Decision[WorkItem]:
            known = self._mine(view, item)
            new = known.but(
                status=after(known.status, NEXT_PHASE), phase=phase, queued=view.now,
                escalated=False, data={**known.data, **(data or {})},
            )  # fmt: skip
            return self._changed(view, Decision(new), ITEM_WAITS)

        return transactions.decide(self.manager, decide)

    def finish_later(
        self, item: WorkItem, phase: str, pause_seconds: float = 0.0
    ) -> WorkItem | None:
        """Queue the item for its last phase; it keeps its locks, and can no longer be undone. It is
        not tried before `pause_seconds` have passed. None if it has changed since this was
        decided."""

        def decide(view: View) -> Decision[WorkItem | None]:
            known = known_item(view, item.id)
            if known is None or known.is_over or known.grant_id != item.grant_id:
                return Decision(None)
            pause = round(pause_seconds * SECOND)
            new = known.but(
                status=after(known.status, NEXT_PHASE), phase=phase, queued=view.now,
                escalated=False, not_before=view.now + pause if pause else 0,
            )  # fmt: skip
            return self._changed(view, _without_yield(view, Decision(new), known), ITEM_WAITS)

        return transactions.decide(self.manager, decide)

    def hold(self, item: WorkItem, data: Mapping[str, Any] | None = None) -> WorkItem:
        """Take the item out of the queue; it keeps its locks, until `go_on`."""

        def decide(view: View) -> Decision[WorkItem]:
            known = self._mine(view, item)
            status = after(known.status, PUT_ON_HOLD)
            new = known.but(status=status, data={**known.data, **(data or {})})
            return self._changed(view, Decision(new), ITEM_WAITS)

        return transactions.decide(self.manager, decide)

    def go_on(self, id: str, phase: str, data: Mapping[str, Any] | None = None) -> WorkItem | None:
        """Queue a held item for a phase; it keeps its locks. None if it is not held."""

        def decide(view: View) -> Decision[WorkItem | None]:
            known = known_item(view, id)
            if known is None or known.status != HELD:
                return Decision(None)
            new = known.but(
                status=after(known.status, WENT_ON), phase=phase, queued=view.now, escalated=False,
                data={**known.data, **(data or {})},
            )  # fmt: skip
            return self._changed(view, Decision(new), ITEM_WAITS)

        return transactions.decide(self.manager, decide)

    def end(
        self,
        item: WorkItem,
        *,
        reason: str = "",
        data: Mapping[str, Any] | None = None,
        hold: bool = False,
    ) -> WorkItem | None:
        """Release the locks and end the item, in one step: completed, or an error with its reason.
        None if another dispatcher has ended it, or has it now: the end is recorded once. With
        `hold` the locks stay, because its files could not be restored."""

        def decide(view: View) -> Decision[WorkItem | None]:
            known = known_item(view, item.id)
            if known is None or known.is_over or known.grant_id != item.grant_id:
                return Decision(None)
            new = known.but(
                status=after(known.status, FAILED if reason else DONE), reason=reason,
                data={**known.data, **(data or {})},
            )  # fmt: skip
            given = Decision(new) if hold else _released(view, known, new)
            return self._changed(view, _without_yield(view, given, known), ITEM_ENDED)

        return transactions.decide(self.manager, decide)

    def settle(self, item: WorkItem) -> None:
        """Before an abandoned item is taken over: on a ledger that several hosts share its leases
        may have ended by time. Then its files are restored under leases of their own, except what
        another holder could write since."""

        def has_lapsed(view: View) -> bool:
            own = view.grant(item.grant_id) if item.grant_id else None
            return not isinstance(own, Grant) or _has_lapsed(view, own)

        if self.manager.store.lease is not None and transactions.look(self.manager, has_lapsed):
            settle_ended(self.manager, item.id)

    def let_go(self, item: WorkItem) -> None:
        """Release the locks of an ended item, whose files are finally restored."""
        transactions.decide(self.manager, lambda view: _released(view, item, item))

    def take_over(self, item: WorkItem, holder: Holder) -> WorkItem | None:
        """Hand the locks of an abandoned item to the process that cleans up after it, without
        releasing them in between. Without a grant, if another holder has taken one of its files
        already; None if another process cleans up."""

        def decide(view: View) -> Decision[WorkItem | None]:
            known = known_item(view, item.id)
            if known is None or known.is_over or known.grant_id != item.grant_id:
                return Decision(None)
            status = after(known.status, TAKEN_OVER)
            own = view.grant(known.grant_id)
            if not isinstance(own, Grant) or _has_lapsed(view, own):
                lost = known.but(status=status, grant_id="", token=0, holder="")
                return self._changed(view, _released(view, known, lost), ITEM_DISPATCHED)
            moves = [
                (grant.id, bulk_rules.heir(grant, holder, ids.setdefault(grant.id, new_id())))
                for grant in _held_with(view, known)
                if grant.id == own.id or fate(Draft(view), grant) not in (EXPIRED, IDLE)
            ]
            moved = bulk_rules.exchange(view, moves, leaves=own.holder.key)
            if isinstance(moved.outcome, Refusal):
                return Decision(None, moved.events, moved.wake, moved.hint)
            (heir,) = [grant for grant in moved.outcome if grant.id == ids[own.id]]
            mine = known.but(status=status, grant_id=heir.id, token=heir.token, holder=holder.key)
            said = Decision(mine, moved.events, moved.wake, moved.hint)
            return self._changed(view, said, ITEM_DISPATCHED)

        ids: dict[str, str] = {}  # the same, however often this is decided
        mine = transactions.decide(self.manager, decide)
        self._keep_alive(holder)
        return mine

    def retry(
        self,
        item: WorkItem,
        reason: str,
        *,
        request: LockRequest | None = None,
        data: Mapping[str, Any] | None = None,
        counts: bool = True,
        pause_seconds: float = 0.0,
    ) -> WorkItem | None:
        """Queue the item again at its old place and for its first phase, with one more retry
        counted and its locks released. `request` is what it needs from now on; it is not tried
        before `pause_seconds` have passed. None if it has changed since this was decided. Paths
        that cannot be locked are found when it is tried."""

        def decide(view: View) -> Decision[WorkItem | None]:
            known = known_item(view, item.id)
            if known is None or known.is_over or known.grant_id != item.grant_id:
                return Decision(None)
            new = known.but(
                status=after(known.status, RETRIED), phase=known.first_phase, reason=reason,
                retries=known.retries + (1 if counts else 0),
                lock_request=request or known.lock_request, data={**known.data, **(data or {})},
                not_before=view.now + round(pause_seconds * SECOND) if pause_seconds > 0 else 0,
                grant_id="", token=0, holder="", dispatched=0, ticket="",
            )  # fmt: skip
            given = _without_yield(view, _released(view, known, new), known)
            return self._changed(view, given, ITEM_RETRIED)

        return transactions.decide(self.manager, decide)

    def amend(self, id: str, request: LockRequest, priority: int) -> WorkItem | None:
        """Change what a queued item needs, or its place in the queue. None if it is not queued
        without locks. Raises for paths that cannot be locked."""
        self.check(request)
        before = self.item(id)
        if before is None:
            return None
        self.leave_line(before)

        def decide(view: View) -> Decision[WorkItem | None]:
            known = known_item(view, id)
            if known is None or known.status != QUEUED or known.grant_id:
                return Decision(None)
            new = known.but(lock_request=request, priority=priority, ticket="")
            return self._changed(view, Decision(new), ITEM_WAITS)

        return transactions.decide(self.manager, decide)

    def escalate(self, item: WorkItem, holder: Holder | None) -> WorkItem | None:
        """The item has waited too long: from now on it comes first. With a holder it also gets a
        reservation in the kernel, which no request overtakes. None if it no longer waits."""
        request = None
        if holder is not None:
            asked_for = self._request(item, holder)
            request = asked_for.as_reservation(asked_for.ttl)

        def decide(view: View) -> Decision[WorkItem | None]:
            known = known_item(view, item.id)
            if known is None or known.status != QUEUED:
                return Decision(None)
            if request is None or known.grant_id or known.ticket:
                return self._changed(view, Decision(known.but(escalated=True)), ITEM_WAITS)
            asked = rules.acquire(view, request, wait=True)
            stands = not isinstance(asked.outcome, Refusal)  # it would close a deadlock
            new = known.but(escalated=True, ticket=request.id if stands else "")
            said = Decision(new, asked.events, asked.wake, asked.hint)
            return self._changed(view, said, ITEM_WAITS)

        return transactions.decide(self.manager, decide)

    def leave_line(self, item: WorkItem) -> None:
        """Give up the item's ticket in the kernel, and any grant that the ticket was served."""
        if item.ticket and transactions.cancel(self.manager, item.ticket, "cancelled"):
            transactions.release_each(self.manager, [item.ticket])

    def renew(self, item: WorkItem) -> bool:
        """Extend the leases of all grants of an item's holder. False if the item's own grant is
        lost."""
        held = transactions.look(self.manager, lambda view: _held_with(view, item))
        live = {id for id in (item.grant_id, *(grant.id for grant in held)) if self._renewed(id)}
        return item.grant_id in live

    def _renewed(self, id: str) -> bool:
        outcome = transactions.decide(
            self.manager, lambda view: rules.renew(view, id, holder_key=None)
        )
        return not isinstance(outcome, Refusal)

    def forget(self, ids: list[str]) -> None:
        """Remove these items from the ledger. Only ended items."""
        for id in ids:

            def decide(view: View, id: str = id) -> Decision[bool]:
                known = known_item(view, id)
                if known is None or not known.is_over:
                    return Decision(False)
                return bulk_rules.with_note(
                    view, Decision(True), ITEM_FORGOTTEN, {"id": id}, name=f"{NOTES}{id}", over=True
                )

            transactions.decide(self.manager, decide)

    # Between the two

    def _request(self, item: WorkItem, holder: Holder) -> Request:
        wanted = item.lock_request
        # Kept files are restored before they are released: an expired lease alone must not release
        # them.
        ttl = None if is_marked(holder) else LEASE_SECONDS
        if ttl is None:
            self.manager.keep_alive(holder)
        return self.manager.request(
            holder, wanted.read_paths, wanted.write_paths, ttl, f"{item.phase} {item.workflow}"
        )

    def _changed(self, view: View, decision: Decision[Any], type: str) -> Decision[Any]:
        """A decision, extended by the new state of the item that is its outcome."""
        item: WorkItem = decision.outcome
        said = {**item.to_data(), "by": self.name}
        done = bulk_rules.with_note(view, decision, type, said, name=f"{NOTES}{item.id}")
        return self.beside(view, item, done)

    def _sent_out(
        self, view: View, known: WorkItem, grant: Grant, taken: Decision[Any]
    ) -> Decision[tuple[WorkItem, Grant] | list[ConflictInfo] | None]:
        new = known.but(
            status=after(known.status, SENT_OUT), grant_id=grant.id, holder=grant.holder.key,
            token=grant.token, dispatched=view.now, reason="", ticket="", not_before=0,
        )  # fmt: skip
        said = Decision(new, taken.events, taken.wake, taken.hint)
        done = self._changed(view, said, ITEM_DISPATCHED)
        return Decision((new, grant), done.events, done.wake, done.hint)

    def _again(
        self, view: View, known: WorkItem
    ) -> Decision[tuple[WorkItem, Grant] | list[ConflictInfo] | None]:
        """An item that kept its locks while it waited for a slot."""
        grant = view.grant(known.grant_id)
        if not isinstance(grant, Grant) or not rules.is_live(view, grant):
            return Decision(None)
        return self._sent_out(view, known, grant, Decision(None))

    def _lock_grant(self, grant: Grant) -> LockGrant:
        return LockGrant(grant, self._has_ended)

    def _has_ended(self, id: str) -> bool:
        found = transactions.look(self.manager, lambda view: view.grant(id))
        return not isinstance(found, Grant)

    def _mine(self, view: View, item: WorkItem) -> WorkItem:
        known = known_item(view, item.id)
        if known is None or known.status != DISPATCHED or known.grant_id != item.grant_id:
            raise LookupError(f"item {item.id} is not held with grant {item.grant_id}")
        return known


def _new(view: View, order: Order, number: int) -> WorkItem:
    place = view.head + number
    return WorkItem(
        f"{_plain(order.workflow)}-{place}", order.workflow, order.phase, order.lock_request,
        arrival=place, queued=view.now, first_phase=order.phase, data=dict(order.data),
        priority=order.priority,
    )  # fmt: skip


def _plain(workflow: str) -> str:
    """A name that is valid in a path, and still recognisable as that of the workflow."""
    letters = (one if one.isascii() and (one.isalnum() or one in "._") else "-" for one in workflow)
    return "".join(letters).strip("-.")[:NAME_MAX] or "work"


def ended_paths(event: Event) -> tuple[str, ...] | None:
    """The paths that an event released; None if it released none."""
    from holdfast.core.events import ENDINGS

    return tuple(event.data["paths"]) if event.type in ENDINGS else None


def _item(event: Event) -> WorkItem:
    return WorkItem.from_data(event.data)


def known_item(view: View, id: str) -> WorkItem | None:
    """The present state of an item."""
    event = view.note(f"{NOTES}{id}")
    return _item(event) if event is not None else None


def is_current_in(view: View, item: WorkItem) -> bool:
    """Whether the ledger has an item with the grant that it has here. Each attempt has its own
    grant, and so has a process that takes the item over: with another grant it belongs to another
    process."""
    known = known_item(view, item.id)
    return known is not None and known.grant_id == item.grant_id


def is_abandoned_in(view: View, item: WorkItem) -> bool:
    """Whether the process that has an item's locks is dead, with everything that it had started."""
    if not item.grant_id:  # another holder has its files, and the process that cleaned up has died
        return item.status == DISPATCHED
    grant = view.grant(item.grant_id)
    if not isinstance(grant, Grant) or not rules.is_live(view, grant):
        return True
    # A grant outlives its owner while files are kept for it; what matters is the owner.
    owner, is_shared = grant.holder.witness, view.lease is not None
    return owner is not None and is_dead(owner, grant.holder.marks, is_shared=is_shared) is True


def _unsettled(view: View, request: Request) -> list[ConflictInfo]:
    """What items whose dispatcher is dead have left: no item is dispatched on these files before
    they are cleaned up, although their owner is dead."""
    found = []
    for _key, mode, id in view.scopes(*reach(request.keys)):
        grant = view.grant(id)
        if not isinstance(grant, Grant) or mode != WRITE or rules.is_live(view, grant):
            continue
        left = known_item(view, grant.holder.id)
        if left is None or left.is_over:
            continue
        if left.grant_id == id or left.holder == grant.holder.key:
            path = grant.paths[grant.modes.index(WRITE)]
            found.append(
                ConflictInfo(
                    path=path, mode=WRITE, held_path=path, held_mode=WRITE, holder=grant.holder.id,
                    holder_key=grant.holder.key, grant_id=id, since=grant.acquired_at, until=None,
                    reason=f"{grant.reason}, which was cut off and is not cleaned up yet",
                )
            )  # fmt: skip
    return found


def _has_lapsed(view: View, own: Grant) -> bool:
    """Whether a lease that was to last as long as its owner has ended by time, because several
    hosts share the ledger and nobody renewed it."""
    return view.lease is not None and own.ttl is None and fate(Draft(view), own) == EXPIRED


def _holder_key(view: View, known: WorkItem) -> str:
    """The key of the holder that has, or had, an item's own grant."""
    own = view.grant(known.grant_id) if known.grant_id else None
    return own.holder.key if isinstance(own, Grant) else known.holder


def _held_with(view: View, known: WorkItem) -> list[Grant]:
    """All grants of the holder that has an item's own grant, that one first."""
    own = view.grant(known.grant_id) if known.grant_id else None
    key = _holder_key(view, known)
    more = [one for one in view.held_by(key) if one.id != known.grant_id] if key else []
    return [own, *more] if isinstance(own, Grant) else more


def _released(view: View, known: WorkItem, new: WorkItem) -> Decision[WorkItem]:
    """Release every grant of an item's holder, and its tickets: a ticket of a killed launcher would
    be served to an owner that no longer asks for it."""
    held, key = _held_with(view, known), _holder_key(view, known)
    waits = bool(key) and view.has_tickets and bool(view.waiting(key))
    if not held and not waits:
        return Decision(new)
    given: Decision[Any]
    if len(held) == 1 and not waits:
        given = rules.release(view, held[0].id, None)  # there is a short way for this
    else:
        given = bulk_rules.release_each(view, [grant.id for grant in held], leaves=key)
    return Decision(new, given.events, given.wake, given.hint)


def _without_yield(view: View, decision: Decision[WorkItem], known: WorkItem) -> Decision[WorkItem]:
    """A decision that ends an item or its attempt also ends a request to yield."""
    name = f"{YIELD_NOTES}{known.id}"
    if view.note(name) is None:
        return decision
    return bulk_rules.with_note(view, decision, YIELD, {"item": known.id}, name=name, over=True)
