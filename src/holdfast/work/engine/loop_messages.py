"""The messages that the loop of a scheduler receives. Everything that happens outside the loop
arrives as one of these, through one queue; each is a value, and none is changed after it was
sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.work.engine.callbacks import Callback
from holdfast.work.engine.work_items import WorkItem


@dataclass(frozen=True, slots=True)
class Enqueued:
    """Items were queued here, with a callback of their own or without."""

    items: tuple[WorkItem, ...]
    callback: Callback | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of an item in the ledger: when work is taken up, and whenever another dispatcher
    has changed it."""

    item: WorkItem


@dataclass(frozen=True, slots=True)
class Freed:
    """A grant has ended, in any process."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StopAgent:
    """The agent of an item is to end. `once`: not if it has been asked before."""

    id: str
    why: str
    once: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """A callback has returned, with this result for its item. `after` is None if another dispatcher
    has the item, or had it; then `current` is its state."""

    id: str
    freed: tuple[str, ...]
    after: WorkItem | None
    current: WorkItem | None = None


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """An abandoned item was cleaned up; `after` and `current` as with `Finished`."""

    id: str
    after: WorkItem | None
    current: WorkItem | None = None


@dataclass(frozen=True, slots=True)
class Swept:
    """The search for what other holders have left behind is over. These paths are worth a try."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """Handle now what is due."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Dispatch no more items."""


@dataclass(frozen=True, slots=True)
class Broke:
    """An unexpected failure: a person has to investigate."""

    error: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A question that only the loop can answer. `answer` receives what it returned, or raised."""

    question: Callable[[], Any]
    answer: Callable[[Any, BaseException | None], None]


Message = (
    Enqueued | Seen | Freed | StopAgent | Finished | CleanedUp | Swept | Look | Drain | Broke | Ask
)
