"""The items in the ledger: queued, sent out together with their locks, and ended exactly once.

Each item is a note, the last word on it, which every change replaces in one transaction with what
else it means: taking the locks and sending it out is one step, and so are giving them back and
being done. Whoever looks sees one or the other. So a dispatcher may die at any moment, and any
number of them may serve one repository: an item that two of them want goes to one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core import moving, rules
from holdfast.core.draft import reach
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
from holdfast.manager import services
from holdfast.manager.grants import LockGrant
from holdfast.manager.ids import new_id
from holdfast.manager.keepsakes import is_marked
from holdfast.manager.liveness import carriers, is_dead
from holdfast.manager.manager import LockManager
from holdfast.manager.settling import MARK
from holdfast.work.items import COMPLETED, DISPATCHED, ERROR, QUEUED, LockRequest, Order, WorkItem

if TYPE_CHECKING:
    from holdfast.core.model import Ending, Witness
    from holdfast.core.view import View

    #: What is decided in one step with the queueing of items; None if they are not to be.
    Together = Callable[[View, list[WorkItem]], Decision[Any] | None]
    #: A decision in which an item changes, with what else that means.
    Beside = Callable[[View, WorkItem, Decision[Any]], Decision[Any]]

#: How the names of the notes begin.
NOTES = "work:item:"

ITEM_QUEUED = "work_queued"
ITEM_DISPATCHED = "work_dispatched"
ITEM_WAITS = "work_waits"
ITEM_ENDED = "work_ended"
ITEM_RETRIED = "work_retried"
ITEM_FORGOTTEN = "work_forgotten"
#: Those that say how an item stands.
ITEM_EVENTS = (ITEM_QUEUED, ITEM_DISPATCHED, ITEM_WAITS, ITEM_ENDED, ITEM_RETRIED)

#: How much of a workflow's name is in that of its items.
NAME_MAX = 80
#: A net below the releases that every way out makes, renewed as long as the work goes on.
LEASE_SECONDS = 1800.0
LEASE = round(LEASE_SECONDS * SECOND)


class Desk:
    """The items of one repository. What it writes carries its name, by which it is told from what
    other dispatchers write."""

    def __init__(self, manager: LockManager) -> None:
        self.manager = manager
        self.name = new_id()
        #: Adds to a change of an item what else it means, to be one step with it.
        self.beside: Beside = lambda _view, _item, decision: decision

    # Looking

    def items(self) -> list[WorkItem]:
        """All items that are not forgotten, in the order in which they came."""
        found = [_item(event) for event in services.notes(self.manager, NOTES)]
        return sorted(found, key=lambda item: item.arrival)

    def item(self, id: str) -> WorkItem | None:
        """One of them, as it is now."""
        event = services.noted(self.manager, f"{NOTES}{id}")
        return _item(event) if event is not None else None

    def question(self, item: WorkItem) -> Callable[[View], list[ConflictInfo]]:
        """What is in an item's way, to be asked of one moment together with others, as often as one
        likes. Nothing is written."""
        request = self._request(item, Holder(id=item.id, key=f"work/{item.id}"))
        return lambda view: _unsettled(view, request) or rules.look(view, request)

    def is_abandoned(self, item: WorkItem) -> bool:
        """Whether an item was sent out by somebody who is gone, with all that it had started."""
        if not item.grant_id:  # lost to somebody else, and whoever cleaned up after it died at that
            return item.status == DISPATCHED

        def gone(view: View) -> bool:
            grant = view.grant(item.grant_id)
            if not isinstance(grant, Grant) or not rules.is_live(view, grant):
                return True
            # A grant outlives its owner while files are kept for it; the question is the owner.
            owner = grant.holder.witness
            return owner is not None and is_dead(owner, grant.holder.marks) is True

        return services.look(self.manager, gone)

    def orphans(self, item: WorkItem) -> list[int]:
        """What an item's launcher left running when it was killed."""
        grant = self._grant(item)
        if not isinstance(grant, Grant) or grant.holder.witness is None:
            return []
        if not is_dead(grant.holder.witness, ()):
            return []
        marks = [mark for mark in grant.holder.marks if not mark.startswith(MARK)]
        return [pid for mark in marks for pid in carriers(mark)]

    def holds(self, item: WorkItem) -> bool:
        """Whether an item's locks are in the ledger, be it over or not."""
        return isinstance(self._grant(item), Grant)

    def owner(self, item: WorkItem) -> Witness | None:
        """The process that holds an item's locks."""
        found = self._grant(item)
        return found.holder.witness if isinstance(found, Grant) else None

    def _grant(self, item: WorkItem) -> Grant | Ending | None:
        return services.look(self.manager, lambda view: view.grant(item.grant_id))

    # Changing

    def enqueue(
        self,
        workflow: str,
        phase: str,
        request: LockRequest,
        data: Mapping[str, Any] | None = None,
    ) -> WorkItem:
        """A new item at the end of the line. Raises for paths that cannot be locked."""
        (item,) = self.enqueue_all([Order(workflow, phase, request, dict(data or {}))])
        return item

    def enqueue_all(
        self, orders: Sequence[Order], together: Together | None = None
    ) -> list[WorkItem]:
        """Several, all in one step. `together` is decided in the same step: if it says None,
        nothing is queued."""
        for order in orders:
            wanted = order.lock_request
            self.manager.request("work", wanted.read_paths, wanted.write_paths)

        def put(view: View) -> Decision[list[WorkItem]]:
            items = [_new(view, order, number) for number, order in enumerate(orders, 1)]
            done = Decision(None) if together is None else together(view, items)
            if done is None:
                return Decision([])
            for item in items:
                one: Decision[Any] = Decision(item, done.events, done.wake, done.hint)
                done = self._changed(view, one, ITEM_QUEUED)
            return Decision(items, done.events, done.wake, done.hint)

        return services.decide(self.manager, put)

    def claim(
        self, item: WorkItem, holder: Holder
    ) -> tuple[WorkItem, LockGrant] | list[ConflictInfo] | None:
        """Take the locks and send the item out, in one step; or what is in its way. None if it
        does not wait any more: another dispatcher has it, or it was ended."""
        request = self._request(item, holder)

        def decide(view: View) -> Decision[tuple[WorkItem, Grant] | list[ConflictInfo] | None]:
            known = _known(view, item.id)
            if known is None or known.status != QUEUED:
                return Decision(None)
            if known.grant_id:
                return self._again(view, known)
            if unsettled := _unsettled(view, request):
                return Decision(unsettled)
            wanted = request.named(known.ticket) if known.ticket else request
            # First only a look: a refusal would be written down, and one who has a place in line
            # and asks without waiting would lose it.
            if conflicts := rules.look(view, wanted):
                return Decision(conflicts)
            taken = rules.acquire(view, wanted, wait=False)
            if not isinstance(taken.outcome, Grant):
                refused = list(getattr(taken.outcome, "conflicts", ()))
                return Decision(refused, taken.events, taken.wake, taken.hint)
            return self._sent_out(view, known, taken.outcome, taken)

        found = services.decide(self.manager, decide)
        if isinstance(found, tuple):
            made, grant = found
            return made, self._lock_grant(grant)
        return found

    def keep(self, item: WorkItem, phase: str, data: Mapping[str, Any] | None = None) -> WorkItem:
        """Back into the line for its next phase, with its locks held on."""

        def decide(view: View) -> Decision[WorkItem]:
            known = self._mine(view, item)
            new = known.but(
                status=QUEUED, phase=phase, queued=view.now, escalated=False,
                data={**known.data, **(data or {})},
            )  # fmt: skip
            return self._changed(view, Decision(new), ITEM_WAITS)

        return services.decide(self.manager, decide)

    def end(
        self,
        item: WorkItem,
        *,
        reason: str = "",
        data: Mapping[str, Any] | None = None,
        hold: bool = False,
    ) -> WorkItem | None:
        """Give the locks back and be done, in one step: completed, or an error with its reason.
        None if another dispatcher has ended it, or has it now: it is recorded once. With `hold` the
        locks stay, because its files could not be put back."""

        def decide(view: View) -> Decision[WorkItem | None]:
            known = _known(view, item.id)
            if known is None or known.is_over or known.grant_id != item.grant_id:
                return Decision(None)
            new = known.but(
                status=ERROR if reason else COMPLETED, reason=reason,
                data={**known.data, **(data or {})},
            )  # fmt: skip
            given = Decision(new) if hold else _released(view, known, new)
            return self._changed(view, given, ITEM_ENDED)

        return services.decide(self.manager, decide)

    def let_go(self, item: WorkItem) -> None:
        """The locks of an item that is over, and whose files are put back at last."""
        services.release_each(self.manager, [item.grant_id])

    def take_over(self, item: WorkItem, holder: Holder) -> WorkItem | None:
        """The locks of an abandoned item go to whoever cleans up after it, without coming free in
        between. Without a grant, if somebody else has taken one of its files already; None if
        somebody else cleans up."""

        def decide(view: View) -> Decision[WorkItem | None]:
            known = _known(view, item.id)
            if known is None or known.is_over or known.grant_id != item.grant_id:
                return Decision(None)
            grant = view.grant(known.grant_id)
            if not isinstance(grant, Grant):
                lost = known.but(status=DISPATCHED, grant_id="", token=0)
                return self._changed(view, Decision(lost), ITEM_DISPATCHED)
            moved = moving.exchange(view, [(grant.id, moving.heir(grant, holder, new))])
            if isinstance(moved.outcome, Refusal):
                return Decision(None, moved.events, moved.wake, moved.hint)
            heir = moved.outcome[0]
            mine = known.but(status=DISPATCHED, grant_id=heir.id, token=heir.token)
            said = Decision(mine, moved.events, moved.wake, moved.hint)
            return self._changed(view, said, ITEM_DISPATCHED)

        new = new_id()
        return services.decide(self.manager, decide)

    def retry(self, item: WorkItem, reason: str) -> WorkItem | None:
        """Back to its old place in line and its first phase, with one try more on its account; its
        locks are free. None if it does not stand as it was when this was decided."""

        def decide(view: View) -> Decision[WorkItem | None]:
            known = _known(view, item.id)
            if known is None or known.is_over or known.grant_id != item.grant_id:
                return Decision(None)
            new = known.but(
                status=QUEUED, phase=known.first_phase, reason=reason, retries=known.retries + 1,
                grant_id="", token=0, dispatched=0, ticket="",
            )  # fmt: skip
            return self._changed(view, _released(view, known, new), ITEM_RETRIED)

        return services.decide(self.manager, decide)

    def escalate(self, item: WorkItem, holder: Holder | None) -> WorkItem | None:
        """It has waited too long: from now on it comes before all others. With a holder it also
        stands in the kernel's line, as one whom nobody passes. None if it waits no more."""
        request = None
        if holder is not None:
            asked_for = self._request(item, holder)
            request = asked_for.impatient(asked_for.ttl)

        def decide(view: View) -> Decision[WorkItem | None]:
            known = _known(view, item.id)
            if known is None or known.status != QUEUED:
                return Decision(None)
            if request is None or known.grant_id or known.ticket:
                return self._changed(view, Decision(known.but(escalated=True)), ITEM_WAITS)
            asked = rules.acquire(view, request, wait=True)
            stands = not isinstance(asked.outcome, Refusal)  # one that would close a circle
            new = known.but(escalated=True, ticket=request.id if stands else "")
            said = Decision(new, asked.events, asked.wake, asked.hint)
            return self._changed(view, said, ITEM_WAITS)

        return services.decide(self.manager, decide)

    def leave_line(self, item: WorkItem) -> None:
        """Give up its place in the kernel's line, and what it was served there."""
        if item.ticket and services.cancel(self.manager, item.ticket, "cancelled"):
            services.release_each(self.manager, [item.ticket])

    def renew(self, item: WorkItem) -> bool:
        """Extend the lease of an item's locks. False if they are lost."""
        outcome = services.decide(
            self.manager, lambda view: rules.renew(view, item.grant_id, holder_key=None)
        )
        return not isinstance(outcome, Refusal)

    def forget(self, ids: list[str]) -> None:
        """Nothing is known of these items any more. Only of those that are over."""
        for id in ids:

            def decide(view: View, id: str = id) -> Decision[bool]:
                known = _known(view, id)
                if known is None or not known.is_over:
                    return Decision(False)
                return moving.with_note(
                    view, Decision(True), ITEM_FORGOTTEN, {"id": id}, name=f"{NOTES}{id}", over=True
                )

            services.decide(self.manager, decide)

    # Between

    def _request(self, item: WorkItem, holder: Holder) -> Request:
        wanted = item.lock_request
        # Files that are kept are put back before they come free: time alone must not free them.
        ttl = None if is_marked(holder) else LEASE_SECONDS
        return self.manager.request(
            holder, wanted.read_paths, wanted.write_paths, ttl, f"{item.phase} {item.workflow}"
        )

    def _changed(self, view: View, decision: Decision[Any], type: str) -> Decision[Any]:
        """A decision together with the last word on the item that is its outcome."""
        item: WorkItem = decision.outcome
        said = {**item.to_data(), "by": self.name}
        done = moving.with_note(view, decision, type, said, name=f"{NOTES}{item.id}")
        return self.beside(view, item, done)

    def _sent_out(
        self, view: View, known: WorkItem, grant: Grant, taken: Decision[Any]
    ) -> Decision[tuple[WorkItem, Grant] | list[ConflictInfo] | None]:
        new = known.but(
            status=DISPATCHED, grant_id=grant.id, token=grant.token, dispatched=view.now,
            reason="", ticket="",
        )  # fmt: skip
        said = Decision(new, taken.events, taken.wake, taken.hint)
        done = self._changed(view, said, ITEM_DISPATCHED)
        return Decision((new, grant), done.events, done.wake, done.hint)

    def _again(
        self, view: View, known: WorkItem
    ) -> Decision[tuple[WorkItem, Grant] | list[ConflictInfo] | None]:
        """One that kept its locks while it waited for a slot."""
        grant = view.grant(known.grant_id)
        if not isinstance(grant, Grant) or not rules.is_live(view, grant):
            return Decision(None)
        return self._sent_out(view, known, grant, Decision(None))

    def _lock_grant(self, grant: Grant) -> LockGrant:
        return LockGrant(grant, self._has_ended)

    def _has_ended(self, id: str) -> bool:
        found = services.look(self.manager, lambda view: view.grant(id))
        return not isinstance(found, Grant)

    def _mine(self, view: View, item: WorkItem) -> WorkItem:
        known = _known(view, item.id)
        if known is None or known.status != DISPATCHED or known.grant_id != item.grant_id:
            raise LookupError(f"item {item.id} is not held with grant {item.grant_id} any more")
        return known


