"""How a list of tasks is started: what is recorded of it, and what is refused before that.

A finished task is not done again. One whose prompt has changed since is refused: only a person
knows whether it should be done again, or was meant to be another task.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Any

from holdfast.core import bulk_rules, codec
from holdfast.core.model import Decision
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import is_dead, own_witness
from holdfast.work.errors import WorkError
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.list_progress import tasks_of
from holdfast.work.tasks.lists.task import COMMAND_LINE, Task, TaskList
from holdfast.work.tasks.task_records import ListRecord, TaskRecord

if TYPE_CHECKING:
    from holdfast.core.view import View


def begin(
    manager: LockManager,
    tasks: TaskList,
    *,
    only: Collection[str],
    review: bool,
    slots: int,
    command: str,
    retry_failed: bool,
) -> list[TaskRecord]:
    """Record the list, and every task that is new; returns the tasks that are done already. Raises
    WorkError if a finished task has another prompt now, or if the selected tasks cannot be done
    alone."""

    def decide(view: View) -> Decision[list[TaskRecord]]:
        known = {one.name: one for one in task_records.tasks_in(view, tasks.name)}
        _refuse_changed(tasks, known)
        _refuse_unready(tasks, only, known)
        decision: Decision[Any] = Decision([])
        for task in tasks:
            old = known.get(task.name)
            is_wanted = not only or task.name in only
            new = _begun(tasks.name, task, old, retry_failed and is_wanted)
            if new != old:
                decision = task_records.noted(view, decision, new)
        made = ListRecord(
            tasks.name, tuple(task.name for task in tasks), slots, review, tasks.is_checklist,
            view.now, tuple(codec.witness_to_list(own_witness()) or ()), command,
            _beside(view, tasks.name),
        )  # fmt: skip
        decision = bulk_rules.with_note(
            view, decision, task_records.LIST_BEGUN, made.to_data(), name=made.note
        )
        done = [one for one in known.values() if one.state == task_states.DONE]
        return Decision(done, decision.events, decision.wake, decision.hint)

    return transactions.decide(manager, decide)


def leave(manager: LockManager, name: str) -> None:
    """This process is no longer a dispatcher of the list. If every task is over, that is recorded:
    then a query for interrupted work need not read the tasks of a finished list."""
    own = own_witness()

    def decide(view: View) -> Decision[None]:
        found = task_records.list_in(view, name)
        if found is None or own not in found.dispatchers:
            return Decision(None)
        if not all(one.is_over for one in tasks_of(found, task_records.tasks_in(view, name))):
            return Decision(None)
        others = [tuple(codec.witness_to_list(one) or ()) for one in found.dispatchers
                  if one != own]  # fmt: skip
        new = replace(found, by=others[0] if others else (), beside=tuple(others[1:]))
        return bulk_rules.with_note(
            view, Decision(None), task_records.LIST_ENDED, new.to_data(), name=new.note
        )

    transactions.decide(manager, decide)


def _begun(list: str, task: Task, old: TaskRecord | None, retry: bool) -> TaskRecord:
    """The record of a task when its list is started."""
    if old is None:
        return TaskRecord(list, task)
    new = old.but(task=task)
    if retry and old.state in (task_states.FAILED, task_states.SKIPPED):
        return new.moved(
            task_states.ANEW, reason="", tries=0, failures=0, round=0, tail=(), ended=0, began=0,
            worked_microseconds=0, waited_microseconds=0,
        )  # fmt: skip
    return new


def _beside(view: View, list: str) -> tuple[tuple[Any, ...], ...]:
    """The other dispatchers of the list that are not proven dead."""
    old = task_records.list_in(view, list)
    own = own_witness()
    others = [one for one in old.dispatchers if one != own] if old is not None else []
    return tuple(tuple(codec.witness_to_list(one) or ()) for one in others
                 if not is_dead(one, (), is_shared=view.lease is not None))  # fmt: skip


def _refuse_changed(tasks: TaskList, known: Mapping[str, TaskRecord]) -> None:
    changed = [
        task.name for task in tasks
        if task.name in known and known[task.name].state == task_states.DONE
        and known[task.name].task.digest != task.digest
    ]  # fmt: skip
    if changed:
        raise WorkError(
            f"{listed(changed)}: already done, and the prompt has changed since",
            hint="give it another name to do it as well; to do it again: "
            f"{_forget_command(tasks, changed[0])}",
            tasks=changed,
        )


def _forget_command(tasks: TaskList, name: str) -> str:
    words = [quote(tasks.name)] if tasks.name != COMMAND_LINE else []
    return " ".join(["holdfast dispatch", *words, "--forget --only", quote(name)])


def _refuse_unready(
    tasks: TaskList, only: Collection[str], known: Mapping[str, TaskRecord]
) -> None:
    """The selected tasks must be possible alone."""
    names = [task.name for task in tasks]
    unknown = sorted(set(only) - set(names))
    if unknown:
        raise WorkError(
            f"there is no task {listed(unknown)} in {tasks.title}",
            hint=f"it has: {listed(names)}", tasks=unknown,
        )  # fmt: skip
    done = {name for name, one in known.items() if one.state == task_states.DONE}
    for task in tasks:
        missing = [one for one in task.after if one not in only and one not in done]
        if task.name in only and missing:
            raise WorkError(
                f"{task.name} comes after {listed(missing)}, which is not done",
                hint=f"add --only {quote(missing[0])}", tasks=missing,
            )  # fmt: skip


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, the first five of them."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
