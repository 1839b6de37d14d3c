"""decide, for tasks: a person approves or rejects what a task has changed, with the diff."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.cli import DONE
from holdfast.cli.parser import Call, UsageError
from holdfast.cli.printing import colours, document, listed, out, plain
from holdfast.cli.terminal.tables import GREEN, RED
from holdfast.manager import transactions
from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.manager import LockManager
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.review_decisions import (
    decide_task,
    is_cut_off,
    refuse_cut_off,
)
from holdfast.work.tasks.task_changes import PATCH
from holdfast.work.tasks.task_records import TaskRecord

if TYPE_CHECKING:
    from holdfast.core.view import View

_VERBS = ("approve", "reject")


def tasks_in_review(manager: LockManager) -> list[TaskRecord]:
    """All tasks that wait for a decision, except those whose dispatcher is gone."""

    def look(view: View) -> list[TaskRecord]:
        found = [one for one in task_records.tasks_in(view) if one.state == task_states.REVIEWING]
        return [one for one in found if not is_cut_off(view, one)]

    return transactions.look(manager, look)


def task_to_decide(manager: LockManager, name: str) -> TaskRecord | None:
    """The task of that name that waits for a decision; any task of that name if none does."""
    found = [one for one in transactions.look(manager, task_records.tasks_in) if one.name == name]
    waiting = [one for one in found if one.state == task_states.REVIEWING]
    return next(iter(waiting or found), None)


def show_undecided(call: Call, manager: LockManager) -> int:
    """Show which tasks wait for a decision."""
    waiting = tasks_in_review(manager)
    if call.flag("json"):
        document({"tasks": [one.to_data() for one in waiting]})
    elif not waiting:
        out("no task waits for a decision")
    for one in waiting if not call.flag("json") else ():
        out(f"holdfast decide {shlex.quote(plain(one.name))}    # {files_in_words(one)}")
    return DONE


def has_screens(manager: LockManager) -> bool:
    """Whether there is work on screens, whose findings are decided on as well."""
    from holdfast.work.screens.assignment import NOTE

    return transactions.noted(manager, NOTE) is not None


def unknown_task(manager: LockManager, name: str) -> UsageError:
    """The error for a name that no task has."""
    waiting = listed(one.name for one in tasks_in_review(manager))
    said = f"these wait for a decision: {waiting}" if waiting else "no task waits for a decision"
    more = "; for a controller, add approve or reject" if has_screens(manager) else ""
    return UsageError(f"there is no task {name!r}", hint=said + more)


def decide_on_task(
    call: Call, manager: LockManager, record: TaskRecord, person: Callable[[], str]
) -> int:
    """Show what a task has changed, or approve or reject it. `person` returns the person who
    decides, and raises for an agent."""
    verb = call.words[1] if len(call.words) == 2 else ""
    by = person() if verb else ""
    if not verb and call.flag("json"):
        document({**record.to_data(), "diff": _diff(manager, record)})
        return DONE
    if not verb:
        if record.state != task_states.REVIEWING:
            has = (
                f"has {record.state}"
                if record.state == task_states.FAILED
                else f"is {record.state}"
            )
            out(f"{plain(record.name)} {has}: there is nothing to decide")
            return DONE
        transactions.look(manager, lambda view: refuse_cut_off(view, record))
        out("\n".join(_coloured(line) for line in _diff(manager, record).splitlines()))
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            out(f"\nholdfast decide {shlex.quote(plain(record.name))} approve, or reject")
            return DONE
        by = person()
        verb = _asked(record)
        if not verb:
            out("nothing was decided")
            return DONE
    made = decide_task(manager, record.list, record.name, verb == "approve", by)
    if call.flag("json"):
        document({"task": made.task, "list": made.list, "approve": made.approve, "by": made.by})
    else:
        out(f"{plain(record.name)}: {'approved' if made.approve else 'rejected'}")
    return DONE


def files_in_words(record: TaskRecord) -> str:
    """The files that a task has changed."""
    return listed(record.files) or "it changed no file"


def _asked(record: TaskRecord) -> str:
    """The answer of a person at a terminal; empty for later."""
    while True:
        try:
            answer = input(f"\n{plain(record.name)}: approve, reject or later? ").strip().lower()
        except EOFError:
            return ""
        for verb in (*_VERBS, "later"):
            if answer and verb.startswith(answer):
                return verb if verb in _VERBS else ""


def _diff(manager: LockManager, record: TaskRecord) -> str:
    assert manager.tree is not None
    path = f"{manager.tree.root}/{LEDGER_FOLDER}/runs/{record.item}/{PATCH}"
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return f"(its diff cannot be shown; its files: {files_in_words(record)})"
    return "\n".join(map(_visible, text.splitlines())) or "(it changed nothing)"


def _visible(line: str) -> str:
    """A line of a diff: tabs stay, other invisible characters are shown."""
    return "\t".join(map(plain, line.split("\t")))


def _coloured(line: str) -> str:
    colour = {"+": GREEN, "-": RED}.get(line[:1], "") if colours() else ""
    return f"\x1b[{colour}m{line}\x1b[0m" if colour else line
