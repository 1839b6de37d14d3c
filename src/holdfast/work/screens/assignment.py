"""The work that a dispatcher was given, in the ledger: so that another can continue it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from holdfast.core import codec
from holdfast.core.model import Event, Witness
from holdfast.manager import transactions
from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import own_witness
from holdfast.work.abandoned_work import is_abandoned, judge
from holdfast.work.engine.callbacks import Lost
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.work_items import WorkItem
from holdfast.work.errors import WorkError
from holdfast.work.launching.run_folders import Run
from holdfast.work.screens import merged_findings, workflow_states
from holdfast.work.screens.manifest import ScreenManifest
from holdfast.work.screens.workflow_records import Flow, Flows

NOTE = "work:assignment"
#: The dispatcher that took the work up last: `{"by": WITNESS}`.
DISPATCHER = "work:dispatcher"
#: A process that has locked this file may start or forget work. How long others wait for it.
TURN = f"{LEDGER_FOLDER}/dispatch.turn"
TURN_SECONDS = 30.0
LOOK_SECONDS = 0.02
ASSIGNED = "work_assigned"
TAKEN_UP = "work_taken_up"
FORGOTTEN = "work_forgotten"


@dataclass(frozen=True, slots=True)
class Assignment:
    """A manifest, whether its merges wait for a person, and the event with which it started."""

    manifest: ScreenManifest
    review: bool
    began: int


def present(manager: LockManager) -> Assignment:
    """The work of a repository. Raises WorkError if there is none."""
    event = transactions.noted(manager, NOTE)
    if event is None:
        raise WorkError("there is nothing to resume", hint="start a list: holdfast dispatch LIST")
    manifest = _manifest(event)
    return Assignment(manifest, bool(event.data["review"]), event.seq)


def _manifest(event: Event) -> ScreenManifest:
    text = json.dumps({"version": 1, "screens": event.data["screens"]}).encode()
    return ScreenManifest.parse(text, event.data["source"])


def assign(manager: LockManager, manifest: ScreenManifest, *, review: bool) -> Assignment:
    """Start with a manifest. The items of earlier work are forgotten, but not what they merged, and
    not work in progress. If several processes start at the same moment, one succeeds, and the
    others get an error that there is work."""
    with _alone(manager):
        return _assign(manager, manifest, review)


@contextmanager
def _alone(manager: LockManager) -> Iterator[None]:
    """While this lasts, no other process starts or forgets work. It is not a grant: no request
    waits for it, and it need not be in the history."""
    import fcntl  # not on every system, and this module is imported on all

    assert manager.tree is not None
    end = time.monotonic() + TURN_SECONDS
    with open(f"{manager.tree.root}/{TURN}", "w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise WorkError(
                        "another process is starting or forgetting work",
                        hint="look for a holdfast dispatch that hangs, then try again",
                    ) from None
                time.sleep(LOOK_SECONDS)
        yield


def _assign(manager: LockManager, manifest: ScreenManifest, review: bool) -> Assignment:
    left = unfinished(manager)
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise WorkError(
            f"there is unfinished work: {left[0]}{more}",
            hint="continue it: holdfast dispatch --resume; or forget it: holdfast dispatch "
            "--forget",
        )
    _forget(manager)
    data = {
        "source": manifest.source, "review": review,
        "screens": [screen.to_data() for screen in manifest],
        "by": codec.witness_to_list(own_witness()),
    }  # fmt: skip
    event = transactions.note(manager, ASSIGNED, data, name=NOTE)
    return Assignment(manifest, review, event.seq)


def take_up(manager: LockManager) -> None:
    """This process continues the work from now on; others can tell if it dies."""
    data = {"by": codec.witness_to_list(own_witness())}
    transactions.note(manager, TAKEN_UP, data, name=DISPATCHER)


def unfinished(manager: LockManager) -> list[str]:
    """The workflows that are neither done nor in error, and not abandoned: a workflow that was not
    started is dropped when the dispatcher that would have started it is dead."""
    flows = Flows(manager).all()
    event = transactions.noted(manager, NOTE)
    taken_up = transactions.noted(manager, DISPATCHER)
    is_dead = judge(manager.store)
    if event is not None and not is_abandoned(dispatchers_of(event, taken_up), is_dead=is_dead):
        groups = _manifest(event).groups
        idle = [name for name in groups if flows.get(name, Flow(name)).is_untouched]
    else:
        idle = []
    return [
        *idle,
        *(flow.name for flow in flows.values() if flow.state not in workflow_states.OVER),
    ]


def dispatchers_of(assigned: Event | None, taken_up: Event | None) -> list[Witness]:
    """The dispatchers that may have the work: the one that started it, and the one that took it up
    last. Empty if there is no work, or no process is recorded."""
    if assigned is None:
        return []
    events = [assigned] if taken_up is None else [assigned, taken_up]
    found = [codec.witness_from_list(event.data.get("by")) for event in events]
    return [one for one in found if one is not None]


def forget(manager: LockManager) -> None:
    """Forget all work, including waiting items and the record of what was merged. Half-done edits
    are undone. Raises WorkError if an item is in progress."""
    with _alone(manager):
        _forget(manager)
        merged_findings.forget(manager)


def _forget(manager: LockManager) -> None:
    item_store, flows = ItemStore(manager), Flows(manager)
    items = item_store.items()
    out = [item for item in items if item.grant_id and not item.is_over]
    alive = [item for item in out if not item_store.is_abandoned(item)]
    if alive:
        raise WorkError(
            f"{alive[0].workflow} is in progress",
            hint="stop its dispatcher first; holdfast status shows it",
        )
    assert manager.tree is not None
    for item in items:
        _put_back(manager, item_store, item)
    if (
        transactions.noted(manager, NOTE) is not None
    ):  # first: half-forgotten work must not be continued
        transactions.note(manager, FORGOTTEN, {}, name=NOTE, over=True)
    if transactions.noted(manager, DISPATCHER) is not None:
        transactions.note(manager, FORGOTTEN, {}, name=DISPATCHER, over=True)
    for item in items:
        if not item.is_over:
            item_store.leave_line(item)
            item_store.end(item, reason="forgotten")
        Run(manager.tree.root, item.id).remove()
    item_store.forget([item.id for item in items])
    for name in flows.all():
        flows.forget(name)


def _put_back(manager: LockManager, item_store: ItemStore, item: WorkItem) -> None:
    """Restore the files of an interrupted item, or of a failed one whose files could not be
    restored then. Its locks are held until this is done, and its owner is dead."""
    assert manager.tree is not None
    if not item.grant_id or not item_store.holds(item):
        return
    if not item_store.is_abandoned(item):
        raise WorkError(
            f"the files of {item.workflow} are not restored yet, and its dispatcher still runs",
            hint="stop that dispatcher first; holdfast status shows it",
        )

    def is_ours_to_do() -> bool:
        return item_store.holds(item) and item_store.is_abandoned(item)

    with suppress(Lost):  # another process has restored them
        Run(manager.tree.root, item.id, is_ours_to_do).put_back(manager)
    if item.is_over:
        item_store.let_go(item)
