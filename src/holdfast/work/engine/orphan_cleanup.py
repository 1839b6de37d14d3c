"""After the death of an item's launcher: the processes that it left are killed and the item's files
are restored, with its locks held until that is done."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from holdfast.manager.files.keepsakes import KeepsakeError, marked
from holdfast.work.engine.callbacks import Accepted, Here, Host
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.work_items import WorkItem

#: The pause between two checks whether killed processes are gone.
SETTLE_SECONDS = 0.01


class Unsettled(Exception):
    """The files of an item could not be restored; it still has its locks."""

    def __init__(self, item: WorkItem, error: KeepsakeError) -> None:
        super().__init__(f"{error.code}: {error.message}; {error.hint}")
        self.item = item


class Unfinished(Exception):
    """An item can no longer be undone and is to be finished; it still has its locks."""

    def __init__(self, item: WorkItem, phase: str) -> None:
        super().__init__(item.id)
        self.item = item
        self.phase = phase


def kill_orphans(item_store: ItemStore, item: WorkItem) -> None:
    """Kill the processes that a killed launcher of an item left running."""
    for pid in item_store.orphans(item):
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def settled(
    item_store: ItemStore, item: WorkItem, host: Host | None, undo: Callable[[WorkItem], None]
) -> WorkItem | None:
    """Clean up after an item, with its locks held meanwhile, and return it. None if another process
    does that. Nothing is touched before every process that it had started is gone. `host` is the
    holder of its locks, if that is one of ours. Raises Unsettled and Unfinished."""
    if host is None or not host.is_well:
        while not item_store.is_abandoned(item):
            kill_orphans(item_store, item)
            time.sleep(SETTLE_SECONDS)
        item_store.settle(item)
        mine = item_store.take_over(item, marked(Here().holder(item)))
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
