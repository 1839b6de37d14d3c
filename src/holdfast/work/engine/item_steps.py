"""Everything that is done for one item outside the loop: its callback, what follows from its
answer, and cleaning up after it. All of this may be slow, and runs in a thread of its own.

However it ends, one transaction releases the locks and ends or requeues the item; before that, the
files of a failed item are restored (`Work.undo`). If they cannot be restored, the locks stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import HoldfastError
from holdfast.core.model import Decision
from holdfast.manager.files.keepsakes import KeepsakeError
from holdfast.manager.grants import LockGrant
from holdfast.work.engine.callbacks import (
    Again,
    Callback,
    Failed,
    Hold,
    Host,
    Lost,
    Next,
    Work,
)
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.orphan_cleanup import Unfinished, Unsettled, settled
from holdfast.work.engine.work_items import LockRequest, WorkItem

if TYPE_CHECKING:
    from holdfast.core.view import View

ABANDONED = "its dispatcher is gone"
#: The pause before finishing an accepted item is tried again.
FINISH_SECONDS = 0.5


class Works:
    """Everything that the items of a scheduler are part of, as one `Work`."""

    def __init__(self, *works: Work) -> None:
        self._works = works

    def add(self, work: Work) -> None:
        """Add one, ahead of the others."""
        self._works = (work, *self._works)

    def undo(self, item: WorkItem) -> None:
        for work in self._works:
            work.undo(item)

    @contextmanager
    def finishing(self, item: WorkItem) -> Iterator[None]:
        with ExitStack() as stack:
            for work in self._works:
                stack.enter_context(work.finishing(item))
            yield

    def changed(self, item: WorkItem, *, here: bool) -> None:
        for work in self._works:
            work.changed(item, here=here)

    def amended(self, item: WorkItem) -> LockRequest | None:
        found = (work.amended(item) for work in self._works)
        return next((one for one in found if one is not None), None)

    def beside(self, view: View, item: WorkItem, decision: Decision[Any]) -> Decision[Any]:
        for work in self._works:
            decision = work.beside(view, item, decision)
        return decision


class Performer:
    """Does the work of items, one call for each."""

    def __init__(self, item_store: ItemStore, work: Work, retries: int) -> None:
        self._item_store = item_store
        self._work = work
        self._retries = retries
        #: Items that have failed, and whose files could not be restored yet.
        self._unsettled: dict[str, WorkItem] = {}

    def perform(
        self, item: WorkItem, grant: LockGrant, host: Host, callback: Callback
    ) -> WorkItem | None:
        """What became of a dispatched item. None if another dispatcher has it, or had it."""
        try:
            return self._performed(item, grant, host, callback)
        except Lost:
            return None

    def _performed(
        self, item: WorkItem, grant: LockGrant, host: Host, callback: Callback
    ) -> WorkItem | None:
        try:
            result = callback(item, grant)
        except Lost:
            raise
        except Again as again:
            return self._once_more(item, host, again)
        except Failed as failed:
            return self._failed(item, host, str(failed) or "failed", failed.data)
        except BaseException as error:
            return self._failed(item, host, f"{type(error).__name__}: {error}")
        if isinstance(result, Next):
            return self._item_store.keep(item, result.phase, result.data)
        if isinstance(result, Hold):
            return self._item_store.hold(item, result.data)
        try:
            with self._work.finishing(item):
                return self._item_store.end(
                    item, data=result if isinstance(result, Mapping) else None
                )
        except Again as again:
            return self._once_more(item, host, again)

    def clean_up(self, item: WorkItem) -> WorkItem | None:
        """Clean up after an abandoned item, and queue it again."""
        try:
            return self._retried(item, None, Again(ABANDONED))
        except Lost:
            return None

    @property
    def has_unsettled(self) -> bool:
        """Whether some files are still to be restored; other items may wait for them."""
        return bool(self._unsettled)

    def settle_again(self) -> None:
        """Try again to restore files that could not be restored before, as on a full disk."""
        for item in list(self._unsettled.values()):
            try:
                self._work.undo(item)
            except KeepsakeError:
                continue
            except Lost:  # another dispatcher does this
                self._unsettled.pop(item.id, None)
                continue
            self._item_store.let_go(item)
            self._unsettled.pop(item.id, None)

    def _once_more(self, item: WorkItem, host: Host, again: Again) -> WorkItem | None:
        reason = str(again)
        if again.counts and item.retries >= self._retries:
            return self._failed(item, host, f"given up after {item.retries} retries: {reason}")
        try:
            if again.request is not None:
                self._item_store.check(again.request)
        except HoldfastError as error:
            return self._failed(item, host, f"{reason}; {error.code}: {error.message}")
        return self._retried(item, host, again)

    def _retried(self, item: WorkItem, host: Host | None, again: Again) -> WorkItem | None:
        reason = str(again)
        return self._after_settling(
            item, host, reason,
            lambda mine: self._item_store.retry(
                mine, reason, request=again.request, data=again.data, counts=again.counts,
                pause_seconds=again.pause_seconds,
            ),
        )  # fmt: skip

    def _failed(
        self, item: WorkItem, host: Host, reason: str, data: Mapping[str, Any] | None = None
    ) -> WorkItem | None:
        """The item has failed for good: its files are restored before its locks are released."""
        return self._after_settling(
            item, host, reason, lambda mine: self._item_store.end(mine, reason=reason, data=data)
        )

    def _after_settling(
        self,
        item: WorkItem,
        host: Host | None,
        reason: str,
        then: Callable[[WorkItem], WorkItem | None],
    ) -> WorkItem | None:
        try:
            mine = settled(self._item_store, item, host, self._work.undo)
        except Unsettled as left:
            ended = self._item_store.end(left.item, reason=f"{reason}; {left}", hold=True)
            if ended is not None:
                self._unsettled[ended.id] = ended
            return ended
        except Unfinished as left:
            pause = FINISH_SECONDS if host is not None else 0.0
            return self._item_store.finish_later(left.item, left.phase, pause)
        return None if mine is None else then(mine)
