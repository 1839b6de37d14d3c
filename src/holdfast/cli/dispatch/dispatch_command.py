"""dispatch, decide, gaps: many agents, each started when everything it needs is free."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from holdfast.cli import DONE, FAILED, INTERRUPTED
from holdfast.cli.command_context import CommandContext
from holdfast.cli.dispatch.task_deciding import (
    decide_on_task,
    has_screens,
    show_undecided,
    task_to_decide,
    unknown_task,
)
from holdfast.cli.dispatch.task_dispatch import (
    dispatch_tasks,
    forget_tasks,
    is_for_tasks,
)
from holdfast.cli.dispatch.task_files import refuse_other
from holdfast.cli.dispatch.task_gaps import show_task_gaps
from holdfast.cli.guarding.person import person
from holdfast.cli.locking.sandbox_option import is_best_effort, version
from holdfast.cli.parser import Call, UsageError
from holdfast.cli.printing import colours, document, out, plain, talk, talk_at_once
from holdfast.cli.terminal.tables import Cell, Column, render, terminal_width
from holdfast.core.sentences import duration
from holdfast.gate.sandbox.kernel import seccomp
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.work.engine import stop_requests
from holdfast.work.engine.work_items import (
    ANALYZE,
    COMPLETED,
    DISPATCHED,
    ERROR,
    WorkItem,
)
from holdfast.work.errors import WorkError
from holdfast.work.screens import assignment, workflow_states
from holdfast.work.screens.manifest import ScreenManifest
from holdfast.work.screens.pipeline import Pipeline
from holdfast.work.screens.run_report import Gap, Report, report
from holdfast.work.screens.workflow_records import Flows
from holdfast.work.tasks.undeclared_writes import undeclared

_MARKS = {DISPATCHED: "->", COMPLETED: "ok", ERROR: "!!"}


def dispatch(call: Call) -> int:
    """Run a list of tasks, or a manifest of screens, until everything is done."""
    context = CommandContext(call)
    if call.flag("forget"):
        return _forget(call, context, context.open([]))
    if is_for_tasks(call, context.find([])):
        return dispatch_tasks(call, context, context.open([]))
    best_effort = _sandboxed(call)
    manager = context.open([])
    by = _person("have a merge amended", manager) if call.flag("amend") else ""
    work = _assigned(call, context, manager)
    watch = _Watch(quiet=call.flag("json"))
    pipeline = Pipeline.open(
        manager, work.manifest, review=work.review, changed=watch.see, best_effort=best_effort
    )
    if call.flag("amend"):
        _amend(manager, pipeline, by)
    with _page(call, manager, pipeline):
        interrupted = _run(manager, pipeline)
    found = report(manager, work.began - 1)
    if call.flag("json"):
        flows = {name: flow.to_data() for name, flow in _flows(pipeline).items()}
        document({"workflows": flows, **found.to_data(), "error": _error(pipeline)})
    else:
        _print(pipeline, found)
    if interrupted:
        talk("holdfast: interrupted; to continue: holdfast dispatch --resume")
        return INTERRUPTED
    failed = [flow for flow in _flows(pipeline).values() if flow.state == workflow_states.ERROR]
    return FAILED if failed or _error(pipeline) else DONE


def decide(call: Call) -> int:
    """Decide on the findings for a controller, or on the changes of a task."""
    manager = CommandContext(call).open([])
    if not call.words:
        return show_undecided(call, manager)
    record = task_to_decide(manager, call.words[0])
    if record is not None and call.words[1:] in ([], ["approve"], ["reject"]):
        return decide_on_task(call, manager, record, lambda: _person("decide on a task", manager))
    if len(call.words) > 2 or call.words[1:] not in ([], ["approve"], ["reject"]):
        raise UsageError(
            "decide takes the name of a task, then approve or reject",
            hint="holdfast decide NAME approve; holdfast decide NAME shows the diff",
        )
    if record is None and (len(call.words) == 1 or not has_screens(manager)):
        raise unknown_task(manager, call.words[0])
    by = _person("decide on findings", manager)
    work = assignment.present(manager)
    pipeline = Pipeline(lock_manager=manager, screen_manifest=work.manifest, review=True)
    group, approve = call.words[0], call.words[1] == "approve"
    pipeline.decide(group, approve=approve, by=by)
    state = _flows(pipeline)[group]
    if call.flag("json"):
        document(state.to_data())
    else:
        out(f"{plain(group)}: {'its merge is queued' if approve else 'rejected'}")
    return DONE


def gaps(call: Call) -> int:
    """Show the files that agents were refused to write."""
    manager = CommandContext(call).find([])
    found = _gaps(manager) if manager is not None else []
    of_tasks = undeclared(manager) if manager is not None else []
    if call.flag("json"):
        gaps = [{**gap.to_data(), "missing": missing} for gap, missing in found]
        document({"gaps": gaps, "tasks": [one.to_data() for one in of_tasks]})
        return DONE
    if not found and not of_tasks:
        out("no gaps")
    if of_tasks:
        show_task_gaps(of_tasks)
    if found:
        columns = [
            Column("FILE", 20), Column("WORKFLOW"), Column("PHASE"),
            Column("MISSED BY", 12, prose=True), Column("", 12, prose=True),
        ]  # fmt: skip
        _table(columns, [_row(gap, missing) for gap, missing in found])
        if any(missing for _gap, missing in found):
            talk("  to give these files to an agent: holdfast dispatch --amend")
    return DONE


def _gaps(manager: LockManager) -> list[tuple[Gap, bool]]:
    """The gaps of the present work, each with whether its controller still lacks the file."""
    work = transactions.noted(manager, assignment.NOTE)
    if work is None:
        return []
    flows = Flows(manager).all()
    return [(gap, gap.is_missing(flows)) for gap in report(manager, work.seq - 1).gaps]


def _row(gap: Gap, missing: bool) -> list[Cell]:
    screens = ", ".join(screen.rpartition("/")[2] for screen in gap.screens)
    said = "" if missing else "amended" if gap.possible else "cannot be locked"
    if gap.finished:
        said = "a merge has written it before: to change it, analyse it again"
    if gap.controls:
        said = f"controls {gap.controls}: not for agents"
    elif gap.phase == ANALYZE:
        said = "an analysis may write only its result"
    return [Cell(text) for text in (gap.path, gap.workflow, gap.phase, screens, said)]


def _person(may: str, manager: LockManager | None = None) -> str:
    """The person who decides, for the ledger. Raises UsageError for an agent, as far as one can be
    recognised before the ledger is open and, with it, by the processes above us."""
    hint = "ask the person you work for"
    me = person(may, hint, at_a_terminal=False, manager=manager)
    return f"{me.id}, at the command line"


# Starting


def _sandboxed(call: Call) -> bool:
    """Whether an incomplete sandbox or none is accepted for agents. Called before anything is
    written, and while there is only one thread. Raises SandboxError if the kernel supports no
    sandbox and the caller does not accept that."""
    if version(call, "agents run") and (unnoticed := seccomp.lacks()):
        talk(f"holdfast: refused writes are not recorded: {unnoticed}")
    return is_best_effort(call)


def _assigned(call: Call, context: CommandContext, manager: LockManager) -> assignment.Assignment:
    goes_on = call.flag("resume") or call.flag("amend")
    if goes_on and call.words:
        raise UsageError("the manifest is already in the ledger", hint="holdfast dispatch --resume")
    if goes_on:
        if transactions.noted(manager, assignment.NOTE) is None:
            raise WorkError(
                "there is nothing to resume", hint="start a list: holdfast dispatch tasks.toml"
            )
        work = assignment.present(manager)
        assignment.take_up(manager)
        return work
    if len(call.words) != 1:
        raise UsageError(
            "dispatch needs one list of tasks",
            hint='holdfast dispatch tasks.toml, or TODO.md, or --task "what to do"',
        )
    refuse_other(call.words[0])
    manifest = ScreenManifest.load(os.path.join(context.folder, call.words[0]))
    return assignment.assign(manager, manifest, review=call.flag("review"))


def _forget(call: Call, context: CommandContext, manager: LockManager) -> int:
    _person("have work forgotten", manager)
    tasks = forget_tasks(call, context, manager)
    is_all = not (call.words or call.flag("only") or call.flag("task"))
    if is_all:
        assignment.forget(manager)
    if call.flag("json"):
        document({"forgotten": True, "tasks": tasks})
    elif is_all:
        out("all work was forgotten; half-done edits were undone, other files are unchanged")
    else:
        count = "1 task was" if tasks == 1 else f"{tasks} tasks were"
        out(f"{count} forgotten; files are unchanged")
    return DONE


def _amend(manager: LockManager, pipeline: Pipeline, by: str) -> None:
    """Queue again the controllers whose agents needed more files than they had."""
    missing: dict[str, list[str]] = {}
    for gap, is_missing in _gaps(manager):
        if is_missing:
            missing.setdefault(gap.workflow, []).append(gap.path)
    if not missing:
        talk("holdfast: there are no gaps to amend")
    flows = _flows(pipeline)
    for group, paths in missing.items():
        if flows[group].state in workflow_states.OVER:
            pipeline.amend(group, paths, by=by)
        else:
            talk(f"holdfast: {plain(group)} is in progress; amend it when that is done")


# While it runs


@contextmanager
def _page(call: Call, manager: LockManager, pipeline: Pipeline) -> Iterator[None]:
    """The page, for as long as the work lasts, if it was requested."""
    if not call.flag("serve"):
        yield
        return
    from holdfast.cli.watching.serve_command import beside

    server = beside(call, manager, pipeline)
    try:
        yield
    finally:
        server.close()


def _run(manager: LockManager, pipeline: Pipeline) -> bool:
    """Work until all is done. True if it was interrupted, or asked to stop."""
    stopped = threading.Event()
    asked = stop_requests.asked_at(manager)
    with _interrupts(pipeline, stopped):
        pipeline.start()
        assert pipeline.scheduler is not None
        while not stopped.is_set() and not pipeline.is_done():
            pipeline.scheduler.wait_for_change(1.0)
            if stop_requests.asked_at(manager) != asked:
                stopped.set()
        pipeline.stop()
    return stopped.is_set()


@contextmanager
def _interrupts(pipeline: Pipeline, stopped: threading.Event) -> Iterator[None]:
    """The first interrupt lets the running agents finish, the second ends them."""

    def heard(number: int, frame: object) -> None:
        if stopped.is_set():
            pipeline.halt()
            return
        stopped.set()
        said = "holdfast: waiting for the running agents; press Ctrl-C again to end them"
        talk_at_once(said)

    before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Watch:
    """Prints one line per event."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._begun = monotonic()

    def see(self, item: WorkItem) -> None:
        mark = _MARKS.get(item.status)
        if self._quiet or (mark is None and not item.reason):
            return
        at = f"{monotonic() - self._begun:6.1f} s"
        reason = f": {plain(item.reason)}" if item.reason else ""
        line = f"{at}  {mark or '..'}  {item.phase:<8} {plain(item.workflow)}{reason}"
        print(line, file=sys.stderr, flush=True)


