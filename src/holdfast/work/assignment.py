"""What a dispatcher was told to do, in the ledger: so that another can go on where it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass

from holdfast.core.errors import Refused
from holdfast.manager import services
from holdfast.manager.manager import LockManager
from holdfast.work import states
from holdfast.work.desk import Desk
from holdfast.work.flows import Flows
from holdfast.work.manifest import ScreenManifest
from holdfast.work.runs import Run

NOTE = "work:assignment"
ASSIGNED = "work_assigned"
FORGOTTEN = "work_forgotten"


class AssignmentError(Refused):
    """There is no work to go on with, or there is some and it is another."""

    code = "E_WORK"


@dataclass(frozen=True, slots=True)
class Assignment:
    """A manifest, whether its merges wait for somebody, and the event with which it began."""

    manifest: ScreenManifest
    review: bool
    began: int


def present(manager: LockManager) -> Assignment:
    """The work of a repository. Raises AssignmentError if there is none."""
    event = services.noted(manager, NOTE)
    if event is None:
        raise AssignmentError(
            "there is no work to go on with", hint="begin some: holdfast dispatch screens.json"
        )
    text = json.dumps({"version": 1, "screens": event.data["screens"]}).encode()
    manifest = ScreenManifest.parse(text, event.data["source"])
    return Assignment(manifest, bool(event.data["review"]), event.seq)


def assign(manager: LockManager, manifest: ScreenManifest, *, review: bool) -> Assignment:
    """Begin with a manifest. What was done before is forgotten; what is under way is not."""
    left = unfinished(manager)
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise AssignmentError(
            f"there is work that is not done: {left[0]}{more}",
            hint="go on with it: holdfast dispatch --resume; or forget it: holdfast dispatch "
            "--forget",
        )
    forget(manager)
    data = {
        "source": manifest.source, "review": review,
        "screens": [screen.to_data() for screen in manifest],
    }  # fmt: skip
    event = services.note(manager, ASSIGNED, data, name=NOTE)
    return Assignment(manifest, review, event.seq)


def unfinished(manager: LockManager) -> list[str]:
    """The workflows that are neither done nor in error."""
    over = (states.COMPLETED, states.ERROR, states.IDLE)
    return [flow.name for flow in Flows(manager).all().values() if flow.state not in over]


def forget(manager: LockManager) -> None:
    """Forget all work, also what waits. Raises AssignmentError if some is out right now."""
    desk, flows = Desk(manager), Flows(manager)
    items = desk.items()
    out = [item for item in items if item.grant_id and not item.is_over]
    alive = [item for item in out if not desk.is_abandoned(item)]
    if alive:
        raise AssignmentError(
            f"{alive[0].workflow} is being worked on right now",
            hint="stop its dispatcher first; holdfast status shows who that is",
        )
    assert manager.tree is not None
    if services.noted(manager, NOTE) is not None:  # first: half forgotten work is not gone on with
        services.note(manager, FORGOTTEN, {}, name=NOTE, over=True)
    for item in items:
        if not item.is_over:
            desk.leave_line(item)
            desk.end(item, reason="forgotten")
        Run(manager.tree.root, item.id).remove()
    desk.forget([item.id for item in items])
    for name in flows.all():
        flows.forget(name)