def _new(view: View, order: Order, number: int) -> WorkItem:
    place = view.head + number
    return WorkItem(
        f"{_plain(order.workflow)}-{place}", order.workflow, order.phase, order.lock_request,
        arrival=place, queued=view.now, first_phase=order.phase, data=dict(order.data),
    )  # fmt: skip


def _plain(workflow: str) -> str:
    """A name that can stand in a path, and is still read as that of the workflow."""
    letters = (one if one.isascii() and (one.isalnum() or one in "._") else "-" for one in workflow)
    return "".join(letters).strip("-.")[:NAME_MAX] or "work"


def ended_paths(event: Event) -> tuple[str, ...] | None:
    """What came free with an event; None if nothing did."""
    from holdfast.core.events import ENDINGS

    return tuple(event.data["paths"]) if event.type in ENDINGS else None


def _item(event: Event) -> WorkItem:
    return WorkItem.from_data(event.data)


def _known(view: View, id: str) -> WorkItem | None:
    event = view.note(f"{NOTES}{id}")
    return _item(event) if event is not None else None


def _unsettled(view: View, request: Request) -> list[ConflictInfo]:
    """What was left behind by items whose dispatcher is gone: nobody is sent out to work on that
    before it was put in order, though its owner is dead."""
    found = []
    for _key, mode, id in view.scopes(*reach(request.keys)):
        grant = view.grant(id)
        if not isinstance(grant, Grant) or mode != WRITE or rules.is_live(view, grant):
            continue
        left = _known(view, grant.holder.id)
        if left is not None and left.grant_id == id and not left.is_over:
            path = grant.paths[grant.modes.index(WRITE)]
            found.append(
                ConflictInfo(
                    path=path, mode=WRITE, held_path=path, held_mode=WRITE, holder=grant.holder.id,
                    holder_key=grant.holder.key, grant_id=id, since=grant.acquired_at, until=None,
                    reason=f"{grant.reason}, which was cut off and is not put in order yet",
                )
            )  # fmt: skip
    return found


def _released(view: View, known: WorkItem, new: WorkItem) -> Decision[WorkItem]:
    if not known.grant_id:
        return Decision(new)
    given = rules.release(view, known.grant_id, None)
    return Decision(new, given.events, given.wake, given.hint)
