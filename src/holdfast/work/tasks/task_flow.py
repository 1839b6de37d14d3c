"""The tasks of one list on a scheduler: what is queued when, and what each end means for the rest.

Every state of a task is in the ledger, and changes in one transaction with its work item. So a
dispatcher may die at any moment and another one continues from there, and two that are given the
same list share the work: a task is queued once, by whichever comes first.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from shlex import quote
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import InvalidInput
from holdfast.core.model import Decision, Event
from holdfast.manager import transactions
from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.manager import LockManager
from holdfast.work.engine.callbacks import Accepted, Again, Failed, Hold, Lost
from holdfast.work.engine.item_store import ItemStore, is_current_in
from holdfast.work.engine.work_items import (
    COMPLETED,
    DISPATCHED,
    ERROR,
    HELD,
    QUEUED,
    LockRequest,
    Order,
    WorkItem,
)
from holdfast.work.launching.run_folders import Run
from holdfast.work.screens.templates import filled
from holdfast.work.tasks import (
    landing,
    review_decisions,
    task_records,
    task_states,
)
from holdfast.work.tasks.attempt import Attempt, Setting, request_of
from holdfast.work.tasks.list_start import begin
from holdfast.work.tasks.lists.checklist import Ticker
from holdfast.work.tasks.lists.task import COMMAND_LINE, Task, TaskList
from holdfast.work.tasks.readiness import Readiness
from holdfast.work.tasks.task_changes import PATCH, write_patch
from holdfast.work.tasks.task_records import TaskRecord

if TYPE_CHECKING:
    from holdfast.core.view import View
    from holdfast.manager.grants import LockGrant
    from holdfast.work.engine.scheduler import Scheduler

#: The phases of an item: its agent and its check; after a person has decided; and the rest of an
#: interrupted landing.
TASK, DECIDED, LANDING = "task", "decided", "landing"
#: Where the changes of failed tasks are kept, on request.
FAILED_FOLDER = f"{LEDGER_FOLDER}/failed"


class TaskFlow:
    """The tasks of one list. Call `begin`, then it is served by a scheduler."""

    def __init__(
        self,
        manager: LockManager,
        tasks: TaskList,
        setting: Setting,
        *,
        only: Iterable[str] = (),
        review: bool = False,
        keep_failed: bool = False,
        changed: Callable[[TaskRecord], None] | None = None,
    ) -> None:
        """With `only`, no other tasks of the list are started here. `changed` is called with every
        task whose state has changed, here or in another dispatcher."""
        assert manager.tree is not None
        self.manager = manager
        self.tasks = tasks
        self.root = manager.tree.root
        self._setting = setting
        self._only = frozenset(only)
        self._review = review
        self._keep_failed = keep_failed
        self._told = changed or (lambda _record: None)
        self._scheduler: Scheduler | None = None
        self._readiness = Readiness(tasks, self.wants)
        #: One commit at a time: others would only have to be made again.
        self._landing = threading.Lock()
        #: Tasks that may not be over yet.
        self._left = [task.name for task in tasks if self.wants(task.name)]
        is_file = tasks.is_checklist and tasks.name != COMMAND_LINE
        self._ticker = Ticker(os.path.join(self.root, tasks.name)) if is_file else None

    # Starting

    def begin(self, *, slots: int, command: str, retry_failed: bool = False) -> list[TaskRecord]:
        """Record the list, and every task that is new: see `list_start.begin`."""
        done = begin(
            self.manager, self.tasks, only=self._only, review=self._review, slots=slots,
            command=command, retry_failed=retry_failed,
        )  # fmt: skip
        self._amend_line()
        return done

    def _amend_line(self) -> None:
        """Tasks that are queued since an earlier run need what the list states now."""
        item_store = ItemStore(self.manager)
        for record in self.records():
            item = item_store.item(record.item) if record.state == task_states.QUEUED else None
            if item is None:
                continue
            request, priority = self._request(record), record.task.priority
            if (item.lock_request, item.priority) != (request, priority):
                with suppress(InvalidInput):  # found again when it is tried, and reported
                    item_store.amend(item.id, request, priority)

    def wants(self, name: str) -> bool:
        """Whether a task is started here."""
        return not self._only or name in self._only

    # Reading

    def records(self) -> list[TaskRecord]:
        """The present records of all tasks of the list."""
        names = {task.name for task in self.tasks}
        found = transactions.look(
            self.manager, lambda view: task_records.tasks_in(view, self.tasks.name)
        )
        return [one for one in found if one.name in names]

    def record(self, name: str) -> TaskRecord:
        """One of them."""
        found = transactions.look(
            self.manager, lambda view: task_records.task_in(view, self.tasks.name, name)
        )
        assert found is not None
        return found

    def is_done(self) -> bool:
        """Whether nothing is left to do here. Called after every change, so tasks that are over are
        not read again before all seem to be. By one thread."""

        def question(view: View) -> bool:
            while self._left:
                one = task_records.task_in(view, self.tasks.name, self._left[-1])
                if one is not None and not one.is_over:
                    return False
                self._left.pop()
            # Another dispatcher may have queued some of them again.
            known = {one.name: one for one in task_records.tasks_in(view, self.tasks.name)}
            self._left = [
                task.name for task in self.tasks
                if self.wants(task.name) and task.name in known and not known[task.name].is_over
            ]  # fmt: skip
            return not self._left

        return transactions.look(self.manager, question)

    def accepts(self, item: WorkItem) -> bool:
        """Whether an item belongs to this list, and is started here."""
        return item.data.get("list") == self.tasks.name and self.wants(str(item.data.get("task")))

    # With the scheduler

    def serve(self, scheduler: Scheduler) -> None:
        """Let this scheduler do the work."""
        self._scheduler = scheduler
        scheduler.handle(TASK, self.perform, accepts=self.accepts)
        scheduler.handle(DECIDED, self.perform_decided, takes_slot=False, accepts=self.accepts)
        scheduler.handle(LANDING, self.perform_landing, takes_slot=False, accepts=self.accepts)

    def queue_ready(self) -> None:
        """Queue every task that can start, all in one step, so that the one with the highest
        priority is dispatched first. Skip those that can no longer start."""
        self._queue_of([task.name for task in self.tasks])

    def _queue_of(self, names: Sequence[str]) -> None:
        """The same for some tasks, and for those that come after skipped ones."""
        while names:
            ready, blocked = self._sorted(names)
            self._skip(blocked)
            given_up = self._give_up_unlockable(ready)
            if not given_up and self._queue(ready):
                return
            # Read again: another dispatcher was quicker, or others come after those that failed.
            names = [*names, *(one for name in given_up for one in self._readiness.after(name))]

    def _sorted(self, names: Sequence[str]) -> tuple[list[TaskRecord], list[str]]:
        return transactions.look(self.manager, lambda view: self._readiness.sort(view, names))

    def _skip(self, blocked: Sequence[str]) -> None:
        if blocked:
            rule = self._readiness.skip
            for skipped in transactions.decide(self.manager, lambda view: rule(view, blocked)):
                self._told(skipped)

    def _give_up_unlockable(self, ready: Sequence[TaskRecord]) -> list[str]:
        """Tasks fail whose needs can no longer be locked, such as a declared file that has become a
        folder."""
        assert self._scheduler is not None
        found = []
        for record in ready:
            try:
                self._scheduler.item_store.check(self._request(record))
            except InvalidInput as error:
                self._give_up(record, f"{error.code}: {error.message}")
                found.append(record.name)
        return found

    def _give_up(self, record: TaskRecord, why: str) -> None:
        """A task that was not started has failed, unless another dispatcher has started it."""

        def decide(view: View) -> Decision[TaskRecord | None]:
            now = task_records.task_in(view, self.tasks.name, record.name)
            if now is None or now.state != task_states.WAITING:
                return Decision(None)
            new = now.moved(task_states.GIVEN_UP, reason=why, ended=view.now)
            return task_records.noted(view, Decision(new), new)

        ended = transactions.decide(self.manager, decide)
        if ended is not None:
            self._told(ended)

    def _queue(self, ready: Sequence[TaskRecord]) -> bool:
        """Queue these tasks. False if one of them no longer waits, or needs something that cannot
        be locked: then none is queued."""

        def together(view: View, items: list[WorkItem]) -> Decision[Any] | None:
            decision: Decision[Any] = Decision(None)
            for record, item in zip(ready, items, strict=True):
                now = task_records.task_in(view, self.tasks.name, record.name)
                if now is None or now.state != task_states.WAITING:
                    return None
                decision = task_records.noted(
                    view, decision, now.moved(task_states.READY, item=item.id)
                )
            return decision

        assert self._scheduler is not None
        orders = [self._order(record) for record in ready]
        try:
            return not orders or bool(self._scheduler.enqueue_all(orders, together))
        except InvalidInput:  # an agent has just replaced by a folder a file that one of them needs
            return False

    def _order(self, record: TaskRecord) -> Order:
        data = {"list": self.tasks.name, "task": record.name}
        return Order(record.name, TASK, self._request(record), data, priority=record.task.priority)

    def _request(self, record: TaskRecord) -> LockRequest:
        """What a task takes at its start. A file that has become a folder since is no longer
        needed; but what the task declares is requested as it is."""
        needs = (one for one in record.needs if not os.path.isdir(os.path.join(self.root, one)))
        return request_of(record.task, self.tasks.name, tuple(needs))

    def beside(self, view: View, item: WorkItem, decision: Decision[Any]) -> Decision[Any]:
        """The state of a task changes in one transaction with its item."""
        if item.data.get("list") != self.tasks.name:
            return decision
        record = task_records.task_in(view, self.tasks.name, str(item.data.get("task")))
        if record is None:
            return decision
        new = _after_item(record, item, view.now)
        return decision if new is None else task_records.noted(view, decision, new)

    @contextmanager
    def finishing(self, item: WorkItem) -> Iterator[None]:
        """A finished task was accepted before, so it cannot be undone. Its leases are released in
        the same transaction; until then it is held."""
        yield
        with suppress(OSError):  # no query needs that of a task that is over
            Run(self.root, item.id).landed()

    def changed(self, item: WorkItem, *, here: bool = True) -> None:
        """An item of the list has changed, here or elsewhere."""
        if item.data.get("list") != self.tasks.name:
            return
        record = self.record(str(item.data["task"]))
        if record.state == task_states.FAILED and self._keep_failed:
            record = self._keep_patch(record)
        self._told(record)
        if item.status == HELD:
            self._go_on(record)
        if record.is_over:
            if record.state == task_states.DONE and here:
                self._tick([record.name])
            self._queue_of(self._readiness.after(record.name))

    def heard(self, event: Event) -> None:
        """Apply the decision of a person, from any process."""
        if (
            event.type == review_decisions.TASK_DECIDED
            and event.data.get("list") == self.tasks.name
        ):
            self._go_on(self.record(str(event.data["task"])))

    def _go_on(self, record: TaskRecord) -> None:
        """Continue a task in review, if a person has decided on it."""
        decided = transactions.look(
            self.manager, lambda view: review_decisions.decision_in(view, record.list, record.name)
        )
        if decided is not None and record.state == task_states.REVIEWING:
            assert self._scheduler is not None
            data = {"approve": decided.approve, "by": decided.by}
            self._scheduler.go_on(record.item, DECIDED, data)

    def amended(self, item: WorkItem) -> LockRequest | None:
        """What an item needs instead, after something became impossible to lock; None if there is
        no alternative."""
        if item.data.get("list") != self.tasks.name:
            return None
        found = self._request(self.record(str(item.data["task"])))
        return None if found == item.lock_request else found

    # One item

    def perform(self, item: WorkItem, _grant: LockGrant) -> Any:
        """An attempt at a task."""
        record = self.record(str(item.data["task"]))
        assert self._scheduler is not None
        attempt = Attempt(
            self._setting, item, record, self._scheduler.host_of(item),
            lambda cause, **changes: self._move(item, cause, **changes), self._run_of(item),
        )  # fmt: skip
        found = attempt.work()
        if self._review:
            self._told(self._move(item, task_states.TO_REVIEW, files=tuple(found["files"])))
            return Hold(found)
        return self._land(item, found)

    def perform_decided(self, item: WorkItem, _grant: LockGrant) -> Any:
        """A person has decided on the changes of a task."""
        if not item.data.get("approve"):
            raise Failed(f"rejected by {item.data.get('by')}", {"decision": "rejected"})
        found = {"files": item.data.get("files", []), "decision": f"approved by {item.data['by']}"}
        return self._land(item, found)

    def perform_landing(self, item: WorkItem, _grant: LockGrant) -> Any:
        """The rest of an interrupted landing."""
        return self._landed(item, self.record(str(item.data["task"])))

    def undo(self, item: WorkItem) -> None:
        """Restore the files as they were before an attempt. Its leases are held. Raises Accepted if
        it was accepted: then it is to be finished."""
        run = self._run_of(item)
        run.demand_current()
        if run.keepsake.is_accepted and item.data.get("list") == self.tasks.name:
            record = self.record(str(item.data["task"]))
            if task_states.may(record.state, task_states.ACCEPTED):
                self._move(item, task_states.ACCEPTED)
            raise Accepted(LANDING)
        if run.keepsake.is_there:
            write_patch(run)
        run.put_back(self.manager, only_held=True)

    # Landing

    def _land(self, item: WorkItem, found: Mapping[str, Any]) -> dict[str, Any]:
        """In this order: git has the content, the ledger records what would land, the task can no
        longer be undone, the ledger records that it lands; then the branch moves. If it is
        interrupted before the third step, the task is undone; after it, another dispatcher finishes
        it."""
        record = self.record(str(item.data["task"]))
        run = self._run_of(item)
        planned: dict[str, Any] = {}
        if record.task.commit and found["files"]:
            try:
                planned = landing.plan(self.root, found["files"], _message(record.task), run.folder)
            except landing.CommitError as error:
                raise Failed(f"{error.code}: {error.message}", dict(found)) from error
        decision = str(found.get("decision", ""))
        self._change(
            record.name,
            lambda now: now.but(files=tuple(found["files"]), landing=planned, decision=decision),
            item,
        )
        if not run.accept(lands=bool(planned)):
            raise Again("another process took it for dead and restored its files")
        return {**found, **self._landed(item, self._move(item, task_states.ACCEPTED))}

    def _landed(self, item: WorkItem, record: TaskRecord) -> dict[str, Any]:
        found = {"commit": "", "files": list(record.files)}
        if not record.landing:
            return found
        run = Run(self.root, item.id)
        os.makedirs(run.folder, exist_ok=True)
        try:
            commit = landing.land_patiently(self.root, record.landing, run.folder, self._landing)
        except landing.OldIndexError as error:
            files = " ".join(map(quote, record.files))
            why = (f"it is committed, but git's index is locked and has its files as they were "
                   f"before ({error.message}): git reset -q -- {files}")  # fmt: skip
            return {**found, "commit": error.fields["commit"], "said": why}
        except landing.CommitError as error:
            why = f"its changes are in place, but were not committed: {error.message}"
            return {**found, "said": why}
        return {**found, "commit": commit}

    def _run_of(self, item: WorkItem) -> Run:
        """The folder of an item, valid while this attempt is the present one."""
        assert self._scheduler is not None
        item_store = self._scheduler.item_store
        return Run(self.root, item.id, lambda: item_store.is_current(item))

    def _move(self, item: WorkItem, cause: str, **changes: Any) -> TaskRecord:
        """Move a task in progress to another state."""
        return self._change(str(item.data["task"]), lambda now: now.moved(cause, **changes), item)

    def _change(
        self, name: str, change: Callable[[TaskRecord], TaskRecord], item: WorkItem | None = None
    ) -> TaskRecord:
        """Replace the record of a task. With the item of an attempt, only while that is the present
        one; otherwise `Lost` is raised."""

        def decide(view: View) -> Decision[TaskRecord]:
            if item is not None and not is_current_in(view, item):
                raise Lost(item.id)
            now = task_records.task_in(view, self.tasks.name, name)
            assert now is not None
            new = change(now)
            return task_records.noted(view, Decision(new), new)

        return transactions.decide(self.manager, decide)

    # The end of a task

    def _keep_patch(self, record: TaskRecord) -> TaskRecord:
        """Keep the changes of a failed task, for its author."""
        source = f"{self.root}/{LEDGER_FOLDER}/runs/{record.item}/{PATCH}"
        target = f"{FAILED_FOLDER}/{record.item}.patch"
        with suppress(OSError):
            if os.path.getsize(source):
                os.makedirs(f"{self.root}/{FAILED_FOLDER}", exist_ok=True)
                shutil.copyfile(source, f"{self.root}/{target}")
                return self._change(record.name, lambda now: _with_patch(now, target))
        return record

    def _tick(self, names: Sequence[str]) -> None:
        if self._ticker is not None:
            self._ticker.tick(names)

    def tick_all(self) -> None:
        """Tick and clear away tasks that another dispatcher finished without having time for
        that."""
        done = [one for one in self.records() if one.state == task_states.DONE]
        self._tick([one.name for one in done])
        for record in done:
            with suppress(OSError):
                Run(self.root, record.item).landed()


def _after_item(record: TaskRecord, item: WorkItem, now: int) -> TaskRecord | None:
    """The record after its item has changed; None if that does not change it."""
    data = item.data
    told = {
        "worked_microseconds": int(data.get("worked", record.worked_microseconds)),
        "waited_microseconds": int(data.get("waited", record.waited_microseconds)),
        "tail": tuple(data.get("tail", ())), "log": str(data.get("log", "")),
    }  # fmt: skip
    if item.status == DISPATCHED and task_states.may(record.state, task_states.SENT_OUT):
        return record.moved(
            task_states.SENT_OUT, item=item.id, tries=record.tries + 1, round=0, reason="",
            began=record.began or now, ended=0,
        )  # fmt: skip
    if (
        item.status == QUEUED
        and not item.grant_id
        and task_states.may(record.state, task_states.AGAIN)
    ):
        needs = tuple(data.get("needs", record.needs))
        failures = int(data.get("failures", record.failures))
        return record.moved(
            task_states.AGAIN, reason=item.reason, needs=needs, failures=failures, **told
        )
    if item.status == COMPLETED and task_states.may(record.state, task_states.LANDED):
        return record.moved(
            task_states.LANDED, commit=str(data.get("commit", "")), ended=now, landing={},
            reason=str(data.get("said", "")),
            **{**told, "tail": ()},
        )  # fmt: skip
    if item.status == ERROR and task_states.may(record.state, task_states.GIVEN_UP):
        decision = str(data.get("decision", record.decision))
        return record.moved(
            task_states.GIVEN_UP, reason=item.reason, ended=now, decision=decision, **told
        )
    return None


def _with_patch(record: TaskRecord, patch: str) -> TaskRecord:
    """The record of a failed task, with the place of its changes; added once, even if two
    dispatchers keep them."""
    if patch in record.reason:
        return record
    return record.but(reason=f"{record.reason}; its changes are in {patch}")


def _message(task: Task) -> str:
    first = next((line.strip() for line in task.prompt.splitlines() if line.strip()), task.name)
    values = {"name": task.name, "prompt": task.prompt.strip(), "first_line": first}
    return filled(task.message, values)