# At the end


def _print(pipeline: Pipeline, found: Report) -> None:
    columns = [Column("CONTROLLER", 12), Column("STATE"), Column("", 20, prose=True)]
    rows = [
        [Cell(flow.name), Cell(flow.state), Cell(flow.reason)] for flow in _flows(pipeline).values()
    ]
    _table(columns, rows)
    out("")
    wall, worked = (round(one * 1_000_000) for one in (found.wall_seconds, found.worked_seconds))
    out(
        f"{found.completed} of {found.items} items done in {duration(wall)}, "
        f"{duration(worked)} of work, at most {found.most_at_once} agents at once"
    )
    if found.retried:
        out(f"attempts that were retried: {found.retried}")
    if found.gaps:
        out(
            f"refused writes to files that no analysis had named: {len(found.gaps)}; "
            "see: holdfast gaps"
        )
    if _error(pipeline):
        out(f"the scheduler failed: {plain(_error(pipeline))}")


def _table(columns: list[Column], rows: list[list[Cell]]) -> None:
    out("\n".join(render(columns, rows, width=terminal_width(), colours=colours())))


def _flows(pipeline: Pipeline) -> dict[str, Any]:
    assert pipeline.flows is not None
    return pipeline.flows.all()


def _error(pipeline: Pipeline) -> str:
    return pipeline.scheduler.error if pipeline.scheduler is not None else ""
