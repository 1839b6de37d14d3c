"""The orders that people can give: analyse a controller, decide on its findings or on the changes
of a task, stop.

If a pipeline runs in this process, it gets the order and passes it to its scheduler; a pipeline
without locks executes it immediately. Otherwise the order goes into the ledger, where the running
dispatcher finds it. No order grants or releases a lock.
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
    """The order is for locks, and the pipeline has none."""

    status = 409
    code = "E_LEGACY"


class Orders:
    """Passes the orders of people on. `by` names the person in the ledger."""

    def __init__(self, manager: LockManager, by: str, pipeline: Pipeline | None = None) -> None:
        self._manager = manager
        self._by = by
        self._pipeline = pipeline
        #: One order at a time: of two simultaneous decisions, only one may find it undecided.
        self._lock = threading.Lock()

    def analyze(self, group: str) -> dict[str, Any]:
        """Analyse a controller anew."""
        with self._lock:
            pipeline = self._known(group)
            pipeline.analyze(group)
            return self._flow(pipeline, group)

    def decide(self, group: str, decision: str) -> dict[str, Any]:
        """Approve or reject the findings for a controller: its merge begins, or never does."""
        if decision not in (APPROVE, REJECT):
            raise WebError(
                f"{decision[:100]!r} is not a decision",
                hint='send {"decision": "approve"}, or reject',
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
                    hint="GET /api/state lists those that do", workflow=group, state=state,
                )  # fmt: skip
            pipeline.decide(group, approve=decision == APPROVE, by=self._by)
            return self._flow(pipeline, group)

    def decide_task(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Land or undo a task in review. The body names the attempt whose diff the person has
        seen; a decision on another attempt is refused."""
        decision = str(body.get("decision", ""))
        if decision not in (APPROVE, REJECT):
            raise WebError(
                f"{decision[:100]!r} is not a decision",
                hint='send {"decision": "approve"}, or reject',
            )
        tries = body.get("tries")
        if not isinstance(tries, int):
            raise WebError("the attempt is missing", hint="send item and tries as in GET /api/task")
        made = decide_task(
            self._manager, str(body.get("list", "")), str(body.get("task", "")),
            decision == APPROVE, self._by, attempt=(str(body.get("item", "")), tries),
        )  # fmt: skip
        return {"list": made.list, "task": made.task, "approve": made.approve, "by": made.by}

    def stop(self) -> dict[str, Any]:
        """Start no more agents, and let the running ones finish."""
        return {"stopping": True, "seq": stop_requests.ask(self._manager, self._by)}

    def _known(self, group: str) -> Pipeline:
        """The pipeline, if it has this controller. Raises NotThereError."""
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
