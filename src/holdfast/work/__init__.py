"""Many agents in parallel, each started only when everything it needs is free.

engine        work items, their queue, the slots; it does not know what its items are for
launching     the process of each slot, and everything that an agent starts
tasks         lists of tasks
screens       manifests of screens: analysis, then merge
abandoned_work  whether any process is left that could continue some work
errors        work that cannot be started, continued or forgotten in its present state
input_checks  reads JSON and texts that people wrote, and collects every mistake in them

Everything that must survive a crash is in the ledger. A dispatcher that is killed loses nothing,
and several may serve one repository: an item is claimed by one live worker.
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
