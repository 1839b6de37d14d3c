"""dispatch, for plain lists of tasks."""

from __future__ import annotations

import os
import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from holdfast.cli import DONE, FAILED, INTERRUPTED
from holdfast.cli.dispatch.task_gaps import sentence
from holdfast.cli.dispatch.task_report import Watch, print_table
from holdfast.cli.dispatch.task_waits import Waits, in_words
from holdfast.cli.locking.sandbox_option import is_best_effort
from holdfast.cli.parser import Call, UsageError
from holdfast.cli.printing import document, listed, out, plain, talk, talk_at_once
from holdfast.manager import transactions
from holdfast.manager.files.paths import checkout_of
from holdfast.manager.manager import LockManager
from holdfast.work.engine import stop_requests
from holdfast.work.errors import WorkError
from holdfast.work.input_checks import Problems
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.dispatcher import TaskDispatcher
from holdfast.work.tasks.forgetting import forget
from holdfast.work.tasks.lists.list_reader import (
    TasksError,
    from_command_line,
    is_list,
    list_name,
    read_tasks,
)
from holdfast.work.tasks.lists.task import COMMAND_LINE, TaskList
from holdfast.work.tasks.task_records import ListRecord, TaskRecord
from holdfast.work.tasks.undeclared_writes import undeclared

if TYPE_CHECKING:
    from holdfast.cli.command_context import CommandContext

#: Options of task lists only; manifests have none of them.
OPTIONS = ("task", "only", "retry-failed", "keep-failed", "slots")


def is_for_tasks(call: Call, manager: LockManager | None) -> bool:
    """Whether a command line is about tasks: by its options or its list, or because it continues
    tasks."""
    if any(call.flag(name) for name in OPTIONS) or (call.words and is_list(call.words[0])):
        return True
    goes_on = call.flag("resume") and not call.words
    return goes_on and manager is not None and _is_newest(manager)


def _is_newest(manager: LockManager) -> bool:
    """Whether the work that was started last is a list of tasks."""
    from holdfast.work.screens.assignment import NOTE

    last = _last_list(manager)
    screens = transactions.noted(manager, NOTE)
    return last is not None and (screens is None or screens.at < last.began)


def dispatch_tasks(call: Call, context: CommandContext, manager: LockManager) -> int:
    """Do the tasks of a list, as many at once as there are slots."""
    _demand_main_checkout(context, manager)
    is_best_effort(call)  # has no effect here, but a wrong value is refused
    slots, wrong = _slots(call)
    try:
        tasks = _tasks(call, context, manager)
    except TasksError as error:
        if wrong is None:
            raise
        raise _both(error, wrong) from error
    if wrong is not None:
        raise wrong
    watch = Watch(quiet=call.flag("json"))
    work = TaskDispatcher(
        manager, tasks, slots=slots, only=call.many("only"),
        review=call.flag("review") or _was_in_review(manager, tasks.name),
        keep_failed=call.flag("keep-failed"), changed=watch.see,
    )  # fmt: skip
    began = monotonic()
    done = work.begin(command=_command(tasks), retry_failed=call.flag("retry-failed"))
    if not call.flag("json"):
        _introduce(work, tasks, done)
    with _page(call, manager):
        interrupted = _run(manager, work, watch)
    found = work.flow.records()
    refused = undeclared(manager, tasks.name)
    if call.flag("json"):
        gaps = [one.to_data() for one in refused]
        document({**_data(tasks, found, work.error), "gaps": gaps})
    else:
        wanted = [one for one in found if work.flow.wants(one.name)]
        print_table(wanted, monotonic() - began, command=_command(tasks), error=work.error)
        if refused:
            out(sentence(refused))
    if interrupted:
        talk(f"holdfast: interrupted; to continue: {_command(tasks)}")
        if held := work.in_review():
            talk(f"  undone while in review, to be done again: {listed(held)}")
        return INTERRUPTED
    is_well = all(one.state == task_states.DONE for one in found if work.flow.wants(one.name))
    return DONE if is_well and not work.error else FAILED


def forget_tasks(call: Call, context: CommandContext, manager: LockManager) -> int:
    """Forget the tasks of one list, or of all; how many."""
    name = None
    if call.words:
        assert manager.tree is not None
        name = list_name(os.path.join(context.folder, call.words[0]), manager.tree.root)
    elif call.flag("task"):
        name = COMMAND_LINE
    return forget(manager, name, call.many("only"))


def _demand_main_checkout(context: CommandContext, manager: LockManager) -> None:
    """The ledger of a linked worktree is in the main checkout, and tasks run only there."""
    assert manager.tree is not None
    root, here = manager.tree.root, os.path.realpath(context.folder)
    checkout = checkout_of(root, here)
    if checkout != root:
        raise WorkError(
            f"{plain(checkout)} is a linked worktree; tasks run in the main checkout only",
            hint=f"run it there: cd {shlex.quote(plain(root))}",
        )


# The list


