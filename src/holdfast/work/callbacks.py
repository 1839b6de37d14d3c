"""What an item is for: a callback, what it may answer, and who holds its locks meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from holdfast.core.model import Holder
from holdfast.manager.grants import LockGrant
from holdfast.manager.keepsakes import marked
from holdfast.manager.liveness import own_witness
from holdfast.work.items import WorkItem

#: Called with the item and its grant, in a thread of its own.
Callback = Callable[[WorkItem, LockGrant], Any]


class Next:
    """What a callback returns whose item goes on with another phase, its locks held."""

    def __init__(self, phase: str, data: Mapping[str, Any] | None = None) -> None:
        self.phase = phase
        self.data = dict(data or {})


class Failed(Exception):
    """Raised by a callback whose item is in error; the text is for the operator."""

    def __init__(self, reason: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.data = dict(data or {})


class Again(Exception):
    """Raised by a callback whose item is to be tried once more, from the beginning."""


class Host(Protocol):
    """Who holds an item's locks while it is worked on. It is there before they are taken."""

    #: Whether it still does.
    is_well: bool

    def holder(self, item: WorkItem) -> Holder: ...

    def leave(self) -> None:
        """The item is over, or back in line without locks."""


class Here:
    """This process holds them, for callbacks that do all the work themselves."""

    is_well = True

    def holder(self, item: WorkItem) -> Holder:
        return Holder(id=item.id, key=f"work/{item.id}", witness=own_witness())

    def leave(self) -> None:
        pass


class KeptHere(Here):
    """The same, where the files of each item are kept: its locks are held until they were put
    back, even if this process is killed."""

    def holder(self, item: WorkItem) -> Holder:
        return marked(super().holder(item))
