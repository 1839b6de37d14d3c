"""Lists of tasks in the ledger as a dispatcher leaves them, without a running dispatcher."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.core import codec
from holdfast.core.model import SECOND, Holder
from holdfast.manager import transactions
from holdfast.manager.files.keepsakes import marked
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import own_witness, witness_of
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.work_items import LockRequest, WorkItem
from holdfast.work.launching.run_folders import Run
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.attempt import anchor
from holdfast.work.tasks.lists.task import Task
from holdfast.work.tasks.task_records import ListRecord, TaskRecord

LIST = "tasks.toml"
PATCH = """diff --git a/a.txt b/a.txt
index 1..2 100644
--- a/a.txt
+++ b/a.txt
@@ -1 +1,2 @@
 a0
-old line
+new line
"""


class Scene:
    """One list, and the states of its tasks."""

    def __init__(
        self, manager: LockManager, tasks: Sequence[Task], name: str = LIST, **terms: Any
    ) -> None:
        """`by` is the witness of the dispatcher, and `launcher` that of the locks' holder; both are
        this process by default."""
        assert manager.tree is not None
        self.manager, self.root, self.name = manager, manager.tree.root, name
        self.desk = ItemStore(manager)
        self._launcher = terms.pop("launcher", None) or own_witness()
        by = tuple(codec.witness_to_list(terms.pop("by", None) or own_witness()) or ())
        now = transactions.look(manager, lambda view: view.now)
        began = now - round(terms.pop("since_seconds", 60.0) * SECOND)
        self.now = now
        command = terms.pop("command", f"holdfast dispatch {name}")
        made = ListRecord(
            name, tuple(task.name for task in tasks), terms.pop("slots", 2), began=began, by=by,
            command=command, **terms,
        )  # fmt: skip
        transactions.note(manager, task_records.LIST_BEGUN, made.to_data(), name=made.note)
        self.records: dict[str, TaskRecord] = {}
        for task in tasks:
            self.change(TaskRecord(name, task))

    def change(self, record: TaskRecord) -> TaskRecord:
        """The last word on a task."""
        transactions.note(
            self.manager, task_records.TASK_CHANGED, record.to_data(), name=record.note
        )
        self.records[record.name] = record
        return record

    def set(self, name: str, state: str, **changes: Any) -> TaskRecord:
        return self.change(self.records[name].but(state=state, **changes))

    def queue(self, name: str, *writes: str) -> WorkItem:
        """Queue a task that waits for its locks."""
        task = self.records[name].task
        wanted = LockRequest.of(task.reads, (anchor(task, self.name), *writes))
        item = self.desk.enqueue(name, "task", wanted, {"list": self.name, "task": name})
        assert item is not None
        self.set(name, task_states.QUEUED, item=item.id)
        return item

    def holder(self, item: WorkItem) -> Holder:
        """The holder of an item's locks, which is kept until its files are restored."""
        return marked(Holder(id=item.id, key=f"work/{item.id}", witness=self._launcher))

    def send_out(self, name: str, *writes: str, state: str = task_states.WORKING) -> WorkItem:
        """Dispatch a task; its agent has leased these files."""
        item = self.queue(name)
        claimed = self.desk.claim(item, self.holder(item))
        assert isinstance(claimed, tuple)
        for path in writes:
            grant = self.manager.try_acquire(holder=self.holder(item), write_paths=[path])
            assert grant is not None
        self.set(name, state, item=item.id, tries=1, began=self.now)
        return claimed[0]

    def wait_in_call(self, name: str, path: str) -> None:
        """Let a call of a task's agent wait for a file."""
        item = self.desk.item(self.records[name].item)
        assert item is not None
        transactions.queue(self.manager, self.manager.request(self.holder(item), (), [path]))

    def end(self, name: str, state: str = task_states.DONE, **changes: Any) -> None:
        """End a task."""
        took = round(changes.pop("seconds", 20.0) * SECOND)
        times = {"began": self.now - took, "ended": self.now, "worked_microseconds": took}
        self.set(name, state, **{"tries": 1, **times, **changes})

    def keep(self, item: str, **files: str) -> None:
        """Write files into the folder of an item: `task_log` is task.log."""
        folder = Path(Run(self.root, item).folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text)


def review(scene: Scene, name: str, *writes: str, patch: str = PATCH) -> WorkItem:
    """A task that waits for a decision, with its diff and its output."""
    item = scene.send_out(name, *writes, state=task_states.REVIEWING)
    scene.desk.hold(item)
    scene.set(name, task_states.REVIEWING, files=tuple(writes))
    scene.keep(item.id, changes_patch=patch, task_log=f"{name}: all is done\n")
    return item


def dead_witness() -> Any:
    """The witness of a process that has ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    found = witness_of(process.pid)
    process.communicate()
    return found
