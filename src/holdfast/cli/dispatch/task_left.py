"""Unfinished lists of tasks whose dispatcher is gone."""

from __future__ import annotations

from holdfast.cli.command_context import view_of
from holdfast.cli.printing import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manager.manager import LockManager


#: The prefix of the records of lists (`work.tasks.task_records`). Without such a record nothing
#: more is imported, because `status` must be quick.
_LISTS = "work:tasks:"


def left_behind(manager: LockManager | None) -> list[dict[str, Any]]:
    """Each such list, with how many tasks are left and the command that continues it."""
    if manager is None:
        return []
    with view_of(manager) as view:
        if not any(True for _one in view.notes(_LISTS)):
            return []
    from holdfast.work import abandoned_work
    from holdfast.work.tasks import task_records
    from holdfast.work.tasks.list_progress import is_abandoned, tasks_of

    found = []
    with view_of(manager) as view:
        is_dead = abandoned_work.judge(view)
        for one in task_records.lists_in(view):
            # While a dispatcher is alive, no task is read.
            if not abandoned_work.is_abandoned(one.dispatchers, is_dead=is_dead):
                continue
            tasks = tasks_of(one, task_records.tasks_in(view, one.name))
            if is_abandoned(one, tasks, is_dead):
                left = sum(not task.is_over for task in tasks)
                found.append({"list": one.name, "left": left, "command": one.command})
    return found


def sentence(one: dict[str, Any]) -> str:
    """One of them in words."""
    from holdfast.work.tasks.lists.task import title_of

    count = "1 task is" if one["left"] == 1 else f"{one['left']} tasks are"
    return plain(
        f"the dispatcher of {title_of(one['list'])} is gone, {count} left; "
        f"to continue: {one['command']}"
    )
