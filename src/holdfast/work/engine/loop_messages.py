"""What the loop of a scheduler is told. Everything that happens outside of it arrives as one of
these, through one queue; each is a value, and none is changed after it was sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.work.engine.callbacks import Callback
from holdfast.work.engine.work_items import WorkItem


@dataclass(frozen=True, slots=True)
class Enqueued:
    """Items were put in line here, with a callback of their own or without."""

    items: tuple[WorkItem, ...]
    callback: Callback | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """How an item stands in the ledger: when work is taken up, and whenever another dispatcher
    changed it."""

    item: WorkItem


@dataclass(frozen=True, slots=True)
class Freed:
    """A grant ended, in whatever process."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StopAgent:
    """The agent of an item is to end. `once`: not if it was told the same before."""

    id: str
    why: str
    once: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """A callback has returned, and this became of its item. `after` is None if another dispatcher
    has it, or had it; then `current` is how it stands."""

    id: str
    freed: tuple[str, ...]
    after: WorkItem | None
    current: WorkItem | None = None


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """An abandoned item was put in order; `after` and `current` as with `Finished`."""

    id: str
    after: WorkItem | None
    current: WorkItem | None = None


@dataclass(frozen=True, slots=True)
class Swept:
    """A look at what others hold and have left behind is over. These paths are worth a try."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """See now to what is due."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Send nothing more out."""


@dataclass(frozen=True, slots=True)
class Broke:
    """Something failed that must not: a person has to look."""

    error: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A question that only the loop can answer. `answer` hears what it returned, or raised."""

    question: Callable[[], Any]
    answer: Callable[[Any, BaseException | None], None]


Message = (
    Enqueued | Seen | Freed | StopAgent | Finished | CleanedUp | Swept | Look | Drain | Broke | Ask
)
