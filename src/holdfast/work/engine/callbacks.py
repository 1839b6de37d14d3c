"""What an item runs: a callback, what the callback may answer, and who holds the item's locks
meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.core.model import Decision, Holder
from holdfast.manager.files.keepsakes import marked
from holdfast.manager.grants import LockGrant
from holdfast.manager.owners.liveness import own_witness
from holdfast.work.engine.work_items import LockRequest, WorkItem

if TYPE_CHECKING:
    from holdfast.core.view import View
    from holdfast.work.launching.slots import Ended

#: Called with the item and its grant, in a thread of its own.
Callback = Callable[[WorkItem, LockGrant], Any]


class Next:
    """Returned by a callback whose item continues with another phase, keeping its locks."""

    def __init__(self, phase: str, data: Mapping[str, Any] | None = None) -> None:
        self.phase = phase
        self.data = dict(data or {})


class Hold:
    """Returned by a callback whose item releases its slot, keeps its locks, and waits until
    `Scheduler.go_on` names its next phase."""

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        self.data = dict(data or {})


class Failed(Exception):
    """Raised by a callback whose item ends in an error; the text is for the operator."""

    def __init__(self, reason: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.data = dict(data or {})


class Again(Exception):
    """Raised by a callback whose item is to be retried from the beginning.

    From then on the item needs `request`, and `data` is merged into its own. With `counts=False`
    this does not count as a retry. No dispatcher tries the item before `pause_seconds` have passed.
    """

    def __init__(
        self,
        reason: str,
        *,
        request: LockRequest | None = None,
        data: Mapping[str, Any] | None = None,
        counts: bool = True,
        pause_seconds: float = 0.0,
    ) -> None:
        super().__init__(reason)
        self.request = request
        self.data = dict(data or {})
        self.counts = counts
        self.pause_seconds = pause_seconds


class Accepted(Exception):
    """Raised by `Work.undo` for an item that can no longer be undone. It is to be finished by a
    phase of its own, with its locks held until then. That phase must take no slot: the items that
    have one may wait for these locks."""

    def __init__(self, phase: str) -> None:
        super().__init__(phase)
        self.phase = phase


class Lost(Exception):
    """Another dispatcher has the item, or had it: this dispatcher must no longer touch its files or
    its record. The ledger tells which of the two: every attempt has a grant of its own."""


def accepts_all(_item: WorkItem) -> bool:
    """Accepts every item of the phase."""
    return True


@dataclass(frozen=True, slots=True)
class Handler:
    """What is run for the items of a phase. Items that `accepts` refuses stay queued for another
    dispatcher. Without `takes_slot` items are dispatched even if no slot is free."""

    callback: Callback
    takes_slot: bool = True
    accepts: Callable[[WorkItem], bool] = accepts_all


class Host(Protocol):
    """The holder of an item's locks while the item is in progress. It exists before they are
    taken."""

    #: Whether it still holds them.
    is_well: bool

    def holder(self, item: WorkItem) -> Holder:
        """The holder that the item's locks are granted to."""

    def leave(self) -> None:
        """The item has ended, or is queued again without locks."""

    def abandon(self) -> None:
        """The item keeps its locks, and is no longer in progress here: any process that can check
        takes it for abandoned. Its files are restored immediately if this host can do that."""

    def run(
        self,
        item: WorkItem,
        command: Sequence[str],
        *,
        folder: str,
        output: str,
        environment: Mapping[str, str],
        stdin: str = "",
        write: Sequence[str] | None = (),
        output_bytes_max: int = ...,
        timeout_seconds: float = ...,
    ) -> Ended:
        """Run an agent under the locks of an item, until it has ended."""

    def stop(self, why: str) -> None:
        """End the running agent; if the item has none yet, it gets none before its locks are taken
        again."""


class Here:
    """This process holds the locks, for callbacks that do all the work themselves. Agents run
    directly below this process, outside any sandbox."""

    is_well = True

    def holder(self, item: WorkItem) -> Holder:
        return Holder(id=item.id, key=f"work/{item.id}", witness=own_witness())

    def leave(self) -> None:
        pass

    def abandon(self) -> None:
        """Other processes can see this only when this process has ended."""

    def run(self, item: WorkItem, command: Sequence[str], **options: Any) -> Ended:
        from holdfast.work.launching.slots import Unguarded  # that module imports this one

        return Unguarded().run(item, command, **options)

    def stop(self, why: str) -> None:
        """Nothing can be stopped here: a callback returns when it is done, and an agent ends at its
        time limit."""


class KeptHere(Here):
    """The same, where the files of each item are kept: its locks are held until the files are
    restored, even if this process is killed."""

    def holder(self, item: WorkItem) -> Holder:
        return marked(super().holder(item))


class Work(Protocol):
    """What a scheduler's items are part of, and what must happen together with them. A scheduler
    may have several; each is called for every item, and ignores items that are not its own."""

    def undo(self, item: WorkItem) -> None:
        """Restore the files of an item that was abandoned, is retried or has failed. Its locks are
        still held. Raises KeepsakeError if that is impossible; then the locks stay. Raises Accepted
        if the item must no longer be undone."""

    def finishing(self, item: WorkItem) -> AbstractContextManager[None]:
        """An item that is done is ended within this context. It may raise `Again`."""

    def changed(self, item: WorkItem, *, here: bool) -> None:
        """An item has changed, here or in another dispatcher. Called in a thread that may be
        slow."""

    def amended(self, item: WorkItem) -> LockRequest | None:
        """What a queued item needs instead, after something that it needs became impossible to
        lock; None if there is no alternative. Called by the loop: it must be quick."""

    def beside(self, view: View, item: WorkItem, decision: Decision[Any]) -> Decision[Any]:
        """Extends the decision that changes an item, in the same transaction."""


class NoWork:
    """Items that are part of nothing else."""

    def undo(self, item: WorkItem) -> None:
        pass

    def finishing(self, item: WorkItem) -> AbstractContextManager[None]:
        return nullcontext()

    def changed(self, item: WorkItem, *, here: bool) -> None:
        pass

    def amended(self, item: WorkItem) -> LockRequest | None:
        return None

    def beside(self, view: View, item: WorkItem, decision: Decision[Any]) -> Decision[Any]:
        return decision
