"""Many agents in parallel, each sent out only when all it needs is free.

The engine, which knows nothing of what its items are for:

    items         work items and what they need; how a queue is ordered
    transitions   a table of transitions, as items and tasks have one
    desk          the items in the ledger: queued, claimed with their locks in one step, ended
    scheduler     what other code calls: it writes to the ledger and sends the loop messages
    loop          the one thread that has the queue, the slots and who is out; it never polls
    messages      what the loop is told
    mailbox       one queue of messages, and one thread at a time that handles them
    performing    a callback and what follows from its answer, in a thread of its own
    callbacks     what an item is for, what it may answer, and who holds its locks
    waiting       which items are worth another try after something came free
    moments       what is due when, by the ledger's clock
    following     a thread that hears what happens in the ledger
    hands         threads that are kept for the callbacks
    cleaning      after an item whose launcher is gone
    slots         a slot's launcher as seen from the scheduler
    launcher      the process of a slot: starts agents in a sandbox and outlives none of them
    agent_output  what an agent prints, on its way into a file
    descendants   all that runs below a launcher: killed, and waited for
    brokered      an attempt at a task in a launcher, which is the broker of its agents
    runs          what is kept of an item on disk
    stopping      asking the dispatchers of a repository to stop
    errors        work that cannot be begun, gone on with or forgotten as it is

Lists of tasks are in `holdfast.work.tasks`. Screens:

    manifest      what there is to do: screens, each with its controller and what it reads
    layout        where a screen's files are and what is run in each phase: `[work]` of the settings
    phases        the phases themselves, and what agents are asked where no prompt is set
    templates     texts with gaps
    naming        the singular of a controller's name
    plan          the dependency graph: groups, read sets, shared files, widest parallelism
    findings      what an analysis must say, and what is wrong with one that does not
    checking      how manifest and findings are read, and all that is wrong with them is told
    states        the states of a workflow, and which may follow which
    flows         how far each workflow is, in the ledger
    pipeline      two phases: analyse every screen, then merge controller by controller
    assignment    what a dispatcher was told to do, in the ledger
    merged        what was merged, so that no later run applies it again
    report        what came of it

Everything that must survive a crash is in the ledger. A dispatcher that is killed has lost
nothing, and several may serve one repository: an item is claimed by one live worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.work.engine.callbacks import Again, Failed, Next
    from holdfast.work.engine.scheduler import Scheduler
    from holdfast.work.engine.work_items import LockRequest, WorkItem
    from holdfast.work.screens.layout import Layout
    from holdfast.work.screens.manifest import ScreenManifest
    from holdfast.work.screens.pipeline import Pipeline

#: Imported when they are first used: a launcher needs none of them, and is started often.
_HOMES = {
    "Again": "engine.callbacks",
    "Failed": "engine.callbacks",
    "Layout": "screens.layout",
    "LockRequest": "engine.work_items",
    "Next": "engine.callbacks",
    "Pipeline": "screens.pipeline",
    "Scheduler": "engine.scheduler",
    "ScreenManifest": "screens.manifest",
    "WorkItem": "engine.work_items",
}

__all__ = [
    "Again", "Failed", "Layout", "LockRequest", "Next", "Pipeline", "Scheduler", "ScreenManifest",
    "WorkItem",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
