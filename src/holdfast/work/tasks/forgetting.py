"""How tasks are forgotten: a later run of their list does them again.

Only tasks that no dispatcher works on are forgotten, together with their place in the queue. A task
that was interrupted by the death of its dispatcher must be continued first: its files are restored
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core import bulk_rules
from holdfast.core.model import Decision, Grant
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.work.abandoned_work import judge
from holdfast.work.engine.item_store import (
    ITEM_FORGOTTEN,
    NOTES,
    ItemStore,
    known_item,
)
from holdfast.work.engine.work_items import WorkItem
from holdfast.work.errors import WorkError
from holdfast.work.launching.run_folders import Run
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.list_progress import is_abandoned
from holdfast.work.tasks.list_start import listed
from holdfast.work.tasks.task_records import TaskRecord

if TYPE_CHECKING:
    from holdfast.core.view import View


def forget(manager: LockManager, list: str | None = None, only: Sequence[str] = ()) -> int:
    """Forget the tasks of a list, or of all; how many. Raises WorkError if one of them is in
    progress."""

    def decide(view: View) -> Decision[tuple[int, Sequence[WorkItem]]]:
        found = [one for one in task_records.tasks_in(view, list) if not only or one.name in only]
        _refuse_at_work(view, found)
        # They are queued: a later dispatcher would do them in addition to the tasks that are
        # started again.
        items = [item for one in found if (item := _item_to_forget(view, one)) is not None]
        decision: Decision[Any] = Decision((len(found), items))
        for record in found:
            decision = _over(view, decision, record.note, list=record.list, task=record.name)
        for item in items:
            decision = bulk_rules.with_note(
                view, decision, ITEM_FORGOTTEN, {"id": item.id}, name=f"{NOTES}{item.id}", over=True
            )
        for one in task_records.lists_in(view) if not only else ():
            if list is None or one.name == list:
                decision = _over(view, decision, one.note, list=one.name)
        return decision

    count, items = transactions.decide(manager, decide)
    assert manager.tree is not None
    for item in items:
        ItemStore(manager).leave_line(item)
        Run(manager.tree.root, item.id).remove()
    return count


def _refuse_at_work(view: View, found: Sequence[TaskRecord]) -> None:
    begun = {one.name: one for one in task_records.lists_in(view)}
    out = [one for one in found if one.state in task_states.HOLDING]
    gone = [
        one for one in out
        if one.list in begun
        and is_abandoned(begun[one.list], [one], judge(view))
    ]  # fmt: skip
    names = [one.name for one in out if one not in gone]
    if names:
        raise WorkError(
            f"{listed(names)}: in progress",
            hint="stop its dispatcher first; holdfast status shows it", tasks=names,
        )  # fmt: skip
    if gone:
        names = [one.name for one in gone]
        raise WorkError(
            f"{listed(names)}: cut off when its dispatcher died",
            hint=f"continue it first: {begun[gone[0].list].command}", tasks=names,
        )  # fmt: skip


def _item_to_forget(view: View, record: TaskRecord) -> WorkItem | None:
    """The item of a task, unless it still has locks on files that could not be restored."""
    item = known_item(view, record.item)
    is_held = item is not None and isinstance(view.grant(item.grant_id), Grant)
    return None if is_held else item


def _over(view: View, decision: Decision[Any], note: str, **said: str) -> Decision[Any]:
    return bulk_rules.with_note(
        view, decision, task_records.TASK_FORGOTTEN, said, name=note, over=True
    )
