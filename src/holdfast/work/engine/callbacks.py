"""What an item is for: a callback, what it may answer, and who holds its locks meanwhile."""

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
    """What a callback returns whose item goes on with another phase, its locks held."""

    def __init__(self, phase: str, data: Mapping[str, Any] | None = None) -> None:
        self.phase = phase
        self.data = dict(data or {})


class Hold:
    """What a callback returns whose item gives back its slot, keeps its locks, and waits until
    `Scheduler.go_on` names its next phase."""

    def __init__(self, data: Mapping[str, Any] | None = None) -> None:
        self.data = dict(data or {})


class Failed(Exception):
    """Raised by a callback whose item is in error; the text is for the operator."""

    def __init__(self, reason: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.data = dict(data or {})


class Again(Exception):
    """Raised by a callback whose item is to be tried once more, from the beginning.

    `request` replaces what the item needs from now on, and `data` is merged into its own. With
    `counts=False` it uses up none of its retries. It is not tried before `pause_seconds` have
    passed, whoever tries it.
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
    """Raised by `Work.undo` for an item that cannot be undone any more. It is to be finished by a
    phase of its own, with its locks held until then. That phase must take no slot: those that have
    one may wait for these locks."""

    def __init__(self, phase: str) -> None:
        super().__init__(phase)
        self.phase = phase


class Lost(Exception):
    """Another dispatcher has the item, or has had it: its files and its record are no business of
    this one any more. Which of the two it is, the ledger says: every attempt has a grant of its
    own."""


def accepts_all(_item: WorkItem) -> bool:
    """Every item of the phase."""
    return True


@dataclass(frozen=True, slots=True)
class Handler:
    """What is done for the items of a phase. Those that `accepts` refuses are left in line for
    another dispatcher. Without `takes_slot` they are sent out although no slot is free."""

    callback: Callback
    takes_slot: bool = True
    accepts: Callable[[WorkItem], bool] = accepts_all


class Host(Protocol):
    """Who holds an item's locks while it is worked on. It is there before they are taken."""

    #: Whether it still does.
    is_well: bool

    def holder(self, item: WorkItem) -> Holder:
        """Who holds the item's locks."""

    def leave(self) -> None:
        """The item is over, or back in line without locks."""

    def abandon(self) -> None:
        """The item keeps its locks, and is not worked on here any more: whoever can judge that
        takes it for abandoned. Its files are put back at once if this host can do that."""

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
        """Run an agent with the locks of an item, until it has ended."""

    def stop(self, why: str) -> None:
        """Make the agent end that is running; if the item has none yet, it gets none before its
        locks are taken again."""


class Here:
    """This process holds them, for callbacks that do all the work themselves. Agents run right
    below this process, outside of any sandbox."""

    is_well = True

    def holder(self, item: WorkItem) -> Holder:
        return Holder(id=item.id, key=f"work/{item.id}", witness=own_witness())

    def leave(self) -> None:
        pass

    def abandon(self) -> None:
        """Others can judge that only when this process has ended."""

    def run(self, item: WorkItem, command: Sequence[str], **options: Any) -> Ended:
        from holdfast.work.launching.slots import Unguarded  # which needs this module

        return Unguarded().run(item, command, **options)

    def stop(self, why: str) -> None:
        """Nothing can be stopped here: a callback returns when it is done, and an agent ends with
        its time limit."""


class KeptHere(Here):
    """The same, where the files of each item are kept: its locks are held until they were put
    back, even if this process is killed."""

    def holder(self, item: WorkItem) -> Holder:
        return marked(super().holder(item))


class Work(Protocol):
    """What a scheduler's items are part of, and what has to happen beside them. A scheduler may
    have several; each is asked about every item, and leaves alone those that are not its own."""

    def undo(self, item: WorkItem) -> None:
        """Put back the files of an item that was abandoned, is tried again or has failed. Its locks
        are still held. Raises KeepsakeError if that cannot be done; then the locks stay. Raises
        Accepted if that must not be done any more."""

    def finishing(self, item: WorkItem) -> AbstractContextManager[None]:
        """An item that is done is ended within this. It may raise `Again`."""

    def changed(self, item: WorkItem, *, here: bool) -> None:
        """An item changed, here or by another dispatcher. Called in a thread that may take its
        time."""

    def amended(self, item: WorkItem) -> LockRequest | None:
        """What an item in line needs, of which something cannot be locked any more; None if there
        is nothing else that it could do with. Called by the loop: it must be quick."""

    def beside(self, view: View, item: WorkItem, decision: Decision[Any]) -> Decision[Any]:
        """A decision in which an item changes, with what else that means, in one transaction."""


class NoWork:
    """Items that stand for nothing but themselves."""

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
