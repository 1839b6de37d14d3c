"""After an item whose launcher is gone: what it started is killed, and its files are put back,
with its locks held until that is done."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from holdfast.manager.files.keepsakes import KeepsakeError, marked
from holdfast.work.engine.callbacks import Accepted, Here, Host
from holdfast.work.engine.item_store import Desk
from holdfast.work.engine.work_items import WorkItem

#: Between two looks whether what was killed is gone.
SETTLE_SECONDS = 0.01


class Unsettled(Exception):
    """The files of an item could not be put back; it still has its locks."""

    def __init__(self, item: WorkItem, error: KeepsakeError) -> None:
        super().__init__(f"{error.code}: {error.message}; {error.hint}")
        self.item = item


class Unfinished(Exception):
    """An item cannot be undone any more and is to be finished; it still has its locks."""

    def __init__(self, item: WorkItem, phase: str) -> None:
        super().__init__(item.id)
        self.item = item
        self.phase = phase


def kill_orphans(desk: Desk, item: WorkItem) -> None:
    """Kill what an item's launcher left running when it was killed itself."""
    for pid in desk.orphans(item):
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def settled(
    desk: Desk, item: WorkItem, host: Host | None, undo: Callable[[WorkItem], None]
) -> WorkItem | None:
    """An item after which was cleaned up, with its locks held meanwhile. None if somebody else
    does that. Nothing is touched before all that it had started is gone. `host` is who holds its
    locks, if that is one of ours. Raises Unsettled, and Unfinished."""
    if host is None or not host.is_well:
        while not desk.is_abandoned(item):
            kill_orphans(desk, item)
            time.sleep(SETTLE_SECONDS)
        mine = desk.take_over(item, marked(Here().holder(item)))
        if mine is None:
            return None
        item = mine
    try:
        undo(item)
    except KeepsakeError as error:
        raise Unsettled(item, error) from error
    except Accepted as accepted:
        raise Unfinished(item, accepted.phase) from accepted
    return item