def _tasks(call: Call, context: CommandContext, manager: LockManager) -> TaskList:
    prompts = call.many("task")
    if prompts and call.words:
        raise UsageError(
            "a list and --task were given", hint="give one or the other: both are lists of tasks"
        )
    assert manager.tree is not None
    if prompts:
        return from_command_line(prompts)
    if len(call.words) == 1:
        return read_tasks(call.words[0], manager.tree.root)  # the context has entered its folder
    if call.words:
        raise UsageError("dispatch takes one list", hint="holdfast dispatch tasks.toml")
    last = _last_list(manager)
    if last is None:
        raise WorkError(
            "there is nothing to resume", hint="start a list: holdfast dispatch tasks.toml"
        )
    found = transactions.look(manager, lambda view: task_records.tasks_in(view, last.name))
    known = [one.task for one in found if one.name in last.tasks]
    return TaskList(last.name, tuple(known), last.slots, last.is_checklist)


def _last_list(manager: LockManager) -> ListRecord | None:
    found = transactions.look(manager, task_records.lists_in)
    return found[-1] if found else None


def _was_in_review(manager: LockManager, name: str) -> bool:
    found = transactions.look(manager, task_records.lists_in)
    return any(one.review for one in found if one.name == name)


def _slots(call: Call) -> tuple[int | None, UsageError | None]:
    """How many agents work at once; and the mistake in the option, if any."""
    from holdfast.work.screens.layout import SLOTS_MAX

    try:
        given = call.number("slots")
    except UsageError as error:
        return None, error
    if given is not None and not 1 <= given <= SLOTS_MAX:
        return None, UsageError(f"--slots {given} is not possible", hint=f"give 1 to {SLOTS_MAX}")
    return given, None


def _both(error: TasksError, wrong: UsageError) -> TasksError:
    """A wrong list and a wrong option: both are reported, the option first."""
    problems = Problems(error.fields["file"])
    problems.add("", f"{wrong.message}; {wrong.hint}")
    for one in error.fields["problems"]:
        problems.add(one["place"], one["problem"])
    problems.count = error.fields["count"] + 1
    return problems.error(TasksError, error.hint or "")


def _command(tasks: TaskList) -> str:
    """What a person types to continue a list."""
    if tasks.name == COMMAND_LINE:
        return "holdfast dispatch --resume"
    return f"holdfast dispatch {shlex.quote(tasks.name)}"


def _introduce(work: TaskDispatcher, tasks: TaskList, done: list[TaskRecord]) -> None:
    """Show the call of the agent before anything starts."""
    wanted = [task for task in tasks if work.flow.wants(task.name)]
    count = "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"
    part = f"{len(wanted)} of the " if len(wanted) < len(tasks) else ""
    talk(f"{part}{count} of {plain(tasks.title)}, up to {work.slots} at once")
    for agent, task in {work.agents.of(task).program: task for task in reversed(wanted)}.items():
        call = work.agents.of(task).shown(task.name)
        talk(f"  agent: {plain(call)}")
        talk(f"         {plain(agent)}, below holdfast run --sandbox --lease")
    before = [one for one in done if work.flow.wants(one.name)]
    if before:
        talk(f"  {len(before)} already done")
    ended = (task_states.FAILED, task_states.SKIPPED)
    left = [one for one in work.flow.records() if one.state in ended and work.flow.wants(one.name)]
    if left:
        talk(f"  {len(left)} failed or skipped before; to retry: --retry-failed")


# While it runs


@contextmanager
def _page(call: Call, manager: LockManager) -> Iterator[None]:
    if not call.flag("serve"):
        yield
        return
    from holdfast.cli.watching.serve_command import beside

    server = beside(call, manager, None)
    try:
        yield
    finally:
        server.close()


def _run(manager: LockManager, work: TaskDispatcher, watch: Watch) -> bool:
    """Work until all is done. True if it was interrupted, or asked to stop."""
    stopped = threading.Event()
    asked = stop_requests.asked_at(manager)
    waits = Waits(manager, work.flow.tasks.name)
    with _interrupts(work, stopped, waits):
        work.start()
        while not stopped.is_set() and not work.is_done():
            work.wait_for_change(1.0)
            watch.waits_for(work.undecided())
            watch.waits(waits.look())
            if stop_requests.asked_at(manager) != asked:
                stopped.set()
        work.stop()
    return stopped.is_set()


@contextmanager
def _interrupts(work: TaskDispatcher, stopped: threading.Event, waits: Waits) -> Iterator[None]:
    """The first interrupt lets the running agents finish, the second ends them."""

    def heard(number: int, frame: object) -> None:
        if stopped.is_set():
            threading.Thread(target=work.halt, daemon=True).start()
            return
        stopped.set()
        said = "holdfast: waiting for the running agents; press Ctrl-C again to end them "
        told = in_words(waits.found)  # the last result: a signal handler cannot query the ledger
        talk_at_once(f"{said}and undo their tasks" + (f"\n  {told}" if told else ""))

    before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _data(tasks: TaskList, found: list[TaskRecord], error: str) -> dict[str, object]:
    return {
        "list": tasks.name,
        "tasks": [one.to_data() for one in found],
        "counts": {state: sum(one.state == state for one in found) for state in task_states.STATES},
        "error": error,
    }
