"""The few things that can be asked for: analyse a controller, decide on its findings or on the
changes of a task, stop.

Where a pipeline runs in this process they go to it, and so to its scheduler; or, if it has no locks
at all, to be done at once as in the old days. Elsewhere they go into the ledger, where whichever
dispatcher runs finds them. There is none for giving or taking locks.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from holdfast.manager.manager import LockManager
from holdfast.server.access_control import WebError
from holdfast.server.agent_files import NotThereError
from holdfast.server.state.controllers import APPROVE, REJECT
from holdfast.work.engine import stop_requests
from holdfast.work.screens import assignment, workflow_states
from holdfast.work.screens.pipeline import Pipeline
from holdfast.work.tasks.review_decisions import decide_task


class LegacyError(WebError):
    """Asked of a pipeline without locks, which knows nothing of it."""

    status = 409
    code = "E_LEGACY"


class Orders:
    """What people asked for, on its way to whoever does it. `by` is who asks, for the ledger."""

    def __init__(self, manager: LockManager, by: str, pipeline: Pipeline | None = None) -> None:
        self._manager = manager
        self._by = by
        self._pipeline = pipeline
        #: One at a time: two decisions that were clicked at once must not both find it undecided.
        self._lock = threading.Lock()

    def analyze(self, group: str) -> dict[str, Any]:
        """Analyse a controller anew."""
        with self._lock:
            pipeline = self._known(group)
            pipeline.analyze(group)
            return self._flow(pipeline, group)

    def decide(self, group: str, decision: str) -> dict[str, Any]:
        """Its merge begins, or never does."""
        if decision not in (APPROVE, REJECT):
            raise WebError(
                f"{decision[:100]!r} is no decision", hint='send {"decision": "approve"}, or reject'
            )
        with self._lock:
            pipeline = self._known(group)
            if pipeline.flows is None:
                raise LegacyError(
                    "without locks nothing waits for a decision", hint="start holdfast dispatch"
                )
            state = pipeline.flows.get(group).state
            if state != workflow_states.AWAITING_DECISIONS:
                raise workflow_states.TransitionError(
                    f"{group} is {state} and waits for no decision",
                    hint="GET /api/state tells which do", workflow=group, state=state,
                )  # fmt: skip
            pipeline.decide(group, approve=decision == APPROVE, by=self._by)
            return self._flow(pipeline, group)

    def decide_task(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A task in review lands, or is undone. The body names the attempt whose diff the person
        has seen; a decision on another one is refused."""
        decision = str(body.get("decision", ""))
        if decision not in (APPROVE, REJECT):
            raise WebError(
                f"{decision[:100]!r} is no decision", hint='send {"decision": "approve"}, or reject'
            )
        tries = body.get("tries")
        if not isinstance(tries, int):
            raise WebError("which attempt?", hint="send item and tries as GET /api/task tells them")
        made = decide_task(
            self._manager, str(body.get("list", "")), str(body.get("task", "")),
            decision == APPROVE, self._by, attempt=(str(body.get("item", "")), tries),
        )  # fmt: skip
        return {"list": made.list, "task": made.task, "approve": made.approve, "by": made.by}

    def stop(self) -> dict[str, Any]:
        """Send nobody out any more, and let those finish who are out."""
        return {"stopping": True, "seq": stop_requests.ask(self._manager, self._by)}

    def _known(self, group: str) -> Pipeline:
        """The pipeline, if it has such a controller."""
        pipeline = self._pipeline
        if pipeline is None:
            work = assignment.present(self._manager)
            pipeline = Pipeline(
                lock_manager=self._manager, screen_manifest=work.manifest, review=True
            )
        if group not in pipeline.manifest.groups:
            raise NotThereError(
                f"there is no controller {group[:200]!r} in the manifest",
                hint="controllers are named with their module: blog/posts",
            )
        return pipeline

    def _flow(self, pipeline: Pipeline, group: str) -> dict[str, Any]:
        if pipeline.flows is None:
            return {"workflow": group, "state": "analyzing", "reason": "", "data": {}}
        return pipeline.flows.get(group).to_data()
